# SPDX-License-Identifier: MIT
"""Other defences against poisoned reports, each written anew from its paper's description: correct rather than complete.

One interface (`base.Rival`): reports and what a defence assumes to know go in; flags, a share of poisoned devices or a recovered estimate
come out, or None where it does not apply. Each says where it departs from its paper.
"""

from peel_research.lab.rivals.base import Collected, Frequencies, Judgement, Knowledge, Numbers, Rival
from peel_research.lab.rivals.detect import Detect
from peel_research.lab.rivals.diffstats import Diffstats
from peel_research.lab.rivals.ldpguard import LdpGuard
from peel_research.lab.rivals.poisoncatcher import PoisonCatcher
from peel_research.lab.rivals.recover import LdpRecover, Normalised
from peel_research.lab.rivals.thresholds import Expert, NoDefence

__all__ = ["RIVALS", "Collected", "Frequencies", "Judgement", "Knowledge", "Numbers", "Rival"]

RIVALS: tuple[Rival, ...] = (
    NoDefence(),
    Expert(),
    Detect(),
    LdpGuard(knows_targets=False),
    LdpGuard(knows_targets=True),
    PoisonCatcher(has_labels=False),
    PoisonCatcher(has_labels=True),
    Diffstats(),
    Normalised(),
    LdpRecover(knows_targets=False),
    LdpRecover(knows_targets=True),
)
"""All of them, in the order of the paper's table and then by age."""
