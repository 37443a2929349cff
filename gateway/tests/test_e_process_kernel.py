# SPDX-License-Identifier: MIT
"""The kernel against the slow reference, bit for bit; and what it refuses."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from e_process_reference import Event, Reference
from hypothesis import given, settings
from hypothesis import strategies as st

from peel_core.odds import odds_of
from peel_gateway.mechanisms.bets import (
    PREDICTIONS,
    Alphabet,
    Bets,
    Block,
    Capital,
    Frequencies,
    Predictions,
    Sets,
    bets_on,
    both_ends,
    up_to_half,
)
from peel_gateway.mechanisms.categorical import hashing_bets
from peel_gateway.mechanisms.harmony import harmony_bets
from peel_gateway.screening.e_process import FRESH, GAP, TARDY, DamagedTestState, EProcess, Events

KINDS = {"fresh": FRESH, "tardy": TARDY, "gap": GAP}


def harmony(units: int, most: float = 0.731) -> Bets:
    """A few attributes with all bets that Harmony has."""
    capital = {bet.name: 1 / 32 for bet in PREDICTIONS} | {"own recent past": 7 / 64}
    predictions = Predictions(units=units, symbols=2, most=most, capital=capital, unit_capital=1 / 8)
    often = {"own frequencies: too many": 1 / 32}
    frequencies = Frequencies(units=units, symbols=2, most=most, least=1 - most, full=5, capital=often)
    lasting = replace(frequencies, full=40)
    block = Block(
        units=units,
        questions=units,
        symbols=2,
        predictions=predictions,
        frequencies=frequencies,
        lasting_frequencies=lasting,
    )
    if units == 1:
        return Bets(blocks=(block,))
    each = 1 / units + 2.0**-32
    some = Sets(
        items=units,
        few=up_to_half(units, 4),
        most=each,
        least=each,
        capital=Capital(past=1 / 32, windows=2, window=1 / 64),
    )
    late = replace(some, capital=Capital(past=1.0))
    return Bets(blocks=(block,), reports=some, gaps=some, late=late, late_share=1 / 8)


def krr(categories: int, most: float = 0.4) -> Bets:
    """A few categories with all bets that kRR has."""
    few, many = both_ends(categories)
    least = (1 - most) / (categories - 1)
    capital = Capital(past=1 / 2, windows=4, window=1 / 8)
    sets = Sets(items=categories, few=few, many=many, most=most, least=least, capital=capital)
    return Bets(blocks=(Block(units=1, questions=1, symbols=categories, symbol_sets=sets),))


def sign(units: int, epsilon: int = 2**20) -> Alphabet:
    """Attributes with one coin."""
    return Alphabet(mechanism="harmony", units=units, questions=units, odds=odds_of(epsilon, 2))


def choice(symbols: int, epsilon: int = 2**20) -> Alphabet:
    """One question about few categories."""
    return Alphabet(mechanism="krr", units=1, odds=odds_of(epsilon, symbols))


def hashes(categories: int, symbols: int, digits: int) -> Alphabet:
    """One question about many categories."""
    return Alphabet(
        mechanism="hashing",
        units=symbols**digits,
        odds=odds_of(2**20, symbols),
        categories=categories,
        digits=digits,
    )


MIXED = bets_on([sign(4), choice(5), hashes(30, 3, 3), sign(2, 2**21)], [3, 1, 1, 7, 2, 9, 1, 4])
"""Every form of block, two coins of one form, and weights."""


@st.composite
def mixed(draw: st.DrawFn) -> Bets:
    """Several blocks in any order, with weights or without."""
    each = st.one_of(
        st.integers(1, 6).map(sign),
        st.integers(2, 6).map(choice),
        st.tuples(st.integers(2, 12), st.sampled_from([(2, 4), (3, 3)])).map(lambda of: hashes(of[0], *of[1])),
    )
    alphabets = draw(st.lists(each, min_size=2, max_size=5))
    questions = sum(alphabet.questions for alphabet in alphabets)
    weight = st.sampled_from([1, 1, 2, 3, 65_535])
    return bets_on(alphabets, draw(st.lists(weight, min_size=questions, max_size=questions)))


def symbols_of(bets: Bets) -> list[int]:
    """Return the number of symbols of each unit."""
    return [block.symbols for block in bets.blocks for _ in range(block.units)]


@st.composite
def histories(draw: st.DrawFn) -> tuple[Bets, list[Event]]:
    """Bets, and events that are biased in a way that changes now and then, so that capital grows and windows restart."""
    bets = draw(
        st.one_of(
            st.integers(1, 9).map(harmony),
            st.integers(2, 9).map(krr),
            st.tuples(st.integers(2, 30), st.sampled_from([(2, 5), (3, 4), (7, 2), (37, 1)])).map(
                lambda each: hashing_bets(each[0], each[1][1], odds_of(2**20, each[1][0]))
            ),
            mixed(),
        )
    )
    units, symbols = bets.units, symbols_of(bets)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    events: list[Event] = []
    number = draw(st.sampled_from([1, 77, 2**40]))
    for _ in range(draw(st.integers(1, 4))):
        favourite = rng.integers(0, symbols, units)
        unit_bias, symbol_bias = rng.random(2)
        for _ in range(draw(st.integers(0, 90))):
            unit = 0 if rng.random() < unit_bias else int(rng.integers(0, units))
            symbol = int(favourite[unit] if rng.random() < symbol_bias else rng.integers(0, symbols[unit]))
            kind = str(rng.choice(list(KINDS), p=[0.8, 0.1, 0.1]))
            events.append(Event(number, unit, symbol, int(rng.integers(-1, 2)), kind))
            number = max(1, number + int(rng.integers(-3, 6)))
    return bets, events


def arrays(events: list[Event], row: int = 0) -> Events:
    """Events of one device, for the kernel."""
    return Events(
        row=np.full(len(events), row),
        number=np.array([event.number for event in events], np.int64),
        unit=np.array([event.unit for event in events], np.int64),
        symbol=np.array([event.symbol for event in events], np.int64),
        cohort=np.array([event.cohort for event in events], np.int64),
        kind=np.array([KINDS[event.kind] for event in events], np.int64),
    )


@pytest.mark.slow
@given(histories())
@settings(max_examples=150)
def test_the_kernel_does_what_the_reference_does(history: tuple[Bets, list[Event]]) -> None:
    """Capital after every event and the whole record at the end, to the last bit."""
    bets, events = history
    e_process, reference = EProcess(bets, 1e-300), Reference(bets)
    states = e_process.new_states(1)
    for event in events:
        peeked = float(e_process.peek(states, arrays([event]))[0])
        e_process.update(states, arrays([event]))
        assert reference.play(event) == peeked
    assert states[0].tobytes() == reference.pack()
    assert e_process.reversed(states)[0].tobytes() == reference.pack(">")


@pytest.mark.slow
@pytest.mark.parametrize("bets", [harmony(5), krr(3), hashing_bets(30, 4, odds_of(2**20, 3)), MIXED])
def test_a_long_life(bets: Bets) -> None:
    """Long enough that counts are full, and that all kept reports are looked at; with a gap at the end."""
    units, symbols = bets.units, np.array(symbols_of(bets))
    rng = np.random.default_rng(7)
    unit = np.where(rng.random(1500) < 0.5, 0, rng.integers(0, units, 1500))
    symbol = np.where(rng.random(1500) < 0.5, 0, rng.integers(0, symbols[unit]))
    kind = rng.choice(list(KINDS), 1500, p=[0.6, 0.2, 0.2])
    kind[-1] = "gap"
    events = [Event(n + 1, int(unit[n]), int(symbol[n]), n % 3 - 1, str(kind[n])) for n in range(1500)]
    e_process, reference = EProcess(bets, 1e-300), Reference(bets)
    states = e_process.new_states(1)
    e_process.update(states, arrays(events))
    for event in events:
        reference.play(event)
    assert states[0].tobytes() == reference.pack()
    assert e_process.reversed(states)[0].tobytes() == reference.pack(">")


def test_a_clock_that_cannot_count_further_puts_nothing_in() -> None:
    """Else the capital would be put in once more."""
    e_process = EProcess(krr(3), 1e-300)
    states = e_process.new_states(1)
    clock = states[0, 72:76].view(np.uint32)  # behind the number of the first event and eight sums
    clock[:] = 2**32 - 2
    capital = []
    for n in range(1, 4):
        e_process.update(states, arrays([Event(n, 0, n % 3, 0, "fresh")]))
        capital.append(float(np.exp(e_process.log_capital(states)[0])))
    assert clock[0] == 2**32 - 1
    assert capital[0] < 1e-12
    assert max(capital[1:]) < 5 * capital[0]


@given(histories(), st.lists(st.integers(0, 400), max_size=6))
@settings(max_examples=60)
def test_it_does_not_matter_how_a_stream_is_cut_into_batches(
    history: tuple[Bets, list[Event]], cuts: list[int]
) -> None:
    """Nor that other devices are judged in the same batch, nor where a device is exposed."""
    bets, events = history
    e_process = EProcess(bets, 0.2)
    whole = e_process.new_states(1)
    (at,) = e_process.update(whole, arrays(events))
    parts = e_process.new_states(3)
    crossed = -1
    edges = sorted({min(cut, len(events)) for cut in cuts} | {0, len(events)})
    for begin, end in itertools.pairwise(edges):
        mine, other = arrays(events[begin:end], row=2), arrays(events[begin:end], row=0)
        mixed = Events(
            **{name: np.stack([getattr(mine, name), getattr(other, name)], axis=1).reshape(-1) for name in vars(mine)}
        )
        found = int(e_process.update(parts, mixed)[2])
        if found >= 0:
            crossed = begin + found // 2
            break
    assert crossed == at
    assert parts[2].tobytes() == whole[0].tobytes()


def test_peeking_changes_nothing_and_tells_what_would_happen() -> None:
    bets = harmony(4)
    events = [Event(n, n % 4, n % 2, 1, "fresh") for n in range(1, 200)]
    options = [Event(200, 1, 0, 1, "fresh"), Event(200, 1, 1, 1, "fresh"), Event(200, 2, 0, 0, "gap")]
    e_process = EProcess(bets, 1e-300)
    states = e_process.new_states(1)
    e_process.update(states, arrays(events))
    before = states.copy()
    capital = e_process.peek(states, arrays(options))
    assert (states == before).all()
    assert len(set(capital.tolist())) == 3
    for option, expected in zip(options, capital, strict=True):
        reference = Reference(bets)
        assert [reference.play(event) for event in [*events, option]][-1] == expected


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("row", 1, "events.row"),
        ("unit", 4, "events.unit"),
        ("symbol", 2, "events.symbol"),
        ("unit", -1, "events.unit"),
        ("kind", 5, "events.kind"),
    ],
)
def test_indices_that_the_kernel_would_trust_are_checked(column: str, value: int, message: str) -> None:
    e_process = EProcess(harmony(4), 1e-6)
    events = replace(arrays([Event(1, 0, 0, 0, "fresh")]), **{column: np.array([value])})
    with pytest.raises(ValueError, match=message):
        e_process.update(e_process.new_states(1), events)


def test_states_of_other_bets_are_refused() -> None:
    with pytest.raises(ValueError, match="expected uint8"):
        EProcess(harmony(4), 1e-6).update(EProcess(harmony(5), 1e-6).new_states(1), arrays([]))


def test_capital_beyond_one_is_refused() -> None:
    bets = krr(4)
    (block,) = bets.blocks
    assert block.symbol_sets is not None
    richer = replace(block.symbol_sets, capital=Capital(past=0.6, windows=4, window=1 / 8))
    with pytest.raises(ValueError, match="capital of 1"):
        EProcess(replace(bets, blocks=(replace(block, symbol_sets=richer),)), 1e-6)


@pytest.mark.parametrize(("unit", "symbol"), [(0, 2), (3, 2), (4, 5), (5, 3), (31, 3), (32, 2), (33, 4)])
def test_symbols_that_a_block_does_not_have_are_refused(unit: int, symbol: int) -> None:
    """Units 0 to 3 are signs, 4 is a choice of 5, 5 to 31 are hashes into 3, and 32 to 33 are signs."""
    e_process = EProcess(MIXED, 1e-6)
    states = e_process.new_states(1)
    with pytest.raises(DamagedTestState, match=r"events.symbol.* expected 0 to"):
        e_process.update(states, arrays([Event(1, unit, symbol, 0, "fresh")]))
    assert not states.any()
    e_process.update(states, arrays([Event(1, unit, symbols_of(MIXED)[unit] - 1, 0, "fresh")]))


def test_units_beyond_the_last_block_are_refused() -> None:
    e_process = EProcess(MIXED, 1e-6)
    with pytest.raises(DamagedTestState, match=r"events.unit goes from 34 to 34, expected 0 to 33"):
        e_process.update(e_process.new_states(1), arrays([Event(1, 34, 0, 0, "gap")]))


def test_states_of_fewer_blocks_are_refused() -> None:
    fewer = EProcess(bets_on([sign(4), choice(5)]), 1e-6)
    with pytest.raises(ValueError, match="expected uint8"):
        EProcess(MIXED, 1e-6).update(fewer.new_states(1), arrays([]))


def test_weights_that_are_equal_are_no_weights() -> None:
    """So a profile with one block and equal weights has today's states, to the last bit."""
    assert bets_on([sign(5)], [3] * 5) == bets_on([sign(5)]) == harmony_bets(5, odds_of(2**20, 2))
    assert bets_on([sign(5)]).reports != bets_on([sign(5)], [3, 3, 3, 3, 4]).reports


