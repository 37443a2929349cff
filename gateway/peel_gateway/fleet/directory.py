# SPDX-License-Identifier: MIT
"""All registered devices as columns: a fleet may have a million of them.

Values that many devices share (profile, state, note, tags, creation time) are stored once in `infos`, and each device has a position in
it. Bundles do the same with `bundle_infos`. A device with one bundle takes about 50 bytes. `Device` objects are made on access.
"""

from __future__ import annotations

import json
import secrets
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import numpy.typing as npt

from peel_core.keys import SALT_BYTES
from peel_gateway.fleet.device import (
    ACTIVE,
    REVOKED,
    Device,
    FleetError,
    IssuedBundle,
    check_tags,
    device_label,
    parse_device,
)

__all__ = ["BundleInfo", "DeviceDirectory", "DeviceInfo"]

Ints = npt.NDArray[np.int64]
Salts = npt.NDArray[np.uint8]
Value = TypeVar("Value", bound=tuple[Any, ...])


class DeviceInfo(NamedTuple):
    """The fields of a `Device` without its id and its bundles."""

    profile: str
    state: str
    note: str
    tags: tuple[str, ...]
    created: str


class BundleInfo(NamedTuple):
    """The fields of an `IssuedBundle` without its numbers and its salt."""

    made: str
    profile: str
    profile_id: str
    quota: int
    period: int


