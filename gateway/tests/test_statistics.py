# SPDX-License-Identifier: MIT
"""The statistics layer in the engine: exposure, withdrawal, gaps, restarts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from lab import Lab, MakeLab, Makers

from peel_core import index_many
from peel_gateway.engine.recount import recount
from peel_gateway.model.exposure import ExposureFilter
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.device_tests import make_e_process
from peel_gateway.screening.e_process import FRESH, EProcess, Events
from peel_gateway.storage.records import read_gaps, read_log
from peel_gateway.storage.sql.transaction import SqlTransaction
from peel_gateway.storage.store import StoreFull

STATISTICS = ExposureFilter(verdicts=frozenset({Verdict.STATISTICS}))


@pytest.mark.parametrize("restart", [False, True])
def test_a_device_that_always_says_plus(lab: Lab, restart: bool) -> None:
    counts: dict[str, int] = {}
    for number in range(1, 91, 3):
        batch = [lab.sealed(1, n) for n in range(number, number + 3)] + lab.frames(
            2, range(number, number + 3), reading=1.0
        )
        for verdict, count in lab.send(batch).items():
            counts[verdict] = counts.get(verdict, 0) + count
        if restart:
            lab.reopen()
    assert counts["statistics"] == 3
    assert 45 <= counts["accepted"] - 90 <= 60
    (exposure,) = lab.store.exposures(STATISTICS)
    assert exposure.device == 1 and exposure.evidence["log10_capital"] >= 6
    totals = lab.store.counts()
    assert totals.withdrawn_past == counts["accepted"] - 90
    assert totals.withdrawn_devices == 1
    (whole,) = lab.estimates()
    assert (whole.n, whole.withdrawn) == (90, counts["accepted"] - 90)
    assert recount(lab.store, lab).agrees


def test_the_copy_in_memory_is_the_store(make_lab: MakeLab, profiles: Makers) -> None:
    """After any batch, what the engine remembers is what it would read from the file."""
    lab = make_lab(profiles[0](4), profiles[1](3), devices=6)
    for number in range(1, 121, 6):
        numbers = [n for n in range(number, number + 6) if n % 7]
        batch = [lab.sealed(1, n) for n in numbers] + [lab.sealed(2, n, 1) for n in numbers]
        batch += [frame for device in (3, 4, 5, 6) for frame in lab.frames(device, numbers, reading=1)]
        lab.send(batch + lab.frames(5, [500], odds=(7, 1)) * (number == 61))
        known = lab.known()
        lab.engine = lab.make_engine()
        lab.send([])
        assert lab.known() == known
    assert lab.store.counts().withdrawn_devices == 3


@pytest.mark.parametrize("call", ["find", "write"])
def test_a_batch_that_was_not_committed_has_not_been_bet_on(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    lab, same = make_lab(), make_lab()
    batches = [[frame for device in (1, 2) for frame in lab.frames(device, range(n, n + 9))] for n in (1, 10, 19)]
    for batch in batches:
        with monkeypatch.context() as broken:
            broken.setattr(SqlTransaction, call, fail)
            for _ in range(3):
                with pytest.raises(StoreFull):
                    lab.send(batch)
        assert lab.send(batch) == same.send(batch) == {"accepted": 18}
    for mine, theirs in zip(lab.cache.device_tests, same.cache.device_tests, strict=True):
        assert mine.states.tobytes() == theirs.states.tobytes()
    assert recount(lab.store, lab).agrees


def fail(*_: object) -> None:
    """Fail like a full disk."""
    raise StoreFull("no room")


def test_withdrawal_changes_the_estimate_and_says_so(lab: Lab) -> None:
    lab.send([frame for device in (2, 3, 4) for frame in lab.frames(device, range(1, 400), reading=-0.5)])
    for number in range(1, 81, 10):
        lab.send([lab.sealed(1, n) for n in range(number, number + 10)])
    (whole,) = lab.estimates()
    for figure in whole.estimates:
        assert figure.withdrawn > 0
        before, published = figure.before.value, figure.published.within.value
        assert before is not None and published is not None and before > published


def test_a_device_that_keeps_back_what_does_not_suit_it(make_lab: MakeLab, profiles: Makers) -> None:
    """It spends every number, tosses honestly, and sends only what concerns attribute 3."""
    lab = make_lab(profiles[0](16))
    numbers = np.arange(1, 400)
    index = index_many(lab.profiles[0], np.ones(len(numbers)), lab.keys_of(1, numbers), numbers)
    verdicts: set[str] = set()
    for number in numbers[index == 3]:
        verdicts |= set(lab.send(lab.frames(1, [number])))
    assert "statistics" in verdicts
    assert lab.store.exposures(STATISTICS)[0].evidence["bet"]["name"].startswith(("reports", "gaps"))
    assert recount(lab.store, lab).agrees


def test_a_device_that_hides_one_attribute_is_betrayed_by_its_gaps(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(profiles[0](16))
    numbers = np.arange(1, 1001)
    index = index_many(lab.profiles[0], np.ones(len(numbers)), lab.keys_of(1, numbers), numbers)
    sent = numbers[index != 3]
    for start in range(0, len(sent), 50):
        lab.send(lab.frames(1, sent[start : start + 50]))
    bet = lab.store.exposures(STATISTICS)[0].evidence["bet"]
    assert (bet["name"], bet["among"]) == ("gaps: too many", [3])
    assert recount(lab.store, lab).agrees


@pytest.mark.parametrize(("first", "step"), [(1, 40), (1201, 1)], ids=["gaps filled", "below the first"])
def test_a_device_that_delivers_late_what_suits_it(make_lab: MakeLab, profiles: Makers, first: int, step: int) -> None:
    """Its numbers were settled as missing, evenly, or never expected; then come those of attribute 3, and no others."""
    lab = make_lab(profiles[0](16))
    lab.send(lab.frames(1, range(first, first + 40 * step, step)))
    numbers = np.arange(2, 1201)
    index = index_many(lab.profiles[0], np.ones(len(numbers)), lab.keys_of(1, numbers), numbers)
    wanted = [int(number) for number in numbers[index == 3] if number % 40 != 1]
    verdicts = [next(iter(lab.send(lab.frames(1, [number])))) for number in wanted[:12]]
    assert verdicts[0] == "accepted" and "statistics" in verdicts
    bet = lab.store.exposures(STATISTICS)[0].evidence["bet"]
    assert (bet["name"], bet["among"]) == ("late: too many", [3])
    assert recount(lab.store, lab).agrees


def test_honest_loss_reordering_and_late_delivery_expose_nobody(make_lab: MakeLab, profiles: Makers) -> None:
    rng = np.random.default_rng(6)
    lab = make_lab(profiles[0](16), devices=20)
    held: list[bytes] = []
    sent = 0
    for start in range(1, 601, 30):
        batch = []
        for device in range(1, 21):
            kept = np.flatnonzero(rng.random(30) > 0.2) + start
            batch += lab.frames(device, kept, reading=float(rng.choice([-1, 1])))
        rng.shuffle(batch)
        cut = len(batch) * 9 // 10
        sent += len(batch)
        assert set(lab.send(batch[:cut] + held)) == {"accepted"}
        held = batch[cut:] if rng.random() < 0.5 else []
        if not held:
            lab.send(batch[cut:])
    lab.send(held)
    assert lab.store.counts().verdicts[Verdict.ACCEPTED] == sent
    assert lab.store.counts().gaps > 500
    assert recount(lab.store, lab).agrees


def test_gaps_know_the_attribute_of_what_never_came(lab: Lab) -> None:
    lab.send(lab.frames(1, [*range(1, 11), *range(21, 80)]))
    gaps = read_gaps(lab.store)
    assert gaps.number.tolist() == list(range(11, 21))
    expected = index_many(lab.profiles[0], np.ones(10), lab.keys_of(1, np.arange(11, 21)), np.arange(11, 21))
    assert gaps.index.tolist() == expected.tolist()
    assert lab.send(lab.frames(1, [15])) == {"accepted": 1}  # late, and still welcome; its attribute is counted apart
    log = read_log(lab.store)
    assert log.number[log.late == 1].tolist() == [15]
    assert recount(lab.store, lab).agrees


def test_a_krr_device_that_always_names_one_category(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(profiles[1](4))
    verdicts: set[str] = set()
    for number in range(1, 200, 5):
        verdicts |= set(
            lab.send(
                [lab.sealed(1, n, 2) for n in range(number, number + 5)] + lab.frames(2, range(number, number + 5), 1)
            )
        )
    assert verdicts == {"accepted", "statistics", "withdrawn"}
    assert [exposure.device for exposure in lab.store.exposures(STATISTICS)] == [1]
    assert recount(lab.store, lab).agrees


def near_the_limit(e_process: EProcess, unit: npt.NDArray[np.uint32], filled: int) -> list[int]:
    """Signs, 1 for minus, of an insider who pushes the first few attributes as far up as all bets let him, and about the others says plus
    or what makes the bets lose: until all bets together hold more than the limit. Few get there, so he tries several times."""
    tries = (_pushed(e_process, unit, filled, np.random.default_rng(seed)) for seed in range(50))
    return next(said for said in tries if len(said) < len(unit))


def _pushed(e_process: EProcess, unit: npt.NDArray[np.uint32], filled: int, rng: np.random.Generator) -> list[int]:
    states, said = e_process.new_states(1), list[int]()
    while len(said) < len(unit) and e_process.log_capital(states)[0] < -np.log(0.99 * e_process.alpha):
        number, of = len(said) + 1, int(unit[len(said)])
        minus, plus = (e_process.peek(states, toss(number, of, symbol))[0] for symbol in (0, 1))
        wanted = of < filled or rng.random() < 0.5 or plus < minus
        symbol = int(wanted and plus < 0.97 / e_process.alpha)
        assert e_process.update(states, toss(number, of, symbol))[0] < 0
        said.append(1 - symbol)
    return said


def toss(number: int, unit: int, symbol: int) -> Events:
    """A report of device 0, as its bets take it."""
    said = {"row": 0, "number": number, "unit": unit, "symbol": symbol, "cohort": 0, "kind": FRESH}
    return Events(**{name: np.array([value]) for name, value in said.items()})


def test_a_restart_forgives_nothing_to_an_insider_whose_purses_are_nearly_full(
    make_lab: MakeLab, profiles: Makers
) -> None:
    """All single attributes together may hold more than exposes a device; what is checkpointed then is not the end of the bets on it."""
    lab = make_lab(profiles[0](16), devices=1)
    numbers = np.arange(1, 1500)
    unit = index_many(lab.profiles[0], np.ones(len(numbers)), lab.keys_of(1, numbers), numbers)
    signs = near_the_limit(make_e_process(lab.profiles[0], 1e-6), unit, 2)
    lab.send([lab.sealed(1, n, minus=minus) for n, minus in enumerate(signs, start=1)])
    lab.engine = lab.make_engine(cache_bytes=1)
    lab.send([])  # stores a checkpoint
    lab.engine = lab.make_engine()
    sent = len(signs)
    while not lab.store.counts().withdrawn_devices and sent < len(signs) + 200:
        lab.send([lab.sealed(1, n, minus=int(unit[n - 1] < 2)) for n in range(sent + 1, sent + 21)])
        known, sent = lab.known(), sent + 20
        lab.engine = lab.make_engine()
        lab.send([])
        assert lab.known() == known
    assert lab.store.counts().withdrawn_devices == 1
    assert recount(lab.store, lab).agrees
