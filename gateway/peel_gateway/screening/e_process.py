# SPDX-License-Identifier: MIT
"""The statistics layer: bets that begin anew at every toss, and that learn from the device's own past.

**A bet.** Before a report is looked at, something is predicted about it that an honest device makes come true with probability at
most b, whatever its readings and whatever happened before: that its sign is the one that this device has shown for the attribute, that
its category is among the eight that it has shown most. The bet pays ``x = (1 - b)/b`` per unit risked if it comes true and ``x = -1`` if
not, so ``E[x] <= 0``. A fraction c of what the bet holds is risked (0.95, 0.5, ... 0.003: each is best against another bias) ::

    V  <-  (V + w_n) (1 + c x)                n = 1, 2, ... counts the tosses

The w_n are positive and add up to the bet's capital (`put_in` in the kernel: about 1/(n log2(n)^2)), so a part of the capital begins at
*every* toss. Capital spent on honest reports is gone; capital that begins now has lost nothing. A device that turns after 100,000 reports
is found as surely as a newcomer, for log(1/w_n), some 17 nats, more.

**Why no honest device is exposed**, ever, with probability more than alpha. Let F be all that was judged before an event, of all devices,
and the event's unit. For a bet and a fraction let ``A = V + w_{n+1} + w_{n+2} + ...``: what it holds, and what is not put in yet. Then ::

    E[A_n | F] = (V + w_n)(1 + c E[x | F]) + w_{n+1} + ...  <=  V + w_n + w_{n+1} + ... = A_{n-1}

because stake and prediction are functions of F. So A is a non-negative supermartingale; so is the sum W of all A, over fractions, bets
and units; and W_0 is the sum of all capital, at most 1. By Ville's inequality W ever reaches 1/alpha with probability at most alpha
(Ville 1939; as a test: Shafer 2021; with new beginnings: Shin, Ramdas and Rinaldo 2022). What is compared with 1/alpha is never more
than W: capital that is not put in yet is left out, of the bets on single units only that on the event's unit counts, and all rounding
is down. Nothing is needed of readings, losses, duplicates or the order of arrival, except that b is right:

- *Faces.* A coin tossed by the rule shows a given symbol with probability at most p (Harmony: u), given all before it and its unit. The
  seal hides the symbol, so nobody can delay or drop a report because of it.
- *Sets of symbols.* One of a given a symbols comes with probability at most ``p + (a - 1) q``: the true one may be among them, and
  any other comes with probability q.
- *Sets of units.* The number of a report assigns its unit, by a PRF that the network does not know. Given the units of other numbers it
  is uniform up to rounding: one of a given a units comes with probability at most ``a (1/k + 2^-32)``. Each number is judged once, as
  a report or as a gap.
- *Late reports* were judged as gaps before, so their units are no news beside those. They are a process of their own, which remembers
  late reports alone. The two processes share alpha; a device is exposed by either.
- *Shares.* Under one unit, a given symbol comes with probability at most p, and any but a given one with at most ``1 - q``. It is bet on
  where the unit's last reports did so more often, and the fraction is the smaller the less they did: functions of F, again.
- *One unit.* At toss n, w_n goes to the purse of the unit that the toss is about. Given the unit, the others do not change.

**Memories.** Predictions come from the whole past of a device, and from four *restart windows* (`notebooks`). Every 64 tosses one of
the poorer windows is restarted. A window that predicts a device well grows rich and stays. So whenever a device turns, there soon is a
window that began after it turned, is not confused by the device's former behaviour, and lasts. (Forgetting at a fixed rate does worse: a
memory that is long enough for 252 attributes is slow to notice that they have turned.)

**Since when.** Each bet counts from the report number since which it has been right more often than an honest device may make it. That is
the evidence of an exposure.

The arithmetic is in C (`gateway/kernels/`). The state of a device is one flat record, and depends on its events and their order alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_gateway._kernels import ffi, lib
from peel_gateway.mechanisms.base import Face, Faces, Game, HeavyHitters, Sets, Shares

__all__ = ["FRESH", "GAP", "TARDY", "Bet", "DamagedTestState", "EProcess", "Events", "in_words"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

FRESH, TARDY, GAP = int(lib.PEEL_BETS_FRESH), int(lib.PEEL_BETS_TARDY), int(lib.PEEL_BETS_GAP)
"""Kinds of events: a report, a report whose number had been settled as missing, a number that was settled as missing."""

_ROUNDING = 2.0**-30
"""The sums that are compared with 1/alpha are off by far less than this, relatively."""


class DamagedTestState(ValueError):  # noqa: N818 - the name says what is wrong with them
    """Events or states that the game has not: no layer lets such a report through, so what is stored is damaged."""


@dataclass(frozen=True, kw_only=True)
class Events:
    """Events, one entry each; those of one device in the order of judgement. Integer arrays of one shape (E,)."""

    row: npt.NDArray[Any]
    """Row of the device's state."""
    number: npt.NDArray[Any]
    """Number of the report, or the one that is missing."""
    unit: npt.NDArray[Any]
    """Attribute or hash; 0 where there is only one."""
    symbol: npt.NDArray[Any]
    """1 for plus, 0 for minus; or the symbol or category. Not used for gaps."""
    cohort: npt.NDArray[Any]
    """The cohort's sign before the batch: -1, 0, +1."""
    kind: npt.NDArray[Any]
    """`FRESH`, `TARDY` or `GAP`."""

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, kw_only=True)
class Bet:
    """A bet, and how it has gone since it has been ahead: the evidence of an exposure."""

    name: str
    index: int | None = None
    """Attribute, for a bet on one alone."""
    among: tuple[int, ...] = ()
    """The set, for a bet on one: those that came too often, or too seldom."""
    events: int
    """The number of times that the bet was right."""
    trials: int
    bound: float
    """An honest device makes it right with at most this probability, each time."""
    since: int
    """From this report number on."""


