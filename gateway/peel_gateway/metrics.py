# SPDX-License-Identifier: MIT
"""Metrics for Prometheus. Counts of the store are read from it at each scrape, so they survive restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from peel_gateway.fleet.claims import StatusOutcome
from peel_gateway.logs import Log
from peel_gateway.model.verdict import BLAMED, Verdict
from peel_gateway.queries.views import Views
from peel_gateway.storage.store import Archive, StoreError

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SIZES = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)

_log = Log("metrics")


class Metrics:
    """The metrics of one gateway. The registry is not global, so that two gateways in one process stay separate."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._messages = self._counter("peel_messages", "MQTT messages stored and acknowledged.")
        self._batch_messages = self._histogram("peel_batch_messages", "Messages per transaction.", _SIZES)
        self._batch_seconds = self._histogram("peel_batch_seconds", "Time to screen and commit a batch.", _SECONDS)
        self._ack_seconds = self._histogram(
            "peel_ack_seconds", "Time from the arrival of a batch's oldest message to its acknowledgement.", _SECONDS
        )
        self._connections = self._counter("peel_broker_connections", "Connections made to the broker.")
        self._sessions_lost = self._counter(
            "peel_broker_sessions_lost",
            "Reconnections at which the broker had lost the session; reports sent meanwhile may be missing.",
        )
        self._store_failures = Counter(
            "peel_store_failures", "Failed store operations, by kind of error.", ["kind"], registry=self.registry
        )
        self._reloads = Counter("peel_reloads", "Reloads of devices and profiles.", ["result"], registry=self.registry)
        self._exposures = Counter(
            "peel_device_exposures", "Devices exposed since the gateway started.", ["cause"], registry=self.registry
        )
        self._alarms = self._counter("peel_alarms", "Alarms: many devices exposed within ten minutes.")
        self._receipts = self._counter("peel_receipts", "Receipts sent to the broker.")
        self._statuses = Counter(
            "peel_device_statuses",
            "Status messages of devices, by result.",
            ["result"],
            registry=self.registry,
        )
        self._webhook = Counter("peel_webhook_calls", "Webhook calls, by result.", ["result"], registry=self.registry)
        for result in ("delivered", "failed", "dropped"):
            self._webhook.labels(result=result)
        for hearing in StatusOutcome:
            self._statuses.labels(result=hearing.value)
        for verdict in BLAMED:
            self._exposures.labels(cause=verdict.label)
        for error in _kinds_of(StoreError):
            self._store_failures.labels(
                kind=error.__name__
            )  # starts at 0, so that the first failure shows as an increase
        for result in ("ok", "refused"):
            self._reloads.labels(result=result)

    def watch(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Add a gauge that is read at each scrape."""
        Gauge(name, text, registry=self.registry).set_function(value)

    def watch_store(self, store: Archive) -> None:
        """Add the counts of the store."""
        self.registry.register(_StoreCollector(store))

    def watch_devices(self, views: Views) -> None:
        """Add the devices per state, the sums of their own status counters, and their held reports."""
        self.registry.register(_DeviceCollector(views))

    def watch_estimates(self, latest: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        """Add the estimates published last."""
        self.registry.register(_EstimateCollector(latest))

    def watch_alerts(self, active: Callable[[], Mapping[str, bool]]) -> None:
        """Add the alerts that were evaluated last."""
        self.registry.register(_AlertCollector(active))

    def connected(self, *, session_lost: bool) -> None:
        self._connections.inc()
        if session_lost:
            self._sessions_lost.inc()

    def batch_stored(self, *, messages: int, process_seconds: float, ack_seconds: float) -> None:
        self._messages.inc(messages)
        self._batch_messages.observe(messages)
        self._batch_seconds.observe(process_seconds)
        self._ack_seconds.observe(ack_seconds)

    def store_failed(self, error: Exception) -> None:
        self._store_failures.labels(kind=type(error).__name__).inc()

    def device_exposed(self, cause: Verdict) -> None:
        self._exposures.labels(cause=cause.label).inc()

    def status_heard(self, hearing: StatusOutcome) -> None:
        self._statuses.labels(result=hearing.value).inc()

    def statuses_limited(self, count: int) -> None:
        self._statuses.labels(result=StatusOutcome.LIMITED.value).inc(count)

    def webhook_called(self, result: str) -> None:
        self._webhook.labels(result=result).inc()

    def alarm_raised(self) -> None:
        self._alarms.inc()

    def receipt_sent(self) -> None:
        self._receipts.inc()

    def reloaded(self, *, ok: bool) -> None:
        self._reloads.labels(result="ok" if ok else "refused").inc()

    def exposition(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=self.registry)


def _kinds_of(error: type[StoreError]) -> Iterator[type[StoreError]]:
    for kind in error.__subclasses__():
        yield kind
        yield from _kinds_of(kind)


class _StoreCollector(Collector):
    def __init__(self, store: Archive) -> None:
        self._store = store

    def describe(self) -> Iterable[Metric]:
        return ()  # registering must not touch the store

    def collect(self) -> Iterable[Metric]:
        try:
            counts = self._store.counts()
        except StoreError as error:
            # Still return the other metrics while the store fails.
            _log.warning("store unreadable", cause=error)
            yield GaugeMetricFamily("peel_store_readable", "Whether the store can be read.", value=0)
            return
        yield GaugeMetricFamily("peel_store_readable", "Whether the store can be read.", value=1)
        reports = CounterMetricFamily(
            "peel_reports", "Reports by verdict; a replayed report is counted once per verdict.", labels=["verdict"]
        )
        replayed = CounterMetricFamily(
            "peel_reports_replayed", "Reports that were screened again, by their earlier verdict.", labels=["verdict"]
        )
        dropped = CounterMetricFamily(
            "peel_quarantine_dropped", "Pieces dropped from a full quarantine.", labels=["verdict"]
        )
        for verdict in set(Verdict) - {Verdict.HELD}:  # that one falls when coins are opened: peel_held_reports has it
            again = counts.replayed.get(verdict, 0)
            reports.add_metric([verdict.label], counts.verdicts.get(verdict, 0) + again)  # a counter never falls
            replayed.add_metric([verdict.label], again)
            dropped.add_metric([verdict.label], counts.dropped.get(verdict, 0))
        yield from (reports, replayed, dropped)
        yield CounterMetricFamily(
            "peel_pardons", "Exposed devices that an operator has pardoned.", value=counts.pardons
        )
        for name, text, value in (
            ("peel_poisoning_ratio", "Fraction of distinct reports refused or withdrawn.", counts.poisoning_ratio),
            ("peel_quarantine_pieces", "Pieces held in quarantine.", counts.quarantined),
            ("peel_quarantine_bytes", "Bytes of the pieces held in quarantine.", counts.quarantined_bytes),
            ("peel_withdrawn_reports", "Accepted reports withdrawn with their device.", counts.withdrawn_past),
            ("peel_exposed_devices", "Devices exposed.", counts.exposed_devices),
            ("peel_withdrawn_devices", "Devices whose reports are not counted in estimates.", counts.withdrawn_devices),
            ("peel_missing_numbers", "Report numbers that devices used and that never arrived.", counts.gaps),
        ):
            yield GaugeMetricFamily(name, text, value=value)


class _DeviceCollector(Collector):
    def __init__(self, views: Views) -> None:
        self._views = views

    def describe(self) -> Iterable[Metric]:
        return ()  # registering must not touch the store

    def collect(self) -> Iterable[Metric]:
        try:
            found = self._views.device_counts()
        except StoreError:
            return  # peel_store_readable shows it
        states = GaugeMetricFamily("peel_device_states", "Registered devices by state.", labels=["state"])
        for standing, count in found.states.items():
            states.add_metric([standing.label], count)
        yield states
        claimed = GaugeMetricFamily(
            "peel_device_claims", "Sums of the devices' own status counters; claims, not evidence.", labels=["count"]
        )
        for name, total in found.claimed.items():
            claimed.add_metric([name], total)
        yield claimed
        for name, text, value in (
            ("peel_held_reports", "Reports that wait until their verified coins are opened.", found.held),
            (
                "peel_stalled_devices",
                "Devices that have not answered an audit or a challenge of their coins for two time buckets of their profile.",
                found.stalled,
            ),
        ):
            yield GaugeMetricFamily(name, text, value=value or 0)


class _EstimateCollector(Collector):
    _LABELS = ("profile", "tag", "name", "unit", "window")
    _SHOWN = (
        (
            "peel_estimate",
            "value",
            "The estimate over the window, in its unit or as a fraction; absent if there are too few reports. "
            "The label tag is empty for the whole fleet.",
        ),
        ("peel_estimate_low", "low", "Lower end of the estimate's 95% interval."),
        ("peel_estimate_high", "high", "Upper end of the estimate's 95% interval."),
        ("peel_estimate_reports", "n", "Reports in the estimate's window."),
    )

    def __init__(self, latest: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        self._latest = latest

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        tables = self._latest()
        for name, field, text in self._SHOWN:
            family = GaugeMetricFamily(name, text, labels=self._LABELS)
            for table in tables:
                for row in table["estimates"]:
                    if row[field] is not None:
                        labels = [table["profile"], table["tag"] or "", row["name"], row["unit"], table["window"]]
                        family.add_metric(labels, row[field])
            yield family


class _AlertCollector(Collector):
    def __init__(self, active: Callable[[], Mapping[str, bool]]) -> None:
        self._active = active

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            "peel_alert_active",
            "Whether an alert on an estimate is active; absent if it is not evaluated here.",
            labels=["alert"],
        )
        for name, active in self._active().items():
            family.add_metric([name], active)
        yield family