@dataclass(frozen=True, eq=False)
class DeviceDirectory(Sequence[Device]):
    """All devices, by ascending id: D devices with B bundles."""

    ids: npt.NDArray[np.uint32]
    """Ascending, uint32[D]."""
    info_of: npt.NDArray[np.int32]
    """Positions in `infos`, int32[D]."""
    ends: Ints
    """End of each device's bundles, int64[D]; they begin at the end of the previous device's."""
    first: Ints
    """First number of each bundle, int64[B], by device and number."""
    last: Ints
    salts: Salts
    """Of each bundle, uint8[B, 16]."""
    bundle_info_of: npt.NDArray[np.int32]
    """Positions in `bundle_infos`, int32[B]."""
    infos: tuple[DeviceInfo, ...]
    bundle_infos: tuple[BundleInfo, ...]

    @classmethod
    def of(cls, devices: Iterable[Device]) -> DeviceDirectory:
        """Build a directory from devices in any order."""
        columns = _Columns()
        for device in devices:
            columns.add(
                device.id,
                _device_info(device),
                [(each.first_number, each.last_number, each.salt, _bundle_info(each)) for each in device.bundles],
            )
        return columns.directory()

    @classmethod
    def alike(cls, ids: npt.ArrayLike, device: Device) -> DeviceDirectory:
        """Build a directory of copies of a device under these ascending ids, each with new salts."""
        who = np.asarray(ids, np.uint32)
        one = cls.of([device])
        return cls(
            ids=who,
            info_of=np.zeros(len(who), np.int32),
            ends=len(one.first) * np.arange(1, len(who) + 1, dtype=np.int64),
            first=np.tile(one.first, len(who)),
            last=np.tile(one.last, len(who)),
            salts=_salt_rows(secrets.token_bytes(SALT_BYTES * len(who) * len(one.first))),
            bundle_info_of=np.tile(one.bundle_info_of, len(who)),
            infos=one.infos,
            bundle_infos=one.bundle_infos,
        )

    @classmethod
    def parse(cls, rows: Iterable[Mapping[str, Any]]) -> DeviceDirectory:
        """Parse the rows of `lines`. Raises ValueError, KeyError or TypeError for a malformed one."""
        columns = _Columns()
        for row in rows:
            bundles = [
                (
                    each["first_number"],
                    each["last_number"],
                    bytes.fromhex(each["salt"]),
                    BundleInfo(each["made"], each["profile"], each["profile_id"], each["quota"], each["period"]),
                )
                for each in row.get("bundles", ())
            ]
            info = DeviceInfo(row["profile"], row["state"], row.get("note", ""), _parse_tags(row), row["created"])
            columns.add(parse_device(row["id"]), info, bundles)
        directory = columns.directory()
        directory._check()
        return directory

    def lines(self) -> Iterator[str]:
        """Yield each device as a line of JSON."""
        infos = [json.dumps(each._asdict(), ensure_ascii=False)[1:-1] for each in self.infos]
        texts = [json.dumps(each._asdict(), ensure_ascii=False)[1:-1] for each in self.bundle_infos]
        salts = self.salts.tobytes().hex()
        size = 2 * SALT_BYTES
        numbers = zip(self.first.tolist(), self.last.tolist(), self.bundle_info_of.tolist(), strict=True)
        bundles = [
            f'{{"first_number": {first}, "last_number": {last}, "salt": "{salts[size * row : size * row + size]}", {texts[place]}}}'
            for row, (first, last, place) in enumerate(numbers)
        ]
        begin = 0
        for device, info, end in zip(self.ids.tolist(), self.info_of.tolist(), self.ends.tolist(), strict=True):
            yield f'{{"id": "{device_label(device)}", {infos[info]}, "bundles": [{", ".join(bundles[begin:end])}]}}\n'
            begin = end

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, row: int) -> Device: ...

    @overload
    def __getitem__(self, row: slice) -> list[Device]: ...

    def __getitem__(self, row: int | slice) -> Device | list[Device]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        place = range(len(self))[row]
        begin, end = int(self.ends[place - 1]) if place else 0, int(self.ends[place])
        numbers = zip(
            *(column[begin:end].tolist() for column in (self.first, self.last, self.bundle_info_of)), strict=True
        )
        salts = [salt.tobytes() for salt in self.salts[begin:end]]
        return Device(
            id=int(self.ids[place]),
            **self.infos[self.info_of[place]]._asdict(),
            bundles=tuple(
                [
                    IssuedBundle(first_number=a, last_number=b, salt=salt, **self.bundle_infos[info]._asdict())
                    for (a, b, info), salt in zip(numbers, salts, strict=True)
                ]
            ),
        )

    def rows(self, ids: npt.ArrayLike) -> Ints:
        """Return the positions of device ids, -1 for those that are not registered."""
        wanted = np.asarray(ids, np.int64)
        if not len(self):
            return np.full(wanted.shape, -1, np.int64)
        place = np.minimum(np.searchsorted(self.ids, wanted), len(self) - 1)
        return np.asarray(np.where(self.ids[place] == wanted, place, -1), np.int64)

    def has(self, device: int) -> bool:
        """Return whether a device is registered."""
        place = int(np.searchsorted(self.ids, device))
        return place < len(self) and int(self.ids[place]) == device

    def per_device(self, said: Callable[[DeviceInfo], Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a value for each device, computed once per distinct `DeviceInfo`, [D]."""
        return np.array([said(info) for info in self.infos], dtype)[self.info_of]

    def matching(self, profile: str | None, tag: str | None) -> npt.NDArray[np.bool_]:
        """Return whether each device has this profile and this tag, bool[D]; None matches all."""
        return self.per_device(
            lambda info: profile in (None, info.profile) and (tag is None or tag in info.tags), np.bool_
        )

    def by_tag(self) -> dict[str, npt.NDArray[np.uint32]]:
        """Return the ids of each tag's devices, sorted by tag. A device is listed under each of its tags."""
        ids = self.ids[np.argsort(self.info_of, kind="stable")]
        ends = np.cumsum(np.bincount(self.info_of, minlength=len(self.infos)))
        parts: dict[str, list[npt.NDArray[np.uint32]]] = {}
        for info, part in zip(self.infos, np.split(ids, ends[:-1]), strict=False):
            for tag in info.tags:
                parts.setdefault(tag, []).append(part)
        return {tag: np.sort(np.concatenate(parts[tag])) for tag in sorted(parts)}

    @property
    def tags(self) -> list[str]:
        """All tags, sorted."""
        return sorted({tag for info in self.infos for tag in info.tags})

    def per_bundle(self, said: Callable[[BundleInfo], Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a value for each bundle, computed once per distinct `BundleInfo`, [B]."""
        return np.array([said(info) for info in self.bundle_infos], dtype)[self.bundle_info_of]

    @property
    def counts(self) -> Ints:
        """Number of bundles of each device, int64[D]."""
        return np.diff(self.ends, prepend=0)

    @property
    def owners(self) -> Ints:
        """Position of each bundle's device, int64[B]."""
        return np.repeat(np.arange(len(self)), self.counts)

    def take(self, rows: Ints) -> DeviceDirectory:
        """Return the devices at these positions, in this order; the caller sees to ascending ids."""
        counts = self.counts[rows]
        ends = np.cumsum(counts)
        bundles = np.repeat((self.ends - self.counts)[rows] - (ends - counts), counts) + np.arange(counts.sum())
        info_of, infos = _compact(self.info_of[rows], self.infos)
        bundle_info_of, bundle_infos = _compact(self.bundle_info_of[bundles], self.bundle_infos)
        return DeviceDirectory(
            ids=self.ids[rows],
            info_of=info_of,
            ends=ends,
            first=self.first[bundles],
            last=self.last[bundles],
            salts=self.salts[bundles],
            bundle_info_of=bundle_info_of,
            infos=infos,
            bundle_infos=bundle_infos,
        )

    def updated(self, new: DeviceDirectory) -> DeviceDirectory:
        """Return the directory with these devices added; they replace devices with the same ids."""
        kept = self.take(np.flatnonzero(~np.isin(self.ids, new.ids)))
        both = DeviceDirectory(
            ids=np.concatenate([kept.ids, new.ids]),
            info_of=np.concatenate([kept.info_of, new.info_of + np.int32(len(kept.infos))]),
            ends=np.cumsum(np.concatenate([kept.counts, new.counts])),
            first=np.concatenate([kept.first, new.first]),
            last=np.concatenate([kept.last, new.last]),
            salts=np.concatenate([kept.salts, new.salts]),
            bundle_info_of=np.concatenate([kept.bundle_info_of, new.bundle_info_of + np.int32(len(kept.bundle_infos))]),
            infos=kept.infos + new.infos,
            bundle_infos=kept.bundle_infos + new.bundle_infos,
        )
        return both.take(np.argsort(both.ids, kind="stable"))

    def _check(self) -> None:
        """Raise ValueError for duplicate ids, unknown states, malformed tags, times without a zone, and bundles out of order."""
        if np.any(self.ids[1:] == self.ids[:-1]):
            raise ValueError("a device is listed twice")
        for place, info in enumerate(self.infos):
            label = device_label(int(self.ids[np.argmax(self.info_of == place)]))
            _check_time(f"device {label}: created", info.created)
            if info.state not in (ACTIVE, REVOKED):
                raise ValueError(f"device {label}: state must be {ACTIVE} or {REVOKED}, not {info.state!r}")
            _check_tags(f"device {label}", info.tags)
        for bundle in self.bundle_infos:
            _check_time("a bundle: made", bundle.made)
        falling = np.flatnonzero((np.diff(self.owners) == 0) & (np.diff(self.first) <= 0))
        if len(falling):
            label = device_label(int(self.ids[self.owners[falling[0]]]))
            raise ValueError(f"device {label}: the first numbers of its bundles must ascend")


class _Columns:
    """Builds a directory row by row."""

    def __init__(self) -> None:
        self._ids, self._counts = array("I"), array("q")
        self._info_of, self._bundle_info_of = array("i"), array("i")
        self._first, self._last, self._salts = array("q"), array("q"), bytearray()
        self._infos: dict[DeviceInfo, int] = {}
        self._bundle_infos: dict[BundleInfo, int] = {}

    def add(self, device: int, info: DeviceInfo, bundles: Sequence[tuple[int, int, bytes, BundleInfo]]) -> None:
        self._ids.append(device)
        self._info_of.append(self._infos.setdefault(info, len(self._infos)))
        self._counts.append(len(bundles))
        for first, last, salt, bundle_info in bundles:
            if len(salt) != SALT_BYTES:
                raise ValueError(
                    f"device {device_label(device)}: a bundle's salt has {len(salt)} bytes, not {SALT_BYTES}"
                )
            self._first.append(first)
            self._last.append(last)
            self._salts += salt
            self._bundle_info_of.append(self._bundle_infos.setdefault(bundle_info, len(self._bundle_infos)))

    def directory(self) -> DeviceDirectory:
        columns = DeviceDirectory(
            ids=np.array(self._ids, np.uint32),
            info_of=np.array(self._info_of, np.int32),
            ends=np.cumsum(np.array(self._counts, np.int64)),
            first=np.array(self._first, np.int64),
            last=np.array(self._last, np.int64),
            salts=_salt_rows(bytes(self._salts)),
            bundle_info_of=np.array(self._bundle_info_of, np.int32),
            infos=tuple(self._infos),
            bundle_infos=tuple(self._bundle_infos),
        )
        if np.all(columns.ids[1:] > columns.ids[:-1]):
            return columns
        return columns.take(np.argsort(columns.ids, kind="stable"))


def _compact(
    codes: npt.NDArray[np.int32], values: tuple[Value, ...]
) -> tuple[npt.NDArray[np.int32], tuple[Value, ...]]:
    """Return positions and values without unused and duplicate values."""
    used, places = np.unique(codes, return_inverse=True)
    distinct: dict[Value, int] = {}
    number = np.array([distinct.setdefault(values[place], len(distinct)) for place in used.tolist()], np.int32)
    return (number[places] if len(codes) else codes), tuple(distinct)


def _salt_rows(salts: bytes) -> Salts:
    return np.frombuffer(salts, np.uint8).reshape(-1, SALT_BYTES)


def _device_info(device: Device) -> DeviceInfo:
    return DeviceInfo(device.profile, device.state, device.note, device.tags, device.created)


def _bundle_info(issue: IssuedBundle) -> BundleInfo:
    return BundleInfo(issue.made, issue.profile, issue.profile_id, issue.quota, issue.period)


def _parse_tags(row: Mapping[str, Any]) -> tuple[str, ...]:
    tags = row.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError(f"device {row['id']}: tags must be a list of texts, not {json.dumps(tags)}")
    return tuple(tags)


def _check_tags(what: str, tags: tuple[str, ...]) -> None:
    try:
        found = check_tags(tags)
    except FleetError as error:
        raise ValueError(f"{what}: {error}") from None
    if found != tags:
        raise ValueError(f"{what}: tags must be sorted and in Unicode's normal form C")


def _check_time(what: str, text: str) -> None:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError(f"{what} must say its time zone, as in 2026-01-31T12:00:00+00:00")
