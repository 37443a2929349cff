"""What a report costs on the device: cycles and stack on an emulated RP2040, bytes of the native module, and what others would cost.

The emulator watches the program counter, so the counts are the same in every run. It has no flash latency: read them as those of code
in RAM or in a warm cache.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from peel_tools.boards.errors import BuildError
from peel_tools.boards.firmware import build_firmware
from peel_tools.boards.natmod import build_natmod
from peel_tools.duts.pico import PicoDut

__all__ = ["measure"]

REPORTS = 16
"""Reports per measurement: four times what one block of the generator lasts, so refills are in it."""

_SIZES = {"k16": (16, 48), "k64": (64, 64), "k252": (252, 252)}
_SETUP = """
import peelcore
drbg = peelcore.drbg()
peelcore.drbg_seed(drbg, bytes((i * 167 + 13) & 255 for i in range(48)))
def bench(k, width, cached):
    encoder = peelcore.encoder(1, 0, 1, 1, k, width, 12345, peelcore.rule(1 << 20, 2), b"seal key 16 byte", b"index key 16 byt"[:16], cached)
    readings, out = [j * 97 % 32768 for j in range(k)], bytearray(128)
    for number in range(1, {reports} + 1):
        peelcore.encode(out, encoder, drbg, number, readings)
"""


def _address(elf_path: Path, symbol: str) -> int:
    with elf_path.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        found = table.get_symbol_by_name(symbol) if table else None
    if not found:
        raise BuildError(f"{elf_path} has no symbol {symbol}")
    return int(found[0]["st_value"])


def _summary(calls: list[dict[str, Any]]) -> dict[str, Any]:
    cycles = [call["cycles"] for call in calls]
    return {
        "cycles": max(cycles),
        "mean_cycles": round(sum(cycles) / len(cycles)),
        "stack_bytes": max(call["stack_bytes"] for call in calls),
    }


def measure_reports(folder: Path) -> dict[str, Any]:
    """Cycles and stack of peel_encode for each size, without and with the row cache."""
    functions = {"peel_encode": _address(build_firmware("pico").elf, "peel_encode")}
    result: dict[str, Any] = {}
    with PicoDut(folder, functions=functions) as dut:
        dut.start()
        dut.exec(_SETUP.replace("{reports}", str(REPORTS)))
        for name, (k, width) in _SIZES.items():
            before = len(dut.calls())
            dut.exec(f"bench({k}, {width}, False)\nbench({k}, {width}, True)", timeout=120)
            calls = dut.calls()[before:]
            if len(calls) != 2 * REPORTS:
                raise BuildError(f"the emulator saw {len(calls)} calls of peel_encode, expected {2 * REPORTS}")
            result[name] = {**_summary(calls[:REPORTS]), "cached": _summary(calls[REPORTS:])}
    return result


def measure() -> dict[str, Any]:
    """All of it, as `peel bench device --json` prints it."""
    with tempfile.TemporaryDirectory() as folder:
        result = measure_reports(Path(folder))
    result["mpy_bytes_armv6m"] = build_natmod("armv6m").stat().st_size
    return result
