# SPDX-License-Identifier: MIT
"""Messages that cannot be stored, in files of their own: nothing is dropped in silence, and nothing stops what comes behind."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from peel_gateway.files import write_atomically
from peel_gateway.model.message import Message

__all__ = ["MOST_FILES", "SideFolder"]

MOST_FILES = 100
"""Files that are kept: enough to find out what is wrong, too few to fill a disk."""


class SideFolder:
    """A folder that is made when it is needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, message: Message) -> Path | None:
        """Keep a message, named by its content; None once there are too many, or where the disk refuses."""
        path = self._folder / f"{hashlib.blake2b(message.payload, digest_size=8).hexdigest()}.json"
        document = {"topic": message.topic, "received": message.received, "payload": message.payload.hex()}
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if not path.exists() and len(list(self._folder.iterdir())) >= MOST_FILES:
                return None
            write_atomically(path, json.dumps(document) + "\n", mode=0o600)
        except OSError:
            return None
        return path
