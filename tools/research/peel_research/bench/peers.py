# SPDX-License-Identifier: MIT
"""Frequencies under local differential privacy, here and with other libraries: the same task, the same number of reports, in one run.

Theirs are the libraries' own loops, one call per report where that is all there is. Ours are timed twice: *bare*, coins and counts alone,
which is all that theirs do; and *sealed*, from a reading to an encrypted frame, and from frames, opened, verified and decoded, to the
frequencies. Bits of a report stand beside those of Prio3, by formula.

The libraries are no part of an installation: `pip install 'peel-research[peers]'`.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Profile, derive_keys, encode_many, make_profile, open_joined
from peel_core.batch import perturb_many
from peel_core.keyring import core_block
from peel_core.projection import search_seed
from peel_gateway.mechanisms import questions_of
from peel_gateway.screening.decode_context import Codewords

__all__ = ["Peer", "PeersMissingError", "Task", "installed", "measure", "prio3_histogram_bits"]

Ints = npt.NDArray[np.int64]
Symbols = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

EPSILON = 1.0
_HASHES = 1000
"""Of pure-ldp's fast local hashing, as its authors use."""
_ROUNDS = 5
"""Of encoding, for theirs and for ours: the best counts, since some last but milliseconds and the machine does other things too."""


class PeersMissingError(Exception):
    """None of the other libraries is installed."""


@dataclass(frozen=True)
class Task:
    """Shares of so many categories, by kRR or by local hashing."""

    name: str
    categories: int
    reports: int


TASKS = (Task("krr", 16, 100_000), Task("hashing", 128, 20_000))


@dataclass(frozen=True)
class Peer:
    """Another library: its functions for reports of values, and for the shares of all categories."""

    name: str
    encode: Callable[[Sequence[int]], list[Any]]
    aggregate: Callable[[list[Any]], Floats]


def measure(tasks: Sequence[Task] = TASKS) -> dict[str, Any]:
    """The figures of ``peel bench peers``; `PeersMissingError` where there is nobody to compare with."""
    figures = {task.name: _measure(task) for task in tasks}
    return figures | {"bits_per_report": _bits([16, 252])}


def installed(task: Task) -> list[Peer]:
    """The libraries that are here."""
    found: list[Peer] = []
    for make in (_pure_ldp, _multi_freq_ldpy):
        try:
            found += make(task)
        except ImportError:
            continue
    return found


