# SPDX-License-Identifier: MIT
"""The locally private mechanisms of the lab behind one interface: those that devices run, by the core, and those of the literature.

>>> import numpy as np
>>> from peel_research.lab.mechanisms import Krr
>>> krr, rng = Krr(epsilon=1.0, size=4), np.random.default_rng(1)
>>> reports = krr.perturb(np.repeat([0, 1, 2, 3], [400, 300, 200, 100]), rng)
>>> krr.estimate_sparse(krr.sparse(reports, rng)).shape
(4,)
"""

from peel_research.lab.mechanisms.base import Categorical, Indicators, Mechanism, Natural, Numeric, Reports
from peel_research.lab.mechanisms.devices import Harmony, Krr, LocalHashing, RandomisedResponse
from peel_research.lab.mechanisms.duchi import Duchi
from peel_research.lab.mechanisms.hadamard import HadamardResponse
from peel_research.lab.mechanisms.laplace import Laplace
from peel_research.lab.mechanisms.one_sign import DuchiOneBit
from peel_research.lab.mechanisms.piecewise import Piecewise
from peel_research.lab.mechanisms.sampling import Sparse
from peel_research.lab.mechanisms.sphere import Sphere
from peel_research.lab.mechanisms.subset import SingleSubset, Subset
from peel_research.lab.mechanisms.unary import Oue, Rappor, Sue

__all__ = [
    "MECHANISMS",
    "Categorical",
    "Duchi",
    "DuchiOneBit",
    "HadamardResponse",
    "Harmony",
    "Indicators",
    "Krr",
    "Laplace",
    "LocalHashing",
    "Mechanism",
    "Natural",
    "Numeric",
    "Oue",
    "Piecewise",
    "RandomisedResponse",
    "Rappor",
    "Reports",
    "SingleSubset",
    "Sparse",
    "Sphere",
    "Subset",
    "Sue",
]

MECHANISMS: tuple[type[Mechanism], ...] = (
    *(Harmony, DuchiOneBit, Piecewise, Duchi, Laplace, Sphere),
    *(RandomisedResponse, Krr, LocalHashing, HadamardResponse, SingleSubset, Subset, Sue, Oue, Rappor),
)
"""All of them, means before shares and 1-sparse ones first: each is made with a budget and a size."""
