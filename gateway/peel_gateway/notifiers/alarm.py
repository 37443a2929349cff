# SPDX-License-Identifier: MIT
"""Report each exposed device in the log, the metrics and over MQTT; raise an alarm when many are exposed at once."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from peel_gateway.fleet.folder import device_label
from peel_gateway.logs import Log
from peel_gateway.metrics import Metrics
from peel_gateway.queries.exposed import MANY
from peel_gateway.screening.judge import ExposedDevice
from peel_gateway.settings.reading import pasteable
from peel_gateway.storage.store import StoreError

__all__ = ["MANY", "SOON_SECONDS", "Alarm"]

SOON_SECONDS = 600.0
"""`MANY` devices exposed within this time raise the alarm."""
_COUNTED = 10_000
"""Most exposures that are counted. A client that may publish as a gateway can raise a false alarm but cannot fill the memory."""

_ADVICE = (
    "inspect the device and run `peel gateway exposures --device {device}`; to block it: `peel fleet revoke FOLDER {device}`; "
    "once it is repaired: `peel gateway pardon {device} --reason TEXT`"
)
_MANY_ADVICE = "`peel gateway exposures` lists the devices and the causes"

_log = Log("alarm")


class Alarm:
    """Publishes exposed devices, and an alarm when many are exposed at once.

    Parameters
    ----------
    publish : callable
        Publishes an event, given by its name and its document.
    worker : str
        This worker's name, if there are several. `on_exposure_message` counts the devices that the other workers expose.
    is_leader : callable
        Whether this worker publishes the alarm; one worker of a fleet does.
    accident : callable
        Returns the explanation that `Views.accident` finds for the exposures, or None.
    """

    def __init__(
        self,
        metrics: Metrics,
        publish: Callable[[str, Mapping[str, object]], None],
        *,
        worker: str = "",
        is_leader: Callable[[], bool] = lambda: True,
        accident: Callable[[], Mapping[str, object] | None] = lambda: None,
    ) -> None:
        self._metrics = metrics
        self._publish = publish
        self._worker = worker
        self._is_leader = is_leader
        self._accident = accident
        self._recent: deque[float] = deque(maxlen=_COUNTED)
        self._raised: float | None = None

    def on_exposed(self, devices: Sequence[ExposedDevice]) -> None:
        """Log, count and publish the devices that a batch has exposed."""
        for each in devices:
            label = device_label(each.device)
            document: dict[str, object] = {
                "device": label,
                "cause": each.cause.label,
                "evidence": each.words,
                "withdrawn": each.withdrawn,
                "advice": pasteable(_ADVICE.format(device=label)),
            }
            _log.warning("device exposed", **document)
            self._metrics.device_exposed(each.cause)
            self._publish("exposure", document | ({"worker": self._worker} if self._worker else {}))
        self._count(len(devices))

    def on_exposure_message(self, payload: bytes) -> None:
        """Count a device that another worker has exposed."""
        try:
            teller = json.loads(payload)["worker"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        if teller != self._worker:
            self._count(1)

    def _count(self, count: int) -> None:
        """Count exposures. Raise the alarm if there are `MANY` within `SOON_SECONDS`, at most once in that time."""
        now = time.monotonic()
        self._recent.extend([now] * count)
        while self._recent and now - self._recent[0] > SOON_SECONDS:
            self._recent.popleft()
        if not count or len(self._recent) < MANY or (self._raised is not None and now - self._raised < SOON_SECONDS):
            return
        if not self._is_leader():
            return
        self._raised = now
        advice = self._many_advice()
        _log.error("many devices exposed", devices=len(self._recent), seconds=int(SOON_SECONDS), advice=advice)
        self._metrics.alarm_raised()
        self._publish("alarm", {"exposed": len(self._recent), "seconds": int(SOON_SECONDS), "advice": advice})

    def _many_advice(self) -> str:
        """Return the advice for an alarm. A store error must not end the connection that received the exposure."""
        try:
            accident = self._accident()
        except StoreError:
            accident = None
        return f"{accident['sentence']} {accident['command']}" if accident else pasteable(_MANY_ADVICE)
