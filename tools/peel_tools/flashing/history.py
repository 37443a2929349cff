# SPDX-License-Identifier: MIT
"""Which bundle was put onto a board when: so that none starts a second ledger at the same numbers.

Beside each bundle lies `<device>.provisioned`, written just before a board could begin to use it.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

from peel_tools.flashing.errors import FlashError

__all__ = ["check_history", "note_provisioned"]

FRESH_SECONDS = 3600.0
"""A bundle for a device that has run before must be younger: it knows only of numbers used until it was made."""
_STEP_SECONDS = 60.0
"""By so much clocks are set right without anybody noticing."""


def check_history(bundle: Path, has_ledger: bool) -> None:
    """Raise FlashError if a board without a ledger could use numbers again that a former one has used."""
    former = _former(bundle)
    if has_ledger or former is None:
        return
    advice = f"make a fresh bundle (peel fleet bundle {bundle.parents[1]} {bundle.stem}) and try again"
    if former == _digest(bundle):
        raise FlashError(
            f"{bundle}: was put onto a board before, and this board has no ledger (it was erased, or is another one): "
            f"it would use the same report numbers again; {advice}"
        )
    if not -_STEP_SECONDS < time.time() - bundle.stat().st_mtime < FRESH_SECONDS:
        raise FlashError(
            f"{bundle}: is more than an hour old by this machine's clock, or from the future, and this board has no ledger, "
            f"though the device has run before: the old board may have gone on since; {advice}"
        )


def note_provisioned(bundle: Path) -> None:
    """Note that a board holds this bundle and may start at any moment."""
    _mark(bundle).write_text(json.dumps({"sha256": _digest(bundle), "at": round(time.time())}) + "\n")


def _former(bundle: Path) -> str | None:
    """The digest of the bundle that was provisioned last, or None when there was none."""
    try:
        return str(json.loads(_mark(bundle).read_text())["sha256"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise FlashError(
            f"{_mark(bundle)}: cannot be read: whether this device has run before is not known; remove that file if it has not"
        ) from None


def _mark(bundle: Path) -> Path:
    return bundle.with_suffix(".provisioned")


def _digest(bundle: Path) -> str:
    return hashlib.sha256(bundle.read_bytes()).hexdigest()
