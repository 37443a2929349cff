# SPDX-License-Identifier: MIT
"""Count reports with verified coins: the answer that an opened coin gives, and its effects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_core.kinds import SIGN
from peel_gateway.model.coins import NO_COIN, Records
from peel_gateway.model.gateway_time import GatewayTime
from peel_gateway.model.tables import (
    LOG_COLUMNS,
    BucketSpanTable,
    DeviceIds,
    DeviceTable,
    Effects,
    GapTable,
    LogTable,
    Rows,
)
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening import effects
from peel_gateway.screening.decode_context import slots_of
from peel_gateway.screening.device_tests import joined
from peel_gateway.screening.state_cache import Change, Played, StateCache

__all__ = ["count_opened", "masked_answers", "outcomes_of"]

Ints = npt.NDArray[np.int64]


def masked_answers(profile: Profile, unit: Ints, column: Ints, sign: Ints) -> Ints:
    """Return the masked answers that codewords, decoded to (column, sign), carry; `NO_COIN` without a reading."""
    first, signed = _of_block(profile, unit, "first_column"), _of_block(profile, unit, "form") == SIGN
    return np.where(column == profile.k, NO_COIN, np.where(signed, sign > 0, column - first))


def outcomes_of(profile: Profile, unit: Ints) -> Ints:
    """Return the number of outcomes of each unit's coin."""
    return _of_block(profile, unit, "outcomes")


def _of_block(profile: Profile, unit: Ints, name: str) -> Ints:
    """Return a number of the block that each unit belongs to."""
    values = np.array([getattr(block, name) for block in profile.blocks], np.int64)
    return np.broadcast_to(values[profile.block_of_unit(unit)], unit.shape)


def _cells(profile: Profile, unit: Ints, answer: Ints) -> tuple[Ints, Ints]:
    """Return the cell and the sign of answers, given by their units."""
    signed = _of_block(profile, unit, "form") == SIGN
    column = _of_block(profile, unit, "first_column") + np.where(signed, 0, answer)
    column += np.where(signed, unit - _of_block(profile, unit, "first_unit"), 0)
    return profile.cell(unit, column), np.where(signed & (answer == 0), -1, 1)


def count_opened(cache: StateCache, device: Ints, reports: Records, moment: GatewayTime) -> tuple[Effects, Change]:
    """Return the effects of reports whose coins are opened, and the change of the cache.

    Parameters
    ----------
    device : int64, shape (N,)
        Ascending. The cache has the states of these devices.
    reports : `WAITING` records, shape (N,)
        By device and number, with an opened outcome each.
    """
    context = cache.context
    ids, at = np.unique(device, return_inverse=True)
    slots = slots_of(context.keyring, DeviceIds(ids))
    before = cache.gather(slots)
    profiles, unit = context.profile_ids(), reports["unit"].astype(np.int64)
    position, answer = np.full((2, len(reports)), -1, np.int64)
    cell, sign = np.zeros((2, len(reports)), np.int64)
    for place, profile in enumerate(context.keyring.profiles):
        of = np.flatnonzero(reports["profile"] == profiles[place])
        position[of] = place
        opened = reports["outcome"][of].astype(np.int64) + reports["masked"][of]
        answer[of] = opened % outcomes_of(profile, unit[of])
        cell[of], sign[of] = _cells(profile, unit[of], answer[of])
    columns = {name: np.zeros(len(reports), np.int64) for name in LOG_COLUMNS}
    for name in ("number", "profile", "received", "bucket"):
        columns[name] = reports[name].astype(np.int64)
    columns |= {"device": device, "index": cell, "sign": sign, "opened": np.ones(len(reports), np.int64)}
    columns["verdict"][:] = Verdict.ACCEPTED
    counts = np.bincount(at, minlength=len(ids))
    no_gaps = GapTable(*np.zeros((5, 0), np.int64))
    states = replace(before, accepted=before.accepted + counts, held=before.held - counts)
    log, gaps, states = effects.in_order(LogTable(**columns), no_gaps, DeviceIds(ids), states, cache.arrival)
    tallies = effects.tallies(context.keyring.profiles, position, columns["bucket"], cell, sign)
    last = cache.arrival + len(log)
    none = Rows(np.zeros(0, np.int64))
    written = Effects(
        log=log,
        devices=DeviceTable(device=ids, **dict(states.columns())),
        lasting=np.zeros(len(ids), np.bool_),
        device_tests=joined([]),
        tallies=tallies,
        bucket_spans=BucketSpanTable(*np.zeros((4, 0), np.int64)),
        gaps=gaps,
        exposures=(),
        dropped={},
        withdrawn=(),
        counts={Verdict.ACCEPTED: len(log), Verdict.HELD: -len(log)},
        arrival=last,
        moment=moment,
    )
    played = [Played(none, np.zeros(0, np.bool_), none) for _ in context.keyring.profiles]
    totals = effects.net_totals(context.keyring.profiles, tallies)
    return written, Change(slots, states, played, totals, log, last)
