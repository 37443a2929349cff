# SPDX-License-Identifier: MIT
"""Attacks against the gateway's own engine on a real database: what is exposed, by which layer, how soon, and what harm is left.

Honest reports and poisoned ones are processed in turn, in batches of their own, so that every verdict is known to be about one or the
other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_gateway.engine.engine import BatchReport
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.exposure import ExposureFilter
from peel_gateway.model.messages import Message, MessageBatch
from peel_gateway.model.verdict import Layer, Verdict
from peel_gateway.screening.device_tests import replay
from peel_gateway.screening.e_process import EProcess
from peel_gateway.storage.records import read_gaps, read_log
from peel_research.lab.aim import Aim
from peel_research.lab.attacks.record import LabAttack
from peel_research.lab.data import LabData
from peel_research.lab.fleet import LabFleet, Sent
from peel_research.lab.shifts import Shifts, shifts_of
from peel_research.world import World
from peel_tools.planning.arena import ALPHA

__all__ = ["FULL", "QUICK", "SHARE", "Scale", "Trial", "play"]

Ints = npt.NDArray[np.int64]
Frames = npt.NDArray[np.uint8]

SHARE = 0.05
"""Of devices that attack, or of reports that are attacked: as in the paper."""
_BUCKET_SECONDS = 3600
_SLACK = 1.1
"""The length of a run, in units of the time that its quota demands."""


@dataclass(frozen=True)
class Scale:
    """The size of a run."""

    devices: int
    reports: int
    """Of each honest device."""
    rounds: int
    """Batches that they come in."""
    seeds: int


QUICK = Scale(devices=20, reports=90, rounds=3, seeds=1)
FULL = Scale(devices=100, reports=100, rounds=10, seeds=5)


@dataclass(frozen=True)
class Trial:
    """One attack by 5% of a fleet, with one seed."""

    attack: LabAttack
    aim: Aim
    seed: int
    poisoned: int
    """Pieces that attackers sent."""
    verdicts: Counter[Verdict]
    """Their verdicts on arrival."""
    counted: int
    """The number of them that count in the end."""
    attackers: int
    """Devices that attacked; 0 where nobody's device did."""
    attackers_exposed: int
    delays: tuple[int, ...]
    """Pieces that exposed devices had sent by then, that one included."""
    honest_reports: int
    honest_refused: int
    """Honest reports that were objected to, or withdrawn."""
    honest_devices: int
    honest_exposed: int
    shifts: Shifts

    @property
    def exposure(self) -> float:
        """Share of poisoned pieces that do not count: refused, absorbed, or withdrawn with their device."""
        return 1 - self.counted / self.poisoned if self.poisoned else 0.0

    def by_layer(self) -> dict[str, float]:
        """Share of poisoned pieces that each layer objected to when they came."""
        found = Counter[Layer]()
        for verdict, count in self.verdicts.items():
            layer = Layer.FRESHNESS if verdict == Verdict.REDELIVERED else verdict.layer
            if layer is not None:
                found[layer] += count
        return {layer.label: found[layer] / self.poisoned for layer in Layer if found[layer]}


def play(data: LabData, aim: Aim, attack: LabAttack, scale: Scale, seed: int) -> Trial:
    """Let 5% of a fleet, or of its reports, commit an attack on the questions of an aim."""
    with World.opened("lab", aim.profile, scale.devices, seed=seed, bucket_seconds=_BUCKET_SECONDS, days=1) as world:
        return _Run(world, data, aim, attack, scale, seed).trial()


