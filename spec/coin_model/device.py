# SPDX-License-Identifier: MIT
"""The device of section 13.4: everything that it must remember is on flash, and each write may be its last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from coin_model.chance import Chance
from coin_model.rules import ALL_RULES, Rules
from coin_model.tables import Commit, Message, Open, Receipt, Report, Reveal, Root, Shape, Table, Tables

__all__ = ["DAMAGED", "Batch", "Device", "Flash", "PowerCutError"]

DAMAGED = "damaged"
Key = tuple[str, int]


class PowerCutError(Exception):
    """The device lost power before a write."""


class Flash:
    """Records that survive a power cut. A write is atomic."""

    def __init__(self) -> None:
        self.records: dict[Key, object] = {}
        self.cut_before: int | None = None
        """Cut the power before this write, counted from 0."""

    def write(self, key: Key, value: object) -> None:
        """Write a record, or lose power."""
        if self.cut_before is not None:
            if self.cut_before == 0:
                raise PowerCutError
            self.cut_before -= 1
        self.records[key] = value

    def read(self, key: Key) -> object:
        """Return a record, None if it was never written."""
        return self.records.get(key)


class Batch(NamedTuple):
    """The stored secret and roots of a batch. A closed batch is used for nothing any more, and its secret is empty."""

    secret: str
    roots: tuple[Root, ...]
    closed: bool = False


class Device:
    """A device with one verified question. `sent` has all messages that it ever sent."""

    def __init__(
        self, shape: Shape, chance: Chance, rules: Rules = ALL_RULES, *, last_number: int | None = None
    ) -> None:
        self.shape = shape
        self.rules = rules
        self.tables = Tables(shape.odds, chance)
        self.flash = Flash()
        self.last_number = last_number
        """The lifetime: the bundle's last number. It allows for exactly `a` audits per batch."""
        self.sent: list[Message] = []
        self.again: list[int] = []
        """Answers of void reports that are reported again, where a test allows it."""
        self._made = 0

    # What is on flash

    def batches(self) -> Iterator[tuple[int, Batch]]:
        """Yield the readable batches in order, with their first numbers."""
        for key, value in sorted(self.flash.records.items()):
            if key[0] == "batch" and isinstance(value, Batch):
                yield key[1], value

    def first_of(self, number: int) -> int:
        """Return the first number of a number's batch."""
        return (number - 1) // self.shape.numbers * self.shape.numbers + 1

    def numbers_of(self, first: int) -> range:
        """Return the numbers of a batch."""
        return range(first, first + self.shape.numbers)

    def damaged(self, first: int) -> bool:
        """Tell whether a record of a batch is damaged."""
        if DAMAGED not in self.flash.records.values():
            return False
        keys = [("batch", first), ("audit", first)]
        keys += [(kind, number) for number in self.numbers_of(first) for kind in ("report", "answer", "given up")]
        return any(self.flash.read(key) == DAMAGED for key in keys)

    def usable(self, first: int) -> Batch | None:
        """Return a batch that is neither damaged nor closed."""
        batch = self.flash.read(("batch", first))
        if self.rules.damage_voids and self.damaged(first):
            return None
        return batch if isinstance(batch, Batch) and not batch.closed else None

    def audit_of(self, first: int) -> tuple[int, frozenset[int]] | None:
        """Return the stored era and audit of a batch."""
        stored = self.flash.read(("audit", first))
        return stored if isinstance(stored, tuple) else None

    def newest_era(self) -> int:
        """Return the highest era of a receipt, 0 before the first."""
        stored = self.flash.read(("era", 0))
        return stored if isinstance(stored, int) else 0

    def answered(self, number: int) -> int | None:
        """Return the challenge that was answered for a number."""
        stored = self.flash.read(("answer", number))
        return stored if isinstance(stored, int) else None

    def reported(self, number: int) -> int | None:
        """Return the stored masked answer of a number."""
        stored = self.flash.read(("report", number))
        return stored if isinstance(stored, int) else None

    def waiting(self) -> int | None:
        """Return the first number of a usable batch that waits for its audit."""
        return next((first for first, _ in self.batches() if self.usable(first) and self.audit_of(first) is None), None)

    def free_numbers(self) -> list[int]:
        """Return the numbers that may have a report, ascending."""
        found = []
        for first, _ in self.batches():
            audit = self.audit_of(first)
            if self.usable(first) is None or (audit is None and self.rules.report_after_audit):
                continue
            revealed = audit[1] if audit and self.rules.report_unrevealed else frozenset()
            found += [
                number
                for number in self.numbers_of(first)
                if number not in revealed
                and self.flash.read(("report", number)) is None
                and self.flash.read(("given up", number)) is None
            ]
        return [number for number in found if self.last_number is None or number <= self.last_number]

    # What it does

    def boot(self) -> None:
        """Start after a power cut, and overwrite the secrets of damaged batches."""
        for kind, first in list(self.flash.records):
            if kind == "batch" and self.rules.damage_voids and self.damaged(first):
                batch = self.flash.read(("batch", first))
                if not (isinstance(batch, Batch) and batch.closed):
                    self.flash.write(("batch", first), Batch("", (), closed=True))

    def commit(self) -> int | None:
        """Make a batch and commit to it. Return its first number, None if another batch waits."""
        if self.rules.device_one_batch_waits and self.waiting() is not None:
            return None
        known = self.flash.read(("next", 0)) if self.rules.no_second_secret else None
        if known == DAMAGED:  # only a fresh bundle has numbers that were surely never committed
            return None
        first = known if isinstance(known, int) else self._next_unwritten()
        self._made += 1
        secret = f"secret {self._made}" if self.rules.secret_per_batch else "lasting secret"
        batch = Batch(secret, tuple(Root(secret, number, self.tables) for number in self.numbers_of(first)))
        self.flash.write(("next", 0), first + self.shape.numbers)
        if not self.rules.secret_stored_first:
            self.sent.append(Commit(first, batch.roots))
        self.flash.write(("batch", first), batch)
        if self.rules.secret_stored_first:
            self.sent.append(Commit(first, batch.roots))
        return first

    def _next_unwritten(self) -> int:
        """Return the first number after the batches that are readable, and forget what was stored about it."""
        first = max((first + self.shape.numbers for first, batch in self.batches() if batch.roots), default=1)
        for key in [("audit", first), *((kind, n) for n in self.numbers_of(first) for kind in ("report", "answer"))]:
            self.flash.records.pop(key, None)
        return first

    def report(self, answer: int) -> int | None:
        """Report an answer under the lowest free number. Return the number, None if no number is free."""
        number = next(iter(self.free_numbers()), None)
        if number is None:
            return None
        d = (answer - self._table(number).mask) % self.shape.odds.g
        self.flash.write(("report", number), d)
        self.sent.append(Report(number, d))
        return number

    def give_up(self, number: int) -> None:
        """Skip a number for good."""
        self.flash.write(("given up", number), True)
        self._close_done(frozenset())

    def receive(self, receipt: Receipt) -> None:
        """Act on a receipt."""
        if self.rules.old_era_ignored and receipt.era < self.newest_era():
            return
        if receipt.era != self.newest_era():
            self.flash.write(("era", 0), receipt.era)
        self._void_other_eras(receipt)
        if receipt.audit is not None:
            self._audit(receipt.era, *receipt.audit)
        if receipt.challenge:
            self._challenge(dict(receipt.challenge))
        self._close_done(receipt.opened)

    def resend(self, receipt: Receipt | None = None) -> None:
        """Send everything again that this receipt does not confirm, as after a restart."""
        seen = receipt or Receipt(era=0)
        for first, batch in self.batches():
            if self.usable(first) is None:
                continue
            audit = self.audit_of(first)
            if audit is None:
                self.sent.append(Commit(first, batch.roots))
            elif seen.approved < first:
                self._reveal(first, audit[1])
            for number in self.numbers_of(first):
                d, i = self.reported(number), self.answered(number)
                if d is not None and number not in seen.settled:
                    self.sent.append(Report(number, d))
                if i is not None and number not in seen.opened and self._checked(first, [number]):
                    self.sent.append(Open(number, i, self._table(number).outcomes[i]))

    def dump(self) -> set[str]:
        """Return all secrets on flash."""
        return {batch.secret for _, batch in self.batches() if batch.secret}

    def _audit(self, era: int, first: int, numbers: frozenset[int]) -> None:
        """Rule 3: one audit per batch, of exactly `a` numbers."""
        if self.usable(first) is None or not numbers <= set(self.numbers_of(first)):
            return
        if self.rules.audit_size and len(numbers) != self.shape.audits:
            return
        stored = self.audit_of(first)
        if stored is not None and stored[1] != numbers and self.rules.one_audit:
            return
        if stored == (era, numbers):
            self._reveal(first, numbers)
            return
        if not self.rules.audit_stored_first:
            self._reveal(first, numbers)
        self.flash.write(("audit", first), (era, numbers))
        if self.rules.audit_stored_first:
            self._reveal(first, numbers)

    def _reveal(self, first: int, numbers: frozenset[int]) -> None:
        if self._checked(first, sorted(numbers)):
            self.sent.append(Reveal(first, tuple((number, self._table(number)) for number in sorted(numbers))))

    def _challenge(self, challenge: dict[int, int]) -> None:
        """Rule 5: all of a challenge or nothing."""
        if not all(self._may_answer(number, i) for number, i in challenge.items()):
            return
        if self.rules.answer_stored_first:
            self._store_answers(challenge)
        for number, i in challenge.items():
            if self._checked(self.first_of(number), [number]):
                self.sent.append(Open(number, i, self._table(number).outcomes[i]))
        if not self.rules.answer_stored_first:
            self._store_answers(challenge)
        if not self.rules.secret_kept_until_confirmed:
            self._close_done(frozenset(challenge))

    def _may_answer(self, number: int, i: int) -> bool:
        if self.usable(self.first_of(number)) is None:
            return False
        if self.reported(number) is None and self.rules.challenge_reported:
            return False
        return self.answered(number) in (None, i) or not self.rules.one_answer

    def _store_answers(self, challenge: dict[int, int]) -> None:
        for number, i in challenge.items():
            if self.answered(number) != i:
                self.flash.write(("answer", number), i)

    def _close_done(self, opened: frozenset[int]) -> None:
        """Rule 1: close a batch when its last number is opened or given up."""
        for first, batch in list(self.batches()):
            audit = self.audit_of(first)
            if audit is None or self.usable(first) is None:
                continue
            left = set(self.numbers_of(first)) - audit[1]
            left -= {number for number in opened if self.answered(number) is not None}
            if not [number for number in left if not self.flash.read(("given up", number))]:
                self._close(first, batch)

    def _close(self, first: int, batch: Batch) -> None:
        """Overwrite the secret, in one write with the mark that the batch is closed."""
        erased = self.rules.secret_erased and self.rules.secret_per_batch
        self.flash.write(("batch", first), batch._replace(secret="" if erased else batch.secret, closed=True))

    def _void_other_eras(self, receipt: Receipt) -> None:
        """Rule 7, and the word of a gateway that it dropped a batch before its audit."""
        for first, _ in list(self.batches()):
            audit = self.audit_of(first)
            if self.usable(first) is None:
                continue
            if audit is None and first <= receipt.approved:
                self._void(first)
            if audit is not None and audit[0] != receipt.era and self.rules.device_era_voids:
                self._void(first)

    def _void(self, first: int) -> None:
        batch = self.usable(first)
        if batch is None:
            return
        if not self.rules.void_is_lost:
            reports = [(number, self.reported(number)) for number in self.numbers_of(first)]
            self.again += [(d + self._table(n).mask) % self.shape.odds.g for n, d in reports if d is not None]
        self._close(first, batch)

    def _table(self, number: int) -> Table:
        batch = self.flash.read(("batch", self.first_of(number)))
        assert isinstance(batch, Batch)
        return self.tables.table(batch.secret, number)

    def _checked(self, first: int, numbers: list[int]) -> bool:
        """Rule 9: roots that the secret makes are the stored ones, or the batch is void."""
        batch = self.flash.read(("batch", first))
        assert isinstance(batch, Batch)
        rotten = any(batch.roots[number - first] != Root(batch.secret, number, self.tables) for number in numbers)
        if rotten and self.rules.check_before_send:
            self._void(first)
            return False
        return True
