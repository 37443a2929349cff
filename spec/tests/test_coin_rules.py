# SPDX-License-Identifier: MIT
"""Each rule of verified coins is needed: without it an attacker breaks the protocol, with it the same attacker does not.

Privacy is the exact likelihood ratio of everything that a malicious gateway sees. Integrity is the exact expected harm of an insider over
a liar's. A few rules protect an honest device from blame or from a stall. `coin_model` has the switches; products have none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial

import pytest

from coin_model import (
    DAMAGED,
    Batch,
    Chance,
    Commit,
    Device,
    Dice,
    Fixed,
    Gateway,
    Odds,
    Open,
    PowerCutError,
    Receipt,
    Report,
    Reveal,
    Root,
    Rules,
    Shape,
    Table,
    Tables,
    distribution,
    likelihood_ratio,
    mean_of_device,
    opening_size,
    seal,
)
from peel_research.promise.verified import Coin, harm

ON = Rules()
RULES = [field.name for field in fields(Rules)]


def without(rule: str) -> Rules:
    return replace(ON, **{rule: False})


# ---- Privacy: a malicious gateway sends any receipts to an honest device ----

SMALL = Shape(numbers=2, audits=1, odds=Odds(2, 1))
LIMIT = Fraction(SMALL.odds.keep, SMALL.odds.change)
ERA = 1
Play = Callable[[Rules, Chance, int], Hashable]


def audit(*numbers: int, first: int = 1, era: int = ERA) -> Receipt:
    return Receipt(era, audit=(first, frozenset(numbers)))


def challenge(number: int, i: int, era: int = ERA) -> Receipt:
    return Receipt(era, challenge=((number, i),))


def reported(rules: Rules, chance: Chance, answer: int) -> Device:
    """Return a device that has reported under number 2, after the audit of number 1."""
    device = Device(SMALL, chance, rules)
    device.commit()
    device.receive(audit(1))
    assert device.report(answer) == 2 or not rules.report_unrevealed
    return device


def cut_power(device: Device, step: Callable[[], object], before_write: int = 0) -> None:
    """Run a step of the device, cut its power before a write, and start it again."""
    device.flash.cut_before = before_write
    with suppress(PowerCutError):
        step()
    device.flash.cut_before = None
    device.boot()


def theft(rules: Rules, chance: Chance, answer: int) -> Hashable:
    """The gateway keeps every message. Later somebody reads the flash of the device, whose batch is closed."""
    device = reported(rules, chance, answer)
    device.receive(challenge(2, 0))
    device.receive(Receipt(ERA, opened=frozenset({2})))
    return *device.sent, *(device.tables.table(secret, 2) for secret in sorted(device.dump()))


def lost_batch(rules: Rules, chance: Chance, answer: int) -> Hashable:
    """The record of a batch is damaged after its report was opened. The lifetime is one batch."""
    device = reported(rules, chance, answer)
    device.last_number = 2
    device.receive(challenge(2, 0))
    device.flash.records["batch", 1] = DAMAGED
    device.boot()
    first = device.commit()
    assert first is not None
    device.receive(audit(first, first=first))
    device.report(answer)
    device.receive(challenge(first + 1, 0))
    return tuple(device.sent)


def second_audit(rules: Rules, chance: Chance, answer: int) -> Hashable:
    device = Device(SMALL, chance, rules)
    device.commit()
    device.receive(audit(1))
    device.receive(audit(2))
    device.report(answer)
    return tuple(device.sent)


def empty_audit(rules: Rules, chance: Chance, answer: int) -> Hashable:
    """The lifetime is one batch, which has one report if one of its two numbers is audited."""
    device = Device(SMALL, chance, rules, last_number=2)
    device.commit()
    device.receive(audit())
    device.receive(audit(1))
    while (number := device.report(answer)) is not None:
        device.receive(challenge(number, 0))
    return tuple(device.sent)


def cut_at_audit(rules: Rules, chance: Chance, answer: int) -> Hashable:
    device = Device(SMALL, chance, rules)
    device.commit()
    cut_power(device, lambda: device.receive(audit(1)), before_write=1)  # after that of the era
    device.receive(audit(2))
    device.report(answer)
    return tuple(device.sent)


def early_report(rules: Rules, chance: Chance, answer: int) -> Hashable:
    device = Device(SMALL, chance, rules)
    device.commit()
    early = device.report(answer)
    device.receive(audit(1))
    if early is None:
        device.report(answer)
    return tuple(device.sent)


def report_only(rules: Rules, chance: Chance, answer: int) -> Hashable:
    return tuple(reported(rules, chance, answer).sent)


def three_challenges(rules: Rules, chance: Chance, answer: int) -> Hashable:
    device = reported(rules, chance, answer)
    for i in range(SMALL.odds.entries):
        device.receive(challenge(2, i))
    return tuple(device.sent)


def cut_at_challenge(rules: Rules, chance: Chance, answer: int) -> Hashable:
    device = reported(rules, chance, answer)
    cut_power(device, lambda: device.receive(challenge(2, 0)))
    device.receive(challenge(2, 1))
    return tuple(device.sent)


def damaged_answer(rules: Rules, chance: Chance, answer: int) -> Hashable:
    device = reported(rules, chance, answer)
    device.receive(challenge(2, 0))
    device.flash.records["answer", 2] = DAMAGED
    device.boot()
    device.receive(challenge(2, 1))
    return tuple(device.sent)


def forced_era(rules: Rules, chance: Chance, answer: int) -> Hashable:
    """The gateway opens a report and claims a new era. A device that reports void readings again does so now."""
    device = reported(rules, chance, answer)
    device.receive(challenge(2, 0))
    device.receive(Receipt(2))
    device.commit()
    device.receive(audit(3, first=3, era=2))
    for again in device.again:
        device.report(again)
    device.receive(challenge(4, 0, era=2))
    return tuple(device.sent)


def stolen_log(rules: Rules, chance: Chance, answer: int) -> Hashable:
    """The gateway is honest. A thief gets its log, and the flash of the device before the batch is closed."""
    device, gateway = Device(SMALL, chance, rules), Gateway(SMALL, chance, rules)
    talk(device, gateway, [answer], confirm=False)
    (entry,) = gateway.db.log
    return entry, *(device.tables.table(secret, entry.number) for secret in sorted(device.dump()))


def talk(device: Device, gateway: Gateway, answers: Iterable[int], *, confirm: bool = True) -> None:
    """Let an honest pair exchange a batch, a report per answer and their openings, in one bucket."""
    said = deliver(device, gateway, 0)
    device.commit()
    said = deliver(device, gateway, said)
    device.receive(gateway.receipt())
    said = deliver(device, gateway, said)
    for answer in answers:
        device.report(answer)
    said = deliver(device, gateway, said)
    gateway.end_bucket()
    device.receive(gateway.receipt())
    deliver(device, gateway, said)
    if confirm:
        device.receive(gateway.receipt())


def deliver(device: Device, gateway: Gateway, begin: int) -> int:
    """Deliver the messages from an index on, and return the next index."""
    for message in device.sent[begin:]:
        gateway.receive(message)
    return len(device.sent)


PRIVACY: dict[str, Play] = {
    "secret_per_batch": theft,
    "secret_erased": theft,
    "no_second_secret": lost_batch,
    "one_audit": second_audit,
    "audit_size": empty_audit,
    "audit_stored_first": cut_at_audit,
    "report_after_audit": early_report,
    "report_unrevealed": report_only,
    "one_answer": three_challenges,
    "answer_stored_first": cut_at_challenge,
    "damage_voids": damaged_answer,
    "void_is_lost": forced_era,
    "log_keeps_symbol_only": stolen_log,
}


@pytest.mark.parametrize("rule", PRIVACY)
def test_without_the_rule_a_gateway_learns_more_than_the_odds(rule: str) -> None:
    assert likelihood_ratio(partial(PRIVACY[rule], without(rule)), range(2)) > LIMIT


@pytest.mark.parametrize("rule", PRIVACY)
def test_with_the_rule_the_same_gateway_learns_at_most_the_odds(rule: str) -> None:
    assert likelihood_ratio(partial(PRIVACY[rule], ON), range(2)) <= LIMIT


@pytest.mark.parametrize(("keep", "change", "g"), [(2, 1, 2), (3, 1, 2), (8, 3, 2), (2, 1, 3), (3, 1, 4)])
@pytest.mark.parametrize("offset", [0, 1])
def test_a_whole_report_shows_exactly_the_odds(keep: int, change: int, g: int, offset: int) -> None:
    """The gateway picks i after it has seen d."""
    shape = Shape(2, 1, Odds(keep, change, g))

    def play(chance: Chance, answer: int) -> Hashable:
        device = Device(shape, chance)
        device.commit()
        device.receive(audit(1))
        device.report(answer)
        said = device.sent[-1]
        assert isinstance(said, Report)
        device.receive(challenge(2, (said.d + offset) % shape.odds.entries))
        return tuple(device.sent)

    assert likelihood_ratio(play, range(g)) == Fraction(keep, change)


def test_rounding_adds_nothing() -> None:
    """Readings from 0 to 4 quarters of the range are rounded by a private coin. Only the ends of the range show the odds."""

    def play(chance: Chance, quarters: int) -> Hashable:
        device = reported(ON, chance, int(chance.pick(4) < quarters))
        device.receive(challenge(2, 0))
        return tuple(device.sent)

    assert likelihood_ratio(play, (0, 4)) == LIMIT
    assert likelihood_ratio(play, (1, 2, 3)) < LIMIT


@pytest.mark.parametrize("rule", ["challenge_reported", "device_one_batch_waits"])
def test_rules_that_save_work_and_hide_nothing(rule: str) -> None:
    """A challenge before the report, and two batches at a time: the gateway still sees the odds and no more."""

    def play(chance: Chance, answer: int) -> Hashable:
        device = Device(SMALL, chance, without(rule))
        device.commit()
        device.commit()
        device.receive(challenge(2, 1))
        device.receive(audit(1))
        device.receive(challenge(1, 0))
        device.report(answer)
        for i in range(SMALL.odds.entries):
            device.receive(challenge(2, i))
        return tuple(device.sent)

    assert likelihood_ratio(play, range(2)) == LIMIT


# ---- Privacy: the network sees sealed messages ----


def test_reports_and_openings_share_no_keystream() -> None:
    """A key of their own or a type in the nonce: one of the two is enough, and both are the rule."""

    def shared(rules: Rules) -> bool:
        report, opening = seal(Report(7, 1), 11, 100, rules), seal(Open(7, 3, 0), 11, 100, rules)
        return (report.key, report.nonce) == (opening.key, opening.nonce)

    assert shared(replace(ON, own_key=False, type_in_nonce=False))
    assert not shared(without("own_key"))
    assert not shared(without("type_in_nonce"))
    assert not shared(ON)


def test_the_size_of_an_opening_does_not_tell_the_question() -> None:
    """Two questions of a profile have tables of 4 and of 11 entries."""
    longest = max(opening_size(entries, i) for entries in (4, 11) for i in range(entries))

    def sizes(entries: int, rules: Rules) -> set[int]:
        return {seal(Open(7, i, 0), entries, longest, rules).size for i in range(entries)}

    assert sizes(4, without("one_size")).isdisjoint(sizes(11, without("one_size")))
    assert sizes(4, ON) == sizes(11, ON)


# ---- Integrity: an insider plays against an honest gateway ----

GAME = Shape(numbers=4, audits=1, odds=Odds(3, 1))
COIN = Coin(3, 1, 2, Fraction(1, 2))  # audits 8 of 32, as GAME does 1 of 4
CAP = COIN.gain


class Insider:
    """A device that wants symbol 1, and may break every rule of a device."""

    def __init__(self, rules: Rules, chance: Chance, bundles: tuple[int, ...] = (1,)) -> None:
        self.gateway = Gateway(GAME, chance, rules, bundles=bundles)
        self.tables = Tables(GAME.odds, Fixed())
        self.secrets: dict[int, str] = {}
        self.forged: set[int] = set()
        self._made = 0

    def roots(self, first: int, forged: Iterable[int] = ()) -> tuple[Root, ...]:
        """Make a batch in which some tables show nothing but 1."""
        self._made += 1
        numbers = range(first, first + GAME.numbers)
        for number in numbers:
            self.secrets[number] = f"secret {self._made}"
        for number in forged:
            self.tables.forge(self.secrets[number], number, (1,) * GAME.odds.entries)
        self.forged = self.forged - set(numbers) | set(forged)
        return tuple(Root(self.secrets[number], number, self.tables) for number in numbers)

    def commit(self, first: int, forged: Iterable[int] = (), bundle: int = 1) -> bool:
        """Commit, and tell whether the audit misses the forged tables."""
        self.gateway.receive(Commit(first, self.roots(first, forged), bundle))
        row = self.gateway.db.batches.get(first)
        return row is not None and not row.audit & self.forged

    def reveal(self, first: int) -> None:
        row = self.gateway.db.batches[first]
        seeds = tuple((number, self.table(number)) for number in sorted(row.audit))
        self.gateway.receive(Reveal(first, seeds))

    def batch(self, first: int, forged: Iterable[int] = (), bundle: int = 1) -> list[int]:
        """Commit and answer the audit unless it would show a forgery. Return the numbers to report under."""
        if not self.commit(first, forged, bundle):
            return []
        self.reveal(first)
        return [
            number
            for number in self.gateway.db.batches[first].roots
            if number not in self.gateway.db.batches[first].audit
        ]

    def table(self, number: int) -> Table:
        return self.tables.table(self.secrets[number], number)

    def report(self, number: int) -> None:
        """Report the lie 1, or under a forged table what makes it 1."""
        d = 0 if number in self.forged else (1 - self.table(number).mask) % 2
        self.gateway.receive(Report(number, d))

    def challenged(self) -> dict[int, int]:
        return dict(self.gateway.receipt().challenge)

    def good(self, number: int, i: int) -> bool:
        """Tell whether an opening makes the report a 1."""
        return (self.table(number).outcomes[i] + self.gateway.db.reports[number].d) % 2 == 1

    def open(self, number: int, i: int) -> None:
        self.gateway.receive(Open(number, i, self.table(number).outcomes[i]))

    def open_all(self) -> None:
        for number, i in self.challenged().items():
            self.open(number, i)

    def open_good(self) -> None:
        for number, i in self.challenged().items():
            if self.good(number, i):
                self.open(number, i)

    def harm(self, promised: int, buckets: Iterable[int] | None = None) -> Fraction:
        """Return the harm in the figures per promised report."""
        log = [entry for entry in self.gateway.recount() if buckets is None or entry.bucket in buckets]
        return sum((2 * entry.symbol - 1 for entry in log), Fraction(0)) * CAP / promised


def recommit(rules: Rules, chance: Chance) -> Fraction:
    """Commit other tables for the same numbers until the audit misses the forged one."""
    insider = Insider(rules, chance)
    for _ in range(4):
        if insider.commit(1, forged=[2]):
            break
    insider.reveal(1)
    insider.report(2)
    insider.gateway.end_bucket()
    insider.open_all()
    return insider.harm(1)


def several_batches(rules: Rules, chance: Chance) -> Fraction:
    """Commit four batches and use one whose audit misses the forged table."""
    insider = Insider(rules, chance)
    missed = [first for first in (1, 5, 9, 13) if insider.commit(first, forged=[first])]
    if missed:
        insider.reveal(missed[0])
        insider.report(missed[0])
    insider.gateway.end_bucket()
    insider.open_all()
    return insider.harm(1)


def abandon_batches(rules: Rules, chance: Chance) -> Fraction:
    """Drop a batch whose audit hits, and commit the next one."""
    insider = Insider(rules, chance)
    for first in (1, 5, 9, 13):
        if insider.commit(first, forged=[first]):
            insider.reveal(first)
            insider.report(first)
            break
    insider.gateway.end_bucket()
    insider.open_all()
    return insider.harm(1)


def foresee_audits(rules: Rules, chance: Chance) -> Fraction:
    """Compute the audit in advance if the challenge key is known, and commit tables that it misses."""
    insider = Insider(rules, chance)
    gateway = insider.gateway
    roots = insider.roots(1, forged=[2])
    while not rules.secret_challenge_key and 2 in gateway.audit_of(gateway.db.era, 1, roots) and insider._made < 5:
        roots = insider.roots(1, forged=[2])
    gateway.receive(Commit(1, roots))
    if 2 not in gateway.db.batches[1].audit:
        insider.reveal(1)
        insider.report(2)
    gateway.end_bucket()
    insider.open_all()
    return insider.harm(1)


def ignore_audit(rules: Rules, chance: Chance) -> Fraction:
    """Forge all tables and answer no audit. The audited number is lost."""
    insider = Insider(rules, chance)
    insider.commit(1, forged=[1, 2, 3, 4])
    for number in range(1, 5):
        insider.report(number)
    insider.gateway.end_bucket()
    insider.open_all()
    return insider.harm(3)


def know_the_challenge(rules: Rules, chance: Chance) -> Fraction:
    """Choose the masked answer by a challenge that is known before."""
    insider = Insider(rules, chance)
    number = insider.batch(1)[0]
    outcome = insider.table(number).outcomes[insider.gateway.early_index(number)]
    insider.gateway.receive(Report(number, (1 - outcome) % 2))
    insider.gateway.end_bucket()
    insider.open_all()
    return insider.harm(1)


def forge_the_last_of_a_bucket(rules: Rules, chance: Chance) -> Fraction:
    """Report honestly and open at once if asked. Then forge one table for the same bucket, and stall if the audit hits."""
    insider = Insider(rules, chance)
    for number in insider.batch(1)[:2]:
        insider.report(number)
        insider.open_all()
    if insider.batch(5, forged=[5]):
        insider.report(5)
    insider.open_all()
    insider.gateway.end_bucket()
    insider.open_all()
    return insider.harm(3)


def open_the_good(rules: Rules, chance: Chance) -> Fraction:
    """Three reports in one bucket, of which only the good ones are opened."""
    insider = Insider(rules, chance)
    for number in insider.batch(1):
        insider.report(number)
    insider.gateway.end_bucket()
    insider.open_good()
    return insider.harm(3)


def good_groups(rules: Rules, chance: Chance) -> Fraction:
    """One report per bucket; only good groups are opened."""
    insider = Insider(rules, chance)
    for number in insider.batch(1):
        insider.report(number)
        insider.gateway.end_bucket()
        insider.open_good()
        insider.gateway.end_bucket()
    return insider.harm(3)


def good_bundles(rules: Rules, chance: Chance) -> Fraction:
    """One report per bundle; only good groups are opened, and the next bundle begins."""
    insider = Insider(rules, chance, bundles=(1, 2))
    for bundle in (1, 2):
        for number in insider.batch(4 * bundle - 3, bundle=bundle)[:1]:
            insider.report(number)
            insider.gateway.end_bucket()
            insider.open_good()
    return insider.harm(2)


def other_leaf(rules: Rules, chance: Chance) -> Fraction:
    """Open a leaf with the wanted outcome in place of the challenged one."""
    insider = Insider(rules, chance)
    for number in insider.batch(1):
        insider.report(number)
    insider.gateway.end_bucket()
    for number in insider.challenged():
        i = next(i for i in range(GAME.odds.entries) if insider.good(number, i))
        insider.open(number, i)
    return insider.harm(3)


def spoil_the_bad(rules: Rules, chance: Chance) -> Fraction:
    """Answer bad challenges with a wrong opening."""
    insider = Insider(rules, chance)
    for number in insider.batch(1):
        insider.report(number)
        insider.gateway.end_bucket()
        for challenged, i in insider.challenged().items():
            if insider.good(challenged, i):
                insider.open(challenged, i)
            else:
                insider.gateway.receive(Open(challenged, i, 1 - insider.table(challenged).outcomes[i]))
    return insider.harm(3)


def second_try(rules: Rules, chance: Chance) -> Fraction:
    """A backup from before the commitment is restored after the challenge. After a bad outcome other tables are committed."""
    insider = Insider(rules, chance)
    gateway = insider.gateway
    backup = gateway.backup()
    number = insider.batch(1)[0]
    known = Commit(1, tuple(gateway.db.batches[1].roots.values()))
    insider.report(number)
    gateway.end_bucket()
    good = insider.good(number, insider.challenged()[number])
    gateway.restore(backup)
    gateway.receive(known if good else Commit(1, insider.roots(1)))
    insider.reveal(1)
    insider.report(min(set(gateway.db.batches[1].roots) - gateway.db.batches[1].audit))
    gateway.end_bucket()
    insider.open_good()
    return insider.harm(1)


def move_groups(rules: Rules, chance: Chance) -> Fraction:
    """Open good groups in a target bucket, and bad ones in the next. Buckets 1, 3 and 5 are targets."""
    insider = Insider(rules, chance)
    for number in insider.batch(1):
        insider.report(number)
        insider.gateway.end_bucket()
        insider.open_good()
        insider.gateway.end_bucket()
        insider.open_all()
    # With the rule the buckets of the reports themselves are the best targets.
    targets = (1, 3, 5) if not rules.bucket_at_report else (0, 2, 4)
    return insider.harm(3, targets)


def never_open(rules: Rules, chance: Chance) -> Fraction:
    """Report 1 unmasked, open nothing, and wait for a recount."""
    insider = Insider(rules, chance)
    for number in insider.batch(1):
        insider.gateway.receive(Report(number, 1))
    insider.gateway.end_bucket()
    return insider.harm(3)


def no_commitment(rules: Rules, chance: Chance) -> Fraction:
    """Send reports as of a profile without verified coins."""
    insider = Insider(rules, chance)
    for number in (1, 2, 3):
        insider.gateway.receive(Report(number, 1))
    return insider.harm(3)


def pause_when_ahead(rules: Rules, chance: Chance) -> Fraction:
    """One report per bucket in a mean over devices, and silence while the sum is above zero."""
    insider = Insider(rules, chance)
    numbers = insider.batch(1) + insider.batch(5)
    for number in numbers[:4]:
        if sum(2 * entry.symbol - 1 for entry in insider.gateway.db.log) > 0:
            break
        insider.report(number)
        insider.gateway.end_bucket()
        insider.open_all()
    return mean_of_device(insider.gateway.db.log, 4, rules) * CAP


ONE, TWO, THREE, FOUR = (harm(COIN, reports) for reports in (1, 2, 3, 4))
BUCKET = harm(COIN, 3, group=3)
INTEGRITY: dict[str, tuple[Callable[[Rules, Chance], Fraction], Fraction]] = {
    "commit_once": (recommit, ONE),
    "gateway_one_batch_waits": (several_batches, ONE),
    "secret_challenge_key": (foresee_audits, ONE),
    "audit_stalls": (abandon_batches, ONE),
    "approve_after_audit": (ignore_audit, BUCKET),
    "audit_holds_groups": (forge_the_last_of_a_bucket, BUCKET),
    "challenge_after_report": (know_the_challenge, ONE),
    "group_at_bucket_end": (forge_the_last_of_a_bucket, BUCKET),
    "group_atomic": (open_the_good, BUCKET),
    "next_group_waits": (good_groups, THREE),
    "order_across_bundles": (good_bundles, TWO),
    "late_openings_count": (good_groups, THREE),
    "position_fixed": (other_leaf, BUCKET),
    "wrong_opening_exposes": (spoil_the_bad, THREE),
    "era_beside_database": (second_try, ONE),
    "mark_renewed": (second_try, ONE),
    "bucket_at_report": (move_groups, THREE),
    "only_opened_counts": (never_open, BUCKET),
    "refuse_unverified": (no_commitment, BUCKET),
    "pro_rata": (pause_when_ahead, FOUR),
}


def expected(play: Callable[[Chance], Fraction]) -> Fraction:
    return sum((value * probability for value, probability in distribution(play).items()), Fraction(0))


# "Audits hold groups" alone stops insiders with several batches. So the older rule is played without the newer one.
BESIDE = {"gateway_one_batch_waits": without("audit_holds_groups")}


@pytest.mark.parametrize("rule", INTEGRITY)
def test_without_the_rule_an_insider_does_more_harm_than_the_bound(rule: str) -> None:
    play, bound = INTEGRITY[rule]
    assert expected(partial(play, replace(BESIDE.get(rule, ON), **{rule: False}))) > bound


@pytest.mark.parametrize("rule", INTEGRITY)
def test_with_the_rule_the_same_insider_does_not(rule: str) -> None:
    play, bound = INTEGRITY[rule]
    assert expected(partial(play, BESIDE.get(rule, ON))) <= bound


def test_audits_that_hold_groups_make_one_batch_at_a_time_a_matter_of_size() -> None:
    assert expected(partial(several_batches, without("gateway_one_batch_waits"))) <= ONE


# ---- An honest device is neither blamed nor stalled ----


def settle(device: Device, gateway: Gateway, *, rounds: int = 4) -> None:
    """Deliver everything, again and again, as an honest pair does in the end."""
    for _ in range(rounds):
        receipt = gateway.receipt()
        device.receive(receipt)
        begin = len(device.sent)
        device.resend(receipt)
        deliver(device, gateway, begin)
        gateway.end_bucket()


def pair(rules: Rules, quota: int = 1000, reserve: int = 1000) -> tuple[Device, Gateway]:
    return Device(GAME, Dice(1), rules), Gateway(GAME, Dice(2), rules, quota=quota, reserve=reserve)


def lost_secret(rules: Rules) -> bool:
    """The power is cut while a batch is made."""
    device, gateway = pair(rules)
    cut_power(device, device.commit, before_write=1)
    deliver(device, gateway, 0)
    settle(device, gateway)
    return gateway.stalled


def lost_opening(rules: Rules) -> bool:
    """The last opening of a batch is lost on its way."""
    device, gateway = pair(rules)
    device.commit()
    settle(device, gateway)
    for _ in range(GAME.numbers - GAME.audits):
        device.report(1)
    deliver(device, gateway, 0)
    gateway.end_bucket()
    device.receive(gateway.receipt())  # its openings never arrive
    settle(device, gateway)
    return gateway.stalled


def forgotten_era(rules: Rules) -> bool:
    """The gateway begins an era. The device has a report that will never count, and must know."""
    device, gateway = pair(rules)
    talk(device, gateway, [1])
    device.report(1)
    gateway.new_era()
    settle(device, gateway)
    return device.usable(1) is not None


def old_receipt(rules: Rules) -> bool:
    """A receipt of the era before is delivered after those of a new one."""
    device, gateway = pair(rules)
    talk(device, gateway, [1])
    old = gateway.receipt()
    gateway.new_era()
    settle(device, gateway)
    device.commit()
    settle(device, gateway)
    device.report(1)
    settle(device, gateway, rounds=1)
    device.receive(old)
    settle(device, gateway)
    return gateway.stalled


def rotten_secret(rules: Rules) -> bool:
    """Bits of a secret flip, and no checksum notices."""
    device, gateway = pair(rules)
    device.commit()
    deliver(device, gateway, 0)
    batch = device.flash.records["batch", 1]
    assert isinstance(batch, Batch)
    device.flash.records["batch", 1] = batch._replace(secret="rotten")
    settle(device, gateway)
    return gateway.db.exposed is not None


def away(rules: Rules) -> bool:
    """The device is offline for some buckets after a challenge."""
    device, gateway = pair(rules)
    talk(device, gateway, [])
    device.report(1)
    deliver(device, gateway, 0)
    for _ in range(5):
        gateway.end_bucket()
    settle(device, gateway)
    return gateway.db.exposed is not None or len(gateway.db.log) != 1


def full_quota(rules: Rules) -> bool:
    """The device sends all reports that its quota allows."""
    device, gateway = pair(rules, quota=3)
    for _ in range(4):
        device.commit()
        settle(device, gateway, rounds=2)
        for _ in range(3):
            assert device.report(1)
        settle(device, gateway)
    assert len(gateway.db.log) == 12
    return gateway.flood(buckets=4)


def missing_numbers(rules: Rules) -> bool:
    """The device uses every number, and some are audited."""
    device, gateway = pair(rules)
    for _ in range(4):
        talk(device, gateway, [1, 0, 1])
    return bool(gateway.gaps())


HONEST: dict[str, Callable[[Rules], bool]] = {
    "secret_stored_first": lost_secret,
    "secret_kept_until_confirmed": lost_opening,
    "device_era_voids": forgotten_era,
    "old_era_ignored": old_receipt,
    "check_before_send": rotten_secret,
    "silence_is_no_blame": away,
    "flood_counts_unrevealed": full_quota,
    "revealed_are_no_gaps": missing_numbers,
}


@pytest.mark.parametrize("rule", HONEST)
def test_without_the_rule_an_honest_device_is_blamed_or_stalled(rule: str) -> None:
    assert HONEST[rule](without(rule))


@pytest.mark.parametrize("rule", HONEST)
def test_with_the_rule_it_is_not(rule: str) -> None:
    assert not HONEST[rule](ON)


def test_a_flood_of_commitments_is_bounded() -> None:
    def stored(rules: Rules) -> int:
        device, gateway = pair(rules, reserve=8)
        for _ in range(20):
            talk(device, gateway, [])
        return len(gateway.db.batches)

    assert stored(without("commit_within_reserve")) == 20
    assert stored(ON) == 3  # 8 numbers, and one batch


def test_every_rule_has_a_test() -> None:
    elsewhere = {
        "challenge_reported",
        "device_one_batch_waits",
        "own_key",
        "type_in_nonce",
        "one_size",
        "commit_within_reserve",
    }
    assert sorted([*PRIVACY, *INTEGRITY, *HONEST, *elsewhere]) == sorted(RULES)
