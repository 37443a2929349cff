# SPDX-License-Identifier: MIT
"""Runs on MicroPython: how much of its heap is left in one piece."""

import gc


def largest_free():
    """Bytes of the largest free piece: the longest that can be had."""
    gc.collect()
    low, high = 0, gc.mem_free()
    while low < high:
        middle = (low + high + 1) // 2
        try:
            bytearray(middle)
            low = middle
        except MemoryError:
            high = middle - 1
    gc.collect()
    return low
