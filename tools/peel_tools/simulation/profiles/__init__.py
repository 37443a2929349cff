# SPDX-License-Identifier: MIT
"""The demonstration's profiles, as files."""
