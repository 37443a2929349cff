# SPDX-License-Identifier: MIT
"""The precheck of a batch: verdicts up to freshness, and the lookups that the store must answer before `judge`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_gateway.model.exposure import digest_of
from peel_gateway.model.gateway_time import GatewayTime
from peel_gateway.model.grouping import rows_where
from peel_gateway.model.tables import Positions, Questions, Slots
from peel_gateway.model.verdict import LOGGED, NETWORK, Verdict
from peel_gateway.screening import bucketing, layers
from peel_gateway.screening.batch import Batch
from peel_gateway.screening.layers import OPEN, Policy
from peel_gateway.screening.numbers import unseen, used_numbers
from peel_gateway.screening.state_cache import StateCache

__all__ = ["MOST_PIECES", "Precheck", "beyond", "precheck"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


MOST_PIECES = 100
"""Refused pieces of one source that a batch puts into quarantine; the rest is counted alone.

A row costs 15 times as much as a good report. The source is the topic, or the device where a seal proves it.
"""


@dataclass(frozen=True, kw_only=True)
class Precheck:
    """A batch before any lookup in the store."""

    batch: Batch
    cache: StateCache
    policy: Policy
    moment: GatewayTime
    verdicts: Ints
    """After freshness; `OPEN` where nobody has objected."""
    allowed: Ints
    """Largest number that the device may have reached, 0 where that was not judged."""
    reached: Ints
    crowded: bucketing.Crowded
    held: Ints
    """Rows of pieces that are known by their bytes alone, and may be held already: `questions.digests` are theirs."""
    surplus: Ints
    """Rows of such pieces beyond what their topic may put into quarantine: the store is not asked about them."""
    most_pieces: int
    """Pieces that one source may put into quarantine."""
    questions: Questions
    """Few for honest reports, whose bytes are new and whose buckets have room."""


def precheck(
    batch: Batch, cache: StateCache, policy: Policy, moment: GatewayTime, *, most_pieces: int = MOST_PIECES
) -> Precheck:
    """Judge the freshness of a batch and list the lookups that `judge` needs.

    Parameters
    ----------
    most_pieces : int
        Refused pieces that a topic or a device may put into quarantine with this batch.
    """
    verdicts = _judge_numbers(batch, cache)
    known = (batch.given == Verdict.UNCOMMITTED) & (verdicts != OPEN)  # a number that was used needs no coin
    verdicts = np.where((batch.given == OPEN) | known, verdicts, batch.given)
    judged = (batch.verdicts == OPEN) & (verdicts != Verdict.STALE) & (batch.given == OPEN)
    allowed, reached = np.zeros((2, len(verdicts)), np.int64)
    if len(batch.senders):
        reached = np.where(judged, np.maximum(batch.number, batch.states.last_number[batch.at]), 0)
    if len(batch.senders) and not moment.behind:  # else nobody knows how far devices may have come
        allowed = np.where(judged, _last_allowed(batch, cache, policy, moment)[batch.at], 0)
        layers.object_to(verdicts, judged & (reached > allowed), Verdict.FLOOD)
    crowded = bucketing.crowded(batch, verdicts == OPEN, cache, policy.bucket_seconds, moment.seen)
    network = rows_where(_NETWORK[verdicts])
    surplus = network[beyond(batch.messages.topic_hashes(batch.opened.message[network]), most_pieces)]
    kept = _HELD[verdicts]
    kept[surplus] = False
    held = rows_where(kept)
    return Precheck(
        batch=batch,
        cache=cache,
        policy=policy,
        moment=moment,
        verdicts=verdicts,
        allowed=allowed,
        reached=reached,
        crowded=crowded,
        held=held,
        surplus=surplus,
        most_pieces=most_pieces,
        questions=Questions(
            digests=[digest_of(Verdict(int(verdicts[row])), batch.raw(row)) for row in held.tolist()],
            span_device=cache.context.ids(Slots(batch.senders[crowded.devices])),
            span_from=crowded.begins,
            span_upto=crowded.newest,
        ),
    )


def beyond(source: npt.NDArray[np.integer], most: int) -> Bools:
    """Tell for each entry whether at least so many equal ones are before it."""
    result = np.zeros(len(source), np.bool_)
    if len(source) > most:
        order = np.argsort(source, kind="stable")
        first = rows_where(np.concatenate([[True], np.diff(source[order]) != 0]))
        sizes = np.diff(first, append=len(source))
        result[order] = np.arange(len(source)) - np.repeat(first, sizes) >= most
    return result


def _judge_numbers(batch: Batch, cache: StateCache) -> Ints:
    """Refuse numbers that were used or given up: the same report again, another one, or nobody can tell any more."""
    verdicts, rows = batch.verdicts.copy(), batch.order
    at, number = Positions(batch.at[rows]), batch.number[rows]
    used = ~unseen(used_numbers(batch.states), at, number)
    logged, logged_body = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.int64)
    if used.any():
        device = cache.context.ids(Slots(batch.senders[at[used]]))
        logged[used], logged_body[used] = cache.recent.find(device, number[used])
    repeat = layers.repeats(at, number, batch.body[rows], logged, logged_body)
    verdicts[rows[repeat == layers.Repeat.SAME]] = Verdict.REDELIVERED
    verdicts[rows[repeat == layers.Repeat.OTHER]] = Verdict.REUSED
    verdicts[rows[used & ~logged]] = Verdict.STALE
    return verdicts


def _last_allowed(batch: Batch, cache: StateCache, policy: Policy, moment: GatewayTime) -> Ints:
    """The larger of two bounds: since first contact, and since the device's bundle was made, at the bundle's first number.

    A network that delivers an old report first makes a device look fast since first contact; the other bound it cannot touch. Where
    nobody knows when that was, or the clocks say that it is yet to come, a device is granted more once.
    """
    states, context = batch.states, cache.context
    quota, period = states.quota, states.period
    issued, first = context.issued[batch.senders], context.issued_number[batch.senders]
    doubtful = (issued == 0) | (issued > moment.wall)
    allowance = policy.number_allowance + np.where(doubtful, layers.UNKNOWN_ALLOWANCE, 0)
    contact = moment.tick - states.first_tick
    since_contact = layers.last_allowed(states.first_number, contact, quota, period, allowance)
    since_issue = layers.last_allowed(first, moment.wall - issued, quota, period, allowance)
    return np.maximum(since_contact, np.where(issued > 0, since_issue, 0))


_NETWORK = layers.among(NETWORK)
_HELD = layers.among(verdict for verdict in Verdict if verdict.layer is not None and verdict not in LOGGED)
