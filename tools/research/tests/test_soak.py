# SPDX-License-Identifier: MIT
"""`peel soak`, short: everything breaks, nothing is lost; a judge that would see it otherwise; no process left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peel_gateway.model.tables import DeviceTable, GapTable, LogTable, TallyTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import join_tables
from peel_gateway.storage.store import Archive
from peel_research.soak.run import soak
from peel_research.soak.schedule import Fault, make_schedule
from peel_research.soak.stage import Stage
from peel_research.soak.verdict import Outcome, decide

COMMAND = [sys.executable, "-m", "peel_tools", "soak", "--json"]


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that work in a folder, or whose command names it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text()
            where = str((process / "cwd").readlink())
        except OSError:
            continue  # it has just ended
        if str(folder) in command or where.startswith(str(folder)):
            found.append(command.replace("\0", " "))
    return found


@pytest.mark.parametrize(
    ("store", "verify", "seconds"),
    [("sqlite", "--verify", 20), ("sqlite", "--no-verify", 12), ("postgres", "--verify", 12)],
)
def test_nothing_is_lost_and_nothing_counts_twice(
    tmp_path: Path, seed: int, store: str, verify: str, seconds: int
) -> None:
    folder = tmp_path / "soak"
    words = [*COMMAND, "--seconds", str(seconds), "--seed", str(seed), "--store", store, verify, "--dir", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=400)
    logs = "".join(log.read_text()[-5000:] for log in folder.glob("gateway*/gateway.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert (outcome["lost"], outcome["double_counted"], outcome["honest_exposed"], outcome["altered"]) == (0, 0, 0, 0)
    assert outcome["made"] == outcome["stored"] + outcome["excused"]
    assert outcome["stored"] > 1000
    planned = {fault.kind for fault in make_schedule(seconds, seed, 4, store)}
    assert planned - outcome["skipped"].keys() <= {kind for kind, count in outcome["faults"].items() if count}
    assert processes_of(folder) == []


FORGETFUL = [
    Fault(at=0.5, seconds=4.0, kind="gateway_kill", target=0, amount=0.0),
    Fault(at=3.0, seconds=0.5, kind="broker_forget", target=0, amount=0.0),
]
"""While the gateway is away, the broker takes reports and forgets them."""


@pytest.mark.parametrize("confirm", ["gateway", "broker"])
def test_what_a_broker_forgets_is_lost_only_if_its_word_was_enough(tmp_path: Path, confirm: str) -> None:
    verify = confirm == "gateway"  # verified coins need the gateway's word
    stage = Stage(tmp_path / "soak", seed=1, boards=2, devices=20, rate=100.0, confirm=confirm, verify=verify)
    try:
        stage.start()
        drain = 120.0 if confirm == "gateway" else 5.0
        result = soak(stage, FORGETFUL, seconds=6.0, drain_seconds=drain, say=print, progress=lambda seconds: None)
    finally:
        stage.close()
    assert result.faults.total() == 2
    assert result.outcome.made > 300
    assert (result.outcome.lost > 50) == (confirm == "broker"), result.outcome
    assert result.outcome.good == (confirm == "gateway")
    assert (result.outcome.double_counted, result.outcome.altered, result.outcome.honest_exposed) == (0, 0, 0)


def test_a_signal_ends_all_processes(tmp_path: Path) -> None:
    folder = tmp_path / "soak"
    process = subprocess.Popen([*COMMAND, "--seconds", "60", "--dir", str(folder)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "gateway_freeze" in line or "broker_freeze" in line:
            break  # in the middle of it, with a process stopped
    assert len(processes_of(folder)) >= 3
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert processes_of(folder) == []


class Cooked:
    """A store whose books were cooked."""

    def __init__(self, store: Archive, cook: Callable[[Any], Any]) -> None:
        self._store = store
        self._cook = cook

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return (lambda *words, **named: self._cook(found(*words, **named))) if callable(found) else found

    @contextmanager
    def history(self) -> Iterator[Iterator[tuple[LogTable, GapTable]]]:
        with self._store.history() as events:
            log, gaps = join_tables(list(events))
        yield iter([(self._cook(log), gaps)])


def first_accepted(log: LogTable) -> Any:
    """Return a mask of the first accepted row of a log, bool[N]."""
    return np.arange(len(log)) == np.argmax(log.verdict == Verdict.ACCEPTED)


def drop_a_row(table: Any) -> Any:
    if not isinstance(table, LogTable):
        return table
    others = ~first_accepted(table)
    return LogTable(**{field.name: getattr(table, field.name)[others] for field in fields(table)})


def count_once_more(table: Any) -> Any:
    if not isinstance(table, TallyTable) or not len(table):
        return table
    return replace(table, plus=table.plus + (np.arange(len(table)) == 0))


def turn_a_sign(table: Any) -> Any:
    if not isinstance(table, LogTable):
        return table
    return replace(table, sign=np.where(first_accepted(table), -table.sign, table.sign))


def blame_everybody(table: Any) -> Any:
    return replace(table, cause=table.cause * 0 + Verdict.FLOOD) if isinstance(table, DeviceTable) else table


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Outcome]]:
    """A soak of some seconds without any fault."""
    stage = Stage(tmp_path_factory.mktemp("soak") / "calm", seed=1, boards=2, devices=20, rate=100.0)
    try:
        stage.start()
        time.sleep(1)
        result = soak(stage, [], seconds=4.0, drain_seconds=60.0, say=print, progress=lambda seconds: None)
        yield stage, result.outcome
    finally:
        stage.close()


def judged(stage: Stage, cook: Callable[[Any], Any]) -> Outcome:
    with stage.gateways[0].store() as store:
        cooked: Any = Cooked(store, cook)
        return decide(stage.folder / "model.sqlite", cooked, 0)


def test_a_calm_run_is_exact(calm: tuple[Stage, Outcome]) -> None:
    stage, outcome = calm
    assert outcome.good
    assert outcome.made == outcome.stored > 200
    assert judged(stage, lambda table: table) == outcome


def test_the_judge_sees_what_is_wrong(calm: tuple[Stage, Outcome]) -> None:
    stage, _ = calm
    assert judged(stage, drop_a_row).lost == 1
    assert judged(stage, count_once_more).double_counted == 1
    assert judged(stage, turn_a_sign).altered == 1
    assert judged(stage, blame_everybody).honest_exposed > 10


def test_the_model_sees_a_number_with_two_bodies(calm: tuple[Stage, Outcome]) -> None:
    stage, _ = calm
    frame = next(iter(stage.model._frames.values()))
    before = stage.model.conflicts
    stage.model.found([frame, frame[:-1] + bytes([frame[-1] ^ 1])])
    assert stage.model.conflicts == before + 1