@pytest.mark.parametrize(
    ("alphabets", "weights", "message"),
    [
        ([], [], "1 to 32 blocks .* got 0"),
        ([choice(2)] * 33, [], "1 to 32 blocks .* got 33"),
        ([sign(2), choice(3)], [1, 2], "2 weights for 3 questions"),
        ([sign(2)], [1, 0], "from 1 to 65,535, got 0"),
        ([sign(2)], [1, 65_536], "from 1 to 65,535, got 65536"),
        ([sign(1025)], [1] * 1024 + [2], "at most 1,024 questions can have weights, got 1025"),
    ],
)
def test_blocks_and_weights_that_the_kernel_does_not_have_are_refused(
    alphabets: list[Alphabet], weights: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        bets_on(alphabets, weights)


@pytest.mark.parametrize("blocks", [1, 2, 3, 7, 32])
@pytest.mark.parametrize("of", [sign(2), choice(3), hashes(30, 3, 4)], ids=["sign", "choice", "hashed"])
def test_blocks_share_the_capital_evenly(of: Alphabet, blocks: int) -> None:
    bets = bets_on([of] * blocks)
    bets.check()
    capital = [sum(part.total for part in block.parts().values()) for block in bets.blocks]
    whole = 1.0 if blocks == 1 and of.mechanism != "harmony" else 7 / 8
    assert capital == pytest.approx([whole / blocks] * blocks)
    assert sum(part.total for part in (bets.reports, bets.gaps) if part) == (1 / 8 if whole == 7 / 8 else 0)


def test_as_many_weighted_questions_as_there_may_be() -> None:
    rng = np.random.default_rng(3)
    bets = bets_on([sign(1024)], rng.integers(1, 65_536, 1024).tolist())
    events = [Event(n, int(rng.integers(0, 1024)), 0, 0, "fresh") for n in range(1, 80)]
    e_process, reference = EProcess(bets, 1e-300), Reference(bets)
    states = e_process.new_states(1)
    e_process.update(states, arrays(events))
    for event in events:
        reference.play(event)
    assert states[0].tobytes() == reference.pack()
