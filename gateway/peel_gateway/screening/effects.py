# SPDX-License-Identifier: MIT
"""The effects of a screened batch as sums and columns, ready to be written."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Opened, Profile
from peel_gateway.storage.store import EVIDENCE_COLUMNS, EvidenceTable, TallyTable

__all__ = ["bodies", "evidence_table", "net_totals", "tallies"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_TAG_BYTES = 8


def tallies(profiles: Sequence[Profile], position: Ints, bucket: Ints, index: Ints, sign: Ints) -> TallyTable:
    """Sum reports per profile (given by position), bucket and attribute."""
    keys, where = _unique_rows(position, bucket, index)
    ids = np.array([profile.id for profile in profiles], np.int64)
    plus = np.bincount(where[sign > 0], minlength=len(keys)).astype(np.int64)
    minus = np.bincount(where[sign < 0], minlength=len(keys)).astype(np.int64)
    none = np.zeros(len(keys), np.int64)
    return TallyTable(ids[keys[:, 0]], keys[:, 1], keys[:, 2], plus, minus, none, none)


def net_totals(profiles: Sequence[Profile], table: TallyTable) -> list[Ints]:
    """Sum plus minus minus over all buckets, per profile, int64[k]: the cohort's sign is that of the running total."""
    totals = []
    for profile in profiles:
        mine = table.profile == profile.id
        net = np.zeros(profile.k, np.int64)
        np.add.at(net, table.index[mine], (table.plus - table.minus)[mine])
        totals.append(net)
    return totals


def evidence_table(keyring: Keyring, added: Sequence[tuple[Ints, Ints]]) -> EvidenceTable:
    """Flatten what is added per profile, (rows, int64[rows, k, columns]), to one row per device and attribute with news."""
    width = len(EVIDENCE_COLUMNS)
    keys = [np.zeros((3, 0), np.int64)]
    counts = [np.zeros((0, width), np.int64)]
    for position, (profile, (rows, news)) in enumerate(zip(keyring.profiles, added, strict=True)):
        slots = np.flatnonzero(keyring.profile_of == position)
        at, index = np.nonzero(news.any(axis=2))
        device = keyring.device_ids[slots[rows[at]]].astype(np.int64)
        keys.append(np.stack([device, np.full(len(at), profile.id), index]))
        counts.append(news[at, index])
    device, profile_id, index = np.concatenate(keys, axis=1)
    return EvidenceTable(device, profile_id, index, np.concatenate(counts))


def _unique_rows(*columns: Ints) -> tuple[Ints, Ints]:
    """Distinct rows of equally long columns, int64[U, columns], and where each row is among them."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:  # each column is coded by rank first, so that the product cannot overflow
        values, rank = np.unique(column, return_inverse=True)
        code = code * max(1, len(values)) + rank
    _, first, where = np.unique(code, return_index=True, return_inverse=True)
    return np.stack([column[first] for column in columns], axis=1), where


def bodies(payloads: Sequence[bytes], opened: Opened, wanted: Bools) -> Ints:
    """64 bits per report that tell it from any other with its number: the seal's tag, or a hash where there is none."""
    data = np.frombuffer(b"".join(payloads), np.uint8)
    starts = np.cumsum([0, *(len(payload) for payload in payloads)])[:-1]
    result = np.zeros(len(opened), np.int64)
    sealed = np.flatnonzero(wanted & ((opened.flags & 1) == 0))
    if len(sealed):
        ends = starts[opened.message[sealed]] + opened.offset[sealed] + opened.length[sealed]
        tags = data[(ends - _TAG_BYTES)[:, None] + np.arange(_TAG_BYTES)]
        result[sealed] = np.ascontiguousarray(tags).view("<i8").reshape(-1)
    for row in np.flatnonzero(wanted & ((opened.flags & 1) != 0)).tolist():
        start = int(opened.offset[row])
        frame = payloads[opened.message[row]][start : start + int(opened.length[row])]
        result[row] = int.from_bytes(hashlib.blake2b(frame, digest_size=8).digest(), "little", signed=True)
    return result