def _measure(task: Task) -> dict[str, Any]:
    peers = installed(task)
    if not peers:
        raise PeersMissingError(
            "neither pure-ldp nor multi-freq-ldpy can be imported: pip install 'peel-research[peers]' (in a checkout "
            "`.venv/bin/pip install -e 'tools/research[peers]'`)"
        )
    values = np.random.default_rng(1).integers(0, task.categories // 2, task.reports, dtype=np.int32)
    truth = np.bincount(values, minlength=task.categories) / task.reports
    theirs = {peer.name: _rates(peer.encode, peer.aggregate, values.tolist(), truth) for peer in peers}
    ours = _ours(task, values, truth)
    fastest = {step: max(each[step] for each in theirs.values()) for step in ("encode_per_s", "aggregate_per_s")}
    return {
        "epsilon": EPSILON,
        "verify": False,
        "categories": task.categories,
        "reports": task.reports,
        "ours": ours,
        "theirs": theirs,
        "ratio": {
            kind: {step: round(ours[kind][step] / fastest[step], 2) for step in fastest} for kind in ("bare", "sealed")
        },
    }


def _rates(
    encode: Callable[[Any], Any], aggregate: Callable[[Any], Floats], values: Any, truth: Floats
) -> dict[str, float]:
    """Reports per second of CPU time, and how far the shares are off, which shows that it was done."""
    encoding = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        reports = encode(values)
        encoding.append(time.process_time() - began)
    began = time.process_time()
    shares = aggregate(reports)  # once: some keep what they have counted
    aggregating = time.process_time() - began
    return {
        "encode_per_s": round(len(values) / max(min(encoding), 1e-6)),
        "aggregate_per_s": round(len(values) / max(aggregating, 1e-6)),
        "largest_error": round(float(np.abs(shares - truth).max()), 4),
    }


# ---- ours ----


def _profile(task: Task) -> Profile:
    categories = {"categories": [f"c{place}" for place in range(task.categories)]}
    hashed = {"kind": "hashed", "domain": task.categories}
    direct = {"kind": "category", "force_category": True} | categories  # a profile would rather hash so many
    attribute = {"name": "value"} | (direct if task.name == "krr" else hashed)
    table = {"name": "peers", "epsilon": EPSILON, "verify": False, "quota": 1_000_000, "period": 1}
    width = max(48, task.categories if task.name == "krr" else 0)
    seed, _ = search_seed(width, width)
    return make_profile({**table, "width": width, "seed": seed, "attribute": [attribute]})


def _ours(task: Task, values: Symbols, truth: Floats) -> dict[str, dict[str, float]]:
    profile, count = _profile(task), len(values)
    device = np.arange(1, count + 1, dtype=np.uint32)
    keys = derive_keys(bytes(32), "peers", device, 1, bytes(16))
    keyring = Keyring([profile], device, 1, np.zeros(count), keys)
    codewords = Codewords(profile.seed, profile.width)
    words = np.random.default_rng(2).integers(0, 2**32, (count, 2), dtype=np.uint32)

    def toss(what: Symbols) -> Symbols:
        index, _ = perturb_many(
            [core_block(each) for each in profile.blocks], profile.width, words, what, entropy=os.urandom(64)
        )
        return index

    def count_cells(index: Symbols) -> Floats:
        assigned = words[:, 1].astype(np.int64) * profile.units >> 32
        return _shares(profile, np.asarray(profile.cell(assigned, index)))

    def seal(what: Symbols) -> bytes:
        return encode_many(profile, device, keys, np.ones(count), what, entropy=os.urandom(64)).tobytes()

    def open_and_count(frames: bytes) -> Floats:
        return _shares(profile, _opened_cells(profile, keyring, codewords, frames, count))

    return {
        "bare": _rates(toss, count_cells, values, truth),
        "sealed": _rates(seal, open_and_count, values, truth),
    }


def _opened_cells(profile: Profile, keyring: Keyring, codewords: Codewords, frames: bytes, count: int) -> Ints:
    """Return the cells of sealed frames: open, verify and decode them."""
    ends = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(len(frames) // count)
    opened = open_joined(keyring, frames, ends)
    index, sign = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    codewords.decode(opened, 0, index, sign, np.full(count, np.inf, np.float32))
    return np.asarray(profile.cell(opened.unit.astype(np.int64), index))


def _shares(profile: Profile, cell: Ints) -> Floats:
    """Shares of all categories; the mechanisms' modules have the formulas."""
    questions = questions_of(profile)
    used, reports = np.unique(cell, return_counts=True)
    shares = questions.speaking(used, reports.astype(np.float64)) / len(cell)
    return np.asarray((shares - questions.least) / (questions.most - questions.least))


# ---- theirs ----


def _pure_ldp(task: Task) -> list[Peer]:
    """pure-LDP, https://github.com/Samuel-Maddock/pure-LDP."""
    from pure_ldp.frequency_oracles import direct_encoding, local_hashing

    d = task.categories

    def peer(name: str, client: Any, server: Any) -> Peer:
        def aggregate(reports: list[Any]) -> Floats:
            for report in reports:
                server.aggregate(report)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it asks for more reports
                return np.array([server.estimate(value) for value in range(d)]) / len(reports)

        return Peer(name, lambda values: [client.privatise(value) for value in values], aggregate)

    if task.name == "krr":
        return [peer("pure-ldp", direct_encoding.DEClient(EPSILON, d), direct_encoding.DEServer(EPSILON, d))]
    slow = [made(EPSILON, d, use_olh=True) for made in (local_hashing.LHClient, local_hashing.LHServer)]
    fast = [
        made(EPSILON, d, _HASHES, use_olh=True) for made in (local_hashing.FastLHClient, local_hashing.FastLHServer)
    ]
    return [peer("pure-ldp", *slow), peer("pure-ldp, fast", *fast)]


def _multi_freq_ldpy(task: Task) -> list[Peer]:
    """https://github.com/hharcolezi/multi-freq-ldpy; its estimates are cut at 0 and sum to 1."""
    from multi_freq_ldpy.pure_frequency_oracles import GRR, LH

    d = task.categories
    client, aggregate = (
        (GRR.GRR_Client, GRR.GRR_Aggregator_MI) if task.name == "krr" else (LH.LH_Client, LH.LH_Aggregator_MI)
    )
    client(0, d, EPSILON)  # numba compiles it now
    return [
        Peer(
            "multi-freq-ldpy",
            lambda values: [client(value, d, EPSILON) for value in values],
            lambda reports: np.asarray(aggregate(reports, d, EPSILON)),
        )
    ]


# ---- sizes ----

_FIELD_BYTES = 16
"""Field128, which Prio3Histogram is instantiated with."""
_SEED_BYTES = 32
_NONCE_BYTES = 16


def prio3_histogram_bits(length: int, chunk: int | None = None, shares: int = 2) -> int:
    """Return the bits that a client sends for a histogram of `length` buckets: nonce, public share, all input shares, unencrypted.

    After draft-irtf-cfrg-vdaf-13, sections 7.2 to 7.4 (its test vector Prio3Histogram_0, 4 buckets in chunks of 2, has a leader's share of
    272 bytes, Prio3Histogram_1, 11 in chunks of 3, one of 544). The leader gets the measurement and the proof as field elements ::

        proof = arity + degree (P - 1) + 1        arity = 2 chunk, degree = 2, P = the power of two above the calls of the gadget

    and a blind; each helper gets a seed that stands for both, and a blind; the public share has a seed for each aggregator.
    """
    chunk = chunk or max(1, math.isqrt(length))
    calls = -(-length // chunk)
    evaluations = 1 << calls.bit_length()
    proof = 2 * chunk + 2 * (evaluations - 1) + 1
    leader = _FIELD_BYTES * (length + proof) + _SEED_BYTES
    helpers = (shares - 1) * 2 * _SEED_BYTES
    return 8 * (_NONCE_BYTES + shares * _SEED_BYTES + leader + helpers)


def _bits(sizes: Sequence[int]) -> dict[str, Any]:
    """Of whole reports, header and tag included; Prio3 needs two encryptions more."""
    table = {}
    for k in sizes:
        ours = {name: 8 * _profile(Task(name, k, 0)).frame_bytes for name in ("krr", "hashing")}
        prio3 = prio3_histogram_bits(k)
        table[f"k{k}"] = {
            **ours,
            "prio3_histogram": prio3,
            "prio3_over_krr": round(prio3 / ours["krr"], 1),
            "prio3_over_hashing": round(prio3 / ours["hashing"], 1),
        }
    return table
