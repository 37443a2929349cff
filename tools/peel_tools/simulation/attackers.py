# SPDX-License-Identifier: MIT
"""Attackers by kind: at least one for each layer that must expose it, and some that no layer can expose.

Network attackers see payloads and have no key: they alter a share of the honest devices' reports, or add to them. Device attackers have
the keys of their devices. Each kind lists the verdicts that its pieces must get, and the verdicts that must expose its devices.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from peel_core import Profile
from peel_core.kinds import CHOICE, HASHED, SIGN
from peel_core.primitives import READING_ONE
from peel_gateway.model.verdict import Layer, Verdict
from peel_tools.simulation import coin_tricks, tricks
from peel_tools.simulation.coin_tricks import CoinTrick
from peel_tools.simulation.tricks import BIAS, Transform

__all__ = [
    "ATTACKS",
    "Attack",
    "Knowledge",
    "Target",
    "check_shares",
    "default_shares",
    "find_attack",
    "parse_attack",
    "target_of",
]

_FORMS = {SIGN: "numbers", CHOICE: "categories", HASHED: "hashed categories"}


class Knowledge(enum.Enum):
    """An attacker's knowledge, in words."""

    PAYLOADS = "sees and alters what is on the line, and holds no key"
    KEYS = "runs the device, and holds its keys"


class Target(NamedTuple):
    """The properties of a profile that decide which attacks its devices can play."""

    forms: frozenset[int]
    """The forms of its questions."""
    verified: bool = False
    """Whether its coins are verified."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A kind of attacker, for the simulation, the demonstration, the referee and the docs."""

    transform: Transform
    """The function that alters reports. The kind has its name."""
    coin_trick: CoinTrick | None = None
    """The function that alters messages of verified coins."""
    verified: bool | None = None
    """True if it needs verified coins, False if it needs others; None if it works with both."""
    stalls: bool = False
    """Whether the gateway holds its reports without blame, so that they never count."""
    help: str
    layer: Layer | None
    """The layer that must expose it; None if no layer can."""
    knowledge: Knowledge
    verdicts: frozenset[Verdict] = frozenset()
    """The verdicts of which each bad piece must get one."""
    causes: frozenset[Verdict] = frozenset()
    """The verdicts of which one must expose each of its devices; empty for network attackers."""
    forms: frozenset[int] = frozenset(_FORMS)
    """The forms of questions that it can attack. About other questions its devices are honest."""
    share: float = 0.0
    """Its share in the demonstration."""
    patience: int | None = None
    """The number of reports about attacked questions by which the statistics must have exposed its device: more than twice what the
    slowest of many devices took, at the default alpha. None if one bad piece is enough, or nothing can expose it."""
    one_question: bool = False
    """Whether it attacks only the first question of its forms."""
    effort: float = 1.0
    """Its reports per report of an honest device. Attacks that take the statistics long report more."""
    reading: int | None = None
    """The false Q15 reading of its sensors."""

    @property
    def name(self) -> str:
        """Its name for --attack and in the truth."""
        return self.transform.__name__

    @property
    def by_device(self) -> bool:
        """Whether its share counts devices; otherwise it counts reports."""
        return self.knowledge is Knowledge.KEYS

    @property
    def layer_label(self) -> str:
        """The layer's name; empty without one."""
        return self.layer.label if self.layer else ""

    def fits(self, target: Target) -> bool:
        """Return whether it can use devices with this kind of profile."""
        return self.verified in (None, target.verified) and not self.forms.isdisjoint(target.forms)

    def patience_in(self, profile: Profile) -> int | None:
        """Return the patience in reports about any question of a profile: longer, the more seldom those that it attacks are asked."""
        weights = [question.weight for question in profile.questions if question.form in self.forms]
        if self.patience is None or not weights:
            return None
        return ceil(self.patience * profile.slots / sum(weights[:1] if self.one_question else weights))


def _network(
    transform: Transform, layer: Layer | None, verdicts: set[Verdict], text: str, *, share: float = 0.01
) -> Attack:
    return Attack(
        transform=transform, help=text, layer=layer, knowledge=Knowledge.PAYLOADS, verdicts=frozenset(verdicts), share=share
    )  # fmt: skip