class EProcess:
    """The e-process of a profile's devices: all bets, their capital and their states.

    Parameters
    ----------
    game : Game
        What is bet on, and with which capital.
    alpha : float
        Largest probability of ever exposing an honest device.
    """

    def __init__(self, game: Game, alpha: float) -> None:
        self.game, self.alpha = game, alpha
        _check(game, alpha)
        self._game = ffi.new("peel_bets_game *")
        if game.faces is not None:
            _fill_faces(self._game.faces, game.faces)
        for name in _SETS:
            sets = getattr(game, name)
            if sets is not None:
                _fill_sets(getattr(self._game, name), sets)
        if game.heavy_hitters is not None:
            _fill_heavy_hitters(self._game.candidates, game.heavy_hitters)
        if game.shares is not None:
            _fill_shares(self._game.shares, game.shares)
        self._game.late_share = game.late_share
        self._game.limit = (1 + _ROUNDING) / alpha
        self.state_bytes = int(lib.peel_bets_lay_out(self._game))
        """Size of a device's record."""
        self._scratch = ffi.new("uint64_t[]", self.state_bytes // 8)

    def new_states(self, rows: int) -> Bytes:
        """States of devices that have said nothing, uint8[rows, state_bytes]."""
        return np.zeros((rows, self.state_bytes), np.uint8)

    def update(self, states: Bytes, events: Events, places: Ints | None = None) -> Ints:
        """Play events on states, in place, without the GIL.

        Parameters
        ----------
        states : uint8, shape (S, state_bytes), contiguous
        events : Events
        places : int64, shape (R,), optional
            Which states the rows are, each once; all of them in order where it is not given.

        Returns
        -------
        int64, shape (R,)
            Index of the event that exposed the row's device, -1 where none did. Later events of that device are not played: its
            state stays as it was when it was exposed.
        """
        where = np.arange(len(states)) if places is None else np.ascontiguousarray(places, np.int64)
        _check_range("places", where, len(states))
        crossed = np.full(len(where), -1, np.int64)
        kept = self._events(len(where), events)
        lib.peel_bets_update(
            ffi.from_buffer("int64_t[]", crossed),
            self._states(states, writable=True),
            ffi.from_buffer("uint64_t[]", where),
            self._game,
            kept[0],
        )
        return crossed

    def peek(self, states: Bytes, events: Events) -> Floats:
        """Wealth after each event if it alone were played, float64[E]; states do not change. A device is exposed from 1/alpha on."""
        wealth = np.empty(len(events))
        kept = self._events(len(states), events)
        scratch = ffi.cast("uint8_t *", self._scratch)
        lib.peel_bets_peek(ffi.from_buffer("double[]", wealth), scratch, self._states(states), self._game, kept[0])
        return wealth

    def walk(
        self, state: Bytes, wanted: Events, other: Events, *, ceiling: float, price: float = np.inf
    ) -> tuple[npt.NDArray[np.bool_], int]:
        """The walk of an insider who knows his own state: what `peel bench promise` measures.

        Parameters
        ----------
        state : uint8, shape (1, state_bytes)
            Changed in place.
        wanted, other : Events
            Two choices per step, all of row 0. The wanted one is played unless it would take the wealth to the ceiling, or to more than
            `price` times what the other would leave.

        Returns
        -------
        took : bool, shape (E,)
            Where the wanted one was played.
        steps : int
            How many steps were walked; less than E if the device was exposed at the last of them.
        """
        took = np.zeros(len(wanted), np.uint8)
        if len(other) != len(wanted) or len(state) != 1:
            raise ValueError(f"a walk of one device has two choices per step, not {len(wanted)} and {len(other)}")
        first, second = self._events(1, wanted), self._events(1, other)
        steps = lib.peel_bets_walk(
            ffi.from_buffer("uint8_t[]", took),
            ffi.cast("uint8_t *", self._scratch),
            self._states(state, writable=True),
            self._game,
            first[0],
            second[0],
            ceiling,
            price,
        )
        return took.astype(np.bool_), int(steps)

    def log_wealth(self, states: Bytes) -> Floats:
        """Natural logarithm of each device's wealth, float64[R]: of all that its bets hold, -inf where nothing was said."""
        first = self._states(states)
        wealth = [lib.peel_bets_wealth(first + row * self.state_bytes, self._game) for row in range(len(states))]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.array(wealth, np.float64)))

    def over(self, states: Bytes) -> npt.NDArray[np.bool_]:
        """Return True for each row whose last played event exposed the device, bool[R]. This is not decided by `log_wealth`,
        which adds up all single units: an insider can fill the purses of several, each kept below the limit."""
        first = self._states(states)
        over = [lib.peel_bets_over(first + row * self.state_bytes, self._game) for row in range(len(states))]
        return np.array(over, np.bool_)

    def explain(self, state: Bytes) -> Bet:
        """The bet that holds most of a device's wealth; state uint8[state_bytes]."""
        pointer = self._states(state.reshape(1, -1))
        found = lib.peel_bets_explain(pointer, self._game)
        if found.part == lib.PEEL_BETS_PARTS:
            raise ValueError("nothing was bet on this device yet")
        name, index, among = self._subject(pointer, found)
        return Bet(
            name=name,
            index=index,
            among=among,
            events=int(found.events),
            trials=int(found.trials),
            bound=float(found.bound),
            since=int(found.since),
        )

    def _subject(self, state: Any, found: Any) -> tuple[str, int | None, tuple[int, ...]]:
        """Return the bet's name, and the unit or the set that it is about."""
        if found.part == lib.PEEL_BETS_PART_FACES:
            return _FACE_NAMES[min(found.bet, Face.RECENT)], None, ()
        if found.part == lib.PEEL_BETS_PART_UNIT:
            return "one unit", int(found.unit), ()
        if found.part == lib.PEEL_BETS_PART_SHARES:
            return _SHARE_NAMES[found.bet], None, ()
        room = ffi.new("uint32_t[]", found.size)
        lib.peel_bets_members(room, state, self._game, ffi.new("peel_bets_evidence *", found))
        members = {int(room[i]) for i in range(found.size)}
        if found.part == lib.PEEL_BETS_PART_CANDIDATES:
            return "candidates", None, tuple(sorted(members))
        part = _SETS[_PARTS.index(found.part)]
        items = getattr(self._game, part).items
        if found.size > items // 2:
            return f"{part}: too few", None, tuple(sorted(set(range(items)) - members))
        return f"{part}: too many", None, tuple(sorted(members))

    def _states(self, states: Bytes, *, writable: bool = False) -> Any:
        if states.dtype != np.uint8 or states.ndim != 2 or states.shape[1] != self.state_bytes:
            raise ValueError(f"states are {states.dtype}{states.shape}, expected uint8[R, {self.state_bytes}]")
        return ffi.from_buffer("uint8_t[]", states, require_writable=writable) + 0

    def _events(self, rows: int, events: Events) -> tuple[Any, list[Any]]:
        """The kernel's view of the events, and what must live as long as it does. Indices are checked: the kernel trusts them."""
        _check_range("row", events.row, rows)
        _check_range("kind", events.kind, GAP + 1)
        units = {sets.items for sets in (self.game.reports, self.game.gaps, self.game.late) if sets is not None}
        units |= {part.units for part in (self.game.faces, self.game.shares) if part is not None}
        _check_range("unit", events.unit, min(units, default=2**32))
        symbols = {self.game.symbols.items} if self.game.symbols is not None else set()
        symbols |= {
            part.symbols for part in (self.game.faces, self.game.heavy_hitters, self.game.shares) if part is not None
        }
        _check_range("symbol", events.symbol, min(symbols))
        pointer = ffi.new("peel_bets_events *", {"count": len(events)})
        kept = []
        for name, (ctype, dtype) in _COLUMNS.items():
            column = np.ascontiguousarray(getattr(events, name), dtype=dtype)
            if column.shape != (len(events),):
                raise ValueError(f"events.{name} has shape {column.shape}, expected {(len(events),)}")
            buffer = ffi.from_buffer(f"{ctype}[]", column)
            setattr(pointer, name, buffer)
            kept += [column, buffer]
        return pointer, kept


