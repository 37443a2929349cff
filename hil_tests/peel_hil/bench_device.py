# SPDX-License-Identifier: MIT
"""Measure the cost of a report on the device: cycles and stack on an emulated RP2040, the native module's bytes, and alternatives.

The emulator watches the program counter, so the counts are the same in every run. It has no flash latency: they apply to code in
RAM or in a warm cache.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from peel_hil.bench_heap import measure_heap
from peel_hil.duts.pico import PicoDut
from peel_hil.emulators.images import board_image
from peel_tools.boards.build_tools import BuildError
from peel_tools.boards.natmod import build_natmod

__all__ = ["REPORTS", "measure", "measure_reports", "measure_rivals", "measure_verified"]

REPORTS = 16
"""Reports per measurement: four times the reports of one block of the generator, so that refills are included."""

# form, questions, symbols, domain, width
_SIZES = {
    "k16": (1, 16, 1, 0, 48),
    "k64": (1, 64, 1, 0, 64),
    "k252": (1, 252, 1, 0, 252),
    "hashing": (3, 1, 3, 65535, 48),
}
_SETUP = f"""
import peelcore
drbg = peelcore.drbg()
peelcore.drbg_seed(drbg, bytes((i * 167 + 13) & 255 for i in range(48)))
def bench(form, questions, symbols, domain, width, cached):
    blocks = [(form, 1, questions, symbols, domain, 8, 3)]
    encoder = peelcore.encoder(0, 1, 1, width, 12345, blocks, b"sixteen byte key", b"another such key", cached)
    readings, out = [domain - 1] if domain else [j * 97 % 32768 for j in range(questions)], bytearray(128)
    for number in range(1, {REPORTS} + 1):
        peelcore.encode(out, encoder, drbg, number, readings)
