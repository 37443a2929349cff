# SPDX-License-Identifier: MIT
"""A fleet folder that is restored from an old copy gives out no key twice, and no gateway that has used a newer one takes it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from databases import Database, PostgresSchema, SqliteFile
from helpers import climate_profile

from peel_core import Keys, encode_many
from peel_gateway.exits import Exit
from peel_gateway.fleet.bundle import make_bundles, write_bundles
from peel_gateway.fleet.directory_file import RestoredFolder
from peel_gateway.fleet.folder import REVOKED, Fleet, FleetError
from peel_gateway.metrics import Metrics
from peel_gateway.service.fleet_watch import FleetWatch
from peel_tools.cli import fleet as fleet_commands

OWN_LOGINS = {"mqtt": {"login": "own"}}


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    (tmp_path / "climate.toml").write_text(climate_profile(lifetime=10**9))
    fleet = Fleet.create(tmp_path / "fleet", "greenhouse", [tmp_path / "climate.toml"])
    fleet.enrol("climate", count=2)
    return fleet


def redo(fleet: Fleet, act: Callable[[], Any]) -> tuple[Any, Any]:
    """Do something, put the copy of the folder back that was made before it, and do it again."""
    copy = fleet.folder.with_name("copy")
    shutil.copytree(fleet.folder, copy)
    first = act()
    shutil.rmtree(fleet.folder)
    copy.rename(fleet.folder)
    return first, act()


def sealed(fleet: Fleet, bundle: dict[str, Any]) -> bytes:
    """The first report that a device with this bundle makes, all its randomness fixed."""
    names = ("seal_key", "index_key", "receipt_key", "receipt_key")  # no coin key: a report does not need it
    keys = Keys(*(np.frombuffer(bytes.fromhex(bundle[name]), np.uint8).reshape(1, -1) for name in names))
    profile = fleet.profiles()["climate"]
    readings = np.zeros((1, profile.k), np.int32)
    device = [int(bundle["device"], 16)]
    frames = encode_many(profile, device, keys, [bundle["first_number"]], readings, entropy=bytes(range(64)))
    return bytes(frames[0])


def test_a_fresh_bundle_from_a_restored_folder_has_fresh_keys(fleet: Fleet) -> None:
    """One key and nonce for two reports shows the difference of their contents on the wire."""

    def issue() -> dict[str, Any]:
        (path,) = write_bundles(fleet, [fleet.device(1)], {})
        return dict(json.loads(path.read_text()))

    one, other = redo(fleet, issue)
    assert one["first_number"] == other["first_number"], "a folder that knows nothing of the first bundle"
    for name in ("seal_key", "index_key", "receipt_key"):
        assert one[name] != other[name]
    assert sealed(fleet, one) != sealed(fleet, other)


def test_an_id_that_is_given_out_again_has_other_keys_and_another_login(fleet: Fleet) -> None:
    one, other = redo(fleet, lambda: next(make_bundles(fleet, fleet.enrol("climate"), OWN_LOGINS)))
    assert one["device"] == other["device"] == "00000003"
    for name in ("seal_key", "index_key", "receipt_key"):
        assert one[name] != other[name]
    assert one["mqtt"]["password"] != other["mqtt"]["password"]


def test_a_login_stays_with_its_device(fleet: Fleet) -> None:
    """A fresh bundle changes no password: what the broker has stays right until the board has the bundle."""
    before = next(make_bundles(fleet, [fleet.device(1)], OWN_LOGINS))
    fleet.issue([1])
    after = next(make_bundles(fleet, [fleet.device(1)], OWN_LOGINS))
    assert before["mqtt"]["password"] == after["mqtt"]["password"]
    assert before["seal_key"] != after["seal_key"]


class Gateway:
    """A gateway that watches the fleet folder."""

    def __init__(self, fleet: Fleet, database: Database) -> None:
        self.fleet = fleet
        self.store = database.open()
        self.watch = FleetWatch(fleet.folder, Metrics())
        self.watch.join(self.store)

    def look(self) -> str | None:
        """Read the folder again; return why it is refused."""
        self.watch.look(force=True, load=lambda snapshot: None)
        return self.watch.problem

    def start_again(self) -> None:
        FleetWatch(self.fleet.folder, Metrics()).join(self.store)


@pytest.fixture
def database(make_database: Callable[[], Database]) -> Database:
    return make_database()


@pytest.fixture
def gateway(fleet: Fleet, database: Database) -> Iterator[Gateway]:
    gateway = Gateway(fleet, database)
    yield gateway
    gateway.store.close()


CHANGES = {
    "a fresh bundle": lambda fleet: fleet.issue([1]),
    "an enrolment": lambda fleet: fleet.enrol("climate"),
    "a revocation": lambda fleet: fleet.revoke([2]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_folder_from_before_a_change_is_refused(gateway: Gateway, change: Callable[[Fleet], Any]) -> None:
    copy = gateway.fleet.folder.with_name("copy")
    shutil.copytree(gateway.fleet.folder, copy)
    change(gateway.fleet)
    assert gateway.look() is None
    devices = len(gateway.watch.snapshot.devices)

    shutil.rmtree(gateway.fleet.folder)
    copy.rename(gateway.fleet.folder)
    for _ in range(3):  # behind the gateway, then as far, then ahead of it
        assert "restored from an old copy" in (gateway.look() or "")
        assert gateway.watch.restored
        assert len(gateway.watch.snapshot.devices) == devices, "the gateway goes on with what it has"
        with pytest.raises(RestoredFolder, match="peel fleet accept-restored"):
            gateway.start_again()
        gateway.fleet.annotate(1, "changed since")


def test_the_folder_of_another_fleet_is_refused(gateway: Gateway, tmp_path: Path) -> None:
    other = Fleet.create(tmp_path / "other", "greenhouse", [tmp_path / "climate.toml"])
    for _ in range(5):
        with pytest.raises(RestoredFolder, match="another fleet"):
            FleetWatch(other.folder, Metrics()).join(gateway.store)
        other.enrol("climate")


def test_the_newest_folder_is_taken_whatever_happened_meanwhile(gateway: Gateway) -> None:
    for _ in range(5):
        gateway.fleet.annotate(1, "changed while the gateway was off")
    gateway.start_again()
    assert gateway.look() is None
    assert gateway.store.registry() == gateway.fleet.read_directory().history.state


def test_a_database_that_was_moved_knows_the_registry(gateway: Gateway, make_database: Callable[[], Database]) -> None:
    moved = make_database().open()
    moved.fill(gateway.store)
    assert moved.registry() == gateway.store.registry() == gateway.fleet.read_directory().history.state
    moved.close()


def test_all_partitions_know_one_registry(fleet: Fleet, new_schema: Callable[[], PostgresSchema]) -> None:
    archive = new_schema().archive(partitions=4)
    history = fleet.read_directory().history
    archive.follow_registry(history.follow)
    assert archive.registry() == history.state
    fleet.enrol("climate")
    archive.follow_registry(fleet.read_directory().history.follow)
    with pytest.raises(RestoredFolder):
        archive.follow_registry(history.follow)
    assert archive.registry() == fleet.read_directory().history.state
    archive.close()


def test_commands_refuse_the_folder_where_the_database_is_at_hand(
    tmp_path: Path, gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From before an enrolment: the next device would get the id of one that the gateway knows."""
    folder = gateway.fleet.folder
    (tmp_path / "gateway.toml").write_text(f'[fleet]\nfolder = "{folder}"\n[store]\n{store_setting(database)}\n')
    (tmp_path / "gateway.toml").chmod(0o600)
    monkeypatch.chdir(tmp_path)
    lose(gateway, lambda fleet: fleet.enrol("climate"))
    before = (folder / "devices.jsonl").read_bytes()
    for words in (["add"], ["bundle", "1"], ["revoke", "1"], ["note", "1", "text"], ["tag", "1", "--add", "cellar"]):
        command, *rest = words
        run = CliRunner().invoke(fleet_commands, [command, str(folder), *rest])
        assert run.exit_code == Exit.FLEET, run.output
        assert "peel fleet accept-restored" in run.output
    assert (folder / "devices.jsonl").read_bytes() == before

    gateway.store.close()
    run = CliRunner().invoke(fleet_commands, ["accept-restored", str(folder), "--json"])
    assert run.exit_code == 0, run.output
    assert json.loads(run.output) == {"without_bundle": [], "unknown": []}
    run = CliRunner().invoke(fleet_commands, ["add", str(folder), "--json"])
    assert json.loads(run.stdout)["items"][0]["device"] == "00000004"


