# SPDX-License-Identifier: MIT
"""The bets once more, slow and to be read: what the kernel must reproduce, to the last bit of its states.

Python's floats are the kernel's doubles, and nothing here is done in another order than there.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from peel_gateway.mechanisms.bets import (
    FREQUENCIES,
    PREDICTIONS,
    Bets,
    Block,
    Frequencies,
    HeavyHitters,
    Predictions,
    Sets,
)

__all__ = ["Event", "Reference"]

FRACTIONS = (0.95, 0.5, 0.27, 0.14, 0.06, 0.025, 0.01, 0.003)
UNIT_FRACTIONS = FRACTIONS[::2]
WINDOWS = 4
RECENT = len(PREDICTIONS) - 1
BURN_EVERY = 64
AVOIDED = 4
KEPT = 1 - 2.0**-46
HAIR = 1 + 2.0**-46


@dataclass(frozen=True)
class Event:
    """One event of a device."""

    number: int
    unit: int
    symbol: int
    cohort: int
    kind: str
    """``fresh``, ``tardy`` or ``gap``."""


def put_in(n: int) -> float:
    """Return the part of the capital of 1 that is added at toss n."""
    b = n.bit_length() - 1
    return 1.0 / (2.0**b * ((b + 1) * (b + 2)))


def cut(value: float) -> float:
    """The largest float of 32 bits that is not above a positive value."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", min(value, 2.0**100)))
    (result,) = struct.unpack("<d", struct.pack("<Q", bits & ~0x1FFFFFFF))
    return float(result)


def in_order(values: list[float]) -> float:
    """Their sum from left to right (the built-in sum may be more exact, depending on the version)."""
    total = 0.0
    for value in values:
        total += value
    return total


@dataclass
class Capital:
    """One bet's capital, and its counts since it was last below the bound of an honest device."""

    fractions: tuple[float, ...] = FRACTIONS
    held: list[float] = field(default_factory=list)
    since: int = 0
    trials: int = 0
    events: int = 0

    def __post_init__(self) -> None:
        self.held = [0.0] * len(self.fractions)

    def play(
        self,
        stake: float,
        right: bool | None,
        bound: float,
        now: int,
        *,
        some: float = 1.0,
        most_trials: int = 2**32,
    ) -> float:
        """Put stake in, and bet some of what the fractions are; `right` is None where no bet is made."""
        if right is not None and self.trials < most_trials:
            if self.events < bound * self.trials or not self.trials:
                self.since, self.trials, self.events = now, 0, 0
            self.trials += 1
            self.events += right
        pays = 0.0
        if right is not None and bound < 1:
            pays = some * ((1 - bound) / bound if right else -1.0)
        each = stake / len(self.fractions)
        self.held = [
            cut((value + each) * (1 + c * pays) * KEPT) for value, c in zip(self.held, self.fractions, strict=True)
        ]
        return self.total

    @property
    def total(self) -> float:
        return in_order(self.held)

    def pack(self, order: str = "<") -> bytes:
        return struct.pack(f"{order}III{len(self.held)}f", self.since, self.trials, self.events, *self.held)


def outdated(windows: list[list[Capital]]) -> int:
    """Return the window to restart: never the one with the most capital; of the others, the poorest at the larger fractions."""
    capital = [in_order([bet.total for bet in bets]) for bets in windows]
    lately = [in_order([in_order(bet.held[:5]) for bet in bets]) for bets in windows]
    others = [i for i in range(len(windows)) if i != capital.index(max(capital))]
    return min(others, key=lambda i: lately[i])


