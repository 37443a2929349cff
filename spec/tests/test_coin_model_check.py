# SPDX-License-Identifier: MIT
"""Exhaustive check of the device's state machine (SPEC.md, section 13.4): two numbers per batch, one audit, three outcomes.

`explore` visits every state that a device can reach. A step is anything that the device does by itself, a receipt of a gateway that
equivocates, a damaged record, or old records of one batch put back. The power may fail before each write of a step. Receipts may be lost,
repeated and reordered, because each may come at any time.

Limits: two batches, two eras, one accident. A receipt has one part (audit, challenge, openings), and a challenge one or two numbers.
The honest gateway always draws the first audit and the first outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, count, product
from typing import NamedTuple

import pytest

from coin_model import (
    DAMAGED,
    Batch,
    Commit,
    Database,
    Device,
    Fixed,
    Gateway,
    Message,
    Odds,
    Open,
    PowerCutError,
    Receipt,
    Report,
    Reveal,
    Rules,
    Shape,
)

SHAPE = Shape(numbers=2, audits=1, odds=Odds(2, 1))
FIRSTS = (1, 3)
NUMBERS = (1, 2, 3, 4)
ERAS = (1, 2)
Records = frozenset[tuple[tuple[str, int], object]]
Step = Callable[[Device], None]


class State(NamedTuple):
    """A device, and all that it has ever sent."""

    records: Records = frozenset()
    made: int = 0
    """The secrets that its generator has made, without those that were neither stored nor used."""
    revealed: frozenset[int] = frozenset()
    reported: frozenset[tuple[int, str, int]] = frozenset()
    """Numbers, with the secret and the masked answer of their reports."""
    answers: frozenset[tuple[int, int]] = frozenset()
    committed: frozenset[tuple[int, str]] = frozenset()
    """First numbers of commitments, with their secrets."""
    spoke: bool = False
    """Whether it sent a message about a closed batch."""
    damaged: bool = False
    """Whether a record was damaged. It happens once."""
    rolled_back: int = 0
    """First number of the batch whose records were put back. It happens once, and nothing is promised for this batch."""


def batch_records(records: Records, first: int) -> Records:
    return frozenset((key, value) for key, value in records if first <= key[1] < first + SHAPE.numbers)


def few_receipts() -> Iterator[Receipt]:
    """Yield receipts with an audit or a challenge of one number, and a repeated or another i."""
    for era, number in product(ERAS, NUMBERS):
        yield Receipt(era, audit=(number - 1 + number % 2, frozenset({number})))
        yield from (Receipt(era, challenge=((number, i),)) for i in (0, 1))
        yield Receipt(era, opened=frozenset({number}))


def challenges() -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield the challenges of one number with any i, and of two numbers."""
    outcomes = range(SHAPE.odds.entries)
    yield from (((number, i),) for number, i in product(NUMBERS, outcomes))
    yield from (((one, 0), (other, i)) for one, other in combinations(NUMBERS, 2) for i in (0, 1))


def receipts() -> Iterator[Receipt]:
    """Yield the receipts of a gateway that says anything."""
    for era in ERAS:
        yield Receipt(era)
        for first in FIRSTS:
            yield Receipt(era, approved=first)
            for size in range(SHAPE.numbers + 1):
                for numbers in combinations(range(first, first + SHAPE.numbers), size):
                    yield Receipt(era, audit=(first, frozenset(numbers)))
        for challenge in challenges():
            yield Receipt(era, challenge=challenge)
        for number in NUMBERS:
            yield Receipt(era, opened=frozenset({number}))
        yield Receipt(era, opened=frozenset(NUMBERS))


def commit(device: Device) -> None:
    if device.flash.read(("next", 0)) != FIRSTS[-1] + SHAPE.numbers:
        device.commit()


def report(device: Device) -> None:
    device.report(0)


def give_up(device: Device) -> None:
    if free := device.free_numbers():
        device.give_up(free[-1])


def receive(receipt: Receipt) -> Step:
    return lambda device: device.receive(receipt)


OWN: list[Step] = [commit, report, give_up, Device.resend]
STEPS = OWN + [receive(receipt) for receipt in receipts()]
FEW_STEPS = OWN + [receive(receipt) for receipt in few_receipts()]


