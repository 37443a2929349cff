# SPDX-License-Identifier: MIT
"""Fixtures of the firmware's tests. The modules under test are the very files that are copied to a device."""

from __future__ import annotations

import binascii
import struct
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
from inbox import Inbox

from peel_tools.boards.umqtt import umqtt_folder
from peel_tools.servers.broker import Broker

sys.path.append(str(umqtt_folder()))
# umqtt.simple imports these by MicroPython's old names.
sys.modules.setdefault("ustruct", struct)
sys.modules.setdefault("ubinascii", binascii)


@pytest.fixture
def core() -> ModuleType:
    """The encoder, as `peelcore` offers it on a device."""
    from peel_core import peelcore

    return peelcore


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker on loopback."""
    with Broker() as running:
        yield running


@pytest.fixture
def inbox(broker: Broker) -> Iterator[Inbox]:
    """Everything published under peel/v1/lab/."""
    with Inbox(broker) as listening:
        yield listening
