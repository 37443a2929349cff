# SPDX-License-Identifier: MIT
"""Measure the memory that the running application leaves free on an emulated Pico with stock MicroPython.

TLS is not measured, as the Pico has no network. Its buffers, whose sizes are in MicroPython's sources, come from the same heap, each
in one piece.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from peel_hil.duts.pico import PicoDut
from peel_tools.boards.build_tools import BuildError
from peel_tools.boards.cache import REPOSITORY
from peel_tools.boards.natmod import build_natmod
from peel_tools.boards.sources import micropython_sources
from peel_tools.boards.table import find_board
from peel_tools.flashing.device_files import application, find_sources

__all__ = ["REPORTS", "measure_heap"]

REPORTS = 20
_BLOCK_BYTES = 16
"""The size of a block of MicroPython's heap on 32-bit processors."""
_IMAGE = "pico-rivals"
"""A MicroPython without the application."""
_RUN = f"""
import gc, micropython, main, peel_load
from peel_device import app
from peel_device.storage import FlashFiles
gc.collect()
files = FlashFiles()
settings = main.read_bundle(files)
device = app.App(settings, peel_load.load(), main.find_board(settings.board), files, main.ROOT)
device.start()
for _ in range({REPORTS}):
    device.report()
print("reports", len(device.outbox))
gc.collect()
micropython.mem_info()
"""
_INFO = re.compile(r"total: (\d+), used: (\d+), free: (\d+).*max free sz: (\d+)", re.DOTALL)
_RECORD_BYTES = re.compile(r"#define MBEDTLS_SSL_(?:MAX|OUT)_CONTENT_LEN \((\d+)\)")


def _bundle() -> dict[str, Any]:
    """Return the example bundle for a Pico, with sensors that need no wires."""
    bundle: dict[str, Any] = json.loads((REPOSITORY / "firmware" / "config.example.json").read_text(encoding="utf-8"))
    names = [attribute["name"] for attribute in bundle["profile"]["attributes"]]
    del bundle["wifi"]
    bundle["profile"] |= {"quota": 100 * REPORTS, "period": 1}
    return bundle | {
        "board": "pico",
        "transport": "uart",
        "mqtt": {"host": "broker", "port": 1883},
        "sensors": {name: {"kind": "trace", "values": [0.5]} for name in names},
        "interval_s": 0,
    }


def measure_heap(folder: Path) -> dict[str, int]:
    """Return bytes of the heap: all, used after some reports, free, the largest free block, and the two blocks of TLS."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "peel.json"
    path.write_text(json.dumps(_bundle()))
    sources = find_sources()
    copies = application(find_board("pico"), sources, core=[build_natmod("armv6m")], bundle=path, ca=None)
    with PicoDut(folder, image=_IMAGE) as dut:
        dut.start()
        for name in dict.fromkeys(copy.target.partition("/")[0] for copy in copies if "/" in copy.target):
            dut.exec(f"import os\nos.mkdir({name!r})")
        for copy in copies:
            dut.put(copy.target, copy.source.read_bytes())
        said = dut.exec(_RUN, timeout=300)
    found = _INFO.search(said)
    if found is None or f"reports {REPORTS}" not in said:
        raise BuildError(f"the application did not run on the emulated Pico: {said}")
    total, used, free, largest = map(int, found.groups())
    return {
        "total": total,
        "used": used,
        "free": free,
        "largest_free": largest * _BLOCK_BYTES,
        "tls_buffers": _tls_bytes(),
    }


def _tls_bytes() -> int:
    header = micropython_sources().path / "extmod" / "mbedtls" / "mbedtls_config_common.h"
    return sum(map(int, _RECORD_BYTES.findall(header.read_text(encoding="utf-8"))))
