# SPDX-License-Identifier: MIT
"""Generates blocks of the Markdown files from the code that they describe: `scripts/docs`."""
