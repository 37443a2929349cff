# SPDX-License-Identifier: MIT
"""The rules of verified coins, each with a switch. Only this model has switches; `test_coin_rules.py` turns off one at a time."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ALL_RULES", "Rules"]


@dataclass(frozen=True)
class Rules:
    """Rules of SPEC.md, sections 13.4 and 13.5. All are on unless a test turns one off."""

    # 13.4: against a malicious gateway
    secret_per_batch: bool = True
    """A batch has a random secret of its own. Off: one lasting secret makes the tables of all batches."""
    secret_stored_first: bool = True
    """The secret is on flash before the commitment is sent."""
    secret_erased: bool = True
    """The secret is overwritten when the last number of its batch is opened, given up or void."""
    secret_kept_until_confirmed: bool = True
    """A number is opened when a receipt says that its opening is stored. Off: when the opening is sent."""
    no_second_secret: bool = True
    """Committed numbers get no other secret. Off: the device commits a lost batch again."""
    device_one_batch_waits: bool = True
    """At most one batch waits for its audit."""
    one_audit: bool = True
    """A batch takes one audit. Off: a later audit replaces the stored one."""
    audit_size: bool = True
    """An audit has exactly `a` numbers."""
    audit_stored_first: bool = True
    """The audit is on flash before its seeds are sent."""
    report_after_audit: bool = True
    """Only audited batches have reports."""
    report_unrevealed: bool = True
    """A revealed number has no report."""
    challenge_reported: bool = True
    """Only reported numbers are opened."""
    one_answer: bool = True
    """A number is in one challenge. Off: a second challenge is answered too."""
    answer_stored_first: bool = True
    """The challenge is on flash before it is answered."""
    damage_voids: bool = True
    """A damaged record voids its batch. Off: it is taken for a record that was never written."""
    device_era_voids: bool = True
    """A receipt with another era voids the batch, on the device."""
    old_era_ignored: bool = True
    """Eras are ordered. A receipt with a lower era than the device has seen is old, and ignored."""
    void_is_lost: bool = True
    """The reading of a void report is not reported again."""
    check_before_send: bool = True
    """Seeds and openings are checked against the stored roots before they are sent."""
    # 13.3: against the network
    own_key: bool = True
    """Coin messages have a key of their own. Off: they have the key of reports."""
    type_in_nonce: bool = True
    """The type of a message is a part of its nonce. Off: messages of all types about a number have one nonce."""
    one_size: bool = True
    """Openings of a profile have one size."""

    # 13.5: against a malicious device
    commit_once: bool = True
    """Committed numbers are above all those committed before."""
    commit_within_reserve: bool = True
    """A device has a bounded reserve of committed numbers that it has not used."""
    gateway_one_batch_waits: bool = True
    """At most one batch waits for its audit."""
    secret_challenge_key: bool = True
    """No device has the challenge key. Off: a device computes audits and challenges in advance."""
    audit_stalls: bool = True
    """An unanswered audit stalls the device until it is released. Off: the batch is dropped and the next one taken."""
    approve_after_audit: bool = True
    """A batch has reports only after its audit was verified."""
    audit_holds_groups: bool = True
    """No group is challenged while a batch waits for its audit."""
    challenge_after_report: bool = True
    """The challenge follows the stored report. Off: it is sent with the approval of the batch."""
    group_at_bucket_end: bool = True
    """Reports are challenged when their time bucket has ended. Off: one by one, as they come."""
    group_atomic: bool = True
    """A group counts once all of it is opened. Off: each report counts when it is opened."""
    next_group_waits: bool = True
    """The next group is challenged when the one before is open. Off: an unopened group is passed over."""
    order_across_bundles: bool = True
    """An unopened group holds up every bundle of the device. Off: only its own."""
    late_openings_count: bool = True
    """Openings have no deadline. Off: a group that is not open one bucket later is dropped."""
    position_fixed: bool = True
    """The path's shape follows from K and i. Off: any leaf below the root is accepted."""
    wrong_opening_exposes: bool = True
    """A wrong opening exposes the device. Off: the report is dropped."""
    silence_is_no_blame: bool = True
    """Only an authenticated contradiction exposes. Off: a group that stays closed does, too."""
    era_beside_database: bool = True
    """A restored database starts a new era, and open batches are void. Off: the gateway goes on as if nothing happened."""
    mark_renewed: bool = True
    """A mark in the database and beside it changes in every bucket and after every backup. Off: only the era is compared."""
    bucket_at_report: bool = True
    """A report belongs to the bucket in which it was stored. Off: to the one in which it is opened."""
    only_opened_counts: bool = True
    """A recount counts opened reports alone. Off: it counts stored ones as they are."""
    refuse_unverified: bool = True
    """Under a verified profile a report without a committed number is refused."""
    log_keeps_symbol_only: bool = True
    """Of an opened report the log keeps number and symbol. Off: it keeps the masked answer, too."""
    flood_counts_unrevealed: bool = True
    """Quota, lifetime and flood check count numbers that were not revealed."""
    revealed_are_no_gaps: bool = True
    """A revealed number is not missing."""
    pro_rata: bool = True
    """In the mean over devices, a device weighs by the share of its promised reports that it sent."""


ALL_RULES = Rules()
