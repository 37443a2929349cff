# SPDX-License-Identifier: MIT
"""Run the firmware on this machine: a folder is its flash, and killing the process is a power cut."""
