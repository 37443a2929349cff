# SPDX-License-Identifier: MIT
"""The interface of a form of question: what the layers, the bets and the estimates must know of it."""

from __future__ import annotations

import abc

import numpy as np
import numpy.typing as npt

from peel_core import Block
from peel_gateway.mechanisms.bets import Alphabet

__all__ = ["Form"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Form(abc.ABC):
    """One form of question. All places that its methods take and return count from the first of the block."""

    signed: bool
    """Whether reports are signs, which others agree with or not."""

    @abc.abstractmethod
    def supported(self, block: Block, unit: Ints, column: Ints, sign: Ints) -> Bools:
        """Return True for each codeword that an honest device may send if its number assigns `unit`."""

    @abc.abstractmethod
    def symbol(self, block: Block, cell: Ints, sign: Ints) -> Ints:
        """Return the symbol that each report says about its unit."""

    @abc.abstractmethod
    def alphabet(self, block: Block) -> Alphabet:
        """Return the units and symbols that devices are bet on."""

    @abc.abstractmethod
    def chances(self, block: Block) -> tuple[float, float]:
        """With which chance a report speaks for a statistic that has its least value, and its greatest; in between it is linear."""

    @abc.abstractmethod
    def speaking(self, block: Block, cell: Ints, weight: Floats) -> Floats:
        """Return the weight of plus reports that support each statistic, float64[statistics]; one row per cell with its weight."""
