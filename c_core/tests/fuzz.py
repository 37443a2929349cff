# SPDX-License-Identifier: MIT
"""Build the fuzz targets and run each with the vectors as seed corpus: ``python c_core/tests/fuzz.py --seconds 600``.

With ``--runs`` and ``--seed`` a run is the same on every machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CORE = sorted((ROOT / "c_core/src").glob("*.c"))
KERNELS = ROOT / "gateway/kernels"
FOLDERS = ("c_core/include", "bindings/host", "gateway/kernels")
E_PROCESS = ("e_process", "predictions", "sets", "heavy_hitters", "frequencies")


@dataclass(frozen=True)
class Target:
    """A program with LLVMFuzzerTestOneInput, the sources it is linked with, and its first inputs."""

    program: str
    sources: Sequence[Path]
    seeds: Callable[[], Iterator[bytes]]
    longest: int = 600
    times_slower: int = 1
    """The factor by which it is slower than the fastest target, per input. It gets fewer inputs in proportion."""

    @property
    def name(self) -> str:
        return Path(self.program).stem

    def build(self, out: Path) -> Path:
        """Compile the target with clang's fuzzer and both sanitizers."""
        flags = ["-std=c99", "-O1", "-g", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"]
        includes = [f"-I{ROOT / folder}" for folder in FOLDERS]
        sources = [str(path) for path in (ROOT / self.program, *self.sources)]
        subprocess.run(["clang-22", *flags, *includes, *sources, "-o", str(out)], check=True)
        return out


def frames() -> Iterator[tuple[int, bytes]]:
    """Yield every frame of the negative vectors, with a width that fits."""
    for path in sorted((ROOT / "spec/vectors").glob("frame_bad_*.json")):
        for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
            yield int(case["profiles"][0]["width"]) if case["profiles"] else 48, bytes.fromhex(case["frame"])


def small(frame: bytes) -> bytes:
    """Return the same frame, unsealed, for fuzz_payload's profile 1 and device 1."""
    return b"\x11\x01" + (1).to_bytes(4, "little") * 2 + frame[10:16] + bytes(4) + b"\x00\x01"


def frame_seeds() -> Iterator[bytes]:
    return (width.to_bytes(2, "little") + frame for width, frame in frames())


def payload_seeds() -> Iterator[bytes]:
    return (b"\x28" + small(frame) + frame for _, frame in frames())


def cases(pattern: str) -> Iterator[dict[str, Any]]:
    for path in sorted((ROOT / "spec/vectors").glob(f"{pattern}.json")):
        yield from json.loads(path.read_text(encoding="utf-8"))["cases"]


def coin_seeds() -> Iterator[bytes]:
    """Yield openings with their names, messages, and receipts of device 1."""
    sizes = {"profile": 4, "device": 4, "number": 6, "keep": 1, "change": 1, "g": 1}
    name = b""
    for case in cases("opening_bad_*"):
        name = b"".join(case[field].to_bytes(size, "little") for field, size in sizes.items()) + bytes(3)
        yield name + bytes([case["index"]]) + bytes.fromhex(case["opening"])
    for case in cases("coin_message"):
        yield name + b"\0" + bytes.fromhex(case["frame"])
    for case in cases("coin_receipt*"):
        receipt = bytes.fromhex(case["receipt"])
        yield name + b"\0" + receipt[:1] + (1).to_bytes(4, "little") + receipt[5:]


def packet_seeds() -> Iterator[bytes]:
    """Yield reports of both versions of MQTT among other packets."""
    for version, properties in ((0, b""), (1, b"\x00"), (1, b"\x07\x26\x00\x01a\x00\x01b")):
        for first, identifier in ((0x30, b""), (0x32, b"\x00\x07")):
            body = b"\x00\x05p/x/r" + identifier + properties + b"payload"
            report = bytes([first, len(body)]) + body
            yield bytes([version | 6, 255, 0xFF, 9]) + b"\x20\x03\0\0\0" + report + b"\xd0\x00" + report


def state_seeds() -> Iterator[bytes]:
    """Yield no event or a few, on a state that is empty or filled with one byte."""
    for game in range(4):
        for filling in (0, 1, 17, 255):
            yield bytes([game, 3]) + bytes(range(24)) + bytes([filling]) * 3000


def packed_seeds() -> Iterator[bytes]:
    """Yield zeros, words with some content, a valid record, and a truncated one."""
    yield from (b"\x40\x00\x3f", b"\x03\xff12345678\x01\x07\x00\x00", b"\x02" + bytes(range(16)), b"\x03\x81a")


def piece_seeds() -> Iterator[bytes]:
    """Yield pieces of two units and three rows, with columns of several widths."""
    for widths in ((1, 1, 1, 0), (2, 1, 1, 0), (1, 2, 4, 8), (8, 8, 8, 1)):
        units = bytes([16, 0, 0, 2, 0, 1]) + bytes([25, 0, 0, 1, 0, 2])
        yield bytes([3, *widths, 2, 1, 1]) + units + bytes(range(3 * sum(widths)))


TARGETS = (
    Target("c_core/tests/fuzz_frame.c", CORE, frame_seeds),
    Target("c_core/tests/fuzz_payload.c", [*CORE, ROOT / "bindings/host/batch.c"], payload_seeds),
    Target("c_core/tests/fuzz_coin.c", CORE, coin_seeds, times_slower=20),
    Target("gateway/tests/fuzz_packets.c", [KERNELS / "packets.c"], packet_seeds),
    Target("gateway/tests/fuzz_packing.c", [KERNELS / "packing.c"], packed_seeds),
    Target("gateway/tests/fuzz_device_sums.c", [KERNELS / "device_sums.c"], piece_seeds),
    Target(
        "gateway/tests/fuzz_e_process.c",
        [KERNELS / f"{part}.c" for part in E_PROCESS],
        state_seeds,
        4096,
        times_slower=20,
    ),
)


def run(target: Target, work: Path, *, seconds: int, runs: int, seed: int) -> int:
    """Fuzz one target for a bounded time or number of inputs; return the fuzzer's exit code."""
    corpus = work / f"{target.name}_corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for position, content in enumerate(target.seeds()):
        (corpus / str(position)).write_bytes(content)
    limits = [
        f"-max_total_time={seconds}",
        f"-runs={max(-1, runs // target.times_slower)}",
        f"-max_len={target.longest}",
    ]
    limits += ["-timeout=60", "-rss_limit_mb=1024"]
    program = target.build(work / target.name)
    outputs = [f"-artifact_prefix={work}/{target.name}_", "-print_final_stats=1"]
    return subprocess.run([str(program), str(corpus), f"-seed={seed}", *limits, *outputs]).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="for each target, at most (0: no limit)")
    parser.add_argument("--runs", type=int, default=-1, help="inputs for each target, at most (-1: no limit)")
    parser.add_argument("--seed", type=int, default=0, help="of the fuzzer's choices (0: another one each time)")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "fuzz", help="corpus and crashes are kept here")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    limits = {"seconds": arguments.seconds, "runs": arguments.runs, "seed": arguments.seed}
    return max(run(target, arguments.work, **limits) for target in TARGETS)


if __name__ == "__main__":
    sys.exit(main())
