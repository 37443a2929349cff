# SPDX-License-Identifier: MIT
"""A batch as the layers find it: opened, decoded, and judged by the layers that need to know nothing of the log.

Arrays have one entry per report, or one per device that speaks in the batch (("senders")).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Opened
from peel_core.frame import FLAG_UNSEALED, TAG_BYTES
from peel_gateway.model.gateway_time import GatewayTime
from peel_gateway.model.grouping import distinct, rows_where
from peel_gateway.model.messages import MessageBatch
from peel_gateway.model.tables import DeviceStates, Positions, Slots
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening import layers
from peel_gateway.screening.decode_context import DecodeContext
from peel_gateway.screening.layers import OPEN, Decoded
from peel_gateway.screening.numbers import give_up, used, used_numbers, with_used
from peel_gateway.screening.state_cache import StateCache

__all__ = ["Batch", "Revealed", "front", "listen", "speakers"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_BODY_BYTES = 4
_LONGEST_OFF = 365 * 86_400_000
"""Milliseconds that a machine may have been off, where its clock does not say: what devices made meanwhile is not given up."""


@dataclass(frozen=True)
class Revealed:
    """Numbers of sending devices that audits of verified coins have revealed: no report comes under them."""

    at: Positions
    number: Ints

    @classmethod
    def none(cls) -> Revealed:
        """Return no numbers."""
        return cls(Positions(np.zeros(0, np.int64)), np.zeros(0, np.int64))


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Messages, and what they say."""

    messages: MessageBatch
    opened: Opened
    decoded: Decoded
    received: Ints
    """Unix milliseconds."""
    number: Ints
    cell: Ints
    """The tally cell of each codeword; -1 where nothing was decoded. With verified coins, whose answers are masked, the unit's first."""
    sign: Ints
    """The sign of each codeword; +1 with verified coins."""
    body: Ints
    """32 bits that tell a report from any other with its number; 0 for reports that say nothing about a device."""
    verdicts: Ints
    """After parse and seal; `OPEN` where nobody has objected."""
    order: Ints
    """The reports that are open, by device and number, equal ones as they came."""
    senders: Slots
    """Slots of the devices that speak, int64[T]."""
    at: Positions
    """Each report's position among the sending devices; 0 where it says nothing about a device."""
    before: DeviceStates
    """Of the sending devices, as they were."""
    lowest: Ints
    """The lowest number of each of them in this batch."""
    states: DeviceStates
    """The same with new devices begun, seals noted, and changed quotas followed."""
    given: Ints
    """Verdicts about verified coins; `OPEN` for all other reports."""
    revealed: Revealed

    def raw(self, row: int) -> bytes:
        """The bytes of one report, or of the faulty piece."""
        start, length = int(self.opened.offset[row]), int(self.opened.length[row])
        return self.messages.payload(int(self.opened.message[row]))[start : start + length]


def front(opened: Opened, context: DecodeContext) -> Ints:
    """Return the verdicts of the layers that need only the decode context, see `layers.judge_front`."""
    return layers.judge_front(opened, context.has_revoked(opened.device))


def speakers(opened: Opened, verdicts: Ints) -> Slots:
    """Slots of the devices that speak, ascending: nobody without their keys can name them."""
    return Slots(distinct(opened.slot[verdicts == OPEN].astype(np.int64)))


def listen(
    messages: MessageBatch,
    opened: Opened,
    verdicts: Ints,
    cache: StateCache,
    moment: GatewayTime,
    *,
    given: Ints | None = None,
) -> Batch:
    """Run the layers before freshness on the verdicts of `front`. The cache holds all `speakers`.

    Parameters
    ----------
    given : int64, shape (N,), optional
        Verdicts about verified coins, `OPEN` for all other reports.
    """
    context = cache.context
    number, slot = opened.number.astype(np.int64), Slots(opened.slot.astype(np.int64))
    verdicts = _judge_seals(opened, slot, verdicts, cache)
    speaking = verdicts == OPEN
    order = rows_where(speaking)
    order = order[np.lexsort((number[order], slot[order]))]
    first = np.diff(slot[order], prepend=-1) != 0
    senders, lowest = Slots(slot[order[first]]), number[order[first]]
    at = Positions(np.zeros(len(opened), np.int64))
    at[order] = np.cumsum(first) - 1
    before = cache.gather(senders)
    sealed = before.sealed.copy()
    sealed[at[layers.authenticated(opened, verdicts)]] = 1
    heard = np.ones(len(senders), np.bool_)
    if given is not None:
        heard = np.bincount(at[order], given[order] == OPEN, len(senders)) > 0
    states = _begin(before.changed(sealed=sealed), context, senders, lowest, heard, moment)
    if not moment.behind:  # else nobody knows for how long the old quota was in force
        states = _follow_quota(states, context, senders, moment)
    decoded = layers.decode(opened, context.codewords)
    cell, sign = _logged(opened, decoded, context)
    return Batch(
        messages=messages,
        opened=opened,
        decoded=decoded,
        cell=cell,
        sign=sign,
        received=messages.received[opened.message],
        number=number,
        body=_bodies(messages, opened, speaking),
        verdicts=verdicts,
        order=order,
        senders=senders,
        at=at,
        before=before,
        lowest=lowest,
        states=states,
        given=np.full(len(opened), OPEN) if given is None else given,
        revealed=Revealed.none(),
    )