_SETS = ("reports", "gaps", "symbols", "late")
_PARTS = [getattr(lib, f"PEEL_BETS_PART_{name.upper()}") for name in _SETS]
_COLUMNS = {
    "row": ("uint32_t", np.uint32),
    "number": ("uint64_t", np.uint64),
    "unit": ("uint32_t", np.uint32),
    "symbol": ("uint32_t", np.uint32),
    "cohort": ("int8_t", np.int8),
    "kind": ("uint8_t", np.uint8),
}
_FACE_NAMES = ("plus", "minus", "agree", "disagree", "own past", "against own past", "own recent past")
_SHARE_NAMES = ("own shares: too many", "own shares: too few")


def _check(game: Game, alpha: float) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}, not between 0 and 1")
    notebooks = int(lib.PEEL_BETS_NOTEBOOKS)
    capital = sum(
        sets.past + sets.notebooks * sets.notebook for sets in (game.reports, game.gaps, game.symbols) if sets
    )
    if game.faces is not None:
        capital += game.faces.unit_capital
        capital += sum(share * (notebooks if face == Face.RECENT else 1) for face, share in game.faces.capital.items())
    if game.heavy_hitters is not None:
        capital += notebooks * game.heavy_hitters.capital
    if game.shares is not None:
        capital += len(_SHARE_NAMES) * game.shares.capital
    late = game.late.past + game.late.notebooks * game.late.notebook if game.late is not None else 0.0
    if capital > 1 or late > 1:
        raise ValueError(f"the bets have {capital} and {late} of a capital of 1")


