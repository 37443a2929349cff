# SPDX-License-Identifier: MIT
"""Recompute the verdict of an exposure from its evidence, with the functions that the gateway itself judges with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from math import log10
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import CODE_NAMES, Keyring, Keys, Opened, PeelError, Profile, index_many, open_many
from peel_core.coins import (
    AUDIT_ANSWER,
    BATCH_NUMBERS,
    OPENING,
    ROOT_BYTES,
    challenge_indices,
    coin_names,
    coin_roots,
    verify_openings,
)
from peel_core.frame import TAG_BYTES
from peel_core.kinds import Attribute
from peel_gateway.engine.coins import answers_another_audit
from peel_gateway.engine.evidence import GAP_COLUMNS, KEYS_OF, LOG_COLUMNS, VERSION, EvidenceError, digest_of_document
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.coins import bits_of
from peel_gateway.model.tables import LOG_COLUMNS as ALL_LOG_COLUMNS
from peel_gateway.model.tables import GapTable, LogTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.decode_context import Codewords
from peel_gateway.screening.device_tests import make_e_process, replay, unpack
from peel_gateway.screening.e_process import DamagedTestState, in_words
from peel_gateway.screening.layers import OPEN, decode, judge_content, judge_front

__all__ = ["Proof", "check"]

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_NO_KEY = bytes(16)
_SEAL = "Its seal fits the device's key: only the device, or somebody with its key, can have made it."


@dataclass(frozen=True)
class Proof:
    """A verdict that was recomputed."""

    verdict: Verdict
    device: int
    number: int
    steps: tuple[str, ...]
    """The recomputed facts, in plain words."""
    trusted: tuple[str, ...]
    """The facts that the file cannot show: they are the word of the gateway."""


@dataclass(frozen=True)
class _Case:
    """A document, with its parts read."""

    document: Mapping[str, Any]
    verdict: Verdict
    profile: Profile
    device: int
    number: int
    frame: bytes

    @property
    def facts(self) -> Mapping[str, Any]:
        facts: Mapping[str, Any] = self.document["facts"]
        return facts

    def keyring(self) -> Keyring:
        """Return a keyring with this device alone. Keys that the verdict does not need are zero."""
        if missing := set(KEYS_OF[self.verdict]) - self.document["keys"].keys():
            raise EvidenceError(
                f"the file lacks the {sorted(missing)[0]} key, which verdict {self.verdict.label} needs"
            )
        keys = {name: bytes.fromhex(self.document["keys"].get(name, _NO_KEY.hex())) for name in _names(Keys)}
        rows = Keys(**{name: np.frombuffer(key, np.uint8).reshape(1, 16) for name, key in keys.items()})
        first = int(self.document["first_number"])
        return Keyring((self.profile,), [self.device], first, [0], rows, challenge_root=_NO_KEY)


def check(text: str | bytes) -> Proof:
    """Recompute the verdict of a document.

    Raises
    ------
    EvidenceError
        The document is not evidence, was changed, or does not lead to its verdict.
    """
    try:
        document = json.loads(text)
        if document["peel_evidence"] != VERSION:
            raise EvidenceError(
                f"evidence of version {document['peel_evidence']}: this program reads version {VERSION}"
            )
        if document["digest"] != digest_of_document(document):
            raise EvidenceError("the file was changed: its digest does not fit. Get a fresh copy")
        case = _read(document)
        steps, trusted = _CHECKS[case.verdict](case)
    except EvidenceError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, PeelError, DamagedTestState) as error:
        raise EvidenceError(f"not a file of `peel gateway exposures --evidence`: {error!r}") from None
    return Proof(case.verdict, case.device, case.number, tuple(steps), tuple(trusted))


def _names(of: Any) -> list[str]:
    return [each.name for each in fields(of)]


def _read(document: Mapping[str, Any]) -> _Case:
    table = dict(document["profile"])
    attributes = tuple(_attribute(row) for row in table.pop("attributes"))
    profile = Profile(**table, attributes=attributes)
    if f"{profile.id:08x}" != document["profile_id"]:
        raise EvidenceError(f"the profile has the id {profile.id:08x}, not {document['profile_id']}: it was changed")
    verdict = Verdict.parse(document["verdict"])
    if verdict not in _CHECKS:
        raise EvidenceError(f"verdict {verdict.label}: blames no device")
    return _Case(
        document, verdict, profile, int(document["device"], 16), document["number"], bytes.fromhex(document["frame"])
    )


def _attribute(row: Mapping[str, Any]) -> Attribute:
    values: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in row.items()}
    return Attribute(**values)


# ---- reports ----


_INDEX_KEY = "The index key decides what a number assigns. That it is the device's is the gateway's word."


def _opened(case: _Case, *, report: bool = True) -> tuple[Opened, Ints]:
    """Return the frame, opened with the device's key, and the verdict of parse and seal."""
    opened = open_many(case.keyring(), [case.frame])
    if len(opened) != 1 or (int(opened.device[0]), int(opened.number[0])) != (case.device, case.number):
        raise EvidenceError(f"the frame is not report {case.number} of device {case.device:08x}")
    verdicts = judge_front(opened, np.zeros(1, np.bool_))
    if verdicts[0] != OPEN:
        raise EvidenceError(f"the frame does not open with the device's key: {CODE_NAMES[int(opened.code[0])]}")
    if report != (opened.type[0] == 0):
        raise EvidenceError(
            f"the frame is of type {int(opened.type[0])}, for which there is no verdict {case.verdict.label}"
        )
    return opened, verdicts


