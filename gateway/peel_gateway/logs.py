# SPDX-License-Identifier: MIT
"""Structured logs on standard error: an event and its fields, as key=value lines or JSON lines."""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime

from peel_gateway.printing import one_line
from peel_gateway.settings.reading import pasteable

__all__ = ["Log", "Outage", "configure_logs"]

_ROOT = "peel_gateway"


class Log:
    """A logger that takes an event and fields: `log.info("connected", broker="10.0.0.2:1883")`."""

    def __init__(self, area: str) -> None:
        self._logger = logging.getLogger(f"{_ROOT}.{area}")

    def info(self, event: str, **fields: object) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._write(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """Like `error`, with the traceback of the current exception."""
        self._logger.error(event, exc_info=True, extra={"fields": fields})

    def _write(self, level: int, event: str, fields: dict[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": fields})


class Outage:
    """A failure that lasts, with its start and newest cause. Its first failure and its end are logged."""

    def __init__(self, log: Log, failing: str, recovered: str) -> None:
        self._log = log
        self._failing = failing
        self._recovered = recovered
        self._since: float | None = None
        self._cause = ""

    def note(self, error: Exception) -> None:
        """Note a failure."""
        self._cause = f"{type(error).__name__}: {error}"
        if self._since is None:
            self._since = time.monotonic()
            self._log.error(self._failing, cause=error)

    def end(self) -> None:
        """Note a success."""
        if self._since is not None:
            self._log.info(self._recovered, seconds=time.monotonic() - self._since)
            self._since = None

    def current(self) -> tuple[float, str] | None:
        """Return its age in seconds and its newest cause; None if there is no outage."""
        since, cause = self._since, self._cause
        return None if since is None else (time.monotonic() - since, cause)


def configure_logs(level: str, style: str) -> None:
    """Send the gateway's logs to standard error; `style` is "text" or "json"."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if style == "json" else _TextFormatter())
    # Warnings of libraries use the same format.
    logging.getLogger().handlers[:] = [handler]
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger(_ROOT).setLevel(level.upper())


def _record(record: logging.LogRecord, formatter: logging.Formatter) -> dict[str, object]:
    found: dict[str, object] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "area": record.name.rpartition(".")[2],
        "event": pasteable(record.getMessage()),
        **{name: _advice(value) for name, value in getattr(record, "fields", {}).items()},
    }
    if record.exc_info:
        found["traceback"] = formatter.formatException(record.exc_info)
    return found


def _advice(value: object) -> object:
    return pasteable(str(value)) if isinstance(value, str | Exception) else value


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return one_line(_record(record, self), default=str)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_quoted(value)}" for key, value in _record(record, self).items())


def _quoted(value: object) -> str:
    # Broker-supplied text may end up in a field: quoting keeps a newline in it from forging a line.
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    plain = text.isprintable() and text and not any(mark in text for mark in ' "=')
    return text if plain else json.dumps(text, ensure_ascii=not text.isprintable())
