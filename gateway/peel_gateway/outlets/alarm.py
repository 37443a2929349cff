# SPDX-License-Identifier: MIT
"""Exposure is loud: a log line, a metric and an MQTT message per exposed device; an alarm when there are many at once."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from peel_gateway.fleet.registry import device_label
from peel_gateway.logs import Log
from peel_gateway.metrics import Metrics
from peel_gateway.queries.accident import MANY
from peel_gateway.screening.plan import ExposedDevice
from peel_gateway.storage.store import StoreError

__all__ = ["MANY", "SOON_SECONDS", "Alarm"]

SOON_SECONDS = 600.0
"""`MANY` devices exposed within this time raise the alarm."""
_COUNTED = 10_000
"""The rest is not counted: whoever may publish in a gateway's name can raise a false alarm, but not fill the memory."""

_ADVICE = (
    "look at it, then `peel gateway exposures --device {device}`; to keep it out: `peel fleet revoke`; "
    "once it is put right: `peel gateway pardon {device} --reason ...`"
)
_MANY_ADVICE = "`peel gateway exposures` says which devices and why"

_log = Log("alarm")


class Alarm:
    """Tells whoever should know.

    Parameters
    ----------
    tell : callable
        Publishes a document for others, under a name.
    worker : str
        Who tells, where there are several: each tells of the devices that it has exposed, and hears of the others' with `overhear`.
    on_duty : callable
        Whether many at once are to be told of here; that is done once per fleet.
    accident : callable
        Returns what `Views.accident` knows of them.
    """

    def __init__(
        self,
        metrics: Metrics,
        tell: Callable[[str, Mapping[str, object]], None],
        *,
        worker: str = "",
        on_duty: Callable[[], bool] = lambda: True,
        accident: Callable[[], Mapping[str, object] | None] = lambda: None,
    ) -> None:
        self._metrics = metrics
        self._tell = tell
        self._worker = worker
        self._on_duty = on_duty
        self._accident = accident
        self._lately: deque[float] = deque(maxlen=_COUNTED)
        self._rung: float | None = None

    def exposed(self, devices: Sequence[ExposedDevice]) -> None:
        """Tell of devices that a batch has exposed."""
        for each in devices:
            label = device_label(each.device)
            told: dict[str, object] = {
                "device": label,
                "cause": each.cause.label,
                "evidence": each.words,
                "withdrawn": each.withdrawn,
                "advice": _ADVICE.format(device=label),
            }
            _log.warning("device exposed", **told)
            self._metrics.device_exposed(each.cause)
            self._tell("exposure", told | ({"worker": self._worker} if self._worker else {}))
        self._ring(len(devices))

    def overhear(self, payload: bytes) -> None:
        """Count what another worker has told of a device."""
        try:
            teller = json.loads(payload)["worker"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        if teller != self._worker:
            self._ring(1)

    def _ring(self, count: int) -> None:
        """Raise the alarm when there have been many lately, once per while."""
        now = time.monotonic()
        self._lately.extend([now] * count)
        while self._lately and now - self._lately[0] > SOON_SECONDS:
            self._lately.popleft()
        if not count or len(self._lately) < MANY or (self._rung is not None and now - self._rung < SOON_SECONDS):
            return
        if not self._on_duty():
            return
        self._rung = now
        advice = self._many_advice()
        _log.error("many devices exposed", devices=len(self._lately), seconds=int(SOON_SECONDS), advice=advice)
        self._metrics.alarm_raised()
        self._tell("alarm", {"exposed": len(self._lately), "seconds": int(SOON_SECONDS), "advice": advice})

    def _many_advice(self) -> str:
        """Return what to do first; a store that cannot be read now must not end the connection that told of the devices."""
        try:
            accident = self._accident()
        except StoreError:
            accident = None
        return f"{accident['sentence']} {accident['command']}" if accident else _MANY_ADVICE
