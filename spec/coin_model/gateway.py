# SPDX-License-Identifier: MIT
"""The gateway of section 13.5, for one device: a database, and an era and a mark beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

from coin_model.chance import Chance
from coin_model.rules import ALL_RULES, Rules
from coin_model.tables import Commit, Message, Open, Receipt, Report, Reveal, Root, Shape

__all__ = ["BatchRow", "Database", "Entry", "Gateway", "Group", "ReportRow", "mean_of_device"]


@dataclass
class BatchRow:
    """A committed batch."""

    roots: dict[int, Root]
    bundle: int
    audit: frozenset[int]
    approved: bool = False
    void: bool = False


@dataclass
class ReportRow:
    """A stored report that does not count yet."""

    d: int
    bucket: int
    bundle: int
    challenged: bool = False


@dataclass
class Group:
    """Reports that are challenged together."""

    challenge: dict[int, int]
    bundle: int
    bucket: int
    opened: dict[int, int] = field(default_factory=dict)
    done: bool = False
    """It counted, or was dropped."""


@dataclass(frozen=True)
class Entry:
    """A counted report in the log."""

    number: int
    symbol: int
    bucket: int
    d: int | None = None


@dataclass
class Database:
    """Everything that a backup contains."""

    era: int
    mark: int = 0
    bucket: int = 0
    batches: dict[int, BatchRow] = field(default_factory=dict)
    reports: dict[int, ReportRow] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    groups: list[Group] = field(default_factory=list)
    log: list[Entry] = field(default_factory=list)
    exposed: str | None = None

    def copy(self) -> Database:
        """Return a copy that shares nothing that changes."""
        return replace(
            self,
            batches={first: replace(row) for first, row in self.batches.items()},
            reports={number: replace(row) for number, row in self.reports.items()},
            settled=set(self.settled),
            groups=[replace(each, challenge=dict(each.challenge), opened=dict(each.opened)) for each in self.groups],
            log=list(self.log),
        )


class Gateway:
    """An honest gateway. `chance` is its pseudorandom function: the same input always gives the same output."""

    def __init__(
        self,
        shape: Shape,
        chance: Chance,
        rules: Rules = ALL_RULES,
        *,
        quota: int = 1 << 30,
        reserve: int = 1 << 30,
        bundles: tuple[int, ...] = (1,),
    ) -> None:
        self.shape = shape
        self.rules = rules
        self.quota = quota
        """Reports per bucket."""
        self.reserve = reserve
        """Unused numbers beyond which no batch is taken."""
        self.bundles = bundles
        self._chance = chance
        self._prf: dict[object, object] = {}
        self.db = Database(era=1)
        self.era_beside = self.db.era
        self.mark_beside = self.db.mark
        self.releases = 0

    # Its pseudorandom function, keyed by era

    def audit_of(self, era: int, first: int, roots: tuple[Root, ...]) -> frozenset[int]:
        """Return the audit of a commitment."""
        key = ("audit", era, first, roots)
        if key not in self._prf:
            left = list(range(first, first + self.shape.numbers))
            self._prf[key] = frozenset(left.pop(self._chance.pick(len(left))) for _ in range(self.shape.audits))
        found = self._prf[key]
        assert isinstance(found, frozenset)
        return found

    def index_of(self, era: int, number: int, reports: object) -> int:
        """Return the challenge i of a number in a group of reports."""
        key = ("challenge", era, number, reports)
        if key not in self._prf:
            self._prf[key] = self._chance.pick(self.shape.odds.entries)
        found = self._prf[key]
        assert isinstance(found, int)
        return found

    # Messages

    def receive(self, message: Message) -> None:
        """Take one message of the device."""
        if self.db.exposed:
            return
        match message:
            case Commit():
                self._commit(message)
            case Reveal():
                self._reveal(message)
            case Report():
                self._report(message)
            case Open():
                self._open(message)

    def receipt(self) -> Receipt:
        """Return the current receipt."""
        waiting = self._waiting()
        approved = [first for first, row in self.db.batches.items() if row.approved or row.void]
        challenge = {number: i for group in self.unopened() for number, i in group.challenge.items()}
        return Receipt(
            era=self.db.era,
            settled=frozenset(self.db.settled),
            approved=max(approved, default=0),
            audit=(waiting, self.db.batches[waiting].audit) if waiting is not None else None,
            challenge=tuple(sorted(challenge.items())),
            opened=frozenset(number for group in self.db.groups for number in group.opened),
        )

    def unopened(self) -> Iterator[Group]:
        """Yield the challenged groups that wait for openings."""
        yield from (group for group in self.db.groups if not group.done)

    def _waiting(self) -> int | None:
        """Return the first number of the newest batch that waits for its audit."""
        waiting = [first for first, row in self.db.batches.items() if not row.approved and not row.void]
        return max(waiting, default=None)

    def _commit(self, message: Commit) -> None:
        known = self.db.batches.get(message.first)
        if known is not None and (self.rules.commit_once or list(known.roots.values()) == list(message.roots)):
            return
        if self.rules.commit_once and message.first <= max(self.db.batches, default=0):
            return
        if (
            self.rules.gateway_one_batch_waits
            and known is None
            and self._waiting() is not None
            and self._drop_waiting()
        ):
            return
        if self.rules.commit_within_reserve and self._unused() > self.reserve:
            return
        numbers = range(message.first, message.first + self.shape.numbers)
        self.db.batches[message.first] = BatchRow(
            roots=dict(zip(numbers, message.roots, strict=True)),
            bundle=message.bundle,
            audit=self.audit_of(self.db.era, message.first, message.roots),
            approved=not self.rules.approve_after_audit,
        )

    def _unused(self) -> int:
        """Return how many committed numbers the device has above its last report."""
        highest = max(self.db.settled, default=0)
        return sum(number > highest for row in self.db.batches.values() if not row.void for number in row.roots)

    def _drop_waiting(self) -> bool:
        """Tell whether the waiting batch stays. Without a stall it is dropped for the next one."""
        waiting = self._waiting()
        if self.rules.audit_stalls or waiting is None:
            return True
        self.db.batches[waiting].void = True
        return False

    def _reveal(self, message: Reveal) -> None:
        row = self.db.batches.get(message.first)
        if row is None or row.void or frozenset(number for number, _ in message.seeds) != row.audit:
            return
        if not all(row.roots[number].made_from(table, self.shape.odds) for number, table in message.seeds):
            self.db.exposed = "a revealed seed does not make the committed table"
            return
        row.approved = True
        self._challenge()

    def _report(self, message: Report) -> None:
        number = message.number
        if number in self.db.settled:
            return
        found = self._batch_of(number)
        if found is None or found.void or not found.approved or number in found.audit:
            if found is None and not self.rules.refuse_unverified:
                self.db.log.append(Entry(number, message.d, self.db.bucket))
            return
        self.db.settled.add(number)
        self.db.reports[number] = ReportRow(message.d, self.db.bucket, found.bundle)
        if not self.rules.group_at_bucket_end:
            self._challenge()

    def _batch_of(self, number: int) -> BatchRow | None:
        return next((row for row in self.db.batches.values() if number in row.roots), None)

    def early_index(self, number: int) -> int:
        """Return a challenge that does not depend on the report, where the rule is off."""
        return self.index_of(self.db.era, number, "no report")

    # Groups

    def end_bucket(self) -> None:
        """Begin the next time bucket."""
        self.db.bucket += 1
        if self.rules.mark_renewed:
            self._renew_mark()
        for group in self.unopened():
            if group.bucket < self.db.bucket - 1 and not self.rules.late_openings_count:
                self._drop(group)
            if group.bucket < self.db.bucket - 1 and not self.rules.silence_is_no_blame:
                self.db.exposed = "a challenge was not answered"
        self._challenge()

    def _challenge(self) -> None:
        """Challenge all reports of ended buckets, unless an audit or a group before them waits for the device."""
        if self.rules.audit_holds_groups and self._waiting() is not None:
            return
        for bundles in [self.bundles] if self.rules.order_across_bundles else [(bundle,) for bundle in self.bundles]:
            if self.rules.next_group_waits and any(group.bundle in bundles for group in self.unopened()):
                continue
            ended = {
                number: row
                for number, row in sorted(self.db.reports.items())
                if not row.challenged
                and row.bundle in bundles
                and (row.bucket < self.db.bucket or not self.rules.group_at_bucket_end)
            }
            if ended:
                self._form_group(ended)

    def _form_group(self, reports: dict[int, ReportRow]) -> None:
        what = tuple((number, self._root(number), row.d) for number, row in reports.items())
        challenge = {
            number: self.index_of(self.db.era, number, what)
            if self.rules.challenge_after_report
            else self.early_index(number)
            for number in reports
        }
        for row in reports.values():
            row.challenged = True
        bundle = max(row.bundle for row in reports.values())
        self.db.groups.append(Group(challenge, bundle, self.db.bucket))

    def _root(self, number: int) -> Root:
        batch = self._batch_of(number)
        assert batch is not None
        return batch.roots[number]

    def _open(self, message: Open) -> None:
        group = next((group for group in self.unopened() if message.number in group.challenge), None)
        if group is None or message.number in group.opened:
            return
        number = message.number
        right_place = message.position == group.challenge[number] or not self.rules.position_fixed
        if not (right_place and self._root(number).opens(message.position, message.outcome)):
            if self.rules.wrong_opening_exposes:
                self.db.exposed = "an opening does not lead to the committed root"
            else:
                group.challenge.pop(number)
                self.db.reports.pop(number)
        else:
            group.opened[number] = message.outcome
            if not self.rules.group_atomic:
                self._count(number, message.outcome)
        if group.opened.keys() == group.challenge.keys():
            self._count_group(group)

    def _count_group(self, group: Group) -> None:
        group.done = True
        if self.rules.group_atomic:
            for number, outcome in group.opened.items():
                self._count(number, outcome)
        self._challenge()

    def _count(self, number: int, outcome: int) -> None:
        row = self.db.reports.pop(number)
        bucket = row.bucket if self.rules.bucket_at_report else self.db.bucket
        kept = None if self.rules.log_keeps_symbol_only else row.d
        self.db.log.append(Entry(number, (outcome + row.d) % self.shape.odds.g, bucket, kept))

    def _drop(self, group: Group) -> None:
        group.done = True
        for number in group.challenge:
            self.db.reports.pop(number, None)

    # Operators and accidents

    @property
    def stalled(self) -> bool:
        """Whether something of the device waits for the device."""
        return self._waiting() is not None or any(self.unopened())

    def release(self) -> None:
        """Drop what the device does not answer. An operator decides this, and it is counted."""
        self.releases += 1
        for row in self.db.batches.values():
            row.void = row.void or not row.approved
        for group in self.unopened():
            self._drop(group)
        self._challenge()

    def backup(self) -> Database:
        """Return a copy of the database."""
        copy = self.db.copy()
        if self.rules.mark_renewed:
            self._renew_mark()
        return copy

    def _renew_mark(self) -> None:
        """Two equal marks that no earlier copy of the database has."""
        self.mark_beside += 1
        self.db.mark = self.mark_beside

    def restore(self, copy: Database) -> None:
        """Put a copy of the database back, as an operator does with any tool, and start."""
        self.db = copy.copy()
        if not self.rules.era_beside_database:
            return
        if self.db.era != self.era_beside or self.db.mark != self.mark_beside:
            self.new_era()

    def new_era(self) -> None:
        """Begin an era: all open batches are void, without blame, and their uncounted reports never count."""
        self.db.era = self.era_beside = max(self.db.era, self.era_beside) + 1
        for row in self.db.batches.values():
            row.void = True
        for group in self.unopened():
            group.done = True
        self.db.reports.clear()
        if self.rules.mark_renewed:
            self._renew_mark()

    # Figures

    def recount(self) -> list[Entry]:
        """Return the log as a recount makes it."""
        if self.rules.only_opened_counts:
            return list(self.db.log)
        return self.db.log + [Entry(number, row.d, row.bucket) for number, row in sorted(self.db.reports.items())]

    def flood(self, buckets: int) -> bool:
        """Tell whether the device used more numbers than its quota allows, as the flood check does."""
        highest = max(self.db.settled, default=0)
        revealed = {n for row in self.db.batches.values() for n in row.audit if n <= highest}
        used = highest - len(revealed) if self.rules.flood_counts_unrevealed else highest
        return used > buckets * self.quota

    def gaps(self) -> set[int]:
        """Return the numbers that count as missing."""
        highest = max(self.db.settled, default=0)
        missing = set(range(1, highest)) - self.db.settled
        if self.rules.revealed_are_no_gaps:
            missing -= {number for row in self.db.batches.values() if row.approved for number in row.audit}
        return missing


def mean_of_device(log: list[Entry], promised: int, rules: Rules = ALL_RULES) -> Fraction:
    """Return a device's part in the mean over devices: symbols as +1 and -1, weighted pro rata."""
    if not log:
        return Fraction(0)
    total = sum(2 * entry.symbol - 1 for entry in log)
    return Fraction(total, max(promised, len(log)) if rules.pro_rata else len(log))
