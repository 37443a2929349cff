# SPDX-License-Identifier: MIT
"""Files that a power cut, a bad disk or a careless copy has left: a command says which one it is, or works as if nothing had happened."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from peel_core.projection import search_seed
from peel_gateway.exits import Exit
from peel_gateway.fleet.folder import Fleet
from peel_tools.cli import main
from peel_tools.device.flash import Changes, read_bundle
from peel_tools.flashing import FlashError

CUTS = FLIPS = 20
"""So many places of each file are tried, chosen at random, beside the ends of its lines."""

NOBODY = 65534

PROFILE = f"""name = "climate"
epsilon = 1.0
verify = false
seed = {search_seed(48, 1)[0]}
quota = 60
period = 3600
[[attribute]]
name = "temperature"
kind = "mean"
low = -10
high = 50
"""
TEMPLATE = {
    "board": "host",
    "mqtt": {"host": "127.0.0.1"},
    "sensors": {"temperature": {"kind": "trace", "values": [20]}},
}
SETTINGS = '[fleet]\nfolder = "fleet"\n\n[mqtt]\nhost = "127.0.0.1"\npassword_file = "password"\nport = 1883\n'


@dataclass(frozen=True)
class Reading:
    """A command that reads a file."""

    file: str
    words: tuple[str, ...]
    named: str
    """Its name in error messages."""
    checked: bool
    """Whether every change of the file is found. What people write by hand may be cut to something that somebody could have meant."""


LIST, ADD, BUNDLE = (
    ("fleet", "list", "fleet", "--json"),
    ("fleet", "add", "fleet", "--id", "99"),
    ("fleet", "bundle", "fleet", "1"),
)
SETTINGS_OF = ("gateway", "settings", "--config", "gateway.toml")
READINGS = {
    "devices": Reading("fleet/devices.jsonl", LIST, "devices.jsonl", checked=True),
    "devices, to add one": Reading("fleet/devices.jsonl", ADD, "devices.jsonl", checked=True),
    "profile that devices have": Reading(
        "fleet/profiles/climate.toml", ADD, "fleet/profiles.*climate|climate.*fleet/profiles", checked=True
    ),
    "master key": Reading("fleet/master.key", BUNDLE, "master.key", checked=True),
    "master key, to add one": Reading("fleet/master.key", ADD, "master.key", checked=True),
    "name, for keys": Reading("fleet/fleet.toml", BUNDLE, "fleet.toml", checked=True),
    "name": Reading("fleet/fleet.toml", LIST, "fleet.toml", checked=False),
    "template": Reading("fleet/template.json", BUNDLE, "template.json", checked=False),
    "profile": Reading("climate.toml", ("profile", "show", "climate.toml"), "climate.toml", checked=False),
    "settings": Reading("gateway.toml", SETTINGS_OF, r"gateway.toml|mqtt.password_file", checked=False),
    "password": Reading("password", SETTINGS_OF, "mqtt.password_file.*password", checked=False),
}


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, list(words))
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site: a fleet with three devices, one of them revoked, and the gateway's settings."""
    place = tmp_path_factory.mktemp("whole")
    (place / "climate.toml").write_text(PROFILE)
    (place / "gateway.toml").write_text(SETTINGS)
    (place / "password").touch(0o600)
    (place / "password").write_text("secret\n")
    fleet = Fleet.create(place / "fleet", "home", [place / "climate.toml"])
    (fleet.folder / "template.json").write_text(json.dumps(TEMPLATE, indent=1) + "\n")
    assert run("fleet", "add", str(fleet.folder), "--count", "3")[0] == 0
    fleet.revoke([2], reason="stolen")
    return place


