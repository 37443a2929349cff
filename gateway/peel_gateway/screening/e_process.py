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

- *Predictions.* A coin tossed by the rule shows a given symbol with probability at most p (Harmony: u), given all before it and its unit.
  The seal hides the symbol, so nobody can delay or drop a report because of it.
- *Sets of symbols.* One of a given a symbols comes with probability at most ``p + (a - 1) q``: the true one may be among them, and
  any other comes with probability q.
- *Sets of questions.* The number of a report assigns its question, by a PRF that the network does not know. Given the questions of other
  numbers, one of a given a questions that weigh w of W together comes with probability at most ``w/W + a 2^-32``: ``a (1/k + 2^-32)``
  where all k weigh the same. The set is chosen before the toss, so its weight is a function of F. Each number is judged once, as a
  report or as a gap.
- *Late reports* were judged as gaps before, so their questions are no news beside those. They are a process of their own, which remembers
  late reports alone. The two processes share alpha; a device is exposed by either.
- *Frequencies.* Under one unit, a given symbol comes with probability at most p, and any but a given one with at most ``1 - q``. It is
  bet on where the unit's last reports did so more often, and the fraction is the smaller the less they did: functions of F, again.
  With signs that is an attribute that shows one sign too often. Other attributes do not change what the bet has won.
- *Avoided categories.* Every symbol, so also what a given category hashes to, comes with probability at least q, and any other symbol
  with at most ``1 - q``. Which categories the last reports support least is a function of F.
- *Several coins.* A block is a run of units with one coin. A report is judged by the bets of its unit's block, with that coin's p and q.
  Which block it is, is known before the toss. The other blocks put nothing in, and do not change.
- *One unit.* At toss n, half of w_n goes to each of the two bets on the unit that the toss is about: one on plus, one on minus, at every
  toss. Each is right with probability at most p. Given the unit, the bets on others do not change.

**Memories.** Predictions come from the whole past of a device, and from four *restart windows*. Every 64 tosses one of
the poorer windows is restarted. A window that predicts a device well grows rich and stays. So whenever a device turns, there soon is a
window that began after it turned, is not confused by the device's former behaviour, and lasts. (Forgetting at a fixed rate does worse: a
memory that is long enough for 252 attributes is slow to notice that they have turned.) Frequencies of signs have two memories in place of
windows: one of a few reports per attribute, and one of some hundreds.

**Since when.** Each bet counts from the report number since which it has been right more often than an honest device may make it. That is
the evidence of an exposure.

The arithmetic is in C (`gateway/kernels/`). The state of a device is one flat record, and depends on its events and their order alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_gateway._kernels import ffi, lib
from peel_gateway.mechanisms.bets import (
    BETS,
    BETS_BY_NAME,
    FREQUENCIES,
    PREDICTIONS,
    Bet,
    Bets,
    Block,
    Frequencies,
    HeavyHitters,
    Predictions,
    Sets,
)
from peel_gateway.model.tables import Rows

__all__ = [
    "ABSENT",
    "ABSENT_TARDY",
    "FRESH",
    "GAP",
    "TARDY",
    "DamagedTestState",
    "EProcess",
    "Events",
    "Evidence",
    "in_words",
]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

FRESH, TARDY, GAP = int(lib.PEEL_E_PROCESS_FRESH), int(lib.PEEL_E_PROCESS_TARDY), int(lib.PEEL_E_PROCESS_GAP)
ABSENT, ABSENT_TARDY = int(lib.PEEL_E_PROCESS_ABSENT), int(lib.PEEL_E_PROCESS_ABSENT_TARDY)
"""Kinds of events: a report, a report whose number had been settled as missing, a number that was settled as missing."""

_ROUNDING = 2.0**-30
"""The sums that are compared with 1/alpha are off by far less than this, relatively."""


class DamagedTestState(ValueError):  # noqa: N818 - the name says what is wrong with them
    """Events or states that the bets cannot have. No layer lets such a report through, so what is stored is damaged."""


