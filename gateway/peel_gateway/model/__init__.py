# SPDX-License-Identifier: MIT
"""The types that screening, engine and storage share: messages, verdicts, time, tables. This folder imports none of them."""
