# SPDX-License-Identifier: MIT
"""`peel gateway exposures --evidence`, and `peel check-evidence`, which needs neither the gateway nor its database."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from peel_gateway.engine.evidence import EvidenceError, collect
from peel_gateway.engine.proof import check
from peel_gateway.exits import Exit
from peel_gateway.fleet.snapshot import FleetSnapshot
from peel_gateway.printing import Stopped, explaining, json_option, print_json
from peel_gateway.settings import Settings
from peel_gateway.storage.store import Archive

__all__ = ["check_evidence", "write_evidence"]


def write_evidence(
    settings: Settings, archive: Archive, snapshot: FleetSnapshot, number: int, path: Path | None
) -> dict[str, Any]:
    """Write the evidence of an exposure into a new private file. Return what the command prints."""
    path = path or Path(f"exposure-{number}.json")
    with explaining(EvidenceError, OSError):
        document = collect(
            archive, snapshot.keyring, snapshot.fleet, number, residual_limit=settings.screen_residual_limit
        )
        check(json.dumps(document))  # never hand out what does not hold
        _write(path, document)
    return {
        "file": str(path),
        "exposure": number,
        "verdict": document["verdict"],
        "device": document["device"],
        "gives_away": document["gives_away"],
    }


def _write(path: Path, document: Mapping[str, Any]) -> None:
    """Write a new file that only its owner may read: it may have a key."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")


@click.command("check-evidence")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@json_option
def check_evidence(file: Path, as_json: bool) -> None:
    """Recompute the verdict of an exposure from a file of `peel gateway exposures --evidence`, and print the proof.

    It needs no gateway, no database and no network. Exit code 1: the file does not prove its verdict.
    """
    try:
        proof = check(file.read_bytes())
    except EvidenceError as error:
        raise Stopped(f"{file}: {error}", Exit.FOUND) from None
    device, verdict = f"{proof.device:08x}", proof.verdict
    if as_json:
        print_json(
            {
                "file": str(file), "holds": True, "verdict": verdict.label, "device": device, "number": proof.number,
                "steps": proof.steps, "trusted": proof.trusted,
            }
        )  # fmt: skip
        return
    click.echo(f"The evidence holds: device {device}, verdict {verdict.label}. {verdict.sentence}")
    for place, step in enumerate(proof.steps, 1):
        click.echo(f"{place}. {step}")
    for each in proof.trusted:
        click.echo(f"Not shown by the file: {each}")
