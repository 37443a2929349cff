# SPDX-License-Identifier: MIT
"""Secrets are not shown."""

from __future__ import annotations

import pickle

import pytest

from peel_core import Secret, derive_keys
from peel_core.primitives import CoreBlock, Encoder


def test_secret_hides_itself() -> None:
    secret = Secret(b"very secret key!")
    for shown in (repr(secret), str(secret), f"{secret}", f"{secret!r}", str([secret]), str({"key": secret})):
        assert "secret key" not in shown
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    assert secret.reveal() == b"very secret key!"
    assert secret == Secret(b"very secret key!")
    assert secret != Secret(b"another secret!!")


def test_encoder_repr_has_no_keys() -> None:
    blocks = [CoreBlock(1, 1, 2, 1, 0, 8, 3)]
    encoder = Encoder(profile=1, device=2, width=48, seed=1, blocks=blocks, seal_key=b"S" * 16, index_key=b"I" * 16)
    assert repr(encoder) == "Encoder(device=00000002, profile=00000001)"


def test_master_length() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        derive_keys(b"short", "fleet", [1], 1, bytes(16))
