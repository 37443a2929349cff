# SPDX-License-Identifier: MIT
"""A registered device, the bundles issued to it, and the report numbers of its next bundle.

No number is given out twice, so a device never reuses one.
"""

from __future__ import annotations

import math
import re
import secrets
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from itertools import pairwise

from peel_core import Profile, burst_size
from peel_core.keys import SALT_BYTES
from peel_gateway.exits import Exit
from peel_gateway.model.gateway_time import RATE_SLACK

__all__ = [
    "ACTIVE",
    "MOST_TAGS",
    "REVOKED",
    "Device",
    "FleetError",
    "IssuedBundle",
    "check_tags",
    "device_label",
    "first_free",
    "no_such_tag",
    "parse_device",
    "tag_normalized",
    "with_new_bundle",
]

ACTIVE = "active"

REVOKED = "revoked"

MOST_TAGS = 16

_TAG_CHARACTERS = 32

_TAG_BYTES = 64

_IN_NO_TAG = "/+#,"
"""MQTT's separator and wildcards, and the comma that separates tags in listings."""

_UNSEEN = {"Cc", "Cs", "Zl", "Zp"}
"""Unicode categories: control characters, surrogates, line and paragraph separators."""

_REORDERING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
"""Classes of characters that reorder the text around them, so that one tag could look like another."""

_NAMED = 20
"""Most tags that a message lists."""

_COMPARED = 1000
"""Most tags that are compared with a misspelt one, which takes milliseconds."""


class FleetError(Exception):
    """A fleet folder cannot be used; the message names the file and the remedy."""

    exit_code = Exit.FLEET


def device_label(device: int) -> str:
    """Return a device id as in topics, listings and file names: eight hexadecimal digits."""
    return f"{device:08x}"


def parse_device(text: str) -> int:
    """Parse a device id: up to eight hexadecimal digits, not all 0."""
    if not re.fullmatch("[0-9a-fA-F]{1,8}", text):
        raise FleetError(f"device {text!r}: must be a hexadecimal number of up to 8 digits, such as 0000002a")
    if not (device := int(text, 16)):
        raise FleetError(f"device {text!r}: must be from 00000001 to ffffffff")
    return device


def tag_normalized(text: str) -> str:
    """Return a tag in Unicode's normal form C: keyboards and file systems write the same letter in several ways."""
    return unicodedata.normalize("NFC", text)


def check_tags(texts: Sequence[str]) -> tuple[str, ...]:
    """Return tags normalized and sorted. Raises FleetError for malformed and duplicate ones, and for more than `MOST_TAGS`."""
    tags = sorted(map(_checked_tag, texts))
    for one, next_one in pairwise(tags):
        if one == next_one:
            raise FleetError(f"tag {one!r}: given twice. Give each tag once.")
    if len(tags) > MOST_TAGS:
        raise FleetError(f"tags: {len(tags)} given, but a device has at most {MOST_TAGS}. Leave some out.")
    return tuple(tags)


def _checked_tag(text: str) -> str:
    tag, shown = tag_normalized(text), repr(text[: 2 * _TAG_CHARACTERS])
    size = len(tag.encode(errors="surrogatepass"))
    if not 1 <= len(tag) <= _TAG_CHARACTERS or size > _TAG_BYTES:
        raise FleetError(
            f"tag {shown}: must have 1 to {_TAG_CHARACTERS} characters and at most {_TAG_BYTES} bytes in UTF-8, "
            f"got {len(tag)} characters and {size} bytes. Choose another."
        )
    if tag != tag.strip() or any(_is_refused(character) for character in tag):
        raise FleetError(
            f"tag {shown}: must not begin or end with a space, and must not contain {' '.join(_IN_NO_TAG)} or control characters. "
            "Leave them out."
        )
    return tag


def _is_refused(character: str) -> bool:
    return (
        character in _IN_NO_TAG
        or unicodedata.category(character) in _UNSEEN
        or unicodedata.bidirectional(character) in _REORDERING
    )


def no_such_tag(tag: str, known: Sequence[str]) -> str:
    """Return an error message for a tag that no device has, with similar ones or the first ones of `known`."""
    if not known:
        return f"no device has {tag!r}, nor any other tag; add tags with `peel fleet tag`"
    if near := get_close_matches(tag, known[:_COMPARED]):
        return f"no device has {tag!r}; similar tags are: {', '.join(near)}"
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return f"no device has {tag!r}; the tags are: {', '.join(known[:_NAMED])}{more}"


