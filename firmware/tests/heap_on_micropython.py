# SPDX-License-Identifier: MIT
"""Runs on MicroPython: measures the largest free block of its heap."""

import gc


def largest_free():
    """Return the size in bytes of the largest block that can be allocated."""
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
