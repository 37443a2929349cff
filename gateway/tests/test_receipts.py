# SPDX-License-Identifier: MIT
"""Receipts: correct, sent after the commit, sealed for the device, limited in rate, and repeated on request."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from lab import Lab

from peel_core import PeelError
from peel_core.receipts import Receipt, read_receipt
from peel_gateway.model.messages import Senders
from peel_gateway.mqtt.receipts import Receipts
from peel_gateway.storage.store import StoreError

PAUSE = 10.0


class Post:
    """Receipts by device; the last one of each is retained."""

    def __init__(self, lab: Lab) -> None:
        self.now = 1000.0
        self.posted: list[tuple[str, bytes]] = []
        self._lab = lab
        self.receipts = Receipts(lab.engine, "lab", self._post, pause=PAUSE, clock=lambda: self.now)

    def _post(self, receipts: Sequence[tuple[str, bytes]]) -> None:
        self.posted += receipts

    def send(self, *frames: bytes) -> None:
        """Have frames stored, and everybody told who may be told now."""
        self.receipts.add(self._lab.engine.process(self._lab.messages(frames)).senders)
        self.receipts.flush()

    def said(self, device: int, number: int = 1) -> list[Receipt]:
        """Return a device's receipts since the last call, read with the bundle of this number."""
        mine = [payload for topic, payload in self.posted if topic.endswith(f"/{device:08x}/receipt")]
        self.posted = [each for each in self.posted if each[1] not in mine]
        return [read_receipt(receipt_key(self._lab, device, number), device, payload) for payload in mine]


def receipt_key(lab: Lab, device: int, number: int = 1) -> bytes:
    return bytes(lab.keys_of(device, [number]).receipt[0])


def test_the_first_report_is_confirmed_at_once_and_further_ones_after_a_pause(lab: Lab) -> None:
    post = Post(lab)
    frames = lab.frames(1, range(1, 8))
    post.send(frames[0])
    assert post.posted[0][0] == "peel/v1/lab/01/00000001/receipt"
    assert post.said(1) == [Receipt(1)]
    for frame in frames[1:4]:
        post.now += 1
        post.send(frame)
    assert post.said(1) == [], "too soon"
    post.now += PAUSE
    post.receipts.flush()
    assert post.said(1) == [Receipt(4)], "all of them at once"
    post.now += 10 * PAUSE
    post.receipts.flush()
    assert post.said(1) == [], "and nothing where nothing is new"


def test_gaps_are_told_apart_and_closed_when_they_are(lab: Lab) -> None:
    post = Post(lab)
    frames = lab.frames(1, range(1, 8))
    post.send(frames[0], frames[1], frames[4], frames[6])
    assert post.said(1) == [Receipt(2, ((5, 5), (7, 7)))]
    post.now += PAUSE
    post.send(frames[2], frames[3], frames[5])
    assert post.said(1) == [Receipt(7)]


def test_a_device_that_sends_again_gets_its_receipt_again(lab: Lab) -> None:
    post = Post(lab)
    (frame,) = lab.frames(1, [1])
    for _ in range(3):
        post.send(frame)
        assert post.said(1) == [Receipt(1)]
        post.now += PAUSE


def test_each_device_has_its_own_pause_and_key(lab: Lab) -> None:
    post = Post(lab)
    post.send(*lab.frames(1, [1]), *lab.frames(2, [1]))
    one, two = (payload for _, payload in post.posted)
    with pytest.raises(PeelError):
        read_receipt(receipt_key(lab, 1), 1, two)
    assert (post.said(1), post.said(2)) == ([Receipt(1)], [Receipt(1)])
    post.now += PAUSE / 2
    post.send(*lab.frames(1, [2]), *lab.frames(3, [1]))
    assert (post.said(1), post.said(3)) == ([], [Receipt(1)])
    assert one != two


def test_the_key_is_that_of_the_newest_bundle_of_which_there_is_a_report(lab: Lab) -> None:
    post = Post(lab)
    lab.provision(1, 1000)
    post.send(*lab.frames(1, [1, 2]))
    assert post.said(1, number=1) == [Receipt(2)], "the new bundle is not on the board yet"
    post.now += PAUSE
    post.send(*lab.frames(1, [1000]))
    assert post.said(1, number=1000) == [Receipt(2, ((1000, 1000),))], "and speaks of what the board kept from before"
    post.now += PAUSE
    post.send(*lab.frames(1, [3]))
    payload = post.posted[0][1]
    with pytest.raises(PeelError, match="seal"):
        read_receipt(receipt_key(lab, 1, 1), 1, payload)
    assert post.said(1, number=1000) == [Receipt(3, ((1000, 1000),))]


def test_nothing_is_said_of_what_was_not_committed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    post = Post(lab)
    frames = lab.frames(1, [1, 2])
    post.send(frames[0])
    assert post.said(1) == [Receipt(1)]
    post.now += PAUSE
    with monkeypatch.context() as patched:
        patched.setattr(lab.store, "begin", _failing)
        with pytest.raises(StoreError):
            lab.send([frames[1]])
    post.send(frames[0])
    assert post.said(1) == [Receipt(1)], "the second one is not there"


def _failing() -> object:
    raise StoreError("the disk is gone")


def test_forged_reports_and_strangers_make_no_receipt(lab: Lab) -> None:
    post = Post(lab)
    (frame,) = lab.frames(1, [1])
    post.send(frame[:-1] + bytes([frame[-1] ^ 1]), b"nonsense")
    assert post.posted == []


def test_a_device_of_which_nothing_is_stored_is_told_nothing(lab: Lab) -> None:
    post = Post(lab)
    post.receipts.add(Senders.of(np.array([2, 999]), np.array([1, 1])))
    post.send(*lab.frames(1, [1]))
    assert (len(post.posted), post.said(1)) == (1, [Receipt(1)])


def test_a_new_gateway_on_the_same_store_says_the_same(lab: Lab) -> None:
    post = Post(lab)
    post.send(*lab.frames(1, [1, 2, 4]))
    before = post.said(1)
    lab.reopen()
    again = Post(lab)
    again.send(*lab.frames(1, [2]))
    assert again.said(1) == before == [Receipt(2, ((4, 4),))]


def test_before_the_first_batch_nothing_is_known_and_nothing_lost(lab: Lab) -> None:
    post = Post(lab)
    post.send(*lab.frames(1, [1]))
    post.now += PAUSE
    lab.engine.load(lab)
    post.receipts.add(Senders.of(np.array([1]), np.array([1])))
    post.posted.clear()
    post.receipts.flush()
    assert post.posted == []
    lab.send([])
    post.receipts.flush()
    assert post.said(1) == [Receipt(1)]