@dataclass(frozen=True, kw_only=True, slots=True)
class IssuedBundle:
    """The record of a bundle that was issued to a device: its numbers and its quota."""

    first_number: int
    last_number: int
    """The device uses no number above it, so the next bundle can begin there whatever the clocks say."""
    salt: bytes
    """16 random bytes that go into its keys: no other bundle has the same keys, even if devices.jsonl is an old copy."""
    made: str
    """ISO 8601 with time zone."""
    profile: str
    profile_id: str
    """The id of the profile at that time, eight hexadecimal digits. A name can be reused for another profile, an id cannot."""
    quota: int
    period: int

    @property
    def time(self) -> datetime:
        """The time at which it was made."""
        return datetime.fromisoformat(self.made)

    def first_unused(self, now: datetime) -> int:
        """Return the lowest number that a device with this bundle cannot have used.

        A device may use a burst at once and then its quota as time passes (SPEC section 10), on the fastest clock that the gateway
        tolerates (`RATE_SLACK`).
        """
        elapsed = max(0.0, (now - self.time).total_seconds())
        burst = burst_size(self.quota)
        return self.first_number + burst + math.ceil(RATE_SLACK * (self.quota + 1 - burst) * elapsed / self.period)


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """A registered device."""

    id: int
    profile: str
    state: str = ACTIVE
    note: str = ""
    tags: tuple[str, ...] = ()
    """A floor, a zone or a customer, for example; sorted. The device counts in the estimates of each of them."""
    created: str
    """ISO 8601 with time zone."""
    bundles: tuple[IssuedBundle, ...] = ()
    """All bundles ever issued to it, by first number. Each has its own keys; the last one is the present one."""

    @property
    def label(self) -> str:
        return device_label(self.id)


_BUNDLE_SECONDS = 20 * 365.25 * 86400
"""A bundle has numbers for twenty years at full quota, so no device runs out of them."""

_MOST_NUMBERS = 2**40

_LAST_NUMBER = 2**48 - 1

_CLOCK_STEP = timedelta(minutes=1)
"""Clock corrections of up to this size are tolerated: elapsed time is taken to be this much longer."""


def with_new_bundle(
    device: Device,
    profiles: Mapping[str, Profile],
    now: datetime,
    seen: datetime,
    first_number: int | None = None,
    used: int = 0,
) -> Device:
    """Return the device with a further bundle, made now.

    `seen` is the latest time in devices.jsonl. Numbers up to `used` were used with bundles that the file does not list.
    """
    if device.profile not in profiles:
        raise FleetError(
            f"device {device.label}: its profile {device.profile!r} is not in the fleet. Put {device.profile}.toml back into profiles/."
        )
    rate = profiles[device.profile]
    if first_number is None and _by_clock(device, rate):
        _check_clock(device, now, max(seen, device.bundles[-1].time))
    lowest = first_free(device, rate, now, used)
    if first_number is not None and first_number < lowest:
        raise FleetError(
            f"device {device.label}: --first-number is {first_number}, but it may have used all numbers below {lowest} with its "
            "former bundles. Leave --first-number out, or give that or more."
        )
    first = first_number or lowest
    if rate.lifetime is not None and first > rate.lifetime:
        raise FleetError(
            f"device {device.label}: may have used all {rate.lifetime} numbers of its profile's lifetime. "
            "Enrol a new device with `peel fleet add`."
        )
    if first > _LAST_NUMBER:
        raise FleetError(f"device {device.label}: no report numbers are left. Enrol a new device.")
    issue = IssuedBundle(
        first_number=first,
        last_number=_last_number(first, rate),
        salt=secrets.token_bytes(SALT_BYTES),
        made=now.isoformat(timespec="seconds"),
        profile=device.profile,
        profile_id=f"{rate.id:08x}",
        quota=rate.quota,
        period=rate.period,
    )
    return replace(device, bundles=(*device.bundles, issue))


def _last_number(first: int, rate: Profile) -> int:
    """Return the last number of a bundle that begins with `first`."""
    numbers = min(_MOST_NUMBERS, math.ceil(_BUNDLE_SECONDS * rate.quota / rate.period))
    return min(first - 1 + numbers, rate.lifetime or _LAST_NUMBER)


def _by_clock(device: Device, rate: Profile) -> bool:
    """Return whether the last bundle has all the numbers left in the lifetime. Then only elapsed time bounds those it has used."""
    return bool(device.bundles) and rate.lifetime is not None and device.bundles[-1].last_number >= rate.lifetime


def first_free(device: Device, rate: Profile, now: datetime, used: int = 0) -> int:
    """Return the lowest number above `used` that no bundle of the device allowed.

    If the last bundle has all the numbers left in the lifetime, return the lowest one that it cannot have used by now.
    """
    if not device.bundles:
        return used + 1
    former = device.bundles[-1]
    lowest = former.first_unused(now + _CLOCK_STEP) if _by_clock(device, rate) else former.last_number + 1
    return max(lowest, used + 1)


def _check_clock(device: Device, now: datetime, seen: datetime) -> None:
    """Raise FleetError if the clock was set back: then the elapsed time is unknown."""
    if now + _CLOCK_STEP < seen:
        raise FleetError(
            f"device {device.label}: this machine's clock says {now.isoformat(timespec='seconds')}, but devices.jsonl was written at "
            f"{seen.isoformat(timespec='seconds')}. So it is unknown how many numbers the device has used since. Set the clock. If it "
            "is right now and was wrong then, give --first-number, above every number that the device can have used: the last in "
            "`peel gateway devices`, and as many more as its quota allows since."
        )