@dataclass(frozen=True, kw_only=True)
class Events:
    """Events, one entry each; those of one device in the order of judgement. Integer arrays of one shape (E,)."""

    row: npt.NDArray[Any]
    """Row of the device's state."""
    number: npt.NDArray[Any]
    """Number of the report, or the one that is missing."""
    unit: npt.NDArray[Any]
    """Attribute or hash, among the units of all blocks; of a gap, any unit of its question."""
    symbol: npt.NDArray[Any]
    """1 for plus, 0 for minus; or the symbol or category. Not used for gaps."""
    cohort: npt.NDArray[Any]
    """The cohort's sign before the batch: -1, 0, +1."""
    kind: npt.NDArray[Any]
    """`FRESH`, `TARDY`, `GAP`, or without a reading `ABSENT`, `ABSENT_TARDY`."""

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The record of a bet since it has been ahead: the evidence of an exposure."""

    name: str
    index: int | None = None
    """Attribute, among the units of all blocks, for a bet on one alone."""
    block: int | None = None
    """Block that the report's coin belongs to; None for bets on questions."""
    among: tuple[int, ...] = ()
    """The set, for a bet on one: those that came too often, or too seldom. Symbols or categories of the block, or questions."""
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
    bets : Bets
        The bets that are made, with their capital.
    alpha : float
        Largest probability of ever exposing an honest device.
    """

    def __init__(self, bets: Bets, alpha: float) -> None:
        if not 0 < alpha < 1:
            raise ValueError(f"alpha is {alpha}, not between 0 and 1")
        bets.check()
        self.bets, self.alpha = bets, alpha
        self._weights = {name: ffi.new("uint32_t[]", part.weights) for name, part in bets.assignment().items()}
        self._process = ffi.new("peel_e_process *", self._kernel_process())
        self.state_bytes = int(lib.peel_e_process_lay_out(self._process))
        """Size of a device's record."""
        self._scratch = ffi.new("uint64_t[]", self.state_bytes // 8)

    def _kernel_process(self) -> dict[str, Any]:
        """Return the fields of the kernel's struct."""
        assignment = {name: _set_fields(part) for name, part in self.bets.assignment().items()}
        for name, sets in assignment.items():
            sets["weight"] = self._weights[name] if len(self._weights[name]) else ffi.NULL
        return {
            "blocks": len(self.bets.blocks),
            "block": [_block_fields(block) for block in self.bets.blocks],
            "late_share": self.bets.late_share,
            "limit": (1 + _ROUNDING) / self.alpha,
            **assignment,
        }

    def new_states(self, rows: int) -> Bytes:
        """States of devices that have said nothing, uint8[rows, state_bytes]."""
        return np.zeros((rows, self.state_bytes), np.uint8)

    def update(self, states: Bytes, events: Events, places: Rows | None = None) -> Ints:
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
        lib.peel_e_process_update(
            ffi.from_buffer("int64_t[]", crossed),
            self._states(states, writable=True),
            ffi.from_buffer("uint64_t[]", where),
            self._process,
            kept[0],
        )
        return crossed

    def peek(self, states: Bytes, events: Events) -> Floats:
        """Capital after each event if it alone were played, float64[E]; states do not change. A device is exposed from 1/alpha on."""
        capital = np.empty(len(events))
        kept = self._events(len(states), events)
        scratch = ffi.cast("uint8_t *", self._scratch)
        lib.peel_e_process_peek(
            ffi.from_buffer("double[]", capital), scratch, self._states(states), self._process, kept[0]
        )
        return capital

    def walk(
        self,
        state: Bytes,
        wanted: Events,
        other: Events,
        *,
        ceiling: float,
        floor: float = np.inf,
        price: float | Floats = np.inf,
    ) -> tuple[npt.NDArray[np.bool_], int]:
        """The walk of an insider who knows his own state: what `peel bench promise` measures.

        Parameters
        ----------
        state : uint8, shape (1, state_bytes)
            Changed in place.
        wanted, other : Events
            Two choices per step, all of row 0. The wanted one is played unless it would take the capital to the ceiling, or to more than
            `price` times what the other would leave.
        floor : float
            Once the ceiling stops the wanted one, the choice that leaves less capital is played until the wanted one leaves no more
            than this.
        price : float or float64, shape (E,)
            One for all steps, or one each. With 0 the choice that leaves less capital is played.

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
        prices = np.ascontiguousarray(np.broadcast_to(price, len(wanted)), np.float64)
        steps = lib.peel_e_process_walk(
            ffi.from_buffer("uint8_t[]", took),
            ffi.cast("uint8_t *", self._scratch),
            self._states(state, writable=True),
            self._process,
            first[0],
            second[0],
            ffi.from_buffer("double[]", prices),
            ceiling,
            floor,
        )
        return took.astype(np.bool_), int(steps)

    def reversed(self, states: Bytes) -> Bytes:
        """Return a copy of states with the bytes of each number in the other order, little-endian or big-endian."""
        copy = np.array(states, order="C")
        first = self._states(copy, writable=True)
        for row in range(len(copy)):
            lib.peel_e_process_reverse_bytes(first + row * self.state_bytes, self._process)
        return copy

    def log_capital(self, states: Bytes) -> Floats:
        """Natural logarithm of each device's capital, float64[R]: of all that its bets hold, -inf where nothing was said."""
        first = self._states(states)
        capital = [
            lib.peel_e_process_capital(first + row * self.state_bytes, self._process) for row in range(len(states))
        ]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.array(capital, np.float64)))

    def over(self, states: Bytes) -> npt.NDArray[np.bool_]:
        """Return True for each row whose last played event exposed the device, bool[R]. This is not decided by `log_capital`,
        which adds up all single units: an insider can fill the capitals of several, each kept below the limit."""
        first = self._states(states)
        over = [lib.peel_e_process_over(first + row * self.state_bytes, self._process) for row in range(len(states))]
        return np.array(over, np.bool_)

    def explain(self, state: Bytes) -> Evidence:
        """The bet that holds most of a device's capital; state uint8[state_bytes]."""
        pointer = self._states(state.reshape(1, -1))
        found = lib.peel_e_process_explain(pointer, self._process)
        if found.part == lib.PEEL_E_PROCESS_PARTS:
            raise ValueError("nothing was bet on this device yet")
        bet, among = self._subject(pointer, found)
        return Evidence(
            name=bet.name,
            index=int(found.unit) if found.part == lib.PEEL_E_PROCESS_PART_UNIT else None,
            block=None if bet.part in _ON_QUESTIONS else int(found.block),
            among=among,
            events=int(found.events),
            trials=int(found.trials),
            bound=float(found.bound),
            since=int(found.since),
        )

    def _subject(self, state: Any, found: Any) -> tuple[Bet, tuple[int, ...]]:
        """Return the bet, and the set that it is about; empty for a bet on no set."""
        bets = [bet for bet in BETS if _part_number(bet) == found.part]
        members: set[int] = set()
        if "{among}" in bets[0].words:
            found_members = ffi.new("uint32_t[]", found.size)
            lib.peel_e_process_members(found_members, state, self._process, ffi.new("peel_e_process_evidence *", found))
            members = {int(found_members[i]) for i in range(found.size)}
        if len(bets) == 1:
            return bets[0], tuple(sorted(members))
        if bets[0].number is not None:  # a bet of restart windows has as many numbers, from its own on
            return max((bet for bet in bets if _number(bet) <= found.bet), key=_number), tuple(sorted(members))
        symbols = self.bets.blocks[found.block].symbols
        others = found.size > symbols // 2
        among = set(range(symbols)) - members if others else members
        return next(bet for bet in bets if bet.others == others), tuple(sorted(among))

    def _states(self, states: Bytes, *, writable: bool = False) -> Any:
        if states.dtype != np.uint8 or states.ndim != 2 or states.shape[1] != self.state_bytes:
            raise ValueError(f"states are {states.dtype}{states.shape}, expected uint8[R, {self.state_bytes}]")
        return ffi.from_buffer("uint8_t[]", states, require_writable=writable) + 0

    def _check_symbols(self, events: Events) -> None:
        """Raise DamagedTestState if a report says a symbol that its block does not have."""
        blocks = self.bets.blocks
        _check_range("symbol", events.symbol, max(block.symbols for block in blocks))
        if len(blocks) == 1:
            return
        block = np.searchsorted([block.first_unit for block in blocks], events.unit, side="right") - 1
        wrong = np.flatnonzero(events.symbol >= np.array([block.symbols for block in blocks])[block])
        if len(wrong):
            at, of = int(wrong[0]), blocks[block[wrong[0]]]
            raise DamagedTestState(
                f"events.symbol[{at}] is {events.symbol[at]} for unit {events.unit[at]}, expected 0 to {of.symbols - 1}"
            )

    def _events(self, rows: int, events: Events) -> tuple[Any, list[Any]]:
        """The kernel's view of the events, and what must live as long as it does. Indices are checked: the kernel trusts them."""
        _check_range("row", events.row, rows)
        _check_range("kind", events.kind, ABSENT_TARDY + 1)
        _check_range("unit", events.unit, self.bets.units)
        self._check_symbols(events)
        pointer = ffi.new("peel_e_process_events *", {"count": len(events)})
        kept = []
        for name, (ctype, dtype) in _COLUMNS.items():
            column = np.ascontiguousarray(getattr(events, name), dtype=dtype)
            if column.shape != (len(events),):
                raise ValueError(f"events.{name} has shape {column.shape}, expected {(len(events),)}")
            buffer = ffi.from_buffer(f"{ctype}[]", column)
            setattr(pointer, name, buffer)
            kept += [column, buffer]
        return pointer, kept


