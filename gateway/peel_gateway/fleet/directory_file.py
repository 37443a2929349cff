# SPDX-License-Identifier: MIT
"""`devices.jsonl`: one JSON object per line, namely a head, the devices by id, the audit trail, and a checksum.

The checksum detects a file that was cut between two lines. It would look like a smaller fleet, and ids and numbers would be given out
again.

The head has a history: one random mark per change. By it a gateway tells whether the file descends from the one it has used. A copy
from before the last change lacks that change's mark. A copy that was changed after it was restored has other marks in the same places.
"""

from __future__ import annotations

import json
import re
import secrets
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, TextIO

from peel_gateway.fleet.device import FleetError, device_label, parse_device
from peel_gateway.fleet.directory import DeviceDirectory
from peel_gateway.model.tables import DirectoryVersion

__all__ = ["FILE_NAME", "REVOKE", "UNREVOKE", "DirectoryFile", "FleetAction", "History", "RestoredFolder"]

REVOKE = "revoke"

UNREVOKE = "unrevoke"


@dataclass(frozen=True, kw_only=True)
class FleetAction:
    """An entry of the audit trail: a revocation or its reversal."""

    time: str
    """ISO 8601 with time zone."""
    action: str
    device: str
    """Its label, eight hexadecimal digits."""
    who: str
    reason: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> FleetAction:
        """Parse an entry. Raises ValueError or KeyError if it is malformed."""
        if row["action"] not in (REVOKE, UNREVOKE):
            raise ValueError(f"audit: unknown action {row['action']!r}")
        return cls(**{name: str(row[name]) for name in ("time", "action", "device", "who", "reason")})


class RestoredFolder(FleetError):  # noqa: N818 - the name says what is wrong with the folder
    """The folder does not descend from the one that the gateway has used: it was restored from an old copy, or is another fleet's."""