def powered(step: Step, device: Device) -> bool:
    """Run a step, and start the device again if its power is cut. Tell whether the step was completed."""
    try:
        step(device)
    except PowerCutError:
        device.flash.cut_before = None
        device.boot()
        return False
    device.flash.cut_before = None
    return True


class Explorer:
    """Finds the states that a device can reach under some rules."""

    def __init__(self, rules: Rules, *, damage: bool = False, old: frozenset[Records] = frozenset()) -> None:
        self.device = Device(SHAPE, Fixed(), rules)
        self.damage = damage
        self.old = old
        """Records of one batch each, which may be put back at any time."""

    def explore(self) -> Iterator[State]:
        """Yield every reachable state once."""
        seen, left = {State()}, [State()]
        while left:
            state = left.pop()
            yield state
            for following in self.following(state):
                if following not in seen:
                    seen.add(following)
                    left.append(following)

    def following(self, state: State) -> Iterator[State]:
        for step in FEW_STEPS if self.old else STEPS:
            yield from self.after(state, step)
        if self.damage and not state.damaged:
            for key, _ in state.records:
                hurt = state._replace(records=frozenset((dict(state.records) | {key: DAMAGED}).items()), damaged=True)
                yield hurt  # noticed when the record is next read
                yield from self.after(hurt, Device.boot)
        if not state.rolled_back:
            yield from (rolled for old in self.old if (rolled := rolled_back(state, old)) is not None)

    def after(self, state: State, step: Step) -> Iterator[State]:
        """Yield the states after a step, with a power cut before each of its writes and without one."""
        device, records = self.device, dict(state.records)
        for before in count():
            device.flash.records, device.flash.cut_before = dict(records), before
            device._made, device.sent = state.made, []
            complete = powered(step, device)
            if device.sent or device.flash.records != records or step is Device.boot:
                yield self._state(state)
            if complete:
                return

    def _state(self, before: State) -> State:
        device = self.device
        revealed, reported, answers = set(before.revealed), set(before.reported), set(before.answers)
        committed, spoke = set(before.committed), before.spoke
        closed = {key[1] for key, value in before.records if isinstance(value, Batch) and value.closed}
        closed -= {before.rolled_back}
        for message in device.sent:
            spoke |= device.first_of(message[0]) in closed
            match message:
                case Commit():
                    committed.add((message.first, message.roots[0].secret))
                case Reveal():
                    revealed |= {number for number, _ in message.seeds}
                case Report():
                    batch = device.flash.read(("batch", device.first_of(message.number)))
                    reported.add((message.number, batch.secret if isinstance(batch, Batch) else "", message.d))
                case Open():
                    answers.add((message.number, message.position))
        return canonical(
            before._replace(
                records=frozenset(device.flash.records.items()),
                made=made(device, committed),
                revealed=frozenset(revealed),
                reported=frozenset(reported),
                answers=frozenset(answers),
                committed=frozenset(committed),
                spoke=spoke,
            )
        )


def made(device: Device, committed: set[tuple[int, str]]) -> int:
    secrets = {secret for _, secret in committed} | device.dump()
    return max((int(secret.removeprefix("secret ")) for secret in secrets), default=0)


def rolled_back(state: State, old: Records) -> State | None:
    """Return the state with other records for one batch, None if the device has no such batch."""
    first = next(key[1] for key, _ in old if key[0] == "batch")
    if ("batch", first) not in dict(state.records):
        return None
    rest = state.records - batch_records(state.records, first)
    return canonical(state._replace(records=rest | old, rolled_back=first))


def canonical(state: State) -> State:
    """Return a state that stands for all that differ in names only.

    - The device treats challenges as opaque: the one that it answers for a number may be called 0.
    - It treats the numbers of a batch alike: the audited one may be called the first.
    - Of a closed batch only this is kept: that it is closed. `spoke` notices if the device sends anything about it.
    """
    if faults(state):
        return state
    records = dict(state.records)
    over: set[int] = set()
    number_names: dict[int, int] = {}
    for first in FIRSTS:
        batch, audit = records.get(("batch", first)), records.get(("audit", first))
        if isinstance(batch, Batch) and batch.closed and not batch.secret:
            over |= {first, first + 1}
        elif isinstance(audit, tuple) and audit[1] == {first + 1}:
            number_names |= {first: first + 1, first + 1: first}
    renamed: dict[tuple[str, int], object] = {}
    for (kind, number), value in records.items():
        if number in over and kind != "batch":
            continue
        if kind in ("report", "answer", "given up"):
            renamed[kind, number_names.get(number, number)] = 0 if kind == "answer" and value != DAMAGED else value
        elif kind == "audit" and isinstance(value, tuple):
            renamed[kind, number] = value[0], frozenset(number_names.get(each, each) for each in value[1])
        else:
            renamed[kind, number] = value
    over |= {state.rolled_back, state.rolled_back + 1} if state.rolled_back else set()
    return state._replace(
        records=frozenset(renamed.items()),
        committed=frozenset(each for each in state.committed if each[0] != state.rolled_back),
        revealed=frozenset(number_names.get(number, number) for number in state.revealed - over),
        reported=frozenset((number_names.get(n, n), secret, d) for n, secret, d in state.reported if n not in over),
        answers=frozenset((number_names.get(n, n), 0) for n, _ in state.answers if n not in over),
    )


