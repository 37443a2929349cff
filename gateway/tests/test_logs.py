# SPDX-License-Identifier: MIT
"""Structured logs: both styles can be parsed, nothing forges a line, secrets stay out."""

from __future__ import annotations

import json

import pytest

from peel_core import Secret
from peel_gateway.logs import Log, configure_logs


def written(capsys: pytest.CaptureFixture[str], style: str, level: str = "info") -> str:
    configure_logs(level, style)
    log = Log("area")
    log.info("stored", messages=3, seconds=0.25, note='two words, "quoted"')
    log.warning("odd", cause="line\nlevel=error event=forged\x85", key=Secret(b"hunter2"))
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("failed")
    return capsys.readouterr().err


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    lines = written(capsys, "text").splitlines()
    assert len(lines) == 3
    assert 'level=info area=area event=stored messages=3 seconds=0.25 note="two words, \\"quoted\\""' in lines[0]
    assert "\\nlevel=error" in lines[1]
    assert "hunter2" not in "".join(lines)
    assert "ValueError: broken" in lines[2]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.loads(line) for line in written(capsys, "json").splitlines()]  # which ends them at U+0085, too
    assert [row["event"] for row in rows] == ["stored", "odd", "failed"]
    assert (rows[0]["messages"], rows[0]["seconds"]) == (3, 0.25)
    assert rows[1]["key"] == "Secret(7 bytes)"
    assert "ValueError: broken" in rows[2]["traceback"]


def test_level(capsys: pytest.CaptureFixture[str]) -> None:
    assert "stored" in written(capsys, "text", "info")
    warning, error = (written(capsys, "text", level) for level in ("warning", "error"))
    assert ("stored" in warning, "odd" in warning, "failed" in warning) == (False, True, True)
    assert ("stored" in error, "odd" in error, "failed" in error) == (False, False, True)
