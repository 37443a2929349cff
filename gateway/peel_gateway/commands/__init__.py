# SPDX-License-Identifier: MIT
"""The commands of `peel gateway`, and those of `peel fleet` that write no bundles."""