def _check_content(case: _Case) -> tuple[list[str], list[str]]:
    opened, verdicts = _opened(case)
    decoded = decode(opened, [Codewords(case.profile.seed, case.profile.width)])
    (found,) = judge_content(verdicts, opened, decoded, [case.profile], case.document["residual_limit"])
    if found != case.verdict:
        said = "no fault" if found == OPEN else Verdict(int(found)).label
        raise EvidenceError(f"the frame shows {said}, not {case.verdict.label}")
    unit, residual = int(opened.unit[0]), float(decoded.residual[0])
    assigned = _question(case.profile, int(case.profile.question(unit)))
    said = {
        Verdict.RULE: f"It states the rule {int(opened.rule[0]):08x}. The profile's for {assigned} is {int(case.profile.rules(unit)):08x}.",
        Verdict.SUPPORT: f"Number {case.number} assigns {assigned} by the device's index key. The codeword is for place "
        f"{int(decoded.index[0])} of the projection, which does not answer that.",
        Verdict.STRUCTURE: f"Its vector is no codeword of the profile's projection (seed {case.profile.seed}, width "
        f"{case.profile.width}): the residual is {residual:.2g}, the limit {case.document['residual_limit']:g}.",
    }[case.verdict]
    return [_report(case), _SEAL, said], [] if case.verdict == Verdict.STRUCTURE else [_INDEX_KEY]


def _report(case: _Case) -> str:
    return f"The file has report {case.number} of device {case.device:08x}, {len(case.frame)} bytes."


def _question(profile: Profile, question: int) -> str:
    return profile.attributes[profile.questions[question].attribute].name


def _check_reused(case: _Case) -> tuple[list[str], list[str]]:
    _opened(case)
    tag = int.from_bytes(case.frame[-TAG_BYTES:][:4], "little", signed=True)
    stored = int(case.document["stored_body"])
    if tag == stored:
        raise EvidenceError("the frame is the one that was stored first, so no number was used twice")
    steps = [
        _report(case),
        _SEAL,
        f"Its tag begins with {tag & 0xFFFFFFFF:08x}. That of the first report with this number began with {stored & 0xFFFFFFFF:08x}: "
        "two different reports under one number.",
    ]
    return steps, ["The first report is not kept. The 32 bits of its tag are from the gateway's log."]


def _check_flood(case: _Case) -> tuple[list[str], list[str]]:
    _opened(case)
    allowed, reached = int(case.facts["last_allowed"]), int(case.facts["reached"])
    if case.number <= allowed and reached <= allowed:
        raise EvidenceError(f"number {case.number} is within what quota and time allowed, {allowed}")
    quota, period = case.profile.quota, case.profile.period
    steps = [
        _report(case),
        _SEAL,
        f"With it the device has reached number {max(reached, case.number):,}. At {quota} per {period} seconds it could have reached "
        f"{allowed:,}.",
    ]
    return steps, [
        f"The last allowed number, {allowed:,}, follows from the gateway's clock and what it had heard before."
    ]


# ---- verified coins ----


def _check_coin(case: _Case) -> tuple[list[str], list[str]]:
    opened, _ = _opened(case, report=False)
    checks = {AUDIT_ANSWER: _check_audit, OPENING: _check_opening}
    kind = int(opened.type[0])
    if kind not in checks:
        raise EvidenceError("the frame is no audit answer and no opening")
    return checks[kind](case, opened)


def _coin_names(case: _Case, numbers: Ints) -> Bytes:
    devices, keyring = np.full(len(numbers), case.device, np.uint32), case.keyring()
    unit = index_many(case.profile, devices, keyring.keys.of(np.zeros(len(numbers), np.int64)), numbers)
    places = np.broadcast_to(case.profile.block_of_unit(unit.astype(np.int64)), unit.shape)
    blocks = [case.profile.blocks[place] for place in places.tolist()]
    odds = ([getattr(block, name) for block in blocks] for name in ("keep", "change", "outcomes"))
    return coin_names(case.profile.id, devices, numbers, *odds)


