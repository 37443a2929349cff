# SPDX-License-Identifier: MIT
"""MicroPython for the boards: fetching its sources, building firmware images and native modules, cached by content."""
