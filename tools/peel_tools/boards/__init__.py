# SPDX-License-Identifier: MIT
"""MicroPython for the boards: fetch its sources, build firmware images and native modules, cache them by content."""