def _check_audit(case: _Case, opened: Opened) -> tuple[list[str], list[str]]:
    roots = np.frombuffer(bytes.fromhex(case.facts["roots"]), np.uint8).reshape(BATCH_NUMBERS, ROOT_BYTES)
    audited = np.flatnonzero(bits_of(np.array([case.facts["audit"]], np.uint32))[0])
    seeds = np.ascontiguousarray(opened.messages(np.zeros(1, np.int64), 16 * case.profile.audits).reshape(-1, 16))
    if len(audited) != len(seeds):
        raise EvidenceError(f"the audit asks for {len(audited)} seeds, and the profile's audits for {len(seeds)}")
    names = _coin_names(case, case.number + np.arange(BATCH_NUMBERS))
    made = coin_roots(np.ascontiguousarray(names[audited]), seeds)
    wrong = audited[(made != roots[audited]).any(axis=1)]
    if not len(wrong) or answers_another_audit(names, roots, seeds):
        raise EvidenceError("the revealed seeds make the committed roots")
    place = int(np.flatnonzero(audited == wrong[0])[0])
    steps = [
        f"The file has the device's answer to the audit of the batch that begins with number {case.number}.",
        _SEAL,
        f"Number {case.number + int(wrong[0])}: the revealed seed makes a table with the root {made[place].tobytes().hex()}. The "
        f"committed root is {roots[wrong[0]].tobytes().hex()}.",
        f"{len(wrong)} of {len(audited)} audited tables are not the committed ones.",
    ]
    return steps, [
        "The commitment's message is not kept. Its roots, and the audit, are from the gateway's database.",
        _INDEX_KEY,
    ]


def _check_opening(case: _Case, opened: Opened) -> tuple[list[str], list[str]]:
    names = _coin_names(case, np.array([case.number]))
    keep, change, symbols = names[0, 14:17].tolist()
    size = keep + (symbols - 1) * change
    root, seed = (
        np.frombuffer(bytes.fromhex(case.facts[name]), np.uint8).reshape(1, 16) for name in ("root", "challenge")
    )
    index = challenge_indices(seed, [case.number], [size])
    body = opened.messages(np.zeros(1, np.int64), case.profile.opening_bytes)
    (outcome,) = verify_openings(root, names, index, body).tolist()
    if outcome >= 0:
        raise EvidenceError(f"the opening is right: outcome {outcome}")
    steps = [
        f"The file has the device's opening of number {case.number}.",
        _SEAL,
        f"The challenge {seed.tobytes().hex()} picks entry {int(index[0])} of {size}.",
        f"The opening does not lead to the committed root {root.tobytes().hex()} ({CODE_NAMES[outcome]}).",
    ]
    return steps, [
        "The commitment's message is not kept. Its root, and the challenge, are from the gateway's database."
    ]


# ---- statistics ----


def _check_statistics(case: _Case) -> tuple[list[str], list[str]]:
    kept, alpha = case.document["log"], float(case.facts["alpha"])
    e_process = make_e_process(case.profile, alpha)
    states = e_process.new_states(1)
    if kept["base"]:
        unpack(states, np.zeros(1, np.int64), [bytes.fromhex(kept["base"])])
    log, gaps = _tables(case, kept)
    devices = np.array([case.device], np.int64)
    replay(case.profile, e_process, devices, states, log, gaps)
    capital = float(e_process.log_capital(states)[0]) / np.log(10)
    if not e_process.over(states)[0]:
        raise EvidenceError(f"the bets on this log reach 10^{capital:.2f}, and the limit is 10^{-log10(alpha):.2f}")
    bet = e_process.explain(states[0])
    words = in_words(bet, "attribute", partial(questions_of(case.profile).called, bet.name, bet.block))
    steps = [
        f"The file has the log of device {case.device:08x}: {len(log)} reports and {len(gaps)} missing numbers.",
        f"The bets were played on it again. Their capital reaches 10^{capital:.2f}, and the limit is 10^{-log10(alpha):.2f}. An honest "
        f"device ever reaches it with probability at most {alpha:g}.",
        f"The bet that won most: {words}.",
    ]
    older = (
        ["Older events were deleted. The state of the bets after them is from the gateway's database."]
        if kept["base"]
        else []
    )
    return steps, ["The log has answers without their seals. It is the gateway's.", *older]


def _tables(case: _Case, kept: Mapping[str, Any]) -> tuple[LogTable, GapTable]:
    count, missing = len(kept["reports"]["number"]), len(kept["gaps"]["number"])
    log = {name: np.zeros(count, np.int64) for name in ALL_LOG_COLUMNS}
    log |= {name: np.array(kept["reports"][name], np.int64) for name in LOG_COLUMNS}
    log |= {"device": np.full(count, case.device), "profile": np.full(count, case.profile.id)}
    gaps = {name: np.array(kept["gaps"][name], np.int64) for name in GAP_COLUMNS}
    gaps |= {"device": np.full(missing, case.device), "profile": np.full(missing, case.profile.id)}
    return LogTable(**log), GapTable(**gaps)


_CHECKS: Mapping[Verdict, Callable[[_Case], tuple[list[str], list[str]]]] = {
    Verdict.RULE: _check_content,
    Verdict.SUPPORT: _check_content,
    Verdict.STRUCTURE: _check_content,
    Verdict.REUSED: _check_reused,
    Verdict.FLOOD: _check_flood,
    Verdict.COIN: _check_coin,
    Verdict.STATISTICS: _check_statistics,
}