def _device(
    transform: Transform, verdict: Verdict, text: str, *, only: Iterable[int] = _FORMS, share: float = 0.01,
    verified: bool | None = None,
) -> Attack:  # fmt: skip
    """Return an attack of which one bad piece exposes its device."""
    bad = frozenset({verdict})
    return Attack(
        transform=transform, help=text, layer=verdict.layer, knowledge=Knowledge.KEYS, verdicts=bad, causes=bad,
        forms=frozenset(only), share=share, verified=verified,
    )  # fmt: skip


def _statistical(
    transform: Transform, text: str, *, share: float, patience: int, effort: float, only: Iterable[int] = (SIGN,),
    one_question: bool = False,
) -> Attack:  # fmt: skip
    """Return an attack of which each single piece looks honest."""
    return Attack(
        transform=transform, help=text, layer=Layer.STATISTICS, knowledge=Knowledge.KEYS,
        causes=frozenset({Verdict.STATISTICS}), forms=frozenset(only), share=share, patience=patience, effort=effort,
        one_question=one_question, verified=False,
    )  # fmt: skip


def _on_coins(transform: Transform, coin_trick: CoinTrick, text: str, *, exposed: bool) -> Attack:
    """Return an attack on verified coins: one message exposes its device, or the device stalls."""
    bad = frozenset({Verdict.COIN} if exposed else ())
    return Attack(
        transform=transform, coin_trick=coin_trick, help=text, layer=Layer.COIN if exposed else None,
        knowledge=Knowledge.KEYS, verdicts=bad, causes=bad, share=0.01, verified=True, stalls=not exposed,
    )  # fmt: skip


_L, _V = Layer, Verdict
_KINDS = (
    _network(tricks.garbage, _L.PARSE, {_V.MALFORMED, _V.PROFILE}, "Random bytes of any length."),
    _network(tricks.truncation, _L.PARSE, {_V.MALFORMED}, "Copies of reports, cut short."),
    _network(tricks.trailing, _L.PARSE, {_V.MALFORMED, _V.PROFILE}, "Random bytes behind an honest report.", share=0),
    _network(tricks.stranger, _L.PARSE, {_V.DEVICE}, "Reports of devices that do not exist."),
    _network(tricks.foreign, _L.PARSE, {_V.PROFILE}, "Reports under a profile that is not the device's."),
    _network(tricks.forgery, _L.SEAL, {_V.SEAL}, "Reports in a device's name under another key."),
    _network(tricks.tampering, _L.SEAL, {_V.SEAL}, "Reports with one bit changed on the way."),
    _network(tricks.negation, _L.SEAL, {_V.SEAL}, "Reports with their codeword negated on the way."),
    _network(tricks.unsealed, _L.SEAL, {_V.UNSEALED}, "Negated copies with the seal taken off.", share=0),
    _network(tricks.splice, _L.SEAL, {_V.SEAL}, "Copies of reports under another device's name."),
    _network(tricks.replay, _L.FRESHNESS, {_V.REDELIVERED}, "The same bytes again; harmless, counted once."),
    _network(tricks.loss, None, set(), "Reports that never arrive; nobody's fault."),
    _device(tricks.reuse, _V.REUSED, "Devices that toss a second coin under a used number."),
    # With verified coins these numbers are in no approved batch, so the reports are refused without blame.
    _device(tricks.flood, _V.FLOOD, "Devices that jump to numbers far ahead.", verified=False),
    _device(tricks.budget, _V.RULE, "Devices that toss with twice the epsilon."),
    _device(
        tricks.target, _V.SUPPORT, "Devices that answer one question whatever their numbers assign (MGA).",
        only=(SIGN,), share=0.02,
    ),
    _device(tricks.encoder, _V.STRUCTURE, "Devices with another projection."),
    _device(tricks.noise, _V.STRUCTURE, "Devices that add noise to the codeword."),
    _statistical(tricks.stuck, "Devices whose coin always shows plus.", share=0.02, patience=140, effort=2),
    _statistical(
        tricks.biased, f"Devices whose coin shows plus {BIAS:.0%} of the time.", share=0.02, patience=450, effort=6
    ),
    _statistical(
        tricks.mixed, "Devices biased in a direction of their own for each question.", share=0.01, patience=150, effort=4
    ),
    _statistical(
        tricks.sleeper, "Devices that toss honestly at first, then show plus.", share=0.01, patience=300, effort=4
    ),
    _statistical(
        tricks.subset, "Devices that name half of the categories, evenly.", share=0.01, patience=110, effort=4,
        only=(CHOICE,),
    ),
    _statistical(
        tricks.overreport, "Devices that always speak for one category.", share=0.02, patience=220, effort=2,
        only=(CHOICE, HASHED),
    ),
    _statistical(
        tricks.hide_minus, "Devices that keep their minus reports back.", share=0.01, patience=150, effort=4
    ),
    _statistical(
        tricks.hide_attribute, "Devices that keep the reports of one question back.", share=0.01, patience=50, effort=6,
        one_question=True,
    ),
    Attack(
        transform=tricks.sensor, help="Devices whose sensor lies; no private protocol can expose it.", layer=None,
        knowledge=Knowledge.KEYS, forms=frozenset({SIGN}), reading=READING_ONE,
    ),
    Attack(
        transform=tricks.burst, layer=None, knowledge=Knowledge.KEYS, forms=frozenset({SIGN}),
        help="Devices that save reports of a false reading and send them at once; bounded: no bucket holds more than its quota's part.",
        reading=READING_ONE,
    ),
    _on_coins(
        tricks.malformed_table, coin_tricks.malform, "Devices that commit to tables which do not fit their seeds.", exposed=True
    ),
    _on_coins(tricks.wrong_opening, coin_tricks.forge_opening, "Devices that forge the opening of a coin.", exposed=True),
    _on_coins(
        tricks.withheld_opening, coin_tricks.withhold_openings,
        "Devices that never open their coins; not exposed, but their reports never count.", exposed=False,
    ),
    _on_coins(
        tricks.refused_audit, coin_tricks.refuse_audits,
        "Devices that never answer an audit; not exposed, but they have no number to report under.", exposed=False,
    ),
)  # fmt: skip

