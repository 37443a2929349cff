# SPDX-License-Identifier: MIT
"""Flashing: put MicroPython, the core, the application and a device's bundle onto a board, and prove that they are there."""
