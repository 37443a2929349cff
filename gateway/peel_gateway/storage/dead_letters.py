# SPDX-License-Identifier: MIT
"""Dead letters: messages that the gateway cannot process, one file each, kept until an operator replays them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from peel_gateway.files import sync_folder, write_atomically
from peel_gateway.model.messages import Message
from peel_gateway.storage.store import StoreError

__all__ = ["MOST_FILES", "DeadLetterError", "DeadLetters"]

MOST_FILES = 1000
"""The folder's limit. At the largest message by default, 1 MiB, it takes 2 GB."""


class DeadLetterError(StoreError):
    """A message could not be written to the folder, or a file in it could not be read."""


class DeadLetters:
    """The folder of dead letters, made when the first one is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __len__(self) -> int:
        return len(self.files())

    def files(self) -> Sequence[Path]:
        """Return the dead letters' files in a fixed order."""
        return sorted(self.folder.glob("*.json"))

    def put(self, message: Message) -> Path:
        """Write a message to its file. File and folder are on disk on return.

        The file's name is a hash of the message: a message that is delivered again replaces its own file.

        Raises
        ------
        DeadLetterError
            The message is not on disk. Do not acknowledge it.
        """
        digest = hashlib.blake2b(message.topic.encode() + b"\0" + message.payload, digest_size=16).hexdigest()
        path = self.folder / f"{digest}.json"
        document = {"topic": message.topic, "received": message.received, "payload": message.payload.hex()}
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            sync_folder(self.folder.parent)
            if not path.exists() and len(self) >= MOST_FILES:
                raise DeadLetterError(
                    f"{self.folder}: a message cannot be processed, and the folder has its limit of {MOST_FILES:,} dead letters. "
                    "Run `peel gateway replay --dead-letters`, or move the files elsewhere."
                )
            write_atomically(path, json.dumps(document) + "\n", mode=0o600)
        except OSError as error:
            raise DeadLetterError(
                f"{path}: a message cannot be processed, and its dead letter cannot be written ({error}). "
                "Check the folder, its mode and the disk."
            ) from error
        return path

    def read(self, path: Path) -> Message:
        """Return the message in a file; DeadLetterError for a file of another kind."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            return Message(str(document["topic"]), bytes.fromhex(document["payload"]), float(document["received"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DeadLetterError(f"{path}: not a dead letter ({error!r}). Move it out of the folder.") from error
