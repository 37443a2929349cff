# SPDX-License-Identifier: MIT
"""What screening, engine and storage speak of: messages, verdicts, moments, tables. Imports nothing of them."""
