# SPDX-License-Identifier: MIT
"""The effects of a screened batch as sums and columns, ready to be written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import CODE_NAMES, Profile
from peel_core.coins import AUDIT_ANSWER, COMMITMENT, OPENING
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.exposure import Exposure
from peel_gateway.model.grouping import add_up, rows_where
from peel_gateway.model.tables import (
    DeviceIds,
    DeviceStates,
    DeviceTestTable,
    GapTable,
    LogTable,
    Rows,
    Slots,
    TallyTable,
)
from peel_gateway.model.verdict import BLAMED, NETWORK, Verdict
from peel_gateway.screening.decode_context import DecodeContext
from peel_gateway.screening.device_tests import DeviceTests, checkpoints, joined
from peel_gateway.screening.e_process import EProcess, in_words
from peel_gateway.screening.layers import among, by_verdict
from peel_gateway.screening.precheck import Precheck, beyond
from peel_gateway.screening.state_cache import Played, cohort_rows

__all__ = [
    "device_exposure",
    "device_test_table",
    "exhibit",
    "in_order",
    "net_totals",
    "tallies",
]

Ints = npt.NDArray[np.int64]


def tallies(profiles: Sequence[Profile], position: Ints, bucket: Ints, index: Ints, sign: Ints) -> TallyTable:
    """Sum reports per profile (given by position), bucket and attribute."""
    ids = np.array([profile.id for profile in profiles], np.int64)
    signs = [(sign > 0).astype(np.int64), (sign < 0).astype(np.int64)]
    (of, when, what), (plus, minus) = add_up([position, bucket, index], signs)
    return TallyTable(ids[of], when, what, plus, minus, 0 * plus, 0 * minus)


def net_totals(profiles: Sequence[Profile], table: TallyTable) -> list[Ints]:
    """Sum plus minus minus over all buckets, per profile, int64[questions]: the cohort's sign is that of the running total."""
    totals = []
    for profile in profiles:
        mine, question = cohort_rows(profile, table)
        net = np.zeros(questions_of(profile).count, np.int64)
        np.add.at(net, question, (table.plus - table.minus)[mine])
        totals.append(net)
    return totals


def device_test_table(
    context: DecodeContext, device_tests: Sequence[DeviceTests], played: Sequence[Played]
) -> DeviceTestTable:
    """Return the test states that are stored with this batch."""
    tables = []
    for profile, of, each in zip(context.keyring.profiles, device_tests, played, strict=True):
        rows = Rows(each.rows[each.stored])
        ids = context.ids(Slots(of.row_cache.slot[rows]))
        tables.append(checkpoints(profile, of.e_process, ids, each.arrival[each.stored], of.states, rows))
    return joined(tables)


def in_order(
    log: LogTable, gaps: GapTable, senders: DeviceIds, states: DeviceStates, last: int
) -> tuple[LogTable, GapTable, DeviceStates]:
    """Give the events of a batch their places behind the last one, device by device: reports by their numbers, then gaps.

    Reports are sorted so, and so are gaps.
    """
    device = np.concatenate([log.device, gaps.device])
    place = np.empty(len(device), np.int64)
    place[np.argsort(device, kind="stable")] = last + 1 + np.arange(len(device))
    arrival = states.arrival.copy()
    np.maximum.at(arrival, np.searchsorted(senders, device), place)
    return (
        replace(log, arrival=place[: len(log)]),
        replace(gaps, arrival=place[len(log) :]),
        states.changed(arrival=arrival),
    )


Bools = npt.NDArray[np.bool_]

_MESSAGES = {COMMITMENT: "commitment", AUDIT_ANSWER: "audit answer", OPENING: "opening"}

_BLAMED, _EXHIBITED = among(BLAMED), among((NETWORK | BLAMED) - {Verdict.STATISTICS})


def exhibit(prechecked: Precheck, verdicts: Ints) -> tuple[list[Exposure], dict[Verdict, int]]:
    """Make exposures of the reports that a layer objected to, first come first served within each source's bound.

    Returns the exposures, and the number of those beyond the bounds by verdict: they are counted and not held.
    """
    objected = _EXHIBITED[verdicts]
    held = objected.copy()
    held[prechecked.surplus] = False
    blamed = rows_where(held & _BLAMED[verdicts])
    held[blamed[beyond(prechecked.batch.at[blamed], prechecked.most_pieces)]] = False
    dropped = by_verdict(verdicts[objected & ~held])
    return [_exposure(prechecked, verdicts, row) for row in rows_where(held).tolist()], dropped


def _exposure(prechecked: Precheck, verdicts: Ints, row: int) -> Exposure:
    batch, profiles = prechecked.batch, prechecked.cache.context.keyring.profiles
    opened = batch.opened
    position = int(opened.profile[row])
    return Exposure(
        verdict=Verdict(int(verdicts[row])),
        device=int(opened.device[row]),
        number=int(opened.number[row]),
        profile=profiles[position].id if position >= 0 else 0,
        received=int(batch.received[row]) / 1000,
        topic=batch.messages.topic(int(opened.message[row])),
        raw=batch.raw(row),
        evidence=_facts(prechecked, Verdict(int(verdicts[row])), row),
    )


def _facts(prechecked: Precheck, verdict: Verdict, row: int) -> dict[str, Any]:
    code = int(prechecked.batch.opened.code[row])
    if verdict in NETWORK and code:
        return {"code": CODE_NAMES[code]}
    if verdict in (Verdict.REVOKED, Verdict.UNSEALED, Verdict.STALE, Verdict.UNCOMMITTED):
        return {}
    if verdict == Verdict.COIN:
        return {"message": _MESSAGES[int(prechecked.batch.opened.type[row])]}
    facts: dict[str, Any] = {"code": CODE_NAMES[code]} if code else _content(prechecked, row)
    if verdict == Verdict.FLOOD:
        facts |= {"last_allowed": int(prechecked.allowed[row]), "reached": int(prechecked.reached[row])}
    return facts


def _content(prechecked: Precheck, row: int) -> dict[str, Any]:
    opened, decoded = prechecked.batch.opened, prechecked.batch.decoded
    profile = prechecked.cache.context.keyring.profiles[int(opened.profile[row])]
    facts: dict[str, Any] = {
        "rule": int(opened.rule[row]),
        "rule_expected": int(profile.rules(int(opened.unit[row]))),
        "reconstructed": int(decoded.index[row]),
        "sign": int(decoded.sign[row]),
        "residual": round(float(decoded.residual[row]), 9),
        "expected": int(profile.question(int(opened.unit[row]))),
    }
    return facts


def device_exposure(
    profile: Profile, device: int, e_process: EProcess, state: npt.NDArray[np.uint8], now: int
) -> Exposure:
    """Exposure of a device by statistics: the bet that won most, in words too, and the capital; now in milliseconds."""
    bet = e_process.explain(state)
    capital = float(e_process.log_capital(state[None])[0])
    return Exposure(
        verdict=Verdict.STATISTICS,
        device=device,
        number=0,
        profile=profile.id,
        received=now / 1000,
        topic="",
        raw=b"",
        evidence={
            "bet": asdict(bet),
            "words": in_words(bet, "attribute", partial(questions_of(profile).called, bet.name, bet.block)),
            "since": bet.since,
            "log10_capital": round(capital / np.log(10), 3),
            "alpha": e_process.alpha,
        },
    )