@pytest.fixture
def site(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A copy of the site to work in; call it for a fresh one."""
    place = tmp_path / "site"

    def renew() -> None:
        os.chdir(tmp_path)
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(whole, place)
        os.chdir(place)

    monkeypatch.chdir(tmp_path)  # back, afterwards
    renew()
    return renew


def contents() -> dict[str, tuple[int, bytes]]:
    """All files, as far as they may be read."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if os.access(path, os.R_OK, effective_ids=True) else b"")
        for path in Path().rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def cuts(content: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    borders = {place + more for place, byte in enumerate(content) if byte == ord("\n") for more in (0, 1)}
    for place in sorted({0, *borders, *rng.integers(len(content), size=CUTS).tolist()} - {len(content)}):
        yield content[:place]


def flips(content: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    for place in rng.integers(len(content), size=FLIPS).tolist():
        yield content[:place] + bytes([content[place] ^ 1 << int(rng.integers(8))]) + content[place + 1 :]


def judge(reading: Reading, before: bytes, what: bytes) -> None:
    files = contents()
    code, _, said = run(*reading.words)
    assert code != Exit.INTERNAL and "Traceback" not in said, (what, said)
    if code == Exit.DONE:
        hexadecimal = reading.file.endswith(".key")  # of which the case does not matter
        same = what.lower().split() == before.lower().split() if hexadecimal else what.split() == before.split()
        assert same or not reading.checked, f"{what!r} went unnoticed"
    else:
        assert re.search(f"Error: .*({reading.named})", said), (what, said)
        assert contents() == files, f"{what!r} left something half done"


@pytest.mark.parametrize("damage", [cuts, flips])
@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS)
def test_damage(
    reading: Reading,
    damage: Callable[[bytes, np.random.Generator], Iterator[bytes]],
    site: Callable[[], None],
    rng: np.random.Generator,
) -> None:
    content = Path(reading.file).read_bytes()
    code, _, said = run(*reading.words)
    assert code == Exit.DONE, said
    for damaged in damage(content, rng):
        site()
        Path(reading.file).write_bytes(damaged)
        judge(reading, content, damaged)


def test_a_damaged_bundle_for_this_machine(site: Callable[[], None], rng: np.random.Generator) -> None:
    """A bundle that is complete but wrong is refused by the device, with the same check as on a board."""
    path = Path("fleet/bundles/00000001.json")
    content, refused = path.read_bytes(), 0
    without_parts = [
        re.sub(part, b'"x"', content, count=1) for part in (b'"profile"', b'"attributes"', b'"high"', b'"mqtt"')
    ]
    for damaged in (*without_parts, *cuts(content, rng), *flips(content, rng)):
        path.write_bytes(damaged)
        try:
            Changes(simulate=1).applied(read_bundle(path))
        except FlashError as error:
            assert re.search("00000001.json|the bundle's profile", str(error)) and "peel fleet bundle" in str(error)
            refused += 1
    assert refused >= 4 + CUTS


@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS)
def test_a_folder_in_the_place_of_a_file(reading: Reading, site: Callable[[], None]) -> None:
    Path(reading.file).unlink()
    Path(reading.file).mkdir()
    judge(reading, b"a file", b"a folder")
    assert run(*reading.words)[0] != Exit.DONE


@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS)
def test_a_file_that_may_not_be_read(reading: Reading, site: Callable[[], None]) -> None:
    run(*reading.words)  # loads all modules, which somebody else may not be allowed to
    site()
    Path(reading.file).chmod(0)
    with somebody_else():
        judge(reading, b"readable", b"unreadable")
        assert run(*reading.words)[0] != Exit.DONE


@pytest.mark.parametrize("in_the_way", ["fleet/.lock", "fleet/bundles"])
def test_a_folder_that_cannot_be_written_to(in_the_way: str, site: Callable[[], None]) -> None:
    """As for somebody without permission, or on a full disk, which root does not notice: nothing is half done."""
    shutil.rmtree("fleet/bundles")
    if in_the_way == "fleet/bundles":
        Path(in_the_way).touch()
    else:
        Path(in_the_way).unlink()
        Path(in_the_way).mkdir()
    for words in (ADD, BUNDLE):
        judge(Reading(in_the_way, words, "fleet.*cannot be written", checked=True), b"", b"in the way")


@pytest.mark.parametrize("in_the_way", ["new", "new/profiles", "new/devices.jsonl"])
def test_a_fleet_that_cannot_be_made_there_can_be_once_there_is_room(in_the_way: str, site: Callable[[], None]) -> None:
    making = ("fleet", "init", "new/" if in_the_way != "new" else "new/fleet", "--name", "home")
    Path(in_the_way).parent.mkdir(exist_ok=True)
    if in_the_way == "new/devices.jsonl":
        Path(in_the_way).mkdir()
    else:
        Path(in_the_way).touch()
    code, _, said = run(*making)
    assert (code, "Traceback" in said) == (Exit.FLEET, False)
    refusal = "has a devices.jsonl and no fleet.toml" if "jsonl" in in_the_way else "cannot be written"
    assert re.search(f"Error: new.*: {refusal}.*repeat the command", said), said
    Path(in_the_way).rename("away")
    assert run(*making)[0] == Exit.DONE


@contextlib.contextmanager
def somebody_else() -> Iterator[None]:
    """For root, who may read everything: as a user to whom all of this belongs."""
    if os.getuid() != 0:
        yield
        return
    for path in (Path(), *Path().rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    "change", [lambda text: text.replace(b"\n", b"\r\n"), lambda text: codecs.BOM_UTF8 + text], ids=["crlf", "bom"]
)
@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS)
def test_what_editors_do_to_a_file(
    reading: Reading, change: Callable[[bytes], bytes], site: Callable[[], None]
) -> None:
    content = Path(reading.file).read_bytes()
    Path(reading.file).write_bytes(change(content))
    code, _, said = run(*reading.words)
    assert code == Exit.DONE, said
