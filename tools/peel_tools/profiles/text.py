# SPDX-License-Identifier: MIT
"""New profiles as text: from what they are about to a file with a seed found by search."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from peel_core import Profile, ProfileError, choice, parse_profile, projection
from peel_core.profile import DEFAULT_WIDTH

__all__ = ["Draft", "category_table", "domain_table", "number_table"]

_TEMPLATE = """\
# A Peel profile: what a fleet's devices and its gateway agree on. Changing anything here makes another profile id.

name = "{name}"
mechanism = "{mechanism}"
epsilon = {epsilon}      # privacy budget of one report; every report number spends it once
width = {width}         # columns of the projection
seed = {seed}           # found by search: all codewords decode to themselves
quota = {quota}          # report numbers in any window of a period
period = {period}       # seconds
{lifetime}"""
_FORCED = "force_krr = true    # hashing would be better: lower variance, and less weight for a forged report\n"


def number_table(name: str, low: str, high: str, unit: str = "") -> str:
    """The [[attribute]] table of a numeric attribute; its range as written."""
    return f"\n[[attribute]]\nname = {json.dumps(name)}\nunit = {json.dumps(unit, ensure_ascii=False)}\nlow = {low}\nhigh = {high}\n"


def category_table(name: str, categories: Sequence[str]) -> str:
    """That of an attribute with these categories."""
    return (
        f"\n[[attribute]]\nname = {json.dumps(name)}\ncategories = {json.dumps(list(categories), ensure_ascii=False)}\n"
    )


def domain_table(name: str, count: int) -> str:
    """That of an attribute with so many categories without names."""
    return f"\n[[attribute]]\nname = {json.dumps(name)}\ndomain = {count}\n"


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A profile without mechanism and seed."""

    name: str
    tables: str
    """Its [[attribute]] tables."""
    numeric: bool
    epsilon: str = "1.0"
    quota: int = 60
    period: int = 3600
    lifetime: int | None = None
    width: int | None = None
    force_krr: bool = False
    progress: Callable[[int], None] = field(default=lambda tried: None, compare=False)
    """Called with each seed that was tried."""

    def text(self) -> str:
        """The whole file. ProfileError says what is wrong with the draft, LookupError that no seed was found."""
        mechanism, forced = "harmony" if self.numeric else "hashing", ""
        draft = parse_profile(self._filled(mechanism, forced, self.width or 1024, 0))
        if draft.categories and (self.force_krr or not choice.hashing_is_better(draft.epsilon_q20, draft.domain)):
            mechanism = "krr"
            forced = _FORCED * choice.hashing_is_better(draft.epsilon_q20, draft.domain)
            draft = parse_profile(self._filled(mechanism, forced, self.width or 1024, 0))
        width = self.width or max(DEFAULT_WIDTH, draft.k)
        return self._filled(mechanism, forced, width, self._seed(width, draft))

    def _filled(self, mechanism: str, forced: str, width: int, seed: int) -> str:
        lifetime = (
            ""
            if self.lifetime is None
            else f"lifetime = {self.lifetime}  # report numbers over a device's whole life\n"
        )
        head = _TEMPLATE.format(
            name=self.name, mechanism=mechanism, epsilon=self.epsilon, width=width, seed=seed, quota=self.quota,
            period=self.period, lifetime=lifetime,
        )  # fmt: skip
        return head + forced + self.tables

    def _seed(self, width: int, draft: Profile) -> int:
        if width < draft.k:
            raise ProfileError("width", f"must be at least the number of symbols, {draft.k}, got {width}")
        seed, _ = projection.search_seed(width, draft.k, progress=self.progress)
        return seed