_ON_QUESTIONS = ("REPORTS", "GAPS", "LATE")
"""Parts that bet on the question that a number assigns."""

_COLUMNS = {
    "row": ("uint32_t", np.uint32),
    "number": ("uint64_t", np.uint64),
    "unit": ("uint32_t", np.uint32),
    "symbol": ("uint32_t", np.uint32),
    "cohort": ("int8_t", np.int8),
    "kind": ("uint8_t", np.uint8),
}


def _part_number(bet: Bet) -> int:
    return int(getattr(lib, f"PEEL_E_PROCESS_PART_{bet.part}"))


def _number(bet: Bet) -> int:
    return int(getattr(lib, f"PEEL_E_PROCESS_{bet.number}"))


def _check_range(name: str, column: npt.NDArray[Any], limit: int) -> None:
    if len(column) and (column.min() < 0 or column.max() >= limit):
        raise DamagedTestState(f"events.{name} goes from {column.min()} to {column.max()}, expected 0 to {limit - 1}")


def _block_fields(block: Block) -> dict[str, Any]:
    numbers = {name: getattr(block, name) for name in ("first_unit", "units", "first_question", "questions")}
    return numbers | {name: _kernel_fields(part) for name, part in block.parts().items()}


def _kernel_fields(part: Any) -> dict[str, Any]:
    """Return the fields of a part's struct in the kernel."""
    if isinstance(part, Predictions):
        return asdict(part) | {"capital": _prediction_capital(part)}
    if isinstance(part, Sets):
        return _set_fields(part)
    if isinstance(part, HeavyHitters):
        return _heavy_hitter_fields(part)
    if isinstance(part, Frequencies):
        return asdict(part) | {"capital": _capitals(FREQUENCIES, part.capital)}
    raise TypeError(f"the kernel has no part {type(part).__name__}")


