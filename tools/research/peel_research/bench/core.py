# SPDX-License-Identifier: MIT
"""The core's costs: time per report on this machine, size and stack on a Cortex-M0+."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from peel_core import coins, derive_keys, encode_many, make_profile
from peel_core.keyring import core_block

ROOT = Path(__file__).resolve().parents[4]
_CFLAGS = ("-mcpu=cortex-m0plus", "-mthumb", "-Os", "-ffreestanding", "-std=c99", "-ffunction-sections")


def measure(k: int = 252) -> dict[str, Any]:
    """The figures of ``peel bench core``."""
    fast, slow = _host_ns(k), _reference_ns(k)
    return {
        "k": k,
        "frame_bits": 8 * _profile(k).frame_bytes,
        "ns_per_report": round(fast, 1),
        "reference_ns_per_report": round(slow, 1),
        "ratio_vs_reference": round(slow / fast, 1),
        **_verified_us(),
        **_cortex_m0(),
    }


def _profile(k: int) -> Any:
    attributes = [{"name": f"a{i}", "kind": "mean", "low": 0, "high": 1} for i in range(k)]
    table = {"name": "bench", "epsilon": 1, "verify": False, "seed": 1, "quota": 1, "period": 1}
    return make_profile({**table, "width": max(48, k), "attribute": attributes})


def _best(run: Callable[[], None], repeats: int) -> float:
    """Least CPU time of several runs: what one core needs, with as little of what else the machine does as possible."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def _host_ns(k: int, count: int = 20_000) -> float:
    profile = _profile(k)
    ids = np.ones(count, np.uint32)
    keys = derive_keys(bytes(32), "bench", ids, 1, bytes(16))
    readings = np.zeros((count, k), np.int32)
    numbers, entropy = np.arange(1, count + 1), os.urandom(64)
    return 1e9 * _best(lambda: _discard(encode_many(profile, ids, keys, numbers, readings, entropy=entropy)), 7) / count


def _verified_us(count: int = 5_000) -> dict[str, float]:
    """CPU time of a gateway per opening and per audited table, at odds 8:3."""
    numbers = np.arange(1, count + 1)
    names = coins.coin_names(1, np.ones(count, np.uint32), numbers, 8, 3, 2)
    seeds = coins.coin_seeds(np.zeros((count, 16), np.uint8), numbers)
    indices = numbers % 11
    opened = coins.open_coins(names, seeds, indices, coins.opening_bytes(11))
    verify = _best(lambda: _discard(coins.verify_openings(opened.roots, names, indices, opened.openings)), 7)
    audit = _best(lambda: _discard(coins.coin_roots(names, seeds)), 7)
    return {"us_per_opening": round(1e6 * verify / count, 2), "us_per_audited_table": round(1e6 * audit / count, 2)}


def _discard(_: object) -> None:
    """So that a lambda may return nothing."""


def _reference() -> ModuleType:
    path = ROOT / "spec" / "reference.py"
    spec = importlib.util.spec_from_file_location("peel_reference", path)
    if spec is None or spec.loader is None or not path.exists():
        raise FileNotFoundError(f"{path}: the benchmark runs from a checkout")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _reference_ns(k: int, count: int = 20) -> float:
    reference, profile = _reference(), _profile(k)
    drbg = reference.Drbg()
    drbg.seed(os.urandom(64))
    blocks = [reference.Block(*core_block(block)) for block in profile.blocks]
    encoder = reference.Encoder(0, profile.id, 1, profile.width, profile.seed, blocks, bytes(16), bytes(16))

    def run() -> None:
        for number in range(1, count + 1):
            encoder.encode(number, [0] * k, drbg)

    return 1e9 * _best(run, 3) / count


def _cortex_m0() -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        for source in sorted((ROOT / "c_core" / "src").glob("*.c")):
            out = Path(folder) / f"{source.stem}.o"
            command = [
                "arm-none-eabi-gcc",
                *_CFLAGS,
                "-fstack-usage",
                f"-I{ROOT / 'c_core/include'}",
                "-c",
                str(source),
                "-o",
                str(out),
            ]
            subprocess.run(command, check=True)
        objects = sorted(Path(folder).glob("*.o"))
        return {"text_bytes_armv6m": _text_bytes(objects), "stack_bytes_armv6m": _stack_bytes(objects)}


def _text_bytes(objects: list[Path]) -> int:
    """Code and constants that stay when a program calls peel_drbg_seed, peel_encoder_check and peel_encode: the linker decides."""
    out = objects[0].parent / "device.elf"
    keep = [f"-Wl,--undefined={name}" for name in ("peel_drbg_seed", "peel_encoder_check", "peel_encode")]
    flags = [
        "-mcpu=cortex-m0plus",
        "-mthumb",
        "-nostartfiles",
        "-nostdlib",
        "-Wl,--gc-sections",
        "-Wl,--entry=peel_encode",
    ]
    subprocess.run(["arm-none-eabi-gcc", *flags, *keep, *map(str, objects), "-lc", "-lgcc", "-o", str(out)], check=True)
    sizes = subprocess.run(["arm-none-eabi-size", str(out)], check=True, capture_output=True, text=True).stdout
    return int(sizes.splitlines()[1].split()[0])


def _frame_sizes(folder: Path) -> dict[str, int]:
    frames = {}
    for path in folder.glob("*.su"):
        for line in path.read_text().splitlines():
            where, size, kind = line.split("\t")
            if kind not in ("static", "dynamic,bounded"):
                raise ValueError(f"{where}: stack use is {kind}, not known")
            frames[where.split(":")[-1]] = int(size)
    return frames


def _disassembly(objects: list[Path]) -> dict[str, list[str]]:
    """The instructions of each function, relocations included."""
    command = ["arm-none-eabi-objdump", "-dr", *map(str, objects)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    functions: dict[str, list[str]] = {}
    for line in text.splitlines():
        if start := re.match(r"[0-9a-f]+ <(\w+)>:", line):
            functions[start[1]] = []
        elif functions:
            functions[list(functions)[-1]].append(line)
    return functions


def _called(instructions: list[str]) -> set[str]:
    targets = re.findall(r"R_ARM_THM_(?:CALL|JUMP24|PC22)\s+(\w+)|\sbl\s+[0-9a-f]+ <(\w+)>", "\n".join(instructions))
    return {relocated or local for relocated, local in targets}


def _pushed(instructions: list[str]) -> int:
    """Bytes that push instructions put on the stack: all there is to know of a function written in assembly."""
    lists = re.findall(r"\spush\s+{([^}]*)}", "\n".join(instructions))
    return 4 * sum(len(registers.split(",")) for registers in lists)


def _stack_bytes(objects: list[Path]) -> int:
    """The deepest chain of frames below peel_encode; library routines (memcpy, 64-bit multiply) count 32 bytes each."""
    frames, functions = _frame_sizes(objects[0].parent), _disassembly(objects)

    def depth(name: str) -> int:
        if name not in functions:
            return 32
        own = max(frames.get(name, 0), _pushed(functions[name]))
        return own + max((depth(callee) for callee in _called(functions[name]) if callee != name), default=0)

    return depth("peel_encode")
