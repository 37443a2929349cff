# SPDX-License-Identifier: MIT
"""Verdicts on reports: each report has one, that of the first layer that objects.

This is the one table of verdicts: screening, listings, metrics and docs read it. The numbers are stored in the database and never change
meaning.
"""

from __future__ import annotations

import enum

__all__ = ["BLAMED", "LAYERS", "LOGGED", "NETWORK", "Blame", "Layer", "Verdict"]


class Layer(enum.Enum):
    """The layers in the order in which they look at a report; each value says what the layer exposes."""

    PARSE = "malformed frames, other versions, unknown devices and profiles"
    SEAL = "forgery, tampering, negation, splicing, copies from another device"
    FRESHNESS = "a number used for two bodies, floods, jumping ahead"
    RULE = "a changed epsilon"
    SUPPORT = "a chosen attribute"
    STRUCTURE = "a changed encoder, another projection, noise"
    COIN = "a table of coins that is not the committed one, an outcome that was not committed"
    STATISTICS = "selective loss; without verified coins also a biased coin and a value sent too often"
    WITHDRAWAL = "what an exposed device had sent before, and sends after"

    @property
    def label(self) -> str:
        """The lower-case name used in listings and docs."""
        return self.name.lower()


LAYERS: tuple[Layer, ...] = tuple(Layer)


class Blame(enum.Enum):
    """The party that can have caused a verdict."""

    NOBODY = "nobody"
    """There is nothing to object to."""
    NETWORK = "network"
    """No seal vouches for the report, or (stale) it may well be honest: quarantined, no device is blamed."""
    DEVICE = "device"
    """Only the holder of the device's key: it exposes the device."""
    EARLIER = "earlier"
    """Its device, by what it did before."""


class Verdict(enum.IntEnum):
    """The verdicts in the order of the layers that give them."""

    layer: Layer | None
    """The layer that gives it; None for reports that nobody objects to."""
    blame: Blame
    logged: bool
    """Whether such a report uses up its number and has a row in the log."""
    sentence: str
    """The meaning, for people."""

    def __new__(
        cls,
        value: int,
        layer: Layer | None = None,
        blame: Blame = Blame.NOBODY,
        logged: bool = False,
        sentence: str = "",
    ) -> Verdict:
        """A row of the table; the defaults are for type checkers, who take `Verdict(7)` for a call of this."""
        verdict = int.__new__(cls, value)
        verdict._value_ = value
        verdict.layer, verdict.blame, verdict.logged, verdict.sentence = layer, blame, logged, sentence
        return verdict

    ACCEPTED = 0, None, Blame.NOBODY, True, "Passed every layer and counts."
    REDELIVERED = 1, None, Blame.NOBODY, False, "The same bytes again: harmless, counted once."
    MALFORMED = (
        2, Layer.PARSE, Blame.NETWORK, False,
        "Not a frame: wrong version, flags, length or number.",
    )  # fmt: skip
    DEVICE = (
        3,
        Layer.PARSE,
        Blame.NETWORK,
        False,
        "Names a device that is not registered, or a number that it has no bundle for.",
    )
    PROFILE = 4, Layer.PARSE, Blame.NETWORK, False, "Names an unknown profile, or one that is not this device's."
    REVOKED = 5, Layer.PARSE, Blame.NETWORK, False, "Names a device that the operator has revoked."
    UNSEALED = 6, Layer.SEAL, Blame.NETWORK, False, "Carries no seal where one is needed."
    SEAL = 7, Layer.SEAL, Blame.NETWORK, False, "The seal does not fit: forged or altered."
    STALE = (
        8, Layer.FRESHNESS, Blame.NETWORK, False,
        "Its number was used, or given up, too long ago to tell whether it is the same report.",
    )  # fmt: skip
    REUSED = 9, Layer.FRESHNESS, Blame.DEVICE, False, "Another body under a number that was used before."
    FLOOD = 10, Layer.FRESHNESS, Blame.DEVICE, False, "Its number is ahead of what quota and time allow."
    RULE = 11, Layer.RULE, Blame.DEVICE, True, "Tossed with other odds than the profile's."
    SUPPORT = (
        12, Layer.SUPPORT, Blame.DEVICE, True,
        "A codeword for another question than the number assigns, or for none.",
    )  # fmt: skip
    STRUCTURE = 13, Layer.STRUCTURE, Blame.DEVICE, True, "Not a codeword of the profile's projection."
    STATISTICS = (
        14, Layer.STATISTICS, Blame.DEVICE, True,
        "Tipped the balance: the device's coin is no honest coin.",
    )  # fmt: skip
    WITHDRAWN = (
        15, Layer.WITHDRAWAL, Blame.EARLIER, True,
        "Nothing wrong with it, but its device has been exposed.",
    )  # fmt: skip
    NO_READING = (
        16, None, Blame.NOBODY, True,
        "Its device says that the sensor gave no reading: the number is used, and no estimate changes.",
    )  # fmt: skip

    COIN = (
        17, Layer.COIN, Blame.DEVICE, False,
        "Its coin is not the one that the device committed to.",
    )  # fmt: skip
    UNCOMMITTED = (
        18, Layer.COIN, Blame.NETWORK, False,
        "Its number is in no approved batch of verified coins.",
    )  # fmt: skip
    REVEALED = (
        19, None, Blame.NOBODY, True,
        "Its coin was revealed in an audit: the number is used, and no report has it.",
    )  # fmt: skip
    HELD = (
        20, None, Blame.NOBODY, True,
        "Passed every layer. It counts once its verified coin is opened.",
    )  # fmt: skip
    VOID = (
        21, None, Blame.NOBODY, False,
        "Was held. Its coin can never be opened, because its batch became void.",
    )  # fmt: skip

    @property
    def label(self) -> str:
        """The lower-case name used in listings, JSON and metrics."""
        return self.name.lower()

    @classmethod
    def parse(cls, label: str) -> Verdict:
        """Return the verdict with this label; ``ValueError`` names the ones there are."""
        try:
            return cls[label.upper()]
        except KeyError:
            known = ", ".join(verdict.label for verdict in cls)
            raise ValueError(f"unknown verdict {label!r}; known are: {known}") from None


NETWORK = frozenset(verdict for verdict in Verdict if verdict.blame is Blame.NETWORK)
BLAMED = frozenset(verdict for verdict in Verdict if verdict.blame is Blame.DEVICE)
LOGGED = frozenset(verdict for verdict in Verdict if verdict.logged)
