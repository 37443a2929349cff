# SPDX-License-Identifier: MIT
"""Provisioning an emulated board over mpremote, and each way in which it can go wrong."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from flash_bundle import write_bundle

from peel_hil.duts.qemu import Mps2Dut
from peel_tools.boards.table import BOARDS, Board, find_board
from peel_tools.cli import main
from peel_tools.commands.firmware import provision_device
from peel_tools.flashing import FlashError
from peel_tools.flashing.bundles import check_history, fresh_bundle_advice, note_provisioned, why_missing
from peel_tools.flashing.device_files import (
    Copy,
    Sources,
    application,
    check_room,
    find_sources,
    outbox_blocks,
    outdated,
    own_modules,
)
from peel_tools.flashing.provision import provision
from peel_tools.flashing.remote import Facts, Remote, check_board, probe

PICO_W = Facts(
    platform="rp2", version=(1, 25, 0), machine="Pico W", mpy=6 | 4 << 10, network=True, core="", free=800 * 1024
)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    sensors = {name: {"kind": "trace", "values": [0.5]} for name in ("a", "b")}
    return write_bundle(tmp_path, board="qemu", sensors=sensors, interval_s=1020)


def no_module(architecture: str) -> Path:
    raise AssertionError(f"no native module was needed, and yet one for {architecture} was asked for")


def sources() -> Sources:
    return replace(find_sources(), native=no_module)


class RemoteBoard(Mps2Dut):
    """The board that QEMU has, at the other end of mpremote."""

    remote: Remote

    def start(self) -> None:
        super().start()
        self.remote = Remote(self.hand_over())


@pytest.fixture
def board(tmp_path: Path) -> Iterator[RemoteBoard]:
    with RemoteBoard(tmp_path / "board") as running:
        running.start()
        yield running


def test_a_board_is_provisioned_verified_tested_and_started(board: RemoteBoard, bundle: Path) -> None:
    said: list[str] = []
    provision(board.remote, find_board("qemu"), bundle, sources(), said.append, ca=None, dry_run=True)
    assert said[-1] == "dry run: nothing was changed"
    assert board.remote.ask("import os, json\nprint(json.dumps(os.listdir('/')))") == []

    said.clear()
    provision(board.remote, find_board("qemu"), bundle, sources(), said.append, ca=None, dry_run=False)
    assert "copied and verified by reading back" in said
    assert said[-2:] == ["peel: selftest passed", "started"]
    assert bundle.with_suffix(".provisioned").exists()
    assert not any(secret in line for line in said for secret in ("00112233", "ffeeddcc"))
    board.wait_for_exit(10)  # a reset ends this emulator


@pytest.fixture(scope="module")
def small_board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteBoard]:
    """A board with an empty flash of 64 KiB."""
    with RemoteBoard(tmp_path_factory.mktemp("small")) as running:
        running.start()
        # psram_disk.py is what runs there.
        running.remote.execute("vfs.umount('/')\n_BLOCKS = 16\nvfs.VfsLfs2.mkfs(PsramDisk())\n_mount()")
        yield running


def refused(remote: Remote, board: str, bundle: Path) -> str:
    with pytest.raises(FlashError) as caught:
        provision(remote, find_board(board), bundle, sources(), lambda line: None, ca=None, dry_run=False)
    return str(caught.value)


def test_a_full_flash(small_board: RemoteBoard, bundle: Path) -> None:
    assert "KiB free and" in refused(small_board.remote, "qemu", bundle)
    assert small_board.remote.ask("import os, json\nprint(json.dumps(os.listdir('/')))") == []


def test_a_bundle_is_not_put_onto_a_second_empty_board(board: RemoteBoard, bundle: Path) -> None:
    note_provisioned(bundle)
    problem = refused(board.remote, "qemu", bundle)
    assert "would use the same report numbers again. Write a new bundle with `peel fleet bundle" in problem
    assert board.remote.ask("import os, json\nprint(json.dumps(os.listdir('/')))") == []

    board.remote.execute(
        "import os\nos.mkdir('peel')\nos.mkdir('peel/lab-0000002a')\nopen('peel/lab-0000002a/ledger.1', 'w').close()"
    )
    provision(board.remote, find_board("qemu"), bundle, sources(), lambda line: None, ca=None, dry_run=True)


def test_the_history_of_a_bundle(bundle: Path) -> None:
    check_history(bundle, has_ledger=False)
    note_provisioned(bundle)
    check_history(bundle, has_ledger=True)
    bundle.write_text(bundle.read_text().replace('"interval_s"', '"first_number": 500, "interval_s"'))
    check_history(bundle, has_ledger=False)
    for age in (4000, -4000):  # made long ago, or by a clock that was set back since
        os.utime(bundle, (time.time() - age, time.time() - age))
        check_history(bundle, has_ledger=True)
        with pytest.raises(FlashError, match=r"which may have used more report numbers since\. Write a new bundle"):
            check_history(bundle, has_ledger=False)
    bundle.with_suffix(".provisioned").write_text("?")
    with pytest.raises(FlashError, match="cannot be read"):
        check_history(bundle, has_ledger=False)


def test_a_fresh_bundle_is_written_as_advised(tmp_path: Path) -> None:
    """For each reason not to use a bundle: what is printed leads to one that can be used."""
    profile, fleet = tmp_path / "climate.toml", tmp_path / "my fleet"
    for words in (
        ["profile", "new", str(profile), "--mean", "temperature:-40:85"],
        ["fleet", "init", str(fleet), "--name", "home", "--profile", str(profile)],
        ["fleet", "add", str(fleet)],
    ):
        assert CliRunner().invoke(main, words).exit_code == 0
    bundle = fleet / "bundles" / "00000001.json"
    mark = bundle.with_suffix(".provisioned")

    def follow(said: str) -> None:
        (line,) = re.findall("`(peel [^`]+)`", said)
        before = bundle.read_bytes() if bundle.exists() else b""
        assert CliRunner().invoke(main, shlex.split(line)[1:]).exit_code == 0
        assert bundle.read_bytes() != before

    note_provisioned(bundle)
    with pytest.raises(FlashError) as used:
        check_history(bundle, has_ledger=False)
    follow(str(used.value))
    check_history(bundle, has_ledger=False)
    mark.write_text("?")
    with pytest.raises(FlashError) as unknown:
        check_history(bundle, has_ledger=False)
    follow(str(unknown.value))
    assert f"{mark}: cannot be read" in str(unknown.value) and "Then remove that file" in str(unknown.value)
    mark.unlink()
    check_history(bundle, has_ledger=False)
    follow(fresh_bundle_advice(bundle))
    bundle.unlink()
    follow(why_missing(bundle))


def test_an_outbox_that_the_flash_cannot_hold(small_board: RemoteBoard, bundle: Path) -> None:
    bundle.write_text(bundle.read_text().replace('"interval_s"', '"outbox": 10000, "interval_s"'))
    assert "of them for the outbox" in refused(small_board.remote, "qemu", bundle)


_FILL = """
import json, os
before = os.statvfs("/")[3]
os.mkdir("out")
for number in range({frames}):
    with open("out/%012x" % number, "wb") as file:
        file.write(b"x" * {size})
