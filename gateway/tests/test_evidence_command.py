# SPDX-License-Identifier: MIT
"""`peel gateway exposures --evidence` writes a private file, and `peel check-evidence` reads it without gateway or database."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from coin_desk import CoinDesk

from peel_core.coins import AUDIT_ANSWER
from peel_gateway.commands.evidence import check_evidence


@pytest.fixture
def desk(tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> CoinDesk:
    """A gateway that has exposed a device: it answered an audit with a wrong seed."""
    made = CoinDesk(tmp_path, rng, monkeypatch)
    talker = made.talker()
    talker.talk()
    batch = talker.coins._batches[0]
    answer = bytearray(talker.coins._seeds(batch))
    answer[3] ^= 1
    assert made.send([talker.coins._seal(AUDIT_ANSWER, batch.first, bytes(answer))]) == {"coin": 1}
    return made


def test_a_file_is_written_and_checked_elsewhere(desk: CoinDesk, tmp_path: Path) -> None:
    written = desk.ask("exposures", "--evidence", "1")
    path = Path(written["file"])
    assert path.stat().st_mode & 0o777 == 0o600
    assert (written["verdict"], written["device"]) == ("coin", "00000001")
    assert "Provision the device again" in written["gives_away"]
    desk.store.close()
    kept = path.read_bytes()
    shutil.rmtree(tmp_path / "fleet")
    desk.path.unlink()
    path.write_bytes(kept)
    done = CliRunner().invoke(check_evidence, [str(path), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["holds"] and (found["verdict"], found["device"], found["number"]) == ("coin", "00000001", 1)
    plain = CliRunner().invoke(check_evidence, [str(path)]).stdout
    assert "The evidence holds: device 00000001, verdict coin." in plain
    assert "1 of 8 audited tables are not the committed ones." in plain
    assert "Not shown by the file: " in plain


def test_a_changed_file_is_refused(desk: CoinDesk, tmp_path: Path) -> None:
    desk.ask("exposures", "--evidence", "1", "--out", str(tmp_path / "proof.json"))
    path = tmp_path / "proof.json"
    path.write_text(path.read_text().replace('"number": 1,', '"number": 2,'))
    done = CliRunner().invoke(check_evidence, [str(path)])
    assert done.exit_code == 1
    assert "the file was changed" in done.output


def test_no_file_is_overwritten(desk: CoinDesk, tmp_path: Path) -> None:
    (tmp_path / "exposure-1.json").write_text("mine")
    done = desk.type("exposures", "--evidence", "1")
    assert done.exit_code == 2 and "exists" in done.output
    assert (tmp_path / "exposure-1.json").read_text() == "mine"


def test_an_exposure_that_is_not_there_is_named(desk: CoinDesk) -> None:
    done = desk.type("exposures", "--evidence", "7")
    assert done.exit_code == 2
    assert "exposure 7: not in the database" in done.output


def test_the_table_of_exposures_cuts_long_bytes(desk: CoinDesk) -> None:
    (row,) = [line for line in desk.type("exposures").output.splitlines() if "audit answer" in line]
    assert len(row) < 300 and "roots=" in row
    assert len(desk.ask("exposures")["items"][0]["evidence"]["roots"]) == 1024
