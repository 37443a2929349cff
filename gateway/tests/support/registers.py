# SPDX-License-Identifier: MIT
"""The list of devices, changed by hand, with the checksum that it must have then."""

from __future__ import annotations

import zlib


def checked(text: str) -> str:
    """Lines, and the last line that goes with them."""
    whole = text if text.endswith("\n") else text + "\n"
    return whole + f'{{"crc32": "{zlib.crc32(whole.encode()):08x}"}}\n'


def without(text: str, device: str) -> str:
    """The list without a device."""
    *lines, _ = text.splitlines(keepends=True)
    return checked("".join(line for line in lines if f'"{device}"' not in line))
