# SPDX-License-Identifier: MIT
"""The locally private mechanisms of the lab behind one interface: those that devices run, by the core, and those of the literature.

>>> import numpy as np
>>> from peel_tools.lab.mechanisms import Krr
>>> krr, rng = Krr(epsilon=1.0, size=4), np.random.default_rng(1)
>>> reports = krr.perturb(np.repeat([0, 1, 2, 3], [400, 300, 200, 100]), rng)
>>> krr.estimate_sparse(krr.sparse(reports, rng)).shape
(4,)
"""

from peel_tools.lab.mechanisms.base import Categorical, Mechanism, Natural, Numeric, Reports
from peel_tools.lab.mechanisms.devices import Harmony, Krr, LocalHashing
from peel_tools.lab.mechanisms.laplace import Laplace
from peel_tools.lab.mechanisms.sampling import Sparse

__all__ = [
    "MECHANISMS",
    "Categorical",
    "Harmony",
    "Krr",
    "Laplace",
    "LocalHashing",
    "Mechanism",
    "Natural",
    "Numeric",
    "Reports",
    "Sparse",
]

MECHANISMS: tuple[type[Mechanism], ...] = (Harmony, Laplace, Krr, LocalHashing)
"""All of them: each is made with a budget and a size."""
