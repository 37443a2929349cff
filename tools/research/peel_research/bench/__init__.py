# SPDX-License-Identifier: MIT
"""The benchmarks of `peel bench`, one module each."""