class PredictionsPart:
    """Bets on the symbol that a report says about its unit."""

    def __init__(self, predictions: Predictions) -> None:
        self.predictions = predictions
        self.clock = 0
        self.bets = [Capital() for _ in range(RECENT + WINDOWS)]
        alone = predictions.units if predictions.unit_capital else 0
        self.units = [(Capital(UNIT_FRACTIONS), Capital(UNIT_FRACTIONS)) for _ in range(alone)]
        """Of each unit: the bets on minus and on plus."""
        self.past, *self.windows = [[0] * predictions.units for _ in range(1 + WINDOWS)]

    def leader(self, cell: int) -> int | None:
        return None if cell < self.predictions.symbols else cell % self.predictions.symbols

    def vote(self, cell: int, symbol: int, limit: int) -> int:
        symbols = self.predictions.symbols
        if cell < symbols:
            return symbols + symbol
        if cell % symbols != symbol:
            return cell - symbols
        return cell + symbols if cell // symbols < limit else cell

    def predicted(self, unit: int, cohort: int) -> Iterator[int | None]:
        past = self.leader(self.past[unit])
        yield 1
        yield 0
        yield None if cohort == 0 else int(cohort > 0)
        yield None if cohort == 0 else int(cohort < 0)
        yield past
        yield None if past is None else int(not past)
        for window in self.windows:
            yield self.leader(window[unit])

    def play(self, event: Event, now: int) -> tuple[float, float]:
        predictions = self.predictions
        self.clock += 1
        share = put_in(self.clock)
        pooled = 0.0
        for i, symbol in enumerate(self.predicted(event.unit, event.cohort)):
            capital = predictions.capital.get(PREDICTIONS[min(i, RECENT)].name, 0.0)
            right = None if symbol is None else symbol == event.symbol
            pooled += self.bets[i].play(share * capital, right, predictions.most, now) if capital else 0.0
        alone = 0.0
        for sign, bet in enumerate(self.units[event.unit] if predictions.unit_capital else ()):
            stake = share * predictions.unit_capital / 2
            alone += bet.play(stake, event.symbol == sign, predictions.most, now, most_trials=0xFFFF)
        for cells in (self.past, *self.windows):
            cells[event.unit] = self.vote(cells[event.unit], event.symbol, 256 // predictions.symbols - 1)
        if self.clock % BURN_EVERY == 0:
            self.windows[outdated([[bet] for bet in self.bets[RECENT:]])] = [0] * predictions.units
        return pooled, alone

    def pack(self, order: str = "<") -> bytes:
        units = [bet for pair in self.units for bet in pair]
        runs = [struct.pack(f"{order}IHH", each.since, each.trials, each.events) for each in units]
        capitals = [struct.pack(f"{order}4f", *each.held) for each in units]
        cells = [bytes(each) for each in (self.past, *self.windows)]
        return b"".join(
            [
                struct.pack(f"{order}II", self.clock, 0),
                *(bet.pack(order) for bet in self.bets),
                *runs,
                *capitals,
                *cells,
            ]
        )


class SetsPart:
    """Bets that an item is among those that came most often."""

    def __init__(self, sets: Sets) -> None:
        self.sets = sets
        self.clock = 0
        self.counts = [[0] * sets.items for _ in range(1 + sets.capital.windows)]
        sizes = [(*sets.few, *sets.many)] + [sets.few] * sets.capital.windows
        self.bets = [[(size, Capital()) for size in each] for each in sizes]

    def bound(self, predicted: list[int]) -> float:
        """Return the bound on the probability that the next item is among those predicted."""
        sets, size = self.sets, len(predicted)
        if not sets.weights:
            return (sets.most + (size - 1) * sets.least) * HAIR
        return (sum(sets.weights[item] for item in predicted) * sets.most + size * sets.least) * HAIR

    def play_memory(self, memory: int, stake: float, item: int, now: int) -> float:
        counts, bets = self.counts[memory], self.bets[memory]
        ranking = sorted(range(len(counts)), key=lambda i: (-counts[i], i))
        shown = sum(count > 0 for count in counts)
        held = 0.0
        for wanted, bet in bets:
            size = min(wanted, shown) if wanted in self.sets.few or shown == 0 else wanted
            right = item in ranking[:size] if size else None
            bound = self.bound(ranking[:size]) if size else 1.0
            held += bet.play(stake / len(bets), right, bound, now)
        return held

    def play(self, item: int, now: int) -> float:
        self.clock += 1
        share = put_in(self.clock)
        capital = [self.sets.capital.past] + [self.sets.capital.window] * self.sets.capital.windows
        held = [self.play_memory(memory, share * part, item, now) for memory, part in enumerate(capital)]
        for memory, counts in enumerate(self.counts):
            if counts[item] == (0xFFFF if memory == 0 else 0xFF):
                counts[:] = [count // 2 for count in counts]
            counts[item] += 1
        if self.sets.capital.windows and self.clock % BURN_EVERY == 0:
            old = outdated([[bet for _, bet in bets] for bets in self.bets[1:]])
            self.counts[1 + old] = [0] * self.sets.items
        return in_order(held)

    def pack(self, order: str = "<") -> bytes:
        past, *windows = self.counts
        bets = b"".join(bet.pack(order) for memory in self.bets for _, bet in memory)
        return (
            struct.pack(f"{order}I", self.clock)
            + bets
            + struct.pack(f"{order}{len(past)}H", *past)
            + b"".join(map(bytes, windows))
        )


def hashed(hash_: int, category: int, symbols: int, digits: int) -> int:
    """h_a(v), the inner product of digits: those of the hash from the most significant (SPEC section 6.3)."""
    powers = [int(symbols**i) for i in range(digits)]
    of_hash = [hash_ // power % symbols for power in reversed(powers)]
    of_category = [category // power % symbols for power in powers]
    return sum(a * v for a, v in zip(of_hash, of_category, strict=True)) % symbols


def elected(symbols: list[int]) -> int | None:
    """Return the symbol that comes most often; None if there is no such one."""
    votes = Counter(symbols).most_common(2)
    tied = not votes or (len(votes) == 2 and votes[0][1] == votes[1][1])
    return None if tied else votes[0][0]


class HeavyHittersPart:
    """Bets that a report supports one of the categories that the last reports support most, or not one that they support least."""

    def __init__(self, heavy_hitters: HeavyHitters) -> None:
        self.heavy_hitters = heavy_hitters
        self.clock = 0
        self.reports: list[tuple[int, int]] = []
        self.lists: list[list[int]] = [[] for _ in range(WINDOWS)]
        self.bets = [[Capital() for _ in (*heavy_hitters.sizes, *heavy_hitters.votes)] for _ in range(WINDOWS)]
        self.avoided: list[list[int]] = [[] for _ in range(WINDOWS)]
        self.avoided_bets = [[Capital() for _ in heavy_hitters.vetoes] for _ in range(WINDOWS)]

    def hash_of(self, hash_: int, category: int) -> int:
        return hashed(hash_, category, self.heavy_hitters.symbols, self.heavy_hitters.digits)

    def predictions(self, which: int, unit: int) -> Iterator[tuple[set[int], float]]:
        """Symbols that are bet on, and the bound; none for no bet."""
        said = [self.hash_of(unit, category) for category in self.lists[which]]
        for size in self.heavy_hitters.sizes:
            symbols = set(said[:size])
            yield (
                symbols,
                (self.heavy_hitters.most + (len(symbols) - 1) * self.heavy_hitters.least) * HAIR if symbols else 1.0,
            )
        for size in self.heavy_hitters.votes:
            winner = elected(said[:size])
            yield (set() if winner is None else {winner}), self.heavy_hitters.most

    def play_list(self, which: int, stake: float, event: Event, now: int) -> float:
        held = 0.0
        for bet, (symbols, bound) in zip(self.bets[which], self.predictions(which, event.unit), strict=True):
            right = event.symbol in symbols if symbols else None
            held += bet.play(stake / len(self.bets[which]), right, bound, now)
        return held

    def play_avoided(self, which: int, stake: float, event: Event, now: int) -> float:
        said = [self.hash_of(event.unit, category) for category in self.avoided[which]]
        bound, held = (1 - self.heavy_hitters.least) * HAIR, 0.0
        for bet, size in zip(self.avoided_bets[which], self.heavy_hitters.vetoes, strict=True):
            loser = elected(said[:size])
            right = None if loser is None else event.symbol != loser
            held += bet.play(stake / len(self.heavy_hitters.vetoes), right, bound, now)
        return held

    def play(self, event: Event, now: int) -> float:
        self.clock += 1
        share = put_in(self.clock)
        held = [
            self.play_list(which, share * self.heavy_hitters.capital.window, event, now) for which in range(WINDOWS)
        ]
        held += [
            self.play_avoided(which, share * self.heavy_hitters.avoided_capital.window, event, now)
            for which in range(WINDOWS)
        ]
        self.reports = [*self.reports[-255:], (event.unit, event.symbol)]
        if self.clock % BURN_EVERY == 0:
            window = self.reports if self.clock % 256 == 0 else self.reports[-BURN_EVERY:]
            support = [
                sum(self.hash_of(hash_, category) == symbol for hash_, symbol in window)
                for category in range(self.heavy_hitters.categories)
            ]
            ranking = sorted(range(len(support)), key=lambda category: (-support[category], category))
            self.lists[outdated(self.bets)] = ranking[:16]
            ranking = sorted(range(len(support)), key=lambda category: (support[category], category))
            self.avoided[outdated(self.avoided_bets)] = ranking[:AVOIDED]
        return in_order(held)

    def pack(self, order: str = "<") -> bytes:
        kept = 256
        ring = [(0, 0)] * kept
        for back, report in enumerate(reversed(self.reports)):
            ring[(self.clock - 1 - back) % kept] = report
        parts = [struct.pack(f"{order}I", self.clock), *(bet.pack(order) for each in self.bets for bet in each)]
        parts.append(struct.pack(f"{order}{kept}I", *(hash_ for hash_, _ in ring)))
        parts += [struct.pack(f"{order}16H", *each, *[0] * (16 - len(each))) for each in self.lists]
        parts += [bet.pack(order) for each in self.avoided_bets for bet in each]
        parts += [struct.pack(f"{order}4H", *each, *[0] * (AVOIDED - len(each))) for each in self.avoided]
        parts += [bytes(map(len, self.lists)), bytes(map(len, self.avoided)), bytes(symbol for _, symbol in ring)]
        return b"".join(parts)


class FrequenciesPart:
    """Bets that a report says what its unit's last reports said most, or not what they said least, where they did so beyond the bound."""

    def __init__(self, frequencies: Frequencies) -> None:
        self.frequencies = frequencies
        self.clock = 0
        self.bets = [Capital(), Capital()]
        self.counts = [[0] * frequencies.symbols for _ in range(frequencies.units)]

    def play(self, event: Event, now: int) -> float:
        counts, said = self.counts[event.unit], sum(self.counts[event.unit])
        self.clock += 1
        ranking = sorted(range(len(counts)), key=lambda symbol: (-counts[symbol], symbol))
        bounds = (self.frequencies.most * HAIR, (1 - self.frequencies.least) * HAIR)
        held = []
        for row, bet, bound, symbols in zip(FREQUENCIES, self.bets, bounds, (ranking[:1], ranking[:-1]), strict=True):
            capital = self.frequencies.capital.get(row.name, 0.0)
            if not capital:
                continue
            beyond = sum(counts[symbol] for symbol in symbols) - bound * said
            right = event.symbol in symbols if beyond > 0 else None
            risked = beyond / ((said + 16) * (1 - bound)) if beyond > 0 else 1.0
            held.append(bet.play(put_in(self.clock) * capital, right, bound, now, some=risked))
        if counts[event.symbol] == self.frequencies.full:
            counts[:] = [count // 2 for count in counts]
        counts[event.symbol] += 1
        return in_order(held)

    def pack(self, order: str = "<") -> bytes:
        return b"".join(
            [
                struct.pack(f"{order}I", self.clock),
                *(bet.pack(order) for bet in self.bets),
                *(bytes(each) for each in self.counts),
            ]
        )


class BlockPart:
    """Bets on what reports say about the units of one block; events come with the block's own units."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.predictions = PredictionsPart(block.predictions) if block.predictions else None
        self.symbol_sets = SetsPart(block.symbol_sets) if block.symbol_sets else None
        self.heavy_hitters = HeavyHittersPart(block.heavy_hitters) if block.heavy_hitters else None
        counted = (block.frequencies, block.lasting_frequencies)
        self.frequencies = [FrequenciesPart(each) for each in counted if each]
        self.held = dict.fromkeys(("predictions", "symbol_sets", "heavy hitters", "frequencies"), 0.0)

    def question(self, unit: int) -> int:
        return self.block.first_question + (unit if self.block.questions == self.block.units else 0)

    def play(self, event: Event, now: int) -> float:
        """The capital of the bet on the event's unit alone."""
        unit = 0.0
        if self.symbol_sets:
            self.held["symbol_sets"] = self.symbol_sets.play(event.symbol, now)
        if self.heavy_hitters:
            self.held["heavy hitters"] = self.heavy_hitters.play(event, now)
        if self.frequencies:
            self.held["frequencies"] = in_order([part.play(event, now) for part in self.frequencies])
        if self.predictions:
            self.held["predictions"], unit = self.predictions.play(event, now)
        return unit

    def pack(self, order: str = "<") -> list[bytes]:
        parts = (self.predictions, self.symbol_sets, self.heavy_hitters, *self.frequencies)
        return [part.pack(order) for part in parts if part]


class Reference:
    """One device."""

    def __init__(self, bets: Bets) -> None:
        self.parameters = bets
        self.first = 0
        self.blocks = [BlockPart(block) for block in bets.blocks]
        self.sets = {name: SetsPart(sets) for name, sets in bets.assignment().items()}
        self.held = dict.fromkeys(("unit", "reports", "gaps", "late"), 0.0)

    def block_of(self, unit: int) -> BlockPart:
        return next(each for each in reversed(self.blocks) if each.block.first_unit <= unit)

    def play(self, event: Event) -> float:
        """The capital after an event, as it is compared with 1/alpha."""
        self.first = self.first or event.number
        now = min(max(event.number - self.first, 0), 2**32 - 1)
        block = self.block_of(event.unit)
        local = replace(event, unit=event.unit - block.block.first_unit)
        name = {"fresh": "reports", "tardy": "late", "gap": "gaps"}[event.kind]
        if name in self.sets:
            self.held[name] = self.sets[name].play(block.question(local.unit), now)
        self.held["unit"] = 0.0 if event.kind == "gap" else block.play(local, now)
        return self.capital()

    def capital(self) -> float:
        blocks = in_order([in_order(list(block.held.values())) for block in self.blocks])
        punctual = in_order([blocks, self.held["unit"], self.held["reports"], self.held["gaps"]])
        return max(punctual * (1.0 - self.parameters.late_share), self.held["late"] * self.parameters.late_share)

    def pack(self, order: str = "<") -> bytes:
        """The kernel's record, on a little-endian machine, or with ``>`` on a big-endian one."""
        parts = [struct.pack(f"{order}Q4d", self.first, *self.held.values())]
        parts += [struct.pack(f"{order}4d", *block.held.values()) for block in self.blocks]
        parts += [part for block in self.blocks for part in block.pack(order)]
        parts += [part.pack(order) for part in self.sets.values()]
        return b"".join(part + bytes(-len(part) % 8) for part in parts)
