# SPDX-License-Identifier: MIT
"""Evidence of an exposure: a JSON document with all that is needed to recompute its verdict away from the gateway.

`collect` makes the document, `proof.check` recomputes. A document is about one exposure. It has the frame, the profile, the keys that the
verdict needs, and what the gateway had stored: an earlier body, committed roots, or the log of one device.

The gateway knows all keys. So a document is evidence that anyone can recompute, not proof against the gateway.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Profile
from peel_gateway.model.exposure import Exposure
from peel_gateway.model.tables import GapTable, LogTable
from peel_gateway.model.verdict import BLAMED, Verdict
from peel_gateway.screening.device_tests import select
from peel_gateway.storage.store import Archive, Inspection

__all__ = [
    "GAP_COLUMNS",
    "GIVES_AWAY",
    "KEYS_OF",
    "LOG_COLUMNS",
    "VERSION",
    "EvidenceError",
    "collect",
    "digest_of_document",
]

Ints = npt.NDArray[np.int64]

VERSION = 1
LOG_COLUMNS = ("number", "verdict", "index", "sign", "cohort", "late", "opened", "arrival")
"""The columns of the log that the bets are played on."""
GAP_COLUMNS = ("number", "index", "arrival")
KEYS_OF = {
    Verdict.REUSED: ("seal",),
    Verdict.FLOOD: ("seal",),
    Verdict.RULE: ("seal", "index"),
    Verdict.SUPPORT: ("seal", "index"),
    Verdict.STRUCTURE: ("seal", "index"),
    Verdict.COIN: ("coin", "index"),
    Verdict.STATISTICS: (),
}
"""The keys of the device's bundle that each verdict needs."""
GIVES_AWAY = {
    "seal": "The seal key reads all reports of this bundle, and forges some. Provision the device again before you hand the file on.",
    "coin": "The coin key reads all openings of this bundle, and forges messages of verified coins. Provision the device again before you "
    "hand the file on.",
    "": "The file has no key. It has all counted answers of the device, each randomized as the profile says.",
}


class EvidenceError(Exception):
    """There is no evidence, or it does not hold. The message says why, and what to do."""


def collect(
    archive: Archive, keyring: Keyring, fleet: str, number: int, *, residual_limit: float = 3e-3
) -> dict[str, Any]:
    """Return the evidence of the exposure with this id.

    Raises
    ------
    EvidenceError
        There is no such exposure, no device is to blame for it, or what it follows from has left the database.
    """
    found = archive.exposures(None, limit=1, before=number + 1)
    if not found or found[0].id != number:
        raise EvidenceError(f"exposure {number}: not in the database. `peel gateway exposures` lists those that are")
    (exposure,) = found
    if exposure.verdict not in BLAMED:
        raise EvidenceError(
            f"exposure {number}: {exposure.verdict.label} blames no device, so there is nothing to prove"
        )
    profile = next((each for each in keyring.profiles if each.id == exposure.profile), None)
    if profile is None:
        raise EvidenceError(f"exposure {number}: its profile {exposure.profile:08x} is no longer in the fleet folder")
    document: dict[str, Any] = {
        "peel_evidence": VERSION,
        "fleet": fleet,
        "exposure": exposure.id,
        "verdict": exposure.verdict.label,
        "device": f"{exposure.device:08x}",
        "number": exposure.number,
        "received": exposure.received,
        "profile_id": f"{profile.id:08x}",
        "profile": asdict(profile),
        "frame": exposure.raw.hex(),
        "facts": dict(exposure.evidence),
        "residual_limit": residual_limit,
        **_keys(keyring, exposure),
        **_stored(archive, profile, exposure),
    }
    return document | {"digest": digest_of_document(document)}


def digest_of_document(document: Mapping[str, Any]) -> str:
    """Return the digest of a document without its digest. It tells a changed byte; the verdict itself rests on seals and hashes."""
    plain = {name: value for name, value in document.items() if name != "digest"}
    return blake2b(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode(), digest_size=16).hexdigest()


def _keys(keyring: Keyring, exposure: Exposure) -> dict[str, Any]:
    """Return the keys that the verdict needs, and what they give away."""
    needed = KEYS_OF[exposure.verdict]
    gives_away = GIVES_AWAY[needed[0] if needed else ""]
    if not needed:
        return {"keys": {}, "gives_away": gives_away}
    (bundle,) = keyring.find([exposure.device], [exposure.number])
    if bundle < 0:
        raise EvidenceError(
            f"exposure {exposure.id}: the bundle of number {exposure.number} is no longer in the fleet folder"
        )
    keys = {name: getattr(keyring.keys, name)[bundle].tobytes().hex() for name in needed}
    return {"keys": keys, "first_number": int(keyring.bundle_first[bundle]), "gives_away": gives_away}


def _stored(archive: Archive, profile: Profile, exposure: Exposure) -> dict[str, Any]:
    """Return what the gateway had stored and the verdict follows from."""
    if exposure.verdict == Verdict.REUSED:
        return {"stored_body": _stored_body(archive, exposure)}
    if exposure.verdict == Verdict.STATISTICS:
        (store,) = (each for each in archive.stores() if exposure.device % archive.partitions == each.partition)
        with store.inspect() as shown:
            return {"log": _log(shown, profile, exposure)}
    return {}


def _stored_body(archive: Archive, exposure: Exposure) -> int:
    with archive.history() as pieces:
        for log, _ in pieces:
            rows = np.flatnonzero((log.device == exposure.device) & (log.number == exposure.number) & (log.opened == 0))
            if len(rows):
                return int(log.body[rows[0]])
    raise EvidenceError(
        f"exposure {exposure.id}: the first report with number {exposure.number} has left the log, so nothing can be compared"
    )


def _log(shown: Inspection, profile: Profile, exposure: Exposure) -> dict[str, Any]:
    """Return the device's events that the bets were played on, and the state that they began with."""
    after, upto = _stretch(shown, exposure)
    device = np.array([exposure.device], np.int64)
    bases = shown.bases(device)
    base = next((state.hex() for state, id_ in zip(bases.state, bases.profile, strict=True) if id_ == profile.id), "")
    if not base and exposure.device in shown.kept.pruned.device:
        raise EvidenceError(f"exposure {exposure.id}: a part of the log that it follows from was deleted")

    def mine(table: LogTable | GapTable) -> npt.NDArray[np.bool_]:
        within = (table.arrival > after) & (table.arrival <= upto)
        return np.asarray((table.device == exposure.device) & (table.profile == profile.id) & within)

    log: dict[str, list[int]] = {name: [] for name in LOG_COLUMNS}
    gaps: dict[str, list[int]] = {name: [] for name in GAP_COLUMNS}
    for piece in shown.events():
        reports, missing = select(piece, mine)
        for name, column in log.items():
            column += getattr(reports, name).tolist()
        for name, column in gaps.items():
            column += getattr(missing, name).tolist()
    return {"base": base, "reports": log, "gaps": gaps}


def _stretch(shown: Inspection, exposure: Exposure) -> tuple[int, int]:
    """Return the arrivals between which the device was judged: since the pardon before the exposure, and up to the next."""
    mine = [entry for entry in shown.kept.pardons if entry.device == exposure.device]
    before = [entry.arrival for entry in mine if entry.last_exposure < exposure.id]
    later = [entry.arrival for entry in mine if entry.last_exposure >= exposure.id]
    return max(before, default=0), min(later, default=int(np.iinfo(np.int64).max))
