# SPDX-License-Identifier: MIT
"""Freezes what a release sends and stores, so that later versions can be tested against it: ``scripts/freeze.py spec/compat/VERSION``.

vectors.tar.gz    the vectors of the wire format, as they are now
gateway.tar.gz    a fleet folder (its master key is nobody's) and the database of a gateway that heard it: honest reports, losses,
                  latecomers, redeliveries, a second bundle, cheats of two kinds, a pardon, retention, pieces of no known device
answers.json      what that gateway answered, and the verdicts on some reports that come next

An existing folder is never overwritten. `test_freeze.py` replays all folders.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from peel_core import encode_many, index_many
from peel_core.kinds import SIGN
from peel_core.primitives import codeword
from peel_gateway.engine.clock import Reading
from peel_gateway.engine.engine import Engine
from peel_gateway.engine.pardon import pardon
from peel_gateway.fleet.folder import Fleet
from peel_gateway.fleet.snapshot import FleetSnapshot, take_snapshot
from peel_gateway.model.messages import Message
from peel_gateway.queries.parameters import DeviceQuery
from peel_gateway.queries.views import Views
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_tools.profiles.drafts import Draft
from peel_tools.simulation.piece import sealed_frame

ROOT = Path(__file__).resolve().parents[1]
START = 1_750_000_000.0
DAY = 86_400.0
_ROOM = 16_384
"""Little memory: the states of bets are stored as they are after many events, not only after the first."""
_CHEAT, _OTHER_RULE, _REISSUED = 1, 2, 3
_PASSING = ("state", "last_heard", "silent_after_seconds", "rate", "seconds_missing", "computed")
"""Fields that depend on the time of the query."""
_PROFILES: dict[str, list[dict[str, Any]]] = {
    "climate": [{"name": f"a{place}", "kind": "mean", "low": -40, "high": 85} for place in range(4)],
    "doors": [{"name": "door", "kind": "category", "categories": ["open", "closed", "ajar"]}],
    "words": [{"name": "word", "kind": "hashed", "domain": 50}],
}
"""The attributes of each profile, by name."""


@dataclass
class Site:
    """A fleet folder, a database and a gateway's engine, at a time that only we move."""

    folder: Path
    now: float = START
    boot: int = 1
    _entropy: int = 0
    _late: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fleet = Fleet(self.folder / "fleet", clock=lambda: datetime.fromtimestamp(self.now, UTC))
        self.store = SqliteStore(self.folder / "peel.sqlite")
        self.engine = Engine(self.store, clock=self.clock, cache_bytes=_ROOM)
        self.reload()

    def clock(self) -> Reading:
        """Return the clock's reading."""
        return Reading(round(self.now * 1000), self.boot, round((self.now - START) * 1000))

    def reload(self) -> None:
        """Follow the fleet folder."""
        self.snapshot: FleetSnapshot = take_snapshot(self.fleet)
        self.engine.load(self.snapshot)

    def frames(self, device: int, numbers: Sequence[int], value: float = 0.25, **options: Any) -> list[bytes]:
        """Honest reports of a device."""
        ring = self.snapshot.keyring
        bundle = ring.find(np.full(len(numbers), device), numbers)
        profile = ring.profiles[int(ring.bundle_profile[bundle[0]])]
        reading = round(value * 32768) if profile.blocks[0].form == SIGN else int(4 * value)
        self._entropy += 1
        made = encode_many(
            profile,
            np.full(len(numbers), device),
            ring.keys.of(bundle),
            numbers,
            np.full((len(numbers), len(profile.questions)), reading, np.int32),
            entropy=hashlib.sha512(self._entropy.to_bytes(4, "little")).digest(),
            **options,
        )
        return [frame.tobytes() for frame in made]

    def biased(self, device: int, numbers: Sequence[int]) -> list[bytes]:
        """Reports of a device whose coin always shows plus."""
        ring = self.snapshot.keyring
        keys = ring.keys.of(ring.find(np.full(len(numbers), device), numbers))
        (profile,) = [each for each in ring.profiles if each.name == "climate"]
        units = index_many(profile, np.full(len(numbers), device), keys, numbers)
        return [
            sealed_frame(
                profile,
                device,
                number,
                keys.seal[place].tobytes(),
                codeword(profile.seed, profile.width, unit, 0),
                profile.blocks[0].rule,
            )
            for place, (number, unit) in enumerate(zip(numbers, units.tolist(), strict=True))
        ]

    def hear(self, frames: Sequence[bytes], seconds: float = 60.0) -> dict[str, int]:
        """Process frames as one batch; return how many got which verdict."""
        self.now += seconds
        messages = [Message("peel/v1/compat/00/00000001/report", frame, self.now) for frame in frames]
        counts = self.engine.process(messages).counts
        return {verdict.label: count for verdict, count in sorted(counts.items())}

    def lossy(self, devices: Sequence[int], numbers: range, rng: np.random.Generator) -> list[bytes]:
        """Return the honest reports that arrive: some are a batch late, some are lost, some come twice."""
        arrived, self._late = self._late, []
        for device in devices:
            for frame in self.frames(device, numbers):
                luck = rng.random()
                if luck < 0.8:
                    arrived += [frame] * (1 + (luck < 0.05))
                elif luck < 0.9:
                    self._late.append(frame)
        return arrived


