# SPDX-License-Identifier: MIT
"""The settings reach the engine of each pipeline."""

from __future__ import annotations

from typing import Any

from lab import Lab

from peel_gateway.service.pool import open_engine
from peel_gateway.settings import Settings


def test_devices_have_the_memory_that_the_settings_give_them(lab: Lab) -> None:
    fleet: Any = lab  # all that an engine asks a snapshot for
    rooms = []
    for megabytes in (1, 4):
        lab.engine = open_engine(Settings(screen_memory_bytes=megabytes * 2**20), lab.store, fleet)
        assert lab.send(lab.frames(megabytes, [1])) == {"accepted": 1}
        rooms.append(lab.cache.most)
    assert rooms[0] * 4 <= rooms[1] < rooms[0] * 4 + 4
