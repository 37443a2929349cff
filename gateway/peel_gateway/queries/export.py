# SPDX-License-Identifier: MIT
"""Exports tables of the store as CSV or Parquet, in parts, so that a log of any size fits in memory."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.files import temporary_file
from peel_gateway.fleet.folder import device_label
from peel_gateway.fleet.snapshot import FleetSnapshot
from peel_gateway.model.grouping import up_to
from peel_gateway.model.tables import DeviceTable, LogTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.queries.devices import having
from peel_gateway.queries.parameters import MOST_ITEMS, EstimateQuery, ExportQuery, ExposureQuery
from peel_gateway.queries.views import Views
from peel_gateway.storage.store import Archive

__all__ = ["FORMATS", "TABLES", "ExportError", "Source", "export"]

Column = npt.NDArray[Any] | list[Any]
Part = Mapping[str, Column]
"""Some rows of a table, as columns."""

_TEXT, _INTEGER, _NUMBER, _TIME = "text", "integer", "number", "time"
_FORMULA = "=+-@\t\r\n"


class ExportError(Exception):
    """The export failed and wrote no file; the message says why."""


@dataclass(frozen=True)
class Source:
    """The store, the fleet and the queries to export from."""

    store: Archive
    snapshot: FleetSnapshot
    views: Views

    def members(self, tag: str | None) -> Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]]:
        """Return a function that says which device ids have the tag; without a tag, all of them."""
        if tag is None:
            return lambda devices: np.ones(len(devices), np.bool_)
        directory = self.snapshot.devices
        ids = directory.ids[having(directory, None, tag)]
        return lambda devices: np.isin(devices, ids)


def _reports(source: Source, query: ExportQuery) -> Iterator[Part]:
    """Yield every report in the log, in the order of arrival within each partition."""
    has_tag, devices = source.members(query.tag), source.store.devices()
    profiles = {profile.id: profile for profile in source.snapshot.profiles}
    with source.store.history() as events:
        for log, _gaps in events:
            rows = np.flatnonzero(_within(log.received / 1000, query) & has_tag(log.device))
            if len(rows):
                yield _report_part(log, rows, profiles, devices)


def _report_part(
    log: LogTable, rows: npt.NDArray[np.intp], profiles: Mapping[int, Profile], devices: DeviceTable
) -> Part:
    withdrawn = np.isin(log.device[rows], devices.device[devices.withdrawn != 0])
    forfeited = up_to(devices.device, devices.forfeited, log.device[rows], log.arrival[rows])
    return {
        "device": _spelled(log.device[rows], device_label),
        "number": log.number[rows],
        "received": log.received[rows],
        "profile": _spelled(log.profile[rows], lambda key: profiles[key].name if key in profiles else f"{key:08x}"),
        "verdict": _spelled(log.verdict[rows], lambda key: Verdict(key).label),
        "index": log.index[rows],
        "sign": log.sign[rows],
        "bucket": log.bucket[rows] * 1000,
        "withdrawn": (withdrawn | forfeited).astype(np.int64),
    }


def _estimates(source: Source, query: ExportQuery) -> Iterator[Part]:
    """Yield every estimate of the whole fleet or of a tag, per time bucket."""
    devices = query.tag is not None or source.views.needs_devices
    asked = EstimateQuery(**vars(query), bucket=source.store.bucket_seconds, devices=devices)
    for table in source.views.estimates(asked):
        rows = table["estimates"]
        yield {
            "start": [_milliseconds(table["start"] or "")] * len(rows),
            "seconds": [table["seconds"]] * len(rows),
            "profile": [table["profile"]] * len(rows),
            **{
                name: [row[name] for row in rows] for name in ("name", "unit", "value", "low", "high", "n", "withdrawn")
            },
        }


def _exposures(source: Source, query: ExportQuery) -> Iterator[Part]:
    """Yield every report that blames a device, newest first."""
    has_tag = source.members(query.tag)
    asked = ExposureQuery(since=query.since, until=query.until, limit=MOST_ITEMS)
    while page := source.views.exposures(asked)["items"]:
        asked = replace(asked, before=page[-1]["id"])
        ids = np.array([int(row["device"] or "0", 16) for row in page], np.int64)
        rows = [page[place] for place in np.flatnonzero(has_tag(ids)).tolist()]
        yield {
            "received": [_milliseconds(row["received"]) for row in rows],
            **{name: [row[name] for row in rows] for name in ("id", "verdict", "device", "number", "profile", "topic")},
            "evidence": [" ".join(f"{key}={value}" for key, value in row["evidence"].items()) for row in rows],
        }


TABLES: Mapping[str, tuple[Callable[[Source, ExportQuery], Iterator[Part]], Mapping[str, str]]] = {
    "reports": (
        _reports,
        {"device": _TEXT, "number": _INTEGER, "received": _TIME, "profile": _TEXT, "verdict": _TEXT}
        | {"index": _INTEGER, "sign": _INTEGER, "bucket": _TIME, "withdrawn": _INTEGER},
    ),
    "estimates": (
        _estimates,
        {"start": _TIME, "seconds": _INTEGER, "profile": _TEXT, "name": _TEXT, "unit": _TEXT}
        | {"value": _NUMBER, "low": _NUMBER, "high": _NUMBER, "n": _INTEGER, "withdrawn": _INTEGER},
    ),
    "exposures": (
        _exposures,
        {"id": _INTEGER, "received": _TIME, "verdict": _TEXT, "device": _TEXT, "number": _INTEGER}
        | {"profile": _TEXT, "topic": _TEXT, "evidence": _TEXT},
    ),
}
"""The tables that can be exported, with the type of each column."""


def export(source: Source, table: str, path: Path, query: ExportQuery) -> int:
    """Write a file that only its owner can read, and return its number of rows. A failed export leaves no file."""
    parts, kinds = TABLES[table]
    if path.suffix not in FORMATS:
        raise ExportError(f"{path}: unknown format; let the file's name end with {' or '.join(FORMATS)}")
    count = 0
    with _new_file(path) as file, FORMATS[path.suffix](file, kinds) as sink:
        for part in parts(source, query):
            count += len(part[next(iter(kinds))])
            sink.write({name: part[name] for name in kinds})
    return count


class _Sink(Protocol):
    def write(self, part: Part) -> None: ...


@contextmanager
def _csv(file: BinaryIO, kinds: Mapping[str, str]) -> Iterator[_Sink]:
    def put(rows: Iterable[Sequence[object]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text).writerows(rows)
        file.write(text.getvalue().encode())

    class Sink:
        def write(self, part: Part) -> None:
            put(zip(*(_csv_column(part[name], kind) for name, kind in kinds.items()), strict=True))

    put([list(kinds)])
    yield Sink()


@contextmanager
def _parquet(file: BinaryIO, kinds: Mapping[str, str]) -> Iterator[_Sink]:
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ExportError("Parquet needs pyarrow; run: pip install 'peel-telemetry[parquet]'") from None
    types = {_TEXT: arrow.string(), _INTEGER: arrow.int64(), _NUMBER: arrow.float64()}
    types[_TIME] = arrow.timestamp("ms", "UTC")
    schema = arrow.schema([(name, types[kind]) for name, kind in kinds.items()])
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:

        class Sink:
            def write(self, part: Part) -> None:
                arrays = [arrow.array(_plain(part[name]), types[kind]) for name, kind in kinds.items()]
                writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))

        yield Sink()


FORMATS: Mapping[str, Callable[[BinaryIO, Mapping[str, str]], Any]] = {".csv": _csv, ".parquet": _parquet}


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file, and rename it to `path` once it is complete."""
    try:
        with temporary_file(path) as file:
            yield file
    except OSError as error:
        raise ExportError(f"{path}: cannot be written: {error.strerror}. Check the path and its permissions.") from None


