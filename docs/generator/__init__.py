# SPDX-License-Identifier: MIT
"""Fills the generated blocks of the Markdown files from the code that they describe: `scripts/docs`."""
