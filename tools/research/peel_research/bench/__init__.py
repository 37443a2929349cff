# SPDX-License-Identifier: MIT
"""What Peel costs: the figures of `peel bench`, one module each."""
