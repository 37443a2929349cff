# SPDX-License-Identifier: MIT
"""Tables of coin outcomes, commitments to them, and the messages between device and gateway (SPEC.md, sections 13.1 to 13.3).

Cryptography is abstract: a root is a handle that hides and binds, a seed is its table, a secret is a name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from coin_model.chance import Chance
from coin_model.rules import Rules

__all__ = [
    "Commit", "Message", "Odds", "Open", "Receipt", "Report", "Reveal", "Root", "Sealed", "Shape", "Table", "Tables",
    "fair_table", "opening_size", "seal",
]  # fmt: skip


@dataclass(frozen=True)
class Odds:
    """The coin of section 5: `keep` to `change`, with `g` outcomes."""

    keep: int
    change: int
    g: int = 2

    @cached_property
    def pattern(self) -> tuple[int, ...]:
        """Offsets: `keep` zeros, then `change` of every other offset."""
        return (0,) * self.keep + tuple(offset for offset in range(1, self.g) for _ in range(self.change))

    @property
    def entries(self) -> int:
        """K."""
        return len(self.pattern)


@dataclass(frozen=True)
class Shape:
    """A batch: how many numbers it has (T), how many of them are audited (a), and their coin."""

    numbers: int
    audits: int
    odds: Odds


@dataclass(frozen=True)
class Table:
    """The outcomes of a number."""

    outcomes: tuple[int, ...]
    mask: int = 0
    shift: int = 0

    def fair(self, odds: Odds) -> bool:
        """Tell whether mask and shift make these outcomes."""
        return self.outcomes == fair_table(odds, self.mask, self.shift).outcomes


def fair_table(odds: Odds, mask: int, shift: int) -> Table:
    """Return the table of section 13.1."""
    outcomes = ((mask + odds.pattern[(shift + j) % odds.entries]) % odds.g for j in range(odds.entries))
    return Table(tuple(outcomes), mask, shift)


class Tables:
    """Tables by secret and number. A fair table is drawn when it is first used."""

    def __init__(self, odds: Odds, chance: Chance) -> None:
        self._odds = odds
        self._chance = chance
        self._tables: dict[tuple[str, int], Table] = {}

    def table(self, secret: str, number: int) -> Table:
        """Return the table that a number has under a secret."""
        if (secret, number) not in self._tables:
            mask, shift = self._chance.pick(self._odds.g), self._chance.pick(self._odds.entries)
            self._tables[secret, number] = fair_table(self._odds, mask, shift)
        return self._tables[secret, number]

    def forge(self, secret: str, number: int, outcomes: tuple[int, ...]) -> None:
        """Give a number a table of any outcomes."""
        self._tables[secret, number] = Table(outcomes)


@dataclass(frozen=True)
class Root:
    """A commitment to the table of a number. Its holder can compare it, but not look into it."""

    secret: str
    number: int
    _tables: Tables = field(compare=False, repr=False)

    def opens(self, position: int, outcome: int) -> bool:
        """Check an opening."""
        outcomes = self._tables.table(self.secret, self.number).outcomes
        return position < len(outcomes) and outcomes[position] == outcome

    def made_from(self, table: Table, odds: Odds) -> bool:
        """Check a revealed seed: it makes a fair table, and this root."""
        return table == self._tables.table(self.secret, self.number) and table.fair(odds)


class Commit(NamedTuple):
    """The roots of a batch."""

    first: int
    roots: tuple[Root, ...]
    bundle: int = 1


class Reveal(NamedTuple):
    """The seeds of the audited numbers of a batch."""

    first: int
    seeds: tuple[tuple[int, Table], ...]


class Report(NamedTuple):
    """The masked answer d of a number. Without a committed number it is a report as of section 9."""

    number: int
    d: int


class Open(NamedTuple):
    """One outcome of a number's table."""

    number: int
    position: int
    outcome: int


Message = Commit | Reveal | Report | Open


class Sealed(NamedTuple):
    """A message as the network sees it: key and nonce by name, and the size."""

    key: str
    nonce: tuple[object, ...]
    size: int


def opening_size(entries: int, position: int) -> int:
    """Return the bytes of an opening (section 13.2): outcome, nonce of 13 bytes, and 16 for each sibling."""
    size, width = 14, entries
    while width > 1:
        size += 16 * (min(4, width - position // 4 * 4) - 1)
        width, position = (width + 3) // 4, position // 4
    return size


def seal(message: Report | Open, entries: int, longest: int, rules: Rules) -> Sealed:
    """Return what the network sees of a report or an opening. `longest` is the profile's largest opening."""
    if isinstance(message, Report):
        return Sealed("seal key", ("report" if rules.type_in_nonce else "", message.number), 4)
    size = longest if rules.one_size else opening_size(entries, message.position)
    key = "coin key" if rules.own_key else "seal key"
    return Sealed(key, ("opening" if rules.type_in_nonce else "", message.number), size)


class Receipt(NamedTuple):
    """The gateway's answer. Receipts are retained, and may be lost, repeated or reordered."""

    era: int
    settled: frozenset[int] = frozenset()
    approved: int = 0
    audit: tuple[int, frozenset[int]] | None = None
    challenge: tuple[tuple[int, int], ...] = ()
    """Numbers and their i. On the wire one seed c stands for all i of a challenge."""
    opened: frozenset[int] = frozenset()
    """Numbers whose openings are stored. On the wire it is a count of challenges."""
