# SPDX-License-Identifier: MIT
"""The claims of devices in a file beside the database: for commands that run apart from the gateway, and for its next start."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from peel_gateway.files import write_atomically
from peel_gateway.fleet.claims import Claim, ClaimError, Claims, claim_table, read_fields
from peel_gateway.fleet.registry import FleetError, device_label, parse_device

__all__ = ["ClaimsFile", "load_claims"]

_LEAST_SECONDS = 60.0
_BYTES_PER_SECOND = 1024
"""What is written on average, at most: an SD card wears."""


def load_claims(path: Path) -> dict[int, Claim]:
    """The claims in a file; none where there is no such file, or it is damaged: devices will say them again."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {parse_device(label): _claim(row) for label, row in document["claims"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, FleetError, ClaimError):
        return {}


class ClaimsFile:
    """Writes claims now and then, when they have changed, and the more rarely the more there are."""

    def __init__(self, path: Path, claims: Claims) -> None:
        self._path = path
        self._claims = claims
        self._changes = claims.changes
        self._due = 0.0

    def tick(self, now: float) -> None:
        """Write if it is time; `now` is monotonic. OSError when the disk refuses."""
        if now >= self._due and self._claims.changes != self._changes:
            self._due = now + _LEAST_SECONDS
            self._due = now + max(_LEAST_SECONDS, self.write() / _BYTES_PER_SECOND)

    def write(self) -> int:
        """Write all claims; return how many bytes that were."""
        self._changes = self._claims.changes
        text = _file_text(self._claims.copy())
        write_atomically(self._path, text)
        return len(text)


def _file_text(claims: Mapping[int, Claim]) -> str:
    rows = (
        f'"{device_label(device)}": {json.dumps({**_said(claim), "heard": claim.heard})}'
        for device, claim in claims.items()
    )
    return '{"peel_claims": 1, "claims": {\n' + ",\n".join(rows) + "\n}}\n"


def _said(claim: Claim) -> dict[str, object]:
    return {name: value for name, value in claim_table(claim).items() if value is not None}


def _claim(row: dict[str, object]) -> Claim:
    heard = row.get("heard")
    if heard is not None and not (isinstance(heard, int | float) and math.isfinite(heard)):
        raise ClaimError("heard: must be a number")
    return Claim(**read_fields(row), heard=heard)
