# SPDX-License-Identifier: MIT
"""Free ports: processes that run at the same time get different ones."""

from __future__ import annotations

import itertools

import pytest

from peel_tools import servers


def test_processes_that_follow_each_other_begin_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    places = []
    for pid in range(1000, 1050):
        monkeypatch.setattr(servers, "_ports_given", itertools.count())
        monkeypatch.setattr("os.getpid", lambda pid=pid: pid)
        places.append(servers.free_port())
    places.sort()
    assert min(after - before for before, after in itertools.pairwise(places)) > 100
