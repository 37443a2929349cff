# SPDX-License-Identifier: MIT
"""Honest devices on data that is as hard on them as we could think of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from peel_gateway.screening.e_process import FRESH, GAP, TARDY, EProcess, Events
from peel_tools.planning.arena import Generator, HarmonyArena, HashingArena, KrrArena

__all__ = ["count_exposed"]

Ints = npt.NDArray[np.int64]

DEVICES = 20
REPORTS = 4000
"""Of each device, for each kind of data."""
LOST = 0.15
"""Share of numbers that never come, or come late: half of them each."""


def count_exposed(rng: Generator) -> tuple[int, int]:
    """Return the number of exposed honest devices, and of their reports."""
    exposed = reports = 0
    for e_process, unit, symbol, cohort in _data(rng):
        lost, late = _losses(unit.shape, rng)
        kind = np.where(lost, GAP, FRESH)
        states = e_process.new_states(len(unit))
        crossed = e_process.update(states, _events(unit, symbol, cohort, kind)) >= 0
        rows, columns = np.nonzero(late)
        crossed |= (
            e_process.update(states, _events(unit, symbol, cohort, np.full(unit.shape, TARDY), (rows, columns))) >= 0
        )
        exposed += int(crossed.sum())
        reports += int((~lost | late).sum())
    return exposed, reports


def _losses(shape: tuple[int, ...], rng: Generator) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return the numbers that are settled as missing, and those of them that arrive late. Losses come in runs, like outages."""
    outage = np.repeat(rng.random((shape[0], shape[1] // 20)) < LOST, 20, axis=1)
    return outage, outage & (rng.random(shape) < 0.5)


def _events(unit: Ints, symbol: Ints, cohort: Ints, kind: Ints, where: tuple[Ints, Ints] | None = None) -> Events:
    rows, columns = np.nonzero(np.ones(unit.shape, np.bool_)) if where is None else where
    at = rows, columns
    return Events(row=rows, number=columns + 1, unit=unit[at], symbol=symbol[at], cohort=cohort[at], kind=kind[at])


def _data(rng: Generator) -> Iterator[tuple[EProcess, Ints, Ints, Ints]]:
    """Bets, units, symbols and the cohort's signs, int64[devices, reports] each."""
    shape = (DEVICES, REPORTS)
    none = np.zeros(shape, np.int64)
    for epsilon, k in ((0.5, 252), (1.0, 1), (1.0, 8), (1.0, 252), (2.0, 16)):
        arena = HarmonyArena(epsilon, k)
        for readings, cohort_sign in _readings(k, rng):
            unit = rng.integers(0, k, shape)
            reading = readings[np.arange(REPORTS), unit]
            symbol = arena.toss(rng, reading.ravel()).reshape(shape)
            yield arena.e_process, unit, symbol, cohort_sign[unit]
    for epsilon, k in ((1.0, 2), (1.0, 16), (2.0, 16)):
        krr = KrrArena(epsilon, k)
        for value in (none, rng.integers(0, k, shape), np.arange(REPORTS) % k + none):
            yield krr.e_process, none, krr.answer(rng, value.ravel()).reshape(shape), none
    for domain in (200, 5000):
        hashing = HashingArena(1.0, domain)
        for value in (none, rng.integers(0, domain, shape)):
            unit = hashing.assign(rng, none.size)
            yield hashing.e_process, unit.reshape(shape), hashing.answer(rng, unit, value.ravel()).reshape(shape), none


def _readings(k: int, rng: Generator) -> Iterator[tuple[npt.NDArray[np.float64], Ints]]:
    """Readings float64[reports, k], and the cohort's sign per attribute."""
    sides = np.where(np.arange(k) % 2, 1, -1)
    time = np.arange(REPORTS)[:, None]
    ones = np.ones((REPORTS, k))
    yield ones, np.ones(k, np.int64)
    yield -ones, np.ones(k, np.int64)
    yield ones * sides, sides
    yield ones * sides * np.where(time < REPORTS // 2, 1, -1), sides
    yield ones * np.where(time % 2, 1, -1), np.zeros(k, np.int64)
    yield ones * np.where(time // 64 % 2, 1, -1), sides
    yield np.clip(np.cumsum(rng.normal(0, 0.05, (REPORTS, k)), axis=0), -1, 1), sides
