# SPDX-License-Identifier: MIT
"""The commands `peel bench`, `peel lab` and `peel soak`."""
