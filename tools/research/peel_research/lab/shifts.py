# SPDX-License-Identifier: MIT
"""The shift of estimates by an attack: undefended, before withdrawal of devices, and finally; and the shift by a liar."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core.kinds import SIGN
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.tables import DeviceTallyTable
from peel_research.lab.aim import Aim

__all__ = ["Shifts", "shifts_of"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Shifts:
    """Distances of the figure that moves most from what honest reports alone say; a figure's whole range is 1."""

    undefended: float
    """If every piece that opens counts for its nearest codeword."""
    before: float
    """With what passed as a single report, before its device was withdrawn."""
    after: float
    """In the end."""
    liar: float
    """If the same devices, or reports, had told the worst lie about their readings."""


def shifts_of(
    aim: Aim, tallies: DeviceTallyTable, *, honest: Bools, poisoned: tuple[Ints, Ints], weight: float
) -> Shifts:
    """Compare estimates of what an attack is about, from the database.

    Parameters
    ----------
    honest : bool, shape (rows of tallies,)
        Which rows are honest and count.
    poisoned : int64, shape (N,), twice
        Cells and signs of what attackers sent, as far as it can be read.
    weight : float
        Share of all reports that the attackers' are.
    """
    truth = _figures(aim, tallies, honest)
    return Shifts(
        undefended=_distance(_figures(aim, tallies, honest, poisoned), truth),
        before=_distance(_figures(aim, tallies, np.ones_like(honest)), truth),
        after=_distance(_figures(aim, tallies, tallies.withdrawn == 0), truth),
        liar=_worst_lie(aim, truth, weight),
    )


def _figures(
    aim: Aim, tallies: DeviceTallyTable, rows: Bools, more: tuple[Ints, Ints] = (np.zeros(0, np.int64),) * 2
) -> Floats:
    """Unclipped estimates in [0, 1] of the range, float64[figures], nan where there is no report: from some rows, and single reports."""
    questions = questions_of(aim.profile)
    cell = np.concatenate([tallies.index[rows], more[0]])
    plus = np.concatenate([tallies.plus[rows], more[1] > 0]).astype(np.float64)
    minus = np.concatenate([tallies.minus[rows], more[1] < 0]).astype(np.float64)
    speaking = questions.speaking(cell, plus)
    total = np.bincount(questions.question(cell), plus + minus, questions.count)[questions.of_statistic]
    with np.errstate(invalid="ignore"):
        figures = (speaking / total - questions.least) / (questions.most - questions.least)
    return np.asarray(figures[aim.statistics])


def _distance(figures: Floats, truth: Floats) -> float:
    """Of the figure that moved most; those that nobody reported on have not."""
    return float(np.nanmax(np.abs(figures - truth)))


def _worst_lie(aim: Aim, truth: Floats, weight: float) -> float:
    """Return the largest shift of an estimate by lying reports with this share of the weight. The share of a category is raised."""
    forms = np.array([aim.profile.questions[each.question].form for each in aim.profile.statistics])[aim.statistics]
    far = np.where(forms == SIGN, np.maximum(1 - truth, truth), 1 - truth)
    return float(weight * np.nanmax(far))
