# SPDX-License-Identifier: MIT
"""The fleet folder becomes unusable under a running gateway, in many ways, and is repaired."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from peel_core.projection import search_seed, soundness
from peel_gateway.fleet.folder import Fleet, FleetError
from peel_gateway.fleet.snapshot import FleetSnapshot, take_snapshot
from peel_gateway.metrics import Metrics
from peel_gateway.service.fleet_watch import FleetWatch
from peel_gateway.storage.sqlite.store import SqliteStore

PROFILE = """name = "climate"
epsilon = 1.0
verify = false
width = 48
seed = {seed}
quota = 100
period = 60
[[attribute]]
kind = "mean"
name = "temperature"
low = 0
high = 40
"""
SOUND = search_seed(48, 1)[0]
UNSOUND = next(seed for seed in range(1, 10_000) if not soundness(seed, 8, 1).sound)


class Gateway:
    """Stands for the engine: adopts what it is given."""

    def __init__(self, folder: Path) -> None:
        self.metrics = Metrics()
        self.watch = FleetWatch(folder, self.metrics)
        self.loaded: list[FleetSnapshot] = []
        self.error: Exception | None = None

    def look(self, *, force: bool = False) -> None:
        self.watch.look(force=force, load=self.load)

    def load(self, snapshot: FleetSnapshot) -> None:
        if self.error is not None:
            raise self.error
        self.loaded.append(snapshot)

    def refusals(self) -> float:
        return self.metrics.registry.get_sample_value("peel_reloads_total", {"result": "refused"}) or 0.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "climate.toml").write_text(PROFILE.format(seed=SOUND))
    fleet = Fleet.create(tmp_path / "fleet", "home", [tmp_path / "climate.toml"])
    fleet.enrol("climate", count=3)
    return fleet.folder


def rewrite(name: str, change: Callable[[str], str]) -> Callable[[Path], object]:
    return lambda folder: folder.joinpath(name).write_text(change(folder.joinpath(name).read_text()))


def unreadable(folder: Path) -> None:
    folder.joinpath("devices.jsonl").unlink()
    folder.joinpath("devices.jsonl").mkdir()


def open_key(folder: Path) -> None:
    folder.joinpath("master.key").chmod(0o644)
    os.utime(folder / "fleet.toml", (1, 1))


WAYS: dict[str, Callable[[Path], object]] = {
    "not json": rewrite("devices.jsonl", lambda _: "{"),
    "not a list": rewrite("devices.jsonl", lambda _: '{"devices": 7}'),
    "unhashable profile": rewrite("devices.jsonl", lambda text: text.replace('"climate"', '["climate"]')),
    "no profile": lambda folder: folder.joinpath("profiles/climate.toml").unlink(),
    "not toml": rewrite("profiles/climate.toml", lambda _: "name ="),
    "not utf-8": lambda folder: folder.joinpath("profiles/climate.toml").write_bytes(b"\xff\xfe"),
    "unsound seed": rewrite(
        "profiles/climate.toml",
        lambda text: text.replace("width = 48", "width = 8").replace(f"seed = {SOUND}", f"seed = {UNSOUND}"),
    ),
    "edited": rewrite("profiles/climate.toml", lambda text: text.replace("high = 40", "high = 50")),
    "a directory": unreadable,
    "gone": lambda folder: folder.rename(folder.with_name("elsewhere")),
    "another name": rewrite("fleet.toml", lambda _: 'name = "other"\n'),
    "open key": open_key,
}


@pytest.fixture
def restore(folder: Path) -> Iterator[Callable[[], None]]:
    """Put the folder back as it was, with another fingerprint."""
    saved = folder.with_name("saved")
    shutil.copytree(folder, saved)

    def back() -> None:
        for path in (folder, folder.with_name("elsewhere")):
            if path.exists():
                shutil.rmtree(path)
        shutil.copytree(saved, folder)

    yield back


@pytest.mark.parametrize("way", WAYS)
def test_a_folder_that_cannot_be_used_changes_nothing_and_is_followed_again(
    folder: Path, restore: Callable[[], None], way: str
) -> None:
    gateway = Gateway(folder)
    before = gateway.watch.snapshot
    WAYS[way](folder)
    gateway.look()
    gateway.look()
    assert gateway.watch.snapshot is before
    assert gateway.watch.problem
    assert (gateway.refusals(), gateway.loaded) == (1, []), "said once"
    restore()
    gateway.look()
    assert gateway.watch.problem is None
    assert [len(each.devices) for each in gateway.loaded] == [3]
    gateway.look()
    assert len(gateway.loaded) == 1, "nothing has changed since"


@pytest.mark.parametrize("error", [np.linalg.LinAlgError("singular"), MemoryError(), OSError(24, "too many files")])
def test_an_engine_that_cannot_take_it_is_asked_again(folder: Path, error: Exception) -> None:
    gateway = Gateway(folder)
    before = gateway.watch.snapshot
    Fleet(folder).add("climate")
    gateway.error = error
    gateway.look()
    assert gateway.watch.snapshot is before
    assert type(error).__name__ in str(gateway.watch.problem)
    gateway.error = None
    gateway.look()
    assert len(gateway.watch.snapshot.devices) == 4, "though no file has changed"
    assert gateway.watch.problem is None


def test_an_unsound_profile_enters_nowhere(folder: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    text = PROFILE.format(seed=UNSOUND).replace("width = 48", "width = 8").replace('"climate"', '"bad"')
    bad.write_text(text)
    with pytest.raises(FleetError, match=f"profile 'bad': seed: {UNSOUND} is not sound"):
        Fleet.create(tmp_path / "other", "other", [bad])
    assert not (tmp_path / "other").exists(), "nothing half made"
    fleet = Fleet(folder)
    with pytest.raises(FleetError, match="not sound"):
        fleet.adopt_profile(bad)
    (folder / "profiles" / "bad.toml").write_text(text)
    for act in (lambda: fleet.add("bad"), lambda: fleet.issue([1]), lambda: take_snapshot(fleet)):
        with pytest.raises(FleetError, match="not sound"):
            act()


def test_an_edited_profile_is_named_and_gets_no_further(folder: Path) -> None:
    path = folder / "profiles" / "climate.toml"
    sound = path.read_text()
    given = take_snapshot(Fleet(folder)).profiles[0].id
    path.write_text(sound.replace("epsilon = 1.0", "epsilon = 2.0"))
    fleet = Fleet(folder)
    said = rf"profile 'climate': was edited: it is [0-9a-f]{{8}} now, and {given:08x} in 3 devices, such as 00000001"
    for act in (lambda: fleet.add("climate"), lambda: fleet.issue([2]), lambda: take_snapshot(fleet)):
        with pytest.raises(FleetError, match=said):
            act()
    assert len(fleet.devices()) == 3, "nobody was added, and the list can still be read"
    path.write_text("# a comment is no change\n" + sound)
    assert len(take_snapshot(fleet).devices) == 3


def test_a_profile_whose_buckets_do_not_fit_the_database_is_refused(folder: Path, tmp_path: Path) -> None:
    """Reports of one published time bucket would be challenged in two groups."""
    gateway = Gateway(folder)
    with closing(SqliteStore(tmp_path / "peel.sqlite", bucket_seconds=60)) as store:
        gateway.watch.join(store)
        coins = tmp_path / "coins.toml"
        text = PROFILE.format(seed=SOUND).replace('"climate"', '"coins"')
        coins.write_text(text.replace("verify = false", "bucket = 90"))
        Fleet(folder).adopt_profile(coins)
        gateway.look()
        assert gateway.loaded == [], "the gateway goes on with the profiles that it has"
        problem = gateway.watch.problem or ""
        assert problem.startswith("profile 'coins': bucket: 90 s is not a multiple") and "--bucket 120" in problem
        with pytest.raises(FleetError, match="bucket: 90 s"):
            Gateway(folder).watch.join(store)
        folder.joinpath("profiles/coins.toml").write_text(coins.read_text().replace("bucket = 90", "bucket = 120"))
        gateway.look()
        assert gateway.watch.problem is None and len(gateway.loaded) == 1