class _Run:
    """One trial: who takes part, and what was found so far."""

    def __init__(self, world: World, data: LabData, aim: Aim, attack: LabAttack, scale: Scale, seed: int) -> None:
        self.world, self.aim, self.attack, self.scale, self.seed = world, aim, attack, scale, seed
        self.fleet = LabFleet(data, world.profile, world.keyring, world.rng)
        count = max(1, round(SHARE * scale.devices)) if attack.by_device else 0
        self.attackers = np.arange(count)
        self.honest = np.arange(count, scale.devices)
        self.numbers = np.arange(1, attack.numbers(aim, scale.reports) + 1)
        self.of_honest, self.of_poisoned = Counter[Verdict](), Counter[Verdict]()
        self.exposed: dict[int, Verdict] = {}

    def trial(self) -> Trial:
        sent = self._send()
        tallies = self.world.store.device_tallies(self.world.profile.id)
        attackers = self.world.ids[self.attackers].astype(np.int64)
        theirs, stays = np.isin(tallies.device, attackers), tallies.withdrawn == 0
        reports = tallies.plus + tallies.minus
        # What counts of those who turn frames is what they send to be left alone: honest reports.
        turns = self.attack.turn is not None
        counted = self.of_poisoned[Verdict.ACCEPTED] if turns else int(reports[theirs & stays].sum())
        exposed = attackers[np.isin(attackers, list(self.exposed))]
        return Trial(
            attack=self.attack,
            aim=self.aim,
            seed=self.seed,
            poisoned=self.of_poisoned.total(),
            verdicts=self.of_poisoned,
            counted=counted,
            attackers=len(attackers),
            attackers_exposed=len(exposed),
            delays=tuple(self._delay(device, sent) for device in exposed.tolist()),
            honest_reports=self.of_honest.total(),
            honest_refused=self.of_honest.total() - int(reports[~theirs & stays].sum()),
            honest_devices=len(self.honest),
            honest_exposed=len(self.exposed) - len(exposed),
            shifts=shifts_of(
                self.aim,
                tallies,
                honest=stays if turns else ~theirs & stays,
                poisoned=self.fleet.decoded([each.frame for each in sent if each.bad]),
                weight=self._weight(len(sent)),
            ),
        )

    def _weight(self, sent: int) -> float:
        """Share of reports that the attackers' would have been."""
        theirs = len(self.attackers) * len(self.numbers) if self.attack.by_device else sent
        return theirs / (theirs + self.of_honest.total())

    # ---- a run ----

    def _send(self) -> list[Sent]:
        """Send all of it, a round at a time; return what attackers sent."""
        when = np.repeat(np.arange(1, self.scale.reports + 1), len(self.honest))
        who = np.tile(self.honest, self.scale.reports)
        frames = self.fleet.honest(who, when)
        kept, sent = self._attacked(who, when, frames)
        rounds = self.scale.rounds
        turn = (when - 1) * rounds // self.scale.reports
        turns = [(each.number - 1) * rounds // len(self.numbers) for each in sent]
        interval = self.world.profile.period / self.world.profile.quota
        for number in range(rounds):
            self.world.now += _SLACK * interval * len(self.numbers) / rounds
            self._note(self.of_honest, self._messages(frames[kept & (turn == number)]))
            news = [each for each, its_turn in zip(sent, turns, strict=True) if its_turn == number]
            self._note(Counter(), self._letters(each for each in news if not each.bad))
            self._note(self.of_poisoned, self._letters(each for each in news if each.bad))
        return sent

    def _attacked(self, who: Ints, when: Ints, frames: Frames) -> tuple[npt.NDArray[np.bool_], list[Sent]]:
        """Return which honest reports arrive unchanged, and the attackers' reports."""
        kept = np.ones(len(frames), np.bool_)
        if self.attack.by_device:
            return kept, self.fleet.poisoned(self.attack, self.aim, self.attackers, self.numbers)
        victims = np.flatnonzero(self.world.rng.random(len(frames)) < SHARE)
        turned = self.fleet.turned(self.attack, who[victims], when[victims], frames[victims])
        unharmed = {each.frame for each in turned if not each.bad}
        kept[victims] = [frame.tobytes() in unharmed for frame in frames[victims]]
        return kept, [each for each in turned if each.bad]

    def _messages(self, frames: Frames) -> MessageBatch:
        """One message per frame, received now."""
        count = len(frames)
        none = np.zeros(count, np.uint64)
        ends = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(frames.shape[1])
        return MessageBatch(frames.tobytes(), ends, b"", none, np.full(count, round(self.world.now * 1000), np.int64))

    def _letters(self, sent: Iterable[Sent]) -> MessageBatch:
        return MessageBatch.of([Message("", each.frame, self.world.now) for each in sent])

    def _note(self, into: Counter[Verdict], messages: MessageBatch) -> None:
        if not len(messages):
            return
        report: BatchReport = self.world.engine.process(messages)
        into.update(report.counts)
        self.exposed |= {each.device: each.cause for each in report.exposed_devices}

    def _delay(self, device: int, sent: Sequence[Sent]) -> int:
        """Return the position of the bad piece that exposed a device, counted from 1."""
        mine = [each for each in sent if each.device == device and each.bad]
        cause = self.exposed[device]
        if cause is Verdict.STATISTICS:
            return self._tipped(device)
        (first,) = self.world.store.exposures(
            ExposureFilter(verdicts=frozenset({cause}), device=device), after=0, limit=1
        )
        return 1 + [each.frame for each in mine].index(first.raw)

    def _tipped(self, device: int) -> int:
        """Return the reports until statistics exposed a device. Its batch is judged as a whole, so its log is replayed."""
        profile, log, gaps = self.world.profile, read_log(self.world.store, device), read_gaps(self.world.store)
        e_process = EProcess(questions_of(profile).bets(), ALPHA)
        (at,) = replay(profile, e_process, np.array([device]), e_process.new_states(1), log, gaps)
        judged = np.isin(log.verdict, (Verdict.ACCEPTED, Verdict.STATISTICS))
        order = np.sort(np.concatenate([log.arrival[judged], gaps.arrival[gaps.device == device]]))
        return int(np.count_nonzero(log.arrival <= order[at]))