def _check_range(name: str, column: npt.NDArray[Any], limit: int) -> None:
    if len(column) and (column.min() < 0 or column.max() >= limit):
        raise DamagedTestState(f"events.{name} goes from {column.min()} to {column.max()}, expected 0 to {limit - 1}")


def _fill_faces(target: Any, faces: Faces) -> None:
    target.units, target.symbols, target.most = faces.units, faces.symbols, faces.most
    target.unit_capital = faces.unit_capital
    for bet in range(lib.PEEL_BETS_FACES):
        target.capital[bet] = faces.capital.get(Face(min(bet, Face.RECENT)), 0.0)


def _fill_sets(target: Any, sets: Sets) -> None:
    sizes = (*sets.few, *sets.many)
    if len(sizes) > lib.PEEL_BETS_SIZES or sets.notebooks > lib.PEEL_BETS_NOTEBOOKS:
        raise ValueError(f"{len(sizes)} sizes and {sets.notebooks} notebooks are more than the kernel has")
    target.items, target.notebooks, target.few, target.sizes = sets.items, sets.notebooks, len(sets.few), len(sizes)
    target.size[0 : len(sizes)] = sizes
    target.most, target.least = sets.most, sets.least
    target.past, target.notebook = sets.past, sets.notebook


def _fill_heavy_hitters(target: Any, heavy_hitters: HeavyHitters) -> None:
    sizes, votes = heavy_hitters.sizes, heavy_hitters.votes
    room, most = int(lib.PEEL_BETS_LIST_SIZES), int(lib.PEEL_BETS_CANDIDATES)
    if max(len(sizes), len(votes)) > room or max((*sizes, *votes)) > most or heavy_hitters.symbols > 127:
        raise ValueError(
            f"candidates {sizes} and {votes} of {heavy_hitters.symbols} symbols are more than the kernel has"
        )
    target.categories, target.symbols, target.digits = (
        heavy_hitters.categories,
        heavy_hitters.symbols,
        heavy_hitters.digits,
    )
    target.sizes, target.votes = len(sizes), len(votes)
    target.size[0 : len(sizes)] = sizes
    target.vote[0 : len(votes)] = votes
    target.most, target.least, target.capital = heavy_hitters.most, heavy_hitters.least, heavy_hitters.capital