def faults(state: State) -> set[str]:
    """Return the invariants that a state breaks. Those of a batch that was rolled back are not checked."""
    exempt = {state.rolled_back, state.rolled_back + 1} if state.rolled_back else set()
    reported = [number for number, _, _ in state.reported if number not in exempt]
    answered = [number for number, _ in state.answers if number not in exempt]
    found = {"a closed batch speaks"} if state.spoke else set()
    committed = [first for first, _ in state.committed if first not in exempt]
    if len(set(committed)) != len(committed):
        found.add("two secrets for the same numbers")
    if len(set(answered)) != len(answered):
        found.add("two answers for one number")
    if len(set(reported)) != len(reported):
        found.add("two reports for one number")
    if set(reported) & state.revealed:
        found.add("the seed of a reported number is revealed")
    for key, value in state.records:
        if key[0] == "batch" and isinstance(value, Batch) and value.closed and value.secret:
            found.add("a closed batch has its secret")
    return found


def old_records(states: set[State]) -> frozenset[Records]:
    """Return all records that one batch ever has."""
    found = {batch_records(state.records, first) for state in states for first in FIRSTS}
    return frozenset(records for records in found if any(key[0] == "batch" for key, _ in records))


@pytest.fixture(scope="module")
def reachable() -> set[State]:
    """All states of a device that loses power, and whose gateway says anything."""
    return set(Explorer(Rules()).explore())


def test_no_gateway_and_no_power_cut_breaks_an_invariant(reachable: set[State]) -> None:
    assert [state for state in reachable if faults(state)] == []
    assert len(reachable) > 90


def test_a_damaged_record_breaks_none(reachable: set[State]) -> None:
    states = set(Explorer(Rules(), damage=True).explore())
    assert [state for state in states if faults(state)] == []
    assert len(states) > len(reachable)


def test_records_that_are_put_back_break_none_of_another_batch(reachable: set[State]) -> None:
    """Any records that a batch ever had may come back, at any time."""
    states = set(Explorer(Rules(), old=old_records(reachable)).explore())
    assert [state for state in states if faults(state)] == []
    assert any(state.rolled_back for state in states)


BROKEN = {
    "no_second_secret": "two secrets for the same numbers",
    "secret_erased": "a closed batch has its secret",
    "one_audit": "the seed of a reported number is revealed",
    "audit_stored_first": "the seed of a reported number is revealed",
    "report_after_audit": "the seed of a reported number is revealed",
    "report_unrevealed": "the seed of a reported number is revealed",
    "one_answer": "two answers for one number",
    "answer_stored_first": "two answers for one number",
    "damage_voids": "two answers for one number",
}


NEED_DAMAGE = ("no_second_secret", "damage_voids")


@pytest.mark.parametrize("rule", BROKEN)
def test_without_a_rule_the_check_finds_its_fault(rule: str) -> None:
    states = Explorer(replace(Rules(), **{rule: False}), damage=rule in NEED_DAMAGE).explore()
    assert any(BROKEN[rule] in faults(state) for state in states)


# ---- An honest pair comes to an end ----


class Pair(NamedTuple):
    """A device and an honest gateway, with all messages and receipts that are on their way."""

    records: Records
    database: str
    messages: frozenset[Message] = frozenset()
    receipts: frozenset[Receipt] = frozenset()


