# SPDX-License-Identifier: MIT
"""The portable CRC equals binascii's."""

from __future__ import annotations

import binascii

from hypothesis import given
from hypothesis import strategies as st

from peel_device.storage import portable_crc32, sealed, unsealed


@given(st.binary(max_size=100))
def test_portable_crc32(data: bytes) -> None:
    assert portable_crc32(data) == binascii.crc32(data)


@given(st.binary(max_size=100), st.data())
def test_a_changed_byte_is_noticed(data: bytes, draw: st.DataObject) -> None:
    whole = sealed(data)
    assert unsealed(whole) == data
    at = draw.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[at] ^= draw.draw(st.integers(1, 255))
    assert unsealed(bytes(flipped)) is None