def _within(seconds: npt.NDArray[np.float64], query: ExportQuery) -> npt.NDArray[np.bool_]:
    inside = np.ones(len(seconds), np.bool_)
    if query.since is not None:
        inside &= seconds >= query.since
    if query.until is not None:
        inside &= seconds < query.until
    return inside


def _spelled(keys: npt.NDArray[np.int64], spell: Callable[[int], str]) -> npt.NDArray[Any]:
    """Texts for keys; each different one is spelled once."""
    different, place = np.unique(keys, return_inverse=True)
    return np.array([spell(key) for key in different.tolist()], dtype=object)[place]


def _milliseconds(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def _iso(column: Column) -> list[str]:
    """Milliseconds as ISO 8601 in UTC."""
    return list(np.datetime_as_string(np.asarray(column, np.int64).astype("datetime64[ms]"), timezone="UTC"))


def _csv_column(column: Column, kind: str) -> list[Any]:
    if kind == _TIME:
        return _iso(column)
    return list(map(_no_formula, _plain(column))) if kind == _TEXT else _plain(column)


def _no_formula(text: str | None) -> str | None:
    """Put an apostrophe before what a spreadsheet would run as a formula (OWASP, "CSV injection"); units and topics are free text."""
    return f"'{text}" if text and text[0] in _FORMULA else text


def _plain(column: Column) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else column