def _prediction_capital(predictions: Predictions) -> list[float]:
    """Return the capital of each pooled bet, in the kernel's order; the last one is made by every restart window."""
    capital = _capitals(PREDICTIONS, predictions.capital)
    return capital + [capital[-1]] * (int(lib.PEEL_E_PROCESS_PREDICTIONS) - len(capital))


def _capitals(bets: Sequence[Bet], capital: Mapping[str, float]) -> list[float]:
    """Return the capital of each of the bets, in the kernel's order; 0 for those that are not made."""
    return [capital.get(bet.name, 0.0) for bet in sorted(bets, key=_number)]


def _set_fields(sets: Sets) -> dict[str, Any]:
    sizes = (*sets.few, *sets.many)
    if len(sizes) > lib.PEEL_E_PROCESS_SIZES or sets.capital.windows > lib.PEEL_E_PROCESS_WINDOWS:
        raise ValueError(f"{len(sizes)} sizes and {sets.capital.windows} windows are more than the kernel has")
    return {
        "items": sets.items,
        "windows": sets.capital.windows,
        "few": len(sets.few),
        "sizes": len(sizes),
        "size": sizes,
        "most": sets.most,
        "least": sets.least,
        "past_capital": sets.capital.past,
        "window_capital": sets.capital.window,
    }


def _heavy_hitter_fields(part: HeavyHitters) -> dict[str, Any]:
    sizes, votes, vetoes = part.sizes, part.votes, part.vetoes
    lists, most = int(lib.PEEL_E_PROCESS_LIST_SIZES), int(lib.PEEL_E_PROCESS_HEAVY_HITTERS)
    too_many = max(len(sizes), len(votes), len(vetoes)) > lists
    too_long = max((*sizes, *votes)) > most or max(vetoes) > lib.PEEL_E_PROCESS_AVOIDED
    if too_many or too_long or part.symbols > 127:
        raise ValueError(
            f"lists of {sizes}, {votes} and {vetoes} of {part.symbols} symbols are more than the kernel has"
        )
    return {
        "categories": part.categories,
        "symbols": part.symbols,
        "digits": part.digits,
        "sizes": len(sizes),
        "size": sizes,
        "votes": len(votes),
        "vote": votes,
        "most": part.most,
        "least": part.least,
        "capital": part.capital.window,
        "vetoes": len(vetoes),
        "veto": vetoes,
        "avoided_capital": part.avoided_capital.window,
    }


def in_words(bet: Evidence, unit: str, called: Callable[[int], str]) -> str:
    """One sentence for the operator.

    Parameters
    ----------
    unit : str
        What a unit is called: ``attribute``.
    called : callable
        Returns the name of what the bet is about: `bet.index`, or one of `bet.among`.
    """
    shown = [called(index) for index in bet.among[:5]] + (
        [f"{len(bet.among) - 5} others"] if len(bet.among) > 5 else []
    )
    what = BETS_BY_NAME[bet.name].words.format(
        unit=unit, index=called(bet.index) if bet.index is not None else "", among=" or ".join(shown)
    )
    return (
        f"since number {bet.since} {bet.events} of {bet.trials} reports {what}; "
        f"of an honest device each does with probability {bet.bound:.4g} at most"
    )
