# SPDX-License-Identifier: MIT
"""The bundle of a device, in a fleet folder that has nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

DEVICE = "0000002a"
WIDTH = 48


def write_bundle(folder: Path, *, quota: int = 96, period: int = 86400, **settings: object) -> Path:
    """Write a bundle for a profile with the attributes a and b, from 0 to 100; the settings say what it is for."""
    made: dict[str, Any] = {
        "peel": 1,
        "fleet": "lab",
        "device": DEVICE,
        "seal_key": "00112233445566778899aabbccddeeff",
        "index_key": "ffeeddccbbaa99887766554433221100",
        "receipt_key": "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
        "coin_key": "a5b4c3d2e1f00f1e2d3c4b5a69788796",
        "seed": os.urandom(32).hex(),
        "profile": {
            "name": "climate", "id": "8765abcd", "epsilon_q20": 1 << 20, "width": WIDTH,
            "seed": 694411955, "quota": quota, "period": period,
            "attributes": [
                {"name": name, "kind": "mean", "weight": 1, "keep": 8, "change": 3, "unit": "", "low": 0, "high": 100}
                for name in ("a", "b")
            ],
        },
        "transport": "uart",
        "mqtt": {"host": "127.0.0.1", "port": 1883},
        **settings,
    }  # fmt: skip
    path = folder / "bundles" / f"{DEVICE}.json"
    path.parent.mkdir()
    path.write_text(json.dumps(made))
    path.chmod(0o600)
    return path
