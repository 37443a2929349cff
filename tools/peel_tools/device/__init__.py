# SPDX-License-Identifier: MIT
"""The firmware on this machine: a folder as its flash, a process as its power."""