@dataclass(frozen=True)
class History:
    """The marks of all changes, oldest first, and the highest id ever given out."""

    marks: str = ""
    """Eight hexadecimal digits each."""
    last_id: int = 0

    _DIGITS: ClassVar[int] = 8

    @property
    def state(self) -> DirectoryVersion:
        """The newest state."""
        revision = len(self.marks) // self._DIGITS
        return DirectoryVersion(revision, self._mark(revision), self.last_id)

    def changed(self, last_id: int) -> History:
        """Return the history with one more change, after which the highest id is at least `last_id`."""
        return History(self.marks + secrets.token_hex(self._DIGITS // 2), max(self.last_id, last_id))

    def descends_from(self, seen: DirectoryVersion) -> bool:
        """Tell whether the file once was in this state."""
        return seen.revision <= self.state.revision and self._mark(seen.revision) == seen.mark

    def follow(self, seen: DirectoryVersion) -> DirectoryVersion:
        """Return the newest state, to replace the state `seen`; RestoredFolder when the file does not descend from that."""
        if self.descends_from(seen):
            return self.state
        own = self.state.revision
        why = (
            f"it has {own} changes and the gateway has used one with {seen.revision}: changes are missing"
            if own < seen.revision
            else f"change {seen.revision} is not the one that the gateway has used"
        )
        raise RestoredFolder(
            f"devices.jsonl: does not continue the file that this gateway's database knows: {why}. "
            "It was restored from an old copy, or belongs to another fleet. Put the newest devices.jsonl back. "
            "If it is lost, stop the gateway and run `peel fleet accept-restored FOLDER`."
        )

    def joined(self, seen: DirectoryVersion) -> History:
        """Return this history as one that descends from `seen` too."""
        size = self._DIGITS
        marks = self.marks.ljust(size * seen.revision, "0")
        before, after = marks[: size * (seen.revision - 1)], marks[size * seen.revision :]
        return History(f"{before}{seen.mark:0{size}x}{after}", max(self.last_id, seen.last_id))

    def _mark(self, revision: int) -> int:
        """Return the mark of a change, 0 for the state before the first."""
        end = self._DIGITS * revision
        return int(self.marks[end - self._DIGITS : end], 16) if revision else 0


FILE_NAME = "devices.jsonl"

_FORMAT = 1

_END = "crc32"
"""The key of the last line, and of no other: the checksum of all lines above it."""

_MARKS = re.compile(r"([0-9a-f]{8})*")

_LONG_AGO = datetime.fromtimestamp(0, UTC)

_CHARACTERS = 1 << 20
"""Size of the pieces that are parsed together: a million devices have a file of 300 MB."""


@dataclass
class DirectoryFile:
    """The contents of `devices.jsonl`."""

    devices: DeviceDirectory
    audit: list[FleetAction]
    clock: datetime = _LONG_AGO
    """The latest time at which it was written. A clock that shows less was set back."""
    history: History = field(default_factory=History)
    used: dict[int, int] = field(default_factory=dict)
    """Per device id: the highest number used with a bundle that was lost when this file was restored from an old copy."""

    @classmethod
    def read(cls, path: Path) -> DirectoryFile:
        """Read the file. Raises OSError, ValueError, KeyError or TypeError if it is missing or malformed."""
        audit: list[FleetAction] = []
        with path.open(encoding="utf-8-sig") as file:
            first = file.readline()
            head = _parsed(first, 1)
            if head.get("peel_devices") != _FORMAT:
                raise ValueError(
                    f'line 1: must begin with {{"peel_devices": {_FORMAT}; this is another version or another kind of file'
                )
            devices = DeviceDirectory.parse(_devices(file, audit, _checksum(first)))
        return cls(
            devices,
            audit,
            datetime.fromisoformat(head["clock"]),
            History(_marks(head["history"]), int(head["last_id"])),
            {parse_device(label): int(number) for label, number in head["used"].items()},
        )

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file."""
        checksum = 0
        for line in self._content():
            checksum = _checksum(line, checksum)
            yield line
        yield json.dumps({_END: f"{checksum:08x}"}) + "\n"

    def _content(self) -> Iterator[str]:
        head = {
            "peel_devices": _FORMAT,
            "clock": self.clock.isoformat(timespec="seconds"),
            "history": self.history.marks,
            "last_id": self.history.last_id,
            "used": {device_label(device): number for device, number in self.used.items()},
        }
        yield json.dumps(head) + "\n"
        yield from self.devices.lines()
        for entry in self.audit:
            yield json.dumps(asdict(entry), ensure_ascii=False) + "\n"


def _marks(text: str) -> str:
    if not _MARKS.fullmatch(text):
        raise ValueError("line 1: history must be marks of 8 hexadecimal digits each")
    return text


def _checksum(text: str, before: int = 0) -> int:
    """Continue a CRC-32 over more text."""
    return zlib.crc32(text.encode(), before)


def _devices(file: TextIO, audit: list[FleetAction], checksum: int) -> Iterator[dict[str, Any]]:
    """Yield the device rows and append the audit entries to `audit`. Raises ValueError for a truncated or changed file."""
    number, end = 2, None
    while lines := file.readlines(_CHARACTERS):
        rows = _rows(lines, number)
        if _END in rows[-1] and not file.read(1):
            end = rows.pop()[_END]
            lines.pop()
        for row in rows:
            if "action" in row:
                audit.append(FleetAction.of(row))
            else:
                yield row
        checksum = _checksum("".join(lines), checksum)
        number += len(rows)
    if end is None:
        raise ValueError(f"ends with line {number - 1}, without the checksum line: the file is truncated")
    if end != f"{checksum:08x}":
        raise ValueError(f"line {number}: wrong checksum: the file was edited by hand or damaged")


def _rows(lines: list[str], first: int) -> list[dict[str, Any]]:
    """Parse lines: all at once, which takes half as long, and one by one after an error, to name the line."""
    try:
        rows: list[dict[str, Any]] = json.loads(f"[{','.join(lines)}]")
    except ValueError:
        rows = []
    if len(rows) == len(lines) and all(isinstance(row, dict) for row in rows):
        return rows
    return [_parsed(line, first + place) for place, line in enumerate(lines)]


def _parsed(line: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None
    if not isinstance(row, dict):
        raise ValueError(f"line {number}: not a JSON object")
    return row
