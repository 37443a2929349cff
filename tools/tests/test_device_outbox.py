# SPDX-License-Identifier: MIT
"""Reading a device's outbox from outside: only whole frames, while the device changes its files."""

from __future__ import annotations

import zlib
from pathlib import Path

from peel_tools.device.flash import read_outbox


def test_whole_frames_are_found_torn_and_vanishing_ones_are_not(tmp_path: Path) -> None:
    outbox = tmp_path / "outbox"
    outbox.mkdir()
    frame = b"a frame"
    whole = frame + zlib.crc32(frame).to_bytes(4, "little")
    (outbox / f"{7:012x}").write_bytes(whole)
    (outbox / f"{8:012x}").write_bytes(whole[:-1])
    (outbox / f"{9:012x}").symlink_to("gone")  # listed, and not there any more when it is opened
    assert read_outbox(tmp_path) == {7: frame}
