# SPDX-License-Identifier: MIT
"""The strategies of insiders against verified coins, with the exact harm of each (`verified.pausing`)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from peel_core import Profile
from peel_gateway.engine.pardon import pardon
from peel_gateway.engine.release import release
from peel_research.promise.verified import HARMONY, HASHING, KRR, SUPPRESSION, Coin, Policy, pausing
from peel_research.promise.verified_fleet import Fleet, means, verified_profile

__all__ = ["STRATEGIES", "Hit", "Insider", "SecondChance", "Unwanted"]

_DOMAIN = 5000


class Hit(enum.Enum):
    """The answer to an audit that asks for a malformed table."""

    NOTHING = "no answer"
    SEEDS = "seeds that contradict the roots"
    RECOMMIT = "a second commitment for the same numbers, and its seeds"


class Unwanted(enum.Enum):
    """The answer to a challenge that the insider would rather not answer."""

    NOTHING = "no opening"
    OTHER_ENTRY = "the opening of another entry"
    OTHER_TABLE = "the opening of another table"
    EARLIER = "the opening that answered an earlier challenge"
    LATE = "the opening, one time bucket later"


SecondChance = Callable[[Fleet, Sequence[int]], None]
"""An action of the operator on the devices that an audit has stopped. It happens once."""


def _restore(fleet: Fleet, devices: Sequence[int]) -> None:
    fleet.restore()


def _release(fleet: Fleet, devices: Sequence[int]) -> None:
    release(fleet.store, devices, reason="does not answer", who="operator", clock=fleet.clock)


def _pardon(fleet: Fleet, devices: Sequence[int]) -> None:
    pardon(fleet.store, devices, restore=True, reason="an accident", who="operator", clock=fleet.clock)


@dataclass(frozen=True)
class Insider:
    """A strategy against verified coins."""

    name: str
    sentence: str
    reports: int = 5
    """About the target."""
    group: int = 1
    """Of them in a time bucket."""
    coin: Coin = HARMONY
    kind: str = "mean"
    """The kind of the attributes."""
    attributes: int = 1
    targets: int = 1
    """The attributes that are attacked, of several."""
    suppresses: bool = False
    """Whether it keeps one category from being said. Otherwise it pushes categories."""
    forge: bool = False
    """Whether it forges tables where that pays most."""
    keep_back: bool = False
    """Whether it keeps a group back where that pays most, and is silent from then on."""
    full: int = 0
    """A device with so many reports weighs fully in a mean over devices. With 0 it is a mean over reports."""
    hit: Hit = Hit.NOTHING
    unwanted: Unwanted = Unwanted.NOTHING
    schedule: str = "+"
    """By time bucket, repeated: `+` pushes, `-` pulls. A `.` before it pulls in a time bucket that the figure does not cover."""
    descending: bool = False
    """It sends a time bucket's reports one by one, the highest number first, and pauses once it knows that it is ahead."""
    one_by_one: bool = False
    """Likewise, the lowest number first."""
    share: float = 1.0
    """The part of the fleet that plays. The others are honest."""
    again: SecondChance | None = None

    @property
    def weighs_fully(self) -> int:
        """The reports from which on a device weighs fully, also in a mean over reports."""
        return self.full or 2 * self.reports

    @cached_property
    def policy(self) -> Policy:
        """The plan: the best one with the means of this insider."""
        return pausing(
            self.coin, self.reports, self.group, full=self.weighs_fully, keep_back=self.keep_back, forge=self.forge
        )

    @property
    def exact(self) -> float:
        """The expected harm over a liar's."""
        if self.again is not None:  # one report: a malformed table, and a second one if the audit finds the first
            assert self.reports == 1
            return float(self.coin.gain * (1 - (1 - self.coin.unaudited) ** 2))
        return self.policy.harm * (self.schedule.count("+") - self.schedule.count("-")) / len(self.schedule.strip("."))

    def profile(self) -> Profile:
        """Return the profile that is attacked."""
        attributes = {
            "mean": means(self.attributes),
            "category": [
                {"name": "door", "kind": "category", "categories": [f"c{i}" for i in range(16)], "force_category": True}
            ],
            "hashed": [{"name": "error", "kind": "hashed", "domain": _DOMAIN}],
        }[self.kind]
        return verified_profile(attributes, quota=3600, offline=1800)


