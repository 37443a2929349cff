# SPDX-License-Identifier: MIT
"""Each fault of a soak is felt by those it is meant for, and is gone when it is healed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from helpers import wait_until

from peel_gateway.storage.records import read_log
from peel_gateway.storage.store import StoreAway
from peel_research.soak.faults import DAMAGES
from peel_research.soak.schedule import Fault
from peel_research.soak.stage import Stage
from peel_research.soak.stores import ServerStore
from peel_tools.servers.gateway import GatewayProcess


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("soak") / "stage", seed=1, boards=2, devices=20, rate=100.0)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage with PostgreSQL."""
    made = Stage(
        tmp_path_factory.mktemp("soak") / "workers", seed=1, boards=1, devices=20, rate=100.0, store="postgres"
    )
    try:
        made.start()
        yield made
    finally:
        made.close()


def fault(kind: str) -> Fault:
    return Fault(at=0.0, seconds=1.0, kind=kind, target=1, amount=0.9)


def state(pid: int | None) -> str:
    """The state of a process, as the kernel abbreviates it."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def connected(stage: Stage) -> bool:
    summary = stage.gateways[0].ask("/api/summary")
    return bool(summary and summary["broker"]["connected"])


def stored(stage: Stage) -> int:
    with stage.gateways[0].store() as store:
        return len(read_log(store))


def growing(stage: Stage) -> bool:
    before = stored(stage)
    time.sleep(0.5)
    return stored(stage) > before


def test_a_killed_gateway_is_gone(stage: Stage) -> None:
    with DAMAGES["gateway_kill"](stage, fault("gateway_kill")):
        assert stage.gateways[0].pid is None
        assert stage.gateways[0] in stage.unwanted
    assert not stage.unwanted
    stage.gateways[0].start()
    wait_until(lambda: growing(stage))


@pytest.mark.parametrize("which", ["gateway", "broker"])
def test_a_frozen_process_stands_still(stage: Stage, which: str) -> None:
    process = stage.gateways[0] if which == "gateway" else stage.broker
    with DAMAGES[f"{which}_freeze"](stage, fault(f"{which}_freeze")):
        wait_until(lambda: state(process.pid) == "T")
        wait_until(lambda: not growing(stage))  # what was on its way may still be stored
    wait_until(lambda: growing(stage))


@pytest.mark.parametrize(("kind", "cause"), [("disk_full", "disk reported an error"), ("database_lock", "StoreLocked")])
def test_a_store_that_cannot_write_says_so_and_recovers(stage: Stage, kind: str, cause: str) -> None:
    with DAMAGES[kind](stage, fault(kind)):
        wait_until(lambda: cause in stage.gateways[0].fetch("/metrics") or cause in str(stage.gateways[0].log_tail(50)))
        wait_until(lambda: not growing(stage))
    wait_until(lambda: growing(stage))


def test_a_broker_that_forgets_has_nobody_s_session(stage: Stage) -> None:
    wait_until(lambda: connected(stage))
    before = stage.gateways[0].log_path.read_text().count("session=new")
    with DAMAGES["broker_forget"](stage, fault("broker_forget")):
        assert stage.broker.pid is None
        assert not list(stage.broker.folder.glob("*.db"))
    wait_until(lambda: stage.gateways[0].log_path.read_text().count("session=new") > before)
    wait_until(lambda: growing(stage))


def test_a_killed_broker_comes_back(stage: Stage) -> None:
    with DAMAGES["broker_kill"](stage, fault("broker_kill")):
        assert stage.broker.pid is None
    wait_until(lambda: growing(stage))


def test_a_cut_keeps_the_gateway_from_the_broker(stage: Stage) -> None:
    wait_until(lambda: connected(stage))
    with DAMAGES["gateway_line_cut"](stage, fault("gateway_line_cut")):
        wait_until(lambda: not connected(stage))
    wait_until(lambda: connected(stage))


def test_a_cut_keeps_devices_from_the_broker(stage: Stage) -> None:
    board = stage.boards[1]
    with DAMAGES["device_line_cut"](stage, fault("device_line_cut")):
        wait_until(lambda: board.waiting > 3 and "link fault" in board.log())
    wait_until(lambda: growing(stage))


@pytest.mark.parametrize("kind", ["device_line_slow", "gateway_line_slow"])
def test_a_slow_line_is_slow_until_it_is_healed(stage: Stage, kind: str) -> None:
    line = stage.board_line if kind == "device_line_slow" else stage.gateway_line
    with DAMAGES[kind](stage, fault(kind)):
        assert line.delay > 0.2
    assert line.delay == 0


def test_a_clock_that_is_set_is_noticed(stage: Stage) -> None:
    if not stage.clock.settable:
        pytest.skip("libfaketime is not installed. On Debian: apt-get install faketime")
    wait_until(lambda: growing(stage))  # a first batch has nothing to compare the clock with
    with DAMAGES["clock_step"](stage, fault("clock_step")):
        wait_until(lambda: "clock set" in stage.gateways[0].log_path.read_text())
    wait_until(lambda: growing(stage))


def test_a_power_cut_leaves_the_flash(stage: Stage) -> None:
    board = stage.boards[1]
    device, pid = board.device, board.pid
    with DAMAGES["power_cut"](stage, fault("power_cut")):
        assert board.pid is None
    assert board.pid not in (None, pid)
    assert board.device == device


def first_number(stage: Stage) -> int:
    number: int = json.loads((stage.boards[1]._flash.folder / "peel.json").read_text())["first_number"]
    return number


@pytest.mark.parametrize("kind", ["provision_again", "flash_erase"])
def test_a_fresh_bundle_begins_higher(stage: Stage, kind: str) -> None:
    board = stage.boards[1]
    home = board._flash.home
    wait_until(lambda: list(home.glob("ledger.*")))
    before = first_number(stage)
    with DAMAGES[kind](stage, fault(kind)):
        assert first_number(stage) > before
        assert bool(list(home.glob("ledger.*"))) == (kind == "provision_again")
    wait_until(lambda: list(home.glob("ledger.*")))


def test_a_revoked_device_is_refused_and_another_takes_its_place(stage: Stage) -> None:
    board = stage.boards[1]
    former = board.device
    with DAMAGES["revoke"](stage, fault("revoke")):
        wait_until(lambda: stage.gateways[0].summary()["totals"]["verdicts"]["revoked"])
    assert board.device.id > former.id
    wait_until(lambda: list(board._flash.home.glob("ledger.*")))


def test_a_killed_database_is_gone_and_comes_back_with_what_it_had(workers: Stage) -> None:
    before = stored(workers)
    with DAMAGES["database_kill"](workers, fault("database_kill")), pytest.raises(StoreAway):
        stored(workers)
    assert stored(workers) >= before
    wait_until(lambda: growing(workers))


def test_a_frozen_database_stands_still(workers: Stage) -> None:
    assert isinstance(workers.store, ServerStore)
    server = workers.store.server
    with DAMAGES["database_freeze"](workers, fault("database_freeze")):
        wait_until(lambda: [state(process) for process in server.processes()].count("T") > 5)
    wait_until(lambda: growing(workers))


def says_locked(gateway: GatewayProcess) -> bool:
    return "StoreLocked" in gateway.fetch("/metrics")


def test_a_locked_database_keeps_all_workers_from_writing(workers: Stage) -> None:
    wait_until(lambda: growing(workers))
    with DAMAGES["database_lock"](workers, fault("database_lock")):
        for gateway in workers.gateways:
            wait_until(partial(says_locked, gateway))
    wait_until(lambda: growing(workers))


def test_a_worker_that_is_frozen_for_long_loses_its_partitions_to_the_other(workers: Stage) -> None:
    frozen, other = workers.gateways[1], workers.gateways[0]
    wait_until(lambda: frozen.summary()["worker"]["partitions"])
    with DAMAGES["gateway_freeze"](workers, fault("gateway_freeze")):
        wait_until(lambda: len(other.summary()["worker"]["partitions"]) == 4)
    wait_until(lambda: len(frozen.summary()["worker"]["partitions"]) == 2)