def test_without_a_database_commands_make_none_and_change_the_folder(
    tmp_path: Path, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke(fleet_commands, ["note", "fleet", "1", "text"])
    assert run.exit_code == 0, run.output
    assert not list(tmp_path.glob("*.sqlite"))
    (tmp_path / "peel.sqlite").write_text("no database")
    run = CliRunner().invoke(fleet_commands, ["revoke", "fleet", "1"])
    assert run.exit_code == 0, run.output
    assert "was not compared with the gateway's database" in run.stderr
    assert fleet.device(1).state == REVOKED


def store_setting(database: Database) -> str:
    """The line of a settings file that names a database."""
    if isinstance(database, SqliteFile):
        return f'path = "{database.path}"'
    assert isinstance(database, PostgresSchema)
    return f'url = "{database.url}"\nschema = "{database.schema}"\npartitions = 1'


def known_numbers(**numbers: int) -> tuple[Any, Any]:
    """Devices that a gateway has heard, by label, and the highest number of each."""
    return np.array([int(label[1:], 16) for label in numbers]), np.array(list(numbers.values()))


def lose(gateway: Gateway, change: Callable[[Fleet], Any]) -> None:
    """Have the gateway use a change, and put the folder from before it back."""
    copy = gateway.fleet.folder.with_name("copy")
    shutil.copytree(gateway.fleet.folder, copy)
    change(gateway.fleet)
    assert gateway.look() is None
    shutil.rmtree(gateway.fleet.folder)
    copy.rename(gateway.fleet.folder)


def test_an_accepted_folder_gives_out_no_id_and_no_number_again(gateway: Gateway) -> None:
    fleet = gateway.fleet
    lose(gateway, lambda fleet: (fleet.enrol("climate", count=3), fleet.issue([1], 10**6)))
    accepted = fleet.accept(gateway.store.registry(), *known_numbers(d1=10**6 + 40, d2=1, d4=77))
    assert accepted == ([1], [4])
    assert gateway.look() is None
    gateway.start_again()
    assert [device.id for device in fleet.enrol("climate")] == [6], "3, 4 and 5 were given out"
    assert fleet.issue([1])[0].bundles[-1].first_number == 10**6 + 41
    assert fleet.issue([2])[0].bundles[-1].first_number < 10**6
    fleet.add("climate", ids=[4])
    assert fleet.issue([4])[0].bundles[0].first_number == 78, "a board that was lost keeps its id, not its numbers"
    assert gateway.look() is None


def test_a_fork_that_has_gone_further_is_accepted_too(gateway: Gateway) -> None:
    fleet = gateway.fleet
    lose(gateway, lambda fleet: fleet.enrol("climate"))
    for _ in range(4):
        fleet.annotate(1, "further")
    assert gateway.look() is not None
    fleet.accept(gateway.store.registry(), *known_numbers())
    assert gateway.look() is None
    assert [device.id for device in fleet.enrol("climate")] == [4]


def test_there_is_nothing_to_accept_in_the_newest_folder(gateway: Gateway) -> None:
    with pytest.raises(FleetError, match="nothing to accept"):
        gateway.fleet.accept(gateway.store.registry(), *known_numbers())
