# SPDX-License-Identifier: MIT
"""The results of all queries as typed dictionaries: the JSON of the API, and the source of its OpenAPI description.

The page and the commands have no other source. Later versions may add fields.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Generic, NotRequired, TypedDict, TypeVar

from peel_gateway.planning.outlook import Outlook

Count = Annotated[int, ("minimum", 0)]
Moment = Annotated[str, ("format", "date-time")]
DeviceLabel = Annotated[str, ("pattern", "^[0-9a-f]{8}$")]
Item = TypeVar("Item")


def moment(seconds: float) -> str:
    """Return Unix seconds as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def moment_or_none(seconds: float | None) -> str | None:
    """Return Unix seconds as ISO 8601 in UTC; None for None."""
    return None if seconds is None else moment(seconds)


class Error(TypedDict):
    error: str


class Access(TypedDict):
    """A client's access: whether it has any, and whether through a browser's session."""

    open: bool
    session: bool


class Items(TypedDict, Generic[Item]):
    items: list[Item]


class Page(TypedDict, Generic[Item]):
    items: list[Item]
    next: int | None
    """The id to continue from; None on the last page."""


class Endpoint(TypedDict):
    path: str
    methods: list[str]
    what: str


class Totals(TypedDict):
    """Counters over the life of the database."""

    verdicts: dict[str, Count]
    accepted: Count
    exposed: Count
    poisoning_ratio: float
    withdrawn_past: Count
    exposed_devices: Count
    withdrawn_devices: Count
    quarantined: Count
    quarantined_bytes: Count
    dropped: dict[str, Count]
    gaps: Count
    replayed: dict[str, Count]
    pardons: Count
    generation: Count
    devices: Count
    revoked_devices: Count


class DeviceStates(TypedDict):
    states: dict[str, Count]
    heard: Count
    last_report: Moment | None
    silent_seconds: float | None
    held_reports: Count | None
    """Reports that wait until their coins are opened; None without a verified profile."""
    stalled_devices: Count | None
    """Devices that have not answered an audit or a challenge for two time buckets of their profile; None without a verified profile."""


class Accident(TypedDict):
    """Many devices exposed together, as by an operator's mistake."""

    devices: Count
    heard: Count
    cause: str
    since: Moment
    command: str
    sentence: str


class Broker(TypedDict):
    connected: bool
    mqtt: str | None
    away_seconds: float | None


class WorkerState(TypedDict):
    name: str | None
    workers: Count
    partitions: list[Count]
    partition_count: Count


class Reload(TypedDict):
    refused: str | None


class InboxState(TypedDict):
    pending: Count
    oldest_seconds: float


class StoreState(TypedDict):
    bytes: Count
    bytes_per_day: int | None
    bucket_seconds: Count
    first_received: Moment | None
    dead_letters: Count


class Summary(TypedDict):
    """The state of the whole gateway."""

    fleet: str
    version: str
    uptime_seconds: float
    totals: Totals
    devices: DeviceStates
    accident: Accident | None
    broker: Broker
    worker: WorkerState
    reload: Reload
    inbox: InboxState
    store: StoreState
    health: list[str]


class Health(TypedDict):
    causes: list[str]
    dead_letters: Count
    lag_seconds: float
    receipt_lag_seconds: float


class Interval(TypedDict):
    value: float | None
    low: float | None
    high: float | None


class Figure(Interval):
    over: str
    edge: str | None
    unclipped: Interval
    n_effective: float
    influence: float | None
    influence_share: float | None
    influence_device: DeviceLabel | None


class Estimate(Figure):
    name: str
    attribute: str
    kind: str
    unit: str
    threshold: float | None
    range: list[float]
    n: Count
    devices: Count | None
    over_devices: Figure | None
    plain: Interval
    withdrawn: Count
    before_withdrawal: Interval
    half_width: float | None
    reports_missing: Count | None
    seconds_missing: float | None
    too_few: bool
    seconds_to_value: float | None


class ShareAbove(Interval):
    threshold: float


class Quantile(Interval):
    part: float


class Distribution(TypedDict):
    """The distribution of a reading with a ladder."""

    attribute: str
    unit: str
    range: list[float]
    n: Count
    shares_above: list[ShareAbove]
    quantiles: list[Quantile]
    above: ShareAbove | None


class Estimates(TypedDict):
    """A profile's estimates, for a span of time or one bucket of it."""

    profile: str
    tag: str | None
    members: Count | None
    note: str | None
    start: Moment | None
    seconds: Count | None
    n: Count
    devices: Count | None
    withdrawn: Count
    withdrawn_devices: Count
    share_cap: float
    figures: Count
    computed: Moment
    rate: float | None
    estimates: list[Estimate]
    distributions: list[Distribution]


class RecentEstimates(Estimates):
    """Estimates over a window up to now."""

    window: str
    window_seconds: Count
    since: Moment
    too_few: bool


class Difference(Interval):
    """The difference of two estimates."""

    before: Interval
    after: Interval
    visible: bool
    sentence: str


class Change(Difference):
    """The change of one attribute or category: over reports, and over devices where it was asked for."""

    name: str
    unit: str
    range: list[float]
    n_before: Count
    n_after: Count
    over_devices: Difference | None


