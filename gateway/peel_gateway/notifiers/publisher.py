# SPDX-License-Identifier: MIT
"""Publish estimates of a recent window and alerts over MQTT at intervals, with Home Assistant discovery; keep the last ones for metrics."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from peel_core.topics import fleet_topic
from peel_gateway.logs import Log
from peel_gateway.model.standing import Standing
from peel_gateway.notifiers.alerts import Alerts
from peel_gateway.notifiers.homeassistant import Discovery, estimate_topic
from peel_gateway.queries.estimates import WIDEST
from peel_gateway.queries.views import Views
from peel_gateway.settings import Settings
from peel_gateway.storage.store import StoreError

__all__ = ["EstimatePublisher"]

_STOP_SECONDS = 30.0
_LEAST_SECONDS = 1.0
_MOST_LEFT = 10_000
"""Most retained topics of an earlier process that are remembered until they are removed."""
_PUBLISHED = (
    *("profile", "tag", "members", "note", "window", "window_seconds", "since"),
    *("n", "devices", "withdrawn", "computed"),
)
_PUBLISHED_OF_FIGURES = ("name", "unit", "value", "low", "high", "n", "too_few", "devices", "withdrawn")

_log = Log("publisher")

PublishRetained = Callable[[str, str], None]
"""Publishes a retained text on a topic."""


class EstimatePublisher:
    """A thread that computes and publishes estimates at intervals, and keeps the last ones.

    Parameters
    ----------
    publish_retained : callable
        Publishes a retained text.
    publish_event : callable
        Publishes an event, given by its name and its document.
    is_leader : callable
        Whether this worker publishes; one worker of a fleet does.
    """

    def __init__(
        self,
        settings: Settings,
        fleet: str,
        views: Views,
        publish_retained: PublishRetained,
        publish_event: Callable[[str, Mapping[str, object]], None],
        version: str,
        *,
        is_leader: Callable[[], bool] = lambda: True,
    ) -> None:
        self._seconds = settings.publish_seconds
        self._window = settings.publish_window
        self._views = views
        self._publish_retained = publish_retained
        self._is_leader = is_leader
        self._base = fleet_topic(fleet, "gateway", settings.gateway_name)
        self._discovery = Discovery(settings, fleet, self._base, version) if settings.publish_homeassistant else None
        self.alerts = Alerts(settings.alerts, views, self._base, publish_retained, publish_event, is_leader=is_leader)
        self._announced: dict[str, str] = {}
        self._topics: frozenset[str] = frozenset()
        self._left_lock = threading.Lock()
        self._left: set[str] = set()
        """Retained topics that the broker has; an earlier process may have published them for a tag that is gone."""
        self._asked = threading.Event()
        self._renew = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self.estimates: Sequence[Mapping[str, Any]] = ()
        """The last estimates, of all devices and of each tag."""

    @property
    def topics(self) -> Sequence[str]:
        """Topics to subscribe to: states of alerts, this gateway's own retained messages, Home Assistant's birth message."""
        own = [f"{self._base}/estimates/#"] if self._seconds else []
        if self._discovery is not None:
            own += [self._discovery.config_filter, self._discovery.birth_topic]
        return [*self.alerts.topics, *own]

    def start(self) -> None:
        if self._seconds:
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._asked.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def publish_all(self) -> None:
        """Publish everything soon, because the broker or a subscriber may have restarted."""
        self._renew.set()
        self._asked.set()

    def on_connect(self) -> None:
        """Publish everything soon, and let the alerts read their states back."""
        self.alerts.on_connect()
        self.publish_all()

    def on_message(self, topic: str, payload: bytes) -> bool:
        """Handle states of alerts, retained messages, and Home Assistant's birth message: publish everything again.

        Return False for any other message.
        """
        if self.alerts.on_message(topic, payload) or self._note_left(topic, payload):
            return True
        if self._discovery is None or topic != self._discovery.birth_topic:
            return False
        if payload == b"online":
            self.publish_all()
        return True

    def _note_left(self, topic: str, payload: bytes) -> bool:
        """Remember a retained topic, to remove it if it is not published any more. Return False for other topics."""
        config = self._discovery is not None and self._discovery.is_config(topic)
        if not config and not topic.startswith(f"{self._base}/estimates/"):
            return False
        with self._left_lock:
            if payload and len(self._left) < _MOST_LEFT:
                self._left.add(topic)
            elif not payload:
                self._left.discard(topic)
        return True

    def _take_left(self, *, configs: bool) -> set[str]:
        """Return the remembered topics of discovery messages or of estimates, and forget them."""
        with self._left_lock:
            found = {topic for topic in self._left if configs != topic.startswith(f"{self._base}/estimates/")}
            self._left -= found
        return found

    def _run(self) -> None:
        while True:
            self._asked.wait(self._seconds)
            self._asked.clear()
            if self._stopping.is_set():
                return
            try:
                if self._is_leader():
                    self._publish()
                else:
                    self.estimates = ()
                    self.alerts.rest()
            except StoreError as error:
                _log.warning("estimates are not published: the store cannot be read", cause=error)
            except Exception:
                _log.exception("estimates are not published")
            self._stopping.wait(min(_LEAST_SECONDS, self._seconds))  # birth messages can be forged, so limit the rate

    def _publish(self) -> None:
        """Publish the recent estimates and the summary.

        Estimates of the whole fleet use stored sums, which is quick. Those of tags need each device's reports from the log.
        """
        found = [_published(table) for table in self._views.recent(self._window)]
        self.estimates = found
        tables = {estimate_topic(self._base, each["profile"], each["tag"]): json.dumps(each) for each in found}
        before = self._topics | self._take_left(configs=False)
        for topic, text in {**dict.fromkeys(before, ""), **tables}.items():  # empty where a tag is gone
            self._publish_retained(topic, text)
        self._topics = frozenset(tables)
        gone = self.alerts.evaluate()
        self._publish_retained(f"{self._base}/summary", json.dumps(self._summary()))
        if self._discovery is not None:
            self._announced |= {self._discovery.alert_topic(name): "" for name in gone}
            self._announce(self._discovery.configs(found, self.alerts.alerts.values()))

    def _announce(self, configs: Mapping[str, str]) -> None:
        """Publish changed discovery messages, or all if requested. An empty message removes an entity that is gone."""
        everything = self._renew.is_set()
        self._renew.clear()
        for topic in (self._announced.keys() | self._take_left(configs=True)) - configs.keys():
            self._publish_retained(topic, "")
        for topic, text in configs.items():
            if everything or self._announced.get(topic) != text:
                self._publish_retained(topic, text)
        self._announced = dict(configs)

    def _summary(self) -> dict[str, Any]:
        totals, counts = self._views.totals(), self._views.device_counts()
        return {
            "accepted": totals["accepted"],
            "refused": totals["exposed"],
            "withdrawn": totals["withdrawn_past"],
            "poisoning_ratio": totals["poisoning_ratio"],
            "devices": totals["devices"],
            "states": {standing.label: counts.states[standing] for standing in Standing},
        }


def _published(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the published columns of an estimate table. Too few reports: the value is None, the interval stays."""
    rows = [
        {key: row[key] for key in _PUBLISHED_OF_FIGURES} | ({"value": None} if row["too_few"] else {})
        for row in table["estimates"]
    ]
    return {key: table[key] for key in _PUBLISHED} | {
        "figures": table["figures"],
        "estimates": rows,
        "distributions": [_published_distribution(each) for each in table["distributions"]],
    }


def _published_distribution(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the published columns of a distribution. A quantile whose interval is too wide has no value, like an estimate."""
    low, high = row["range"]

    def published(quantile: Mapping[str, Any]) -> dict[str, Any]:
        too_few = quantile["high"] - quantile["low"] > 2 * WIDEST * (high - low)
        return {**quantile, "n": row["n"], "too_few": too_few} | ({"value": None} if too_few else {})

    return {"attribute": row["attribute"], "unit": row["unit"], "quantiles": list(map(published, row["quantiles"]))}