print(json.dumps(before - os.statvfs("/")[3]))
"""


@pytest.mark.parametrize(("width", "size"), [(48, 42), (480, 128), (1024, 237)])
def test_the_outbox_needs_no_more_room_than_was_planned(board: RemoteBoard, width: int, size: int) -> None:
    frames = 100
    planned = outbox_blocks({"outbox": frames, "profile": {"width": width}})
    taken = board.remote.ask(_FILL.format(frames=frames, size=size))
    assert planned / 3 <= taken <= planned
    assert outbox_blocks({"outbox": frames, "profile": {"width": width}}, present=frames) <= 2


def test_a_flash_that_fills_up_while_copying(small_board: RemoteBoard, tmp_path: Path) -> None:
    (tmp_path / "big.bin").write_bytes(os.urandom(70_000))
    with pytest.raises(FlashError, match="flash is full"):
        small_board.remote.copy([tmp_path / "big.bin"], "big.bin")
    small_board.remote.execute("import os\nos.remove('big.bin')")


def test_the_wrong_board(small_board: RemoteBoard, bundle: Path) -> None:
    bundle.write_text(bundle.read_text().replace('"board": "qemu"', '"board": "pico"'))
    assert "this is not a pico: MicroPython's platform is 'qemu'" in refused(small_board.remote, "pico", bundle)


def test_a_bundle_for_another_board(small_board: RemoteBoard, bundle: Path) -> None:
    assert "made for board 'qemu', not 'esp32'" in refused(small_board.remote, "esp32", bundle)


def test_a_bundle_that_needs_a_ca(small_board: RemoteBoard, bundle: Path) -> None:
    bundle.write_text(bundle.read_text().replace('"port": 1883', '"port": 8883, "tls": true, "ca": "ca.der"'))
    assert "Give that file with --ca" in refused(small_board.remote, "qemu", bundle)


def test_no_bundle(small_board: RemoteBoard, tmp_path: Path) -> None:
    answer = refused(small_board.remote, "qemu", tmp_path / "none.json")
    assert "none.json: no such file" in answer and "not a fleet folder" in answer


def test_facts_of_the_emulated_board(small_board: RemoteBoard) -> None:
    facts = probe(small_board.remote)
    assert (facts.platform, facts.version, facts.core) == ("qemu", (1, 25, 0), "built in")
    assert facts.module == "armv7m"


def test_an_unplugged_board(bundle: Path) -> None:
    with pytest.raises(FlashError, match=r"cannot open /dev/absent. Check that the board is plugged in"):
        provision(Remote("/dev/absent"), find_board("qemu"), bundle, sources(), print, ca=None, dry_run=False)


def test_the_command_explains_itself(bundle: Path) -> None:
    words = ["0000002A", "--fleet", str(bundle.parents[1]), "--board", "qemu", "--port", "/dev/absent"]
    answer = CliRunner().invoke(provision_device, words)
    assert answer.exit_code == 7
    assert "Check that the board is plugged in" in answer.output


def test_a_dry_run_without_a_board_names_every_file_and_no_key(bundle: Path, tmp_path: Path) -> None:
    module = tmp_path / "peelcore.mpy"
    module.write_bytes(b"native code")
    words = ["0000002a", "--fleet", str(bundle.parents[1]), "--board", "qemu", "--module", str(module), "--dry-run"]
    answer = CliRunner().invoke(provision_device, words)
    assert answer.exit_code == 0, answer.output
    listed = {line.split()[0]: line.split()[1:] for line in answer.output.splitlines() if line.startswith("  ")}
    for copy in application(find_board("qemu"), sources(), core=[module], bundle=bundle, ca=None):
        rest = ["holds", "keys"] if copy.secret else ["sha256", copy.digest]
        assert listed.pop(copy.target) == [str(copy.size), "bytes", *rest]
    assert not listed
    assert answer.output.splitlines()[-1].startswith("dry run: nothing was changed")
    assert not any(secret in answer.output for secret in ("00112233", "ffeeddcc"))
    assert not bundle.with_suffix(".provisioned").exists()


def test_a_module_of_ones_own_goes_with_the_application(bundle: Path, tmp_path: Path) -> None:
    own = tmp_path / "my_sensor.py"
    own.write_text("def read():\n    return 21.5\n")
    copies = application(find_board("qemu"), sources(), core=[], bundle=bundle, ca=None, files=[own])
    assert [copy.source for copy in copies if copy.target == "my_sensor.py"] == [own]
    assert copies[-1].target == "main.py"


@pytest.mark.parametrize("name", ["main.py", "peel_load.py", "peel_device.py", "drivers.py", "boards.mpy"])
def test_a_module_of_ones_own_takes_nobodys_place(bundle: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(FlashError, match="Rename yours"):
        application(find_board("qemu"), sources(), core=[], bundle=bundle, ca=None, files=[tmp_path / name])


@pytest.mark.parametrize("name", ["data.csv", "my-sensor.py", "2nd.py"])
def test_what_is_no_module_is_refused(bundle: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(FlashError, match=r"name\.py or name\.mpy"):
        application(find_board("qemu"), sources(), core=[], bundle=bundle, ca=None, files=[tmp_path / name])


def test_only_the_drivers_that_sensors_need(tmp_path: Path) -> None:
    i2c = {"kind": "i2c", "bus": 0, "sda": 4, "scl": 5}
    entries = [{**i2c, "device": "bme280_pressure"}, {"kind": "ds18b20", "pin": 22}, {"kind": "adc", "pin": 26}]
    for used, expected in (
        (entries, ["bme280", "ds18b20", "measured"]),
        (entries[1:2], ["ds18b20"]),
        (entries[2:], []),
    ):
        path = tmp_path / "peel.json"
        path.write_text(json.dumps({"sensors": {f"a{place}": entry for place, entry in enumerate(used)}}))
        copies = application(find_board("pico"), sources(), core=[], bundle=path, ca=None)
        found = [copy.target for copy in copies if copy.target.startswith("drivers/")]
        assert found == [f"drivers/{name}.py" for name in expected]
        assert all(copy.source.is_file() for copy in copies)


@pytest.mark.parametrize("verified", [False, True])
def test_only_verified_profiles_need_the_code_of_coins(tmp_path: Path, verified: bool) -> None:
    path = tmp_path / "peel.json"
    path.write_text(json.dumps({"profile": {"audits": 8, "offline": 3600, "bucket": 300} if verified else {}}))
    copies = application(find_board("pico"), sources(), core=[], bundle=path, ca=None)
    targets = {copy.target for copy in copies}
    for name in ("coins", "coin_messages", "coin_receipt"):
        assert (f"peel_device/{name}.py" in targets) == verified
    assert "peel_device/coin_files.py" in targets, "a device may have to remove the batches of an earlier bundle"


def test_modules_that_sensors_need() -> None:
    sensors = {
        "a": {"kind": "callable", "module": "mine", "function": "read"},
        "b": {"kind": "callable", "module": "given", "function": "read"},
        "c": {"kind": "adc", "pin": 1},
    }
    assert own_modules({"sensors": sensors}, [Path("given.py")]) == ["mine"]


@pytest.mark.parametrize(
    ("changes", "board", "problem"),
    [
        ({}, "pico_w", None),
        ({"version": (1, 29, 1)}, "pico_w", None),
        ({"network": False}, "pico", None),
        ({"network": False}, "pico_w", "this is not a Raspberry Pi Pico W.* or use --board pico$"),
        ({"version": (1, 24, 1)}, "pico_w", "MicroPython 1.24.1 is on the board, and Peel needs 1.25"),
        ({"version": (2, 0, 0)}, "pico_w", "below 2.0"),
        ({"mpy": 7 | 4 << 10}, "pico_w", "native modules of version 7"),
        ({"free": -1}, "pico_w", "no file system"),
        ({}, "esp32", "this is not a esp32"),
    ],
)
def test_check_board(changes: dict[str, Any], board: str, problem: str | None) -> None:
    facts = replace(PICO_W, **changes)
    if problem is None:
        check_board(facts, find_board(board))
    else:
        with pytest.raises(FlashError, match=problem):
            check_board(facts, find_board(board))


def test_the_module_follows_the_architecture(tmp_path: Path) -> None:
    asked = Sources(root=tmp_path, umqtt=tmp_path, native=lambda arch: tmp_path / arch)
    assert asked.core(PICO_W) == [tmp_path / "armv6m"]
    assert asked.core(replace(PICO_W, mpy=6 | 7 << 10)) == [tmp_path / "armv7emsp"]
    assert asked.core(replace(PICO_W, mpy=6)) == [tmp_path / "bindings/micropython/peelcore_py.py"]
    assert asked.core(replace(PICO_W, core="built in")) == []


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_the_application_is_whole_and_main_is_last(board: Board, bundle: Path) -> None:
    copies = application(board, sources(), core=[], bundle=bundle, ca=None)
    targets = [copy.target for copy in copies]
    assert targets[-1] == "main.py"
    assert all(copy.source.is_file() for copy in copies)
    assert ("peel_device/wifi.py" in targets) == board.network
    assert "peel_device/interfaces.py" not in targets
    assert [copy.target for copy in copies if copy.secret] == ["peel.json"]


def test_what_is_there_already_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"new")
    copy = Copy(source=tmp_path / "a", target="a")
    assert outdated([copy], {}) == [copy]
    assert outdated([copy], {"a": [3, "other"]}) == [copy]
    assert outdated([copy], {"a": [3, copy.digest]}) == []


def test_check_room(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(5000))
    copies = [Copy(source=tmp_path / "a", target="a")]
    assert check_room(copies, 100_000, 3) == 21 * 4096
    with pytest.raises(FlashError, match="60 KiB free and 84 KiB are needed, 12 of them for the outbox"):
        check_room(copies, 60 * 1024, 3)
