# SPDX-License-Identifier: MIT
"""The Peel device application: runs unchanged on MicroPython 1.25 and on CPython 3.11 or newer."""

VERSION = "0.1.0"