"""

# The cost of a report of k = 252 by other means: 71 bytes of header, odds and codeword.
_MESSAGE = 71
_RIVALS = {
    "aes128_cbc": ("mbedtls_aes_setkey_enc", "mbedtls_aes_crypt_cbc"),
    "sha256": ("mbedtls_sha256_update", "mbedtls_sha256_finish"),
    "ecc_p256": ("mbedtls_ecp_mul",),
}
_RIVALS_CODE = f"""
import cryptolib, hashlib, rivals
cryptolib.aes(b"sixteen byte key", 2, bytes(16)).encrypt(bytes({-(-_MESSAGE // 16) * 16}))
hashlib.sha256(bytes({_MESSAGE})).digest()
print(rivals.p256())
"""

# A device's RAM between reports: the generator, and the encoder without and with its row cache.
_RAM_CODE = """
import json
sizes = {"drbg": len(peelcore.drbg())}
for k, width in ((16, 48), (252, 252)):
    for cached in (False, True):
        blocks = [(1, 1, k, 1, 0, 8, 3)]
        made = peelcore.encoder(0, 1, 1, width, 12345, blocks, bytes(16), bytes(16), cached)
        sizes["encoder_k%d%s" % (k, "_cached" if cached else "")] = len(made)
print(json.dumps(sizes))
"""


def _addresses(elf_path: Path, symbols: Iterable[str]) -> dict[str, int]:
    with elf_path.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        found = (
            {name: table.get_symbol_by_name(name) for name in symbols} if isinstance(table, SymbolTableSection) else {}
        )
    addresses = {name: int(entries[0]["st_value"]) for name, entries in found.items() if entries}
    missing = [name for name in symbols if name not in addresses]
    if missing:
        raise BuildError(f"{elf_path} has no symbols {', '.join(missing)}")
    return addresses


def _summary(calls: list[dict[str, Any]]) -> dict[str, Any]:
    cycles = [call["cycles"] for call in calls]
    return {
        "cycles": max(cycles),
        "mean_cycles": round(sum(cycles) / len(cycles)),
        "stack_bytes": max(call["stack_bytes"] for call in calls),
    }


def measure_reports(folder: Path) -> dict[str, Any]:
    """Measure cycles and stack of peel_encode for each size, without and with the row cache. `cycles` is the maximum."""
    functions = _addresses(board_image("pico").elf, ["peel_encode"])
    result: dict[str, Any] = {}
    with PicoDut(folder, functions=functions) as dut:
        dut.start()
        dut.exec(_SETUP)
        for name, sizes in _SIZES.items():
            before = len(dut.calls())
            dut.exec(f"bench(*{sizes}, False)\nbench(*{sizes}, True)", timeout=120)
            calls = dut.calls()[before:]
            if len(calls) != 2 * REPORTS:
                raise BuildError(f"the emulator saw {len(calls)} calls of peel_encode, expected {2 * REPORTS}")
            result[name] = {**_summary(calls[:REPORTS]), "cached": _summary(calls[REPORTS:])}
        result["ram_bytes"] = json.loads(dut.exec(_RAM_CODE))
    return result


# Verified coins at odds 8:3: the tables of three batches of 32 numbers, of which 24 each are reported and opened.
_BATCH, _REPORTED, _BATCHES = 32, 24, 3
_VERIFIED_CODE = f"""
import peelcore
def numbers(count):
    for batch in range({_BATCHES}):
        secret = peelcore.hash("bench", bytes([batch]), 16)
        for place in range(count):
            number = ({_BATCH} * batch + place + 1).to_bytes(6, "little")
            yield bytes(8) + number + bytes((8, 3, 2, 0, 0, 0)), secret, number + bytes(10)
def bench():
    for name, secret, nonce in numbers({_BATCH}):
        peelcore.coin_root(name, peelcore.stream(secret, nonce, 16))
    for name, secret, nonce in numbers({_REPORTED}):
        peelcore.coin_mask(peelcore.stream(secret, nonce, 16), 2, name[8] & 1)
        peelcore.coin_open(name, peelcore.stream(secret, nonce, 16), name[8] % 11)
"""
_VERIFIED = {"seed": "peel_ascon_stream", "root": "peel_coin_root", "mask": "peel_coin_mask", "open": "peel_coin_open"}


def measure_verified(folder: Path) -> dict[str, Any]:
    """Measure what a verified coin adds to a report, on average: 32/24 committed tables, one masked answer and one opening.

    The seed of a number is computed again for each of these. `cycles` is the sum for one report.
    """
    functions = _addresses(board_image("pico").elf, _VERIFIED.values())
    with PicoDut(folder, functions=functions) as dut:
        dut.start()
        dut.exec(_VERIFIED_CODE)
        dut.exec("bench()", timeout=300)
        calls = dut.calls()
    means, stack = {}, 0
    for name, function in _VERIFIED.items():
        own = [call for call in calls if call["name"] == function]
        if len(own) < _REPORTED * _BATCHES:
            raise BuildError(
                f"the emulator saw {len(own)} calls of {function}, expected {_REPORTED * _BATCHES} or more"
            )
        means[name] = sum(call["cycles"] for call in own) / len(own)
        stack = max(stack, *(call["stack_bytes"] for call in own))
    seed, tables = means["seed"], _BATCH / _REPORTED
    cycles = tables * (seed + means["root"]) + (seed + means["mask"]) + (seed + means["open"])
    parts = {f"{name}_cycles": round(mean) for name, mean in means.items()}
    return {"cycles": round(cycles), **parts, "stack_bytes": stack}


def measure_rivals(folder: Path, own_cycles: int) -> dict[str, Any]:
    """Measure the cycles of other primitives on the same core, also as a multiple of one of our reports."""
    functions = _addresses(board_image("pico-rivals").elf, [name for names in _RIVALS.values() for name in names])
    with PicoDut(folder, functions=functions, image="pico-rivals") as dut:
        dut.start()
        status = dut.exec(_RIVALS_CODE, timeout=300).strip()
        calls = dut.calls()
    if status != "0":
        raise BuildError(f"Mbed TLS could not multiply on P-256: {status}")
    result = {}
    for rival, names in _RIVALS.items():
        cycles = sum(call["cycles"] for call in calls if call["name"] in names)
        result[rival] = {"cycles": cycles, "ratio": round(cycles / own_cycles, 3)}
    return result


def measure() -> dict[str, Any]:
    """Return all results, as `peel bench device --json` prints them."""
    with tempfile.TemporaryDirectory() as folder:
        result = measure_reports(Path(folder) / "reports")
        result["verified"] = measure_verified(Path(folder) / "verified")
        result["rivals"] = measure_rivals(Path(folder) / "rivals", result["k252"]["cycles"])
        result["heap_bytes"] = measure_heap(Path(folder) / "heap")
    result["mpy_bytes_armv6m"] = build_natmod("armv6m").stat().st_size
    return result