class PairExplorer:
    """Finds the states of an honest pair whose messages are lost, repeated, reordered and delayed, and whose device loses power."""

    def __init__(self, rules: Rules, *, batches: int, eras: int) -> None:
        self.device = Device(SHAPE, Fixed(), rules)
        self.gateway = Gateway(SHAPE, Fixed(), rules)
        self.batches = batches
        self.eras = eras
        self.databases: dict[str, Database] = {}
        """Databases by their text, which is their name."""

    def explore(self) -> Iterator[Pair]:
        empty = self.gateway.db
        self.databases[""] = empty
        start = self.at_gateway(Pair(frozenset(), ""), lambda gateway: None)
        seen, left = {start}, [start]
        while left:
            pair = left.pop()
            yield pair
            for following in self.following(pair):
                if following not in seen:
                    seen.add(following)
                    left.append(following)

    def following(self, pair: Pair) -> Iterator[Pair]:
        for step in [self.commit, report, *map(receive, pair.receipts)]:
            for before in count():
                self.load(pair)
                self.device.flash.cut_before = before
                complete = powered(step, self.device)
                messages = pair.messages | set(self.device.sent)
                yield pair._replace(records=frozenset(self.device.flash.records.items()), messages=messages)
                if complete:
                    break
        for message in pair.messages:
            yield self.at_gateway(pair, lambda gateway, message=message: gateway.receive(message))  # type: ignore[misc]
        database = self.databases[pair.database]
        if database.bucket < self.batches:
            yield self.at_gateway(pair, Gateway.end_bucket)
        if database.era < self.eras:
            yield self.at_gateway(pair, Gateway.new_era)

    def at_gateway(self, pair: Pair, step: Callable[[Gateway], None]) -> Pair:
        """Return the pair after a step of the gateway."""
        self.load(pair)
        step(self.gateway)
        self.gateway.db.mark = 0
        name = repr(self.gateway.db)
        self.databases[name] = self.gateway.db
        return pair._replace(database=name, receipts=pair.receipts | {self.gateway.receipt()})

    def commit(self, device: Device) -> None:
        if device.flash.read(("next", 0)) != 1 + SHAPE.numbers * self.batches:
            device.commit()

    def load(self, pair: Pair) -> None:
        """Put device and gateway into a state."""
        self.device.flash.records, self.device.flash.cut_before = dict(pair.records), None
        self.device._made = max((key[1] for key, _ in pair.records if key[0] == "batch"), default=0)
        self.device.sent = []
        self.gateway.db = self.databases[pair.database].copy()
        self.gateway.era_beside = self.gateway.db.era

    def settle(self, pair: Pair) -> None:
        """Deliver everything from now on, as often as it takes."""
        self.load(pair)
        for _ in range(4):
            receipt = self.gateway.receipt()
            self.device.receive(receipt)
            self.device.resend(receipt)
            for message in self.device.sent:
                self.gateway.receive(message)
            self.device.sent = []
            self.gateway.end_bucket()
        self.device.receive(self.gateway.receipt())

    def unfinished(self, pair: Pair) -> set[int]:
        """Return the reports that neither count nor are void after all, with 0 for a stalled or exposed device."""
        self.settle(pair)
        device, gateway = self.device, self.gateway
        counted = {entry.number for entry in gateway.db.log}
        reported = {key[1] for key in device.flash.records if key[0] == "report"}
        open_ = {number for number in reported - counted if device.usable(device.first_of(number)) is not None}
        twice = {number for number in counted if [entry.number for entry in gateway.db.log].count(number) > 1}
        return open_ | twice | ({0} if gateway.stalled or gateway.db.exposed else set())


@pytest.mark.parametrize(("batches", "eras"), [(1, 2), (2, 1)])
def test_every_report_of_an_honest_pair_counts_once_or_is_void(batches: int, eras: int) -> None:
    explorer = PairExplorer(Rules(), batches=batches, eras=eras)
    states = {(pair.records, pair.database): pair for pair in explorer.explore()}
    assert len(states) > 50
    assert [pair for pair in states.values() if explorer.unfinished(pair)] == []


@pytest.mark.parametrize(
    "rule", ["secret_stored_first", "secret_kept_until_confirmed", "device_era_voids", "old_era_ignored"]
)
def test_without_a_rule_an_honest_pair_does_not_come_to_an_end(rule: str) -> None:
    explorer = PairExplorer(replace(Rules(), **{rule: False}), batches=1, eras=2)
    assert any(explorer.unfinished(pair) for pair in list(explorer.explore()))