class Changes(TypedDict):
    """The changes of a profile's estimates between two spans of time."""

    profile: str
    tag: str | None
    members: Count | None
    note: str | None
    since: Moment
    until: Moment
    before_since: Moment
    before_until: Moment
    n_before: Count
    n_after: Count
    figures: Count
    computed: Moment
    changes: list[Change]


class AlertState(TypedDict):
    """The retained message of an alert: its condition, its state, and the estimate or change that it was evaluated on."""

    alert: str
    state: str
    """`active`, `inactive`, or `unknown` before the first evaluation and while `problem` prevents one."""
    profile: str
    tag: str
    figure: str
    condition: str
    threshold: float
    window: str
    unit: str
    value: float | None
    low: float | None
    high: float | None
    n: Count
    since: Moment | None
    held: Moment | None
    computed: Moment | None
    sentence: str


class Alert(AlertState):
    """An alert on an estimate."""

    problem: str | None
    """Why it cannot be evaluated."""


class Tag(TypedDict):
    tag: str
    members: Count
    note: str | None


class _Refused(TypedDict):
    id: int
    verdict: str
    blamed: bool
    device: DeviceLabel | None
    number: Count | None
    profile: str | None
    received: Moment
    topic: str
    evidence: dict[str, Any]


class Report(_Refused):
    """A refused report."""

    raw: str


class FrameField(TypedDict):
    field: str
    at: Count
    hex: str
    value: str | int | None


class Picture(TypedDict):
    """A report's reconstructed vector and the nearest admissible pattern."""

    width: Count
    k: Count
    labels: list[str]
    vector: list[float]
    place: Count
    sign: int
    assigned: Count | None
    residual: float
    limit: float


class ReportInDetail(_Refused):
    layer: str | None
    sentence: str
    meaning: str
    bytes: list[FrameField]
    picture: Picture | None


class Exposed(TypedDict):
    """An exposed device with the reason."""

    device: DeviceLabel
    profile: str | None
    verdict: str
    layer: str | None
    exposed_at: Moment
    withdrawn: bool
    reports: Count
    sentence: str
    exposure: int | None


class ExposedDevices(TypedDict):
    items: list[Exposed]
    total: Count


class LayerVerdict(TypedDict):
    verdict: str
    blame: str
    sentence: str


class Layer(TypedDict):
    layer: str
    exposes: str
    verdicts: list[LayerVerdict]


class FleetAction(TypedDict):
    """A revocation or its reversal."""

    time: Moment
    action: str
    device: DeviceLabel
    who: str
    reason: str


class AuditItem(FleetAction):
    """A pardon, or a release of verified coins, which has neither `cause` nor `restored`."""

    id: int
    cause: str | None
    restored: bool | None
    reports: Count
    """Of a pardon: the withdrawn reports that it was about. Of a release: the held reports that it dropped."""


class Audit(TypedDict):
    """Pardons and releases, and the changes to the fleet folder."""

    items: list[AuditItem]
    next: int | None
    fleet: list[FleetAction]


class Claims(TypedDict):
    """A device's own status message; None for fields that it never sent."""

    state: str
    heard: Moment | None
    asleep: bool
    firmware: str | None
    core: str | None
    board: str | None
    interval_ms: Count | None
    dropped: Count | None
    unconfirmed: Count | None
    refused_receipts: Count | None
    lost: Count | None
    skipped: Count | None
    no_reading: Count | None
    throttled: Count | None
    left: Count | None
    entropy: Count | None
    refused: list[str] | None
    faults: Count | None
    failing: str | None


class Device(TypedDict):
    device: DeviceLabel
    profile: str
    tags: list[str]
    state: str
    note: str
    created: str
    last_number: Count | None
    first_received: Moment | None
    last_received: Moment | None
    last_heard: Moment | None
    silent_after_seconds: float
    exposed: str | None
    exposed_at: Moment | None
    withdrawn: bool
    left: Count | None
    claims: Claims | None
    reports: dict[str, Count]
    counted: Count
    held: Count | None
    """Reports that wait until their coins are opened; None unless the profile is verified."""
    stalled: Moment | None
    """The time of an audit or challenge that is unanswered for more than two time buckets."""


class Devices(TypedDict):
    items: list[Device]
    next: DeviceLabel | None


class Evidence(TypedDict):
    id: int
    verdict: str
    number: Count | None
    received: Moment
    sentence: str


class DeviceInDetail(Device):
    against: list[Evidence]
    audit: list[AuditItem]


class Attribute(TypedDict):
    name: str
    kind: str
    weight: Count
    keep: Count
    change: Count
    unit: NotRequired[str]
    low: NotRequired[float]
    high: NotRequired[float]
    thresholds: NotRequired[list[float]]
    categories: NotRequired[list[str]]
    domain: NotRequired[Count]
    symbols: NotRequired[Count]


class Profile(TypedDict):
    """A profile."""

    name: str
    id: str
    epsilon: float
    epsilon_q20: Count
    k: Count
    width: Count
    seed: Count
    quota: Count
    period: Count
    lifetime: NotRequired[Count]
    verified: bool
    """Whether its devices commit to their coins before the gateway picks the outcomes."""
    audits: NotRequired[Count]
    offline: NotRequired[Count]
    bucket: NotRequired[Count]
    """Seconds of a time bucket: a report counts after it, and a round trip to the device."""
    frame_bytes: Count
    devices: Count
    attributes: list[Attribute]


class Plan(Outlook):
    profile: str