def make_site(folder: Path) -> Site:
    """A fleet of three profiles."""
    paths = []
    for name, attributes in _PROFILES.items():
        paths.append(folder / f"{name}.toml")
        paths[-1].write_text(
            Draft(name=name, attributes=attributes, quota=6000, period=60, verify=False).text(), encoding="utf-8"
        )
    Fleet.create(folder / "fleet", "compat", paths)
    fleet = Fleet(folder / "fleet", clock=lambda: datetime.fromtimestamp(START - DAY, UTC))
    for name, count in (("climate", 6), ("doors", 4), ("words", 4)):
        fleet.enrol(name, count=count)
    return Site(folder)


def live(site: Site) -> None:
    """Whatever can happen to a gateway."""
    rng = np.random.default_rng(1)
    honest = range(3, 15)
    for step in range(12):
        numbers = range(1 + 20 * step, 21 + 20 * step)
        batch = site.lossy(honest, numbers, rng) + site.biased(_CHEAT, numbers)
        batch += site.frames(_OTHER_RULE, numbers[:5])
        if step == 4:
            batch += [*site.frames(_OTHER_RULE, [numbers[6]], odds=(7, 1)), b"no report", rng.bytes(38)]
        site.hear(batch)
        if step == 6:
            site.fleet.issue([_REISSUED])
            site.reload()
            site.now += DAY
        if step == 8:
            pardon(site.store, [_OTHER_RULE], restore=False, reason="repaired", who="nobody", clock=site.clock)
    first = site.snapshot.devices[_REISSUED - 1].bundles[-1].first_number
    site.hear(site.frames(_REISSUED, range(first, first + 40)))
    if not site.engine.prune(DAY / 2):
        raise RuntimeError("retention has dropped nothing")
    site.hear(site.frames(4, range(241, 261)))


def answers(store: SqliteStore, snapshot: FleetSnapshot) -> dict[str, Any]:
    """Return a gateway's answers, without anything that depends on the time."""
    views = Views(store, lambda: snapshot)
    said = {
        "totals": views.totals(),
        "estimates": views.estimates(),
        "devices": views.devices(DeviceQuery(limit=1000))["items"],
        "exposures": [[each.verdict.label, each.device, each.number, each.received] for each in store.exposures()],
        "audit": views.audit()["items"],
    }
    return dict(_lasting(json.loads(json.dumps(said))))


def _lasting(value: Any) -> Any:
    """Return the value to compare: nine digits, because machines differ in the last ones, and text for NaN and infinity."""
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {name: _lasting(each) for name, each in value.items() if name not in _PASSING}
    return [_lasting(each) for each in value] if isinstance(value, list) else value


def next_frames(site: Site) -> Iterator[bytes]:
    """Reports that come after all that: the next one, the same again, another one under its number, one of an exposed device, a forgery."""
    (fresh,) = site.frames(5, [261])
    yield fresh
    yield fresh
    yield next(other for _ in range(100) for other in site.frames(5, [261]) if other != fresh)
    yield site.frames(_CHEAT, [241])[0]
    yield fresh[:-1] + bytes([fresh[-1] ^ 1])
    yield site.frames(9, [241])[0]
    yield site.frames(13, [241])[0]


def freeze(target: Path) -> None:
    """Make the folder."""
    if target.exists():
        raise SystemExit(f"freeze: {target} is there already; what was frozen stays as it is")
    with tempfile.TemporaryDirectory() as work:
        site = make_site(Path(work))
        live(site)
        said = answers(site.store, site.snapshot)
        site.store.close()
        shutil.copy(site.folder / "peel.sqlite", site.folder / "frozen.sqlite")
        again = Site(site.folder, now=site.now, boot=2)
        coming = [{"frame": frame.hex(), "verdicts": again.hear([frame])} for frame in next_frames(again)]
        again.store.close()
        target.mkdir(parents=True)
        _pack(target / "vectors.tar.gz", {"vectors": ROOT / "spec" / "vectors"})
        _pack(target / "gateway.tar.gz", {"fleet": site.folder / "fleet", "peel.sqlite": site.folder / "frozen.sqlite"})
        document = {"now": site.now, "answers": said, "next": coming}
        (target / "answers.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _pack(path: Path, content: dict[str, Path]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, source in content.items():
            archive.add(source, name, filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Remove owner and time from a member, and leave out locks."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return None if member.name.endswith("/.lock") else member


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    freeze(Path(sys.argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