STRATEGIES: tuple[Insider, ...] = (
    Insider(
        "malformed_table", "Forges tables with one outcome, and reveals the seeds if the audit asks for one.",
        forge=True, keep_back=True, hit=Hit.SEEDS,
    ),
    Insider(
        "refused_audit", "Forges tables, and answers no audit that asks for one.",
        forge=True, keep_back=True, hit=Hit.NOTHING,
    ),
    Insider(
        "double_commitment", "Forges tables, and commits again to fair ones if the audit asks for one.",
        forge=True, keep_back=True, hit=Hit.RECOMMIT,
    ),
    Insider(
        "all_in_one_bucket", "Forges tables of one time bucket, or keeps the whole bucket back.",
        group=5, forge=True, keep_back=True, hit=Hit.SEEDS,
    ),
    Insider("withheld_opening", "Keeps a bad group back where that pays most.", keep_back=True),
    Insider(
        "changed_table", "Opens another table than the committed one in place of a bad outcome.",
        keep_back=True, unwanted=Unwanted.OTHER_TABLE,
    ),
    Insider(
        "wrong_opening", "Opens another entry of its table in place of a bad one.",
        keep_back=True, unwanted=Unwanted.OTHER_ENTRY,
    ),
    Insider(
        "replayed_challenge", "Answers a bad challenge with an opening that an earlier one accepted.",
        keep_back=True, unwanted=Unwanted.EARLIER,
    ),
    Insider(
        "pausing_after_a_good_prefix", "Sends the reports of a time bucket one by one, and pauses while it is ahead.",
        reports=20, group=20, full=1, one_by_one=True,
    ),
    Insider(
        "descending_numbers", "The same, with the highest number first.",
        reports=20, group=20, full=1, descending=True,
    ),
    Insider(
        "clock_driven", "Pulls in one time bucket and pushes in the next, whose figure is watched.",
        reports=10, group=5, forge=True, keep_back=True, hit=Hit.SEEDS, schedule=".+",
    ),
    Insider(
        "one_attribute", "Attacks one of 8 attributes and is honest about the others.",
        attributes=8, forge=True, keep_back=True, hit=Hit.SEEDS,
    ),
    Insider(
        "sacrifice", "Gives up 3 of 8 attributes, which it answers at random, and pushes the others.",
        reports=10, group=5, attributes=8, targets=5, forge=True, keep_back=True, hit=Hit.SEEDS,
    ),
    Insider("hysteresis", "Pushes for four time buckets, pulls in the fifth, and begins again.", reports=20, group=2, schedule="++++-"),
    Insider(
        "suppression", "Never says what one of 5,000 categories hashes to, as far as its coins allow.",
        coin=SUPPRESSION, kind="hashed", suppresses=True, forge=True, keep_back=True, hit=Hit.SEEDS,
    ),
    Insider(
        "half_of_5000_categories", "Says the symbol that most of 2,500 categories hash to.",
        coin=HASHING, kind="hashed", forge=True, keep_back=True, hit=Hit.SEEDS,
    ),
    Insider(
        "wide_categories", "Pushes one of 16 categories (kRR, cap 10, 16 audits).",
        coin=KRR, kind="category", forge=True, keep_back=True, hit=Hit.SEEDS,
    ),
    Insider(
        "reordering_into_a_bucket", "Opens bad groups, and sends their reports again, one time bucket later.",
        reports=20, group=5, unwanted=Unwanted.LATE,
    ),
    Insider(
        "silence_over_devices", "Falls silent once its mean over devices is good; the median device sends as much as it.",
        reports=20, group=5, full=40, forge=True, keep_back=True,
    ),
    Insider(
        "silence_over_slow_devices", "The same, where the median device sends a fifth.",
        reports=20, group=5, full=8, forge=True, keep_back=True,
    ),
    Insider(
        "hit_and_run", "Forges the first report of each new identity, and leaves.",
        reports=1, forge=True, keep_back=True, hit=Hit.SEEDS,
    ),
    Insider(
        "coalition_of_5%", "A twentieth of the fleet forges tables.",
        forge=True, keep_back=True, hit=Hit.SEEDS, share=0.05,
    ),
    Insider(
        "coalition_of_20%", "A fifth of the fleet forges tables.",
        forge=True, keep_back=True, hit=Hit.SEEDS, share=0.2,
    ),
    Insider(
        "restored_database", "Forges a table, and again if an operator restores the database after the audit found the first.",
        reports=1, forge=True, again=_restore,
    ),
    Insider(
        "released", "Forges a table, answers no audit that finds it, is released, and forges again.",
        reports=1, forge=True, again=_release,
    ),
    Insider(
        "pardoned", "Forges a table, is exposed by the audit, is pardoned, and forges again.",
        reports=1, forge=True, hit=Hit.SEEDS, again=_pardon,
    ),
)  # fmt: skip