def _logged(opened: Opened, decoded: Decoded, context: DecodeContext) -> tuple[Ints, Ints]:
    """Return the cell and the sign of each codeword as the log has them: without the masked answer of a verified coin."""
    cell, sign = decoded.index.copy(), decoded.sign.copy()
    for position, profile in enumerate(context.keyring.profiles):
        rows = rows_where((opened.profile == position) & (decoded.index >= 0))
        unit, column = opened.unit[rows].astype(np.int64), decoded.index[rows]
        bare = (column == profile.k) | profile.verified
        cell[rows] = np.where(bare, profile.first_cell(unit), profile.cell(unit, column))
        if profile.verified:
            sign[rows] = 1
    return cell, sign


def _judge_seals(opened: Opened, slot: Slots, verdicts: Ints, cache: StateCache) -> Ints:
    """Refuse unsealed reports of devices that have sealed once, before or in this batch: a downgrade is a forgery."""
    sealed = layers.authenticated(opened, verdicts)
    unsealed = rows_where((verdicts == OPEN) & ~sealed)
    if not len(unsealed):
        return verdicts
    verdicts = verdicts.copy()
    can_seal = cache.sealed(Slots(slot[unsealed])) | np.isin(slot[unsealed], slot[sealed])
    verdicts[unsealed[can_seal]] = Verdict.UNSEALED
    return verdicts


def _begin(
    states: DeviceStates, context: DecodeContext, senders: Slots, lowest: Ints, heard: Bools, moment: GatewayTime
) -> DeviceStates:
    """Begin the states of devices that are heard for the first time (since a pardon), at their lowest number that is not settled.

    `heard` is False for devices of which there is no report that may enter the log.
    """
    new = (states.first_number == 0) & heard
    if not new.any():
        return states
    first = np.maximum(lowest, states.settled + 1)
    states = _given_up(states, context, senders, np.where(new, first, 0), moment)
    return states.changed(
        first_number=np.where(new, first, states.first_number),
        first_tick=np.where(new, moment.tick, states.first_tick),
        settled=np.where(new, first - 1, states.settled),
    )


def _given_up(
    states: DeviceStates, context: DecodeContext, senders: Slots, first: Ints, moment: GatewayTime
) -> DeviceStates:
    """Devices choose the number that they begin with, so of what is below no more is open than they can have made by now.

    That is about the bundle in force. What a device made with a former one is far below and may still come; the keyring bounds it. Nor
    is that taken off what it can have made: it may have had another quota.
    """
    now = moment.wall + _LONGEST_OFF if moment.behind else moment.wall
    enrolled = np.where(context.enrolled[senders] > 0, context.enrolled[senders], now)
    seen, bundle = used_numbers(states), context.issued_number[senders]
    passed = np.maximum(seen.last_number + 1 - bundle, 0)
    # What came of these, or may still come: all but those given up, where these are not a former bundle's.
    accounted = np.maximum(np.minimum(used(seen), passed), passed - seen.forgone)
    made = layers.backlog(accounted, now - enrolled, *context.quotas(senders))
    return with_used(states, give_up(seen, bundle, first - 1 - made))


def _follow_quota(states: DeviceStates, context: DecodeContext, senders: Slots, moment: GatewayTime) -> DeviceStates:
    """Fill the buckets of devices whose profile has changed by the new quota, from now on."""
    quota, period = context.quotas(senders)
    differs = (states.quota != quota) | (states.period != period)
    if not differs.any():
        return states
    changed = rows_where(differs & (states.quota != 0))
    first_number, first_tick = states.first_number.copy(), states.first_tick.copy()
    first_number[changed] = layers.rebased(
        first_number[changed],
        moment.tick - first_tick[changed],
        (states.quota[changed], states.period[changed]),
        (quota[changed], period[changed]),
    )
    first_tick[changed] = moment.tick
    return states.changed(first_number=first_number, first_tick=first_tick, quota=quota, period=period)


def _bodies(messages: MessageBatch, opened: Opened, wanted: Bools) -> Ints:
    """Return 32 bits per report that tell it from others with its number: from the seal's tag, or from a hash of an unsealed frame."""
    data = np.frombuffer(messages.payloads, np.uint8)
    starts = messages.payload_starts.astype(np.int64)
    result = np.zeros(len(opened), np.int64)
    unsealed = (opened.flags & FLAG_UNSEALED) != 0
    sealed = rows_where(wanted & ~unsealed)
    if len(sealed):
        ends = starts[opened.message[sealed]] + opened.offset[sealed] + opened.length[sealed]
        tags = data[(ends - TAG_BYTES)[:, None] + np.arange(_BODY_BYTES)]
        result[sealed] = np.ascontiguousarray(tags).view("<i4").reshape(-1)
    for row in rows_where(wanted & unsealed).tolist():
        start = int(opened.offset[row])
        frame = messages.payload(int(opened.message[row]))[start : start + int(opened.length[row])]
        result[row] = int.from_bytes(hashlib.blake2b(frame, digest_size=_BODY_BYTES).digest(), "little", signed=True)
    return result