def _fill_shares(target: Any, shares: Shares) -> None:
    target.units, target.symbols = shares.units, shares.symbols
    target.most, target.least, target.capital = shares.most, shares.least, shares.capital


_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "plus": "were plus",
        "minus": "were minus",
        "agree": "agreed with the other devices",
        "disagree": "contradicted the other devices",
        "own past": "repeated what the device had shown before of the same {unit}",
        "against own past": "contradicted what the device had shown before of the same {unit}",
        "own recent past": "repeated what the device had lately shown of the same {unit}",
        "one unit": "of {index} were what the device had lately shown of it",
        "reports: too many": "were about {among}",
        "gaps: too many": "of the missing ones were about {among}",
        "late: too many": "of the late ones were about {among}",
        "symbols: too many": "were {among}",
        "symbols: too few": "were not {among}",
        "candidates": "supported {among}",
        "own shares: too many": "said what the device had said most of the same {unit}",
        "own shares: too few": "were not what the device had said least of the same {unit}",
    }
)


def in_words(bet: Bet, unit: str, names: Sequence[str]) -> str:
    """One sentence for the operator.

    Parameters
    ----------
    unit : str
        What a unit is called: ``attribute``.
    names : sequence of str
        Names of units or categories, by index.
    """
    shown = [names[index] for index in bet.among[:5]] + ([f"{len(bet.among) - 5} others"] if len(bet.among) > 5 else [])
    what = _WORDS[bet.name].format(
        unit=unit, index=names[bet.index] if bet.index is not None else "", among=" or ".join(shown)
    )
    return (
        f"since number {bet.since} {bet.events} of {bet.trials} reports {what}; "
        f"of an honest device each does with probability {bet.bound:.4g} at most"
    )