ATTACKS: dict[str, Attack] = {attack.name: attack for attack in _KINDS}


def find_attack(name: str) -> Attack:
    """Return a kind by name. ValueError lists the known ones."""
    if name not in ATTACKS:
        raise ValueError(f"unknown attack {name!r}; known are: {', '.join(ATTACKS)}")
    return ATTACKS[name]


def target_of(profile: Profile) -> Target:
    """Return the properties of a profile that decide which attacks fit it."""
    return Target(frozenset(block.form for block in profile.blocks), profile.verified)


def default_shares(targets: Iterable[Target]) -> dict[str, float]:
    """Return the demonstration's attackers on these profiles. They have a part of the devices and reports."""
    fitting = _fitting(targets)
    return {name: ATTACKS[name].share for name in fitting if ATTACKS[name].share}


def check_shares(shares: Mapping[str, float], targets: Collection[Target]) -> None:
    """Raise ValueError for an unknown kind, or one that can attack none of these profiles."""
    fitting = _fitting(targets)
    for name, share in shares.items():
        attack = find_attack(name)
        if share > 0 and name not in fitting:
            raise ValueError(
                f"{name}={share:g}: fits no device of this fleet. It attacks {_needs(attack)}, and the profiles have only "
                f"{' and '.join(sorted({_described(target) for target in targets}))}. Choose one of: {', '.join(fitting)}"
            )


def _fitting(targets: Iterable[Target]) -> list[str]:
    all_targets = list(targets)
    return [name for name, attack in ATTACKS.items() if any(map(attack.fits, all_targets))]


def _needs(attack: Attack) -> str:
    coins = {None: "", True: " with verified coins", False: " without verified coins"}[attack.verified]
    return _named(attack.forms) + coins


def _described(target: Target) -> str:
    return _named(target.forms) + (" with verified coins" if target.verified else "")


def _named(forms: Collection[int]) -> str:
    return " and ".join(_FORMS[form] for form in sorted(forms))


def parse_attack(text: str) -> tuple[str, float]:
    """Parse `kind=share`. Raise ValueError if it is malformed."""
    name, _, share = text.partition("=")
    find_attack(name)
    try:
        value = float(share)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"{text!r}: give the share as a number from 0 to 1, such as {name}=0.05")
    return name, value
