# SPDX-License-Identifier: MIT
"""A run: faults begin and end as the schedule says, then everything is healed, drains, and is judged."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from peel_gateway.exits import LASTING
from peel_research.soak.boards import SoakBoard
from peel_research.soak.errors import CannotError
from peel_research.soak.faults import DAMAGES
from peel_research.soak.schedule import KINDS, Fault
from peel_research.soak.stage import Stage
from peel_research.soak.verdict import Outcome, decide
from peel_tools.servers.gateway import GatewayError, GatewayProcess

__all__ = ["Result", "soak"]

_STEP_SECONDS = 0.02
_POLL_SECONDS = 0.3
_NUDGE_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a run."""

    outcome: Outcome
    faults: Counter[str]
    """The number of faults by kind."""
    skipped: dict[str, str]
    """Kinds that could not be done, at least once, and why."""
    restarts: int
    """The number of times a gateway ended by itself and was restarted, as a service manager would."""


class _Driver:
    """Does what is due: begins faults, heals them, and starts a gateway again that has ended."""

    def __init__(self, stage: Stage, schedule: list[Fault], say: Callable[[str], None]) -> None:
        self._stage = stage
        self._coming = list(schedule)
        self._active: dict[str, tuple[float, ExitStack]] = {}
        """By track: when it ends, and how."""
        self._say = say
        self.done: Counter[str] = Counter()
        self.skipped: dict[str, str] = {}
        self.restarts = 0

    def step(self, now: float) -> None:
        """Bring the stage to this moment of the run."""
        self._heal([track for track, (end, _) in self._active.items() if end <= now])
        for fault in [each for each in self._coming if each.at <= now]:
            if KINDS[fault.kind].track not in self._active:  # or, where healing took its time, it has to wait
                self._coming.remove(fault)
                self._begin(fault, now)
        self.look_after_gateways()

    def heal_all(self) -> None:
        """The end of all faults."""
        self._coming.clear()
        self._heal(list(self._active))
        self.look_after_gateways()

    def _begin(self, fault: Fault, now: float) -> None:
        undo = ExitStack()
        try:
            undo.enter_context(DAMAGES[fault.kind](self._stage, fault))
        except CannotError as reason:
            self.skipped[fault.kind] = str(reason)
            return
        self._say(str(fault))
        self.done[fault.kind] += 1
        self._active[KINDS[fault.kind].track] = (now + fault.seconds, undo)

    def _heal(self, tracks: list[str]) -> None:
        for track in tracks:
            self._active.pop(track)[1].close()

    @property
    def busy(self) -> bool:
        """Whether there are faults that have not begun: those before them took their time."""
        return bool(self._coming)

    def look_after_gateways(self) -> None:
        """Start again what has ended, as a service manager would; GatewayError where that one would not."""
        for gateway in self._stage.gateways:
            if gateway.pid is None and gateway not in self._stage.unwanted:
                self._start_again(gateway)

    def _start_again(self, gateway: GatewayProcess) -> None:
        code = gateway.code
        if code in LASTING:
            raise GatewayError(f"a gateway has ended with {code}, for good; end of its log:\n{gateway.log_tail()}")
        if code is not None and code >= 0:
            self.restarts += 1
            self._say(f"a gateway has ended with {code}; started again")
        gateway.start(until="started")


def soak(
    stage: Stage,
    schedule: list[Fault],
    *,
    seconds: float,
    drain_seconds: float,
    say: Callable[[str], None],
    progress: Callable[[float], None],
) -> Result:
    """Run a schedule against a stage that has been started, and judge what is left."""
    driver = _Driver(stage, schedule, say)
    started = time.monotonic()
    try:
        while (now := time.monotonic() - started) < seconds or driver.busy:
            driver.step(now)
            progress(now)
            time.sleep(_STEP_SECONDS)
    finally:
        driver.heal_all()
    say("everything is healed; what is on its way has some time to arrive")
    outcome = _drained(stage, driver, drain_seconds)
    return Result(outcome=outcome, faults=driver.done, skipped=driver.skipped, restarts=driver.restarts)


def _drained(stage: Stage, driver: _Driver, seconds: float) -> Outcome:
    """Let everything arrive, for a bounded time, then compare; sooner when nothing is missing."""
    deadline = time.monotonic() + seconds
    for board in stage.boards:
        board.calm()
    stage.crowd.calm(seconds)
    nudged = time.monotonic()
    while True:
        driver.look_after_gateways()
        late = time.monotonic() > deadline
        if stage.crowd.done and (late or not any(board.waiting for board in stage.boards)):
            outcome = _judged(stage)
            if outcome.good or late:
                break
        if time.monotonic() > nudged + _NUDGE_SECONDS:
            nudged = time.monotonic()
            _nudge(stage.boards)
        time.sleep(_POLL_SECONDS)
    for board in stage.boards:
        board.cut_power()
    return _judged(stage)


def _judged(stage: Stage) -> Outcome:
    """Compare the gateway with the model of now."""
    with stage.gateways[0].store() as store:
        return decide(stage.finished_truth(), store, stage.model.conflicts)


def _nudge(boards: list[SoakBoard]) -> None:
    """Start boards again that still have something: a start forgets how long they meant to wait.

    A broker that has forgotten who listens drops what it takes until the gateway is back. A device waits for a receipt for up to a minute
    before it sends that again, then twice as long each time.
    """
    for board in boards:
        if board.waiting:
            board.cut_power()
            board.switch_on()
