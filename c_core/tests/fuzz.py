# SPDX-License-Identifier: MIT
"""Builds the fuzz targets and runs each from the vectors as seed corpus: ``python c_core/tests/fuzz.py --seconds 600``.

With ``--runs`` and ``--seed`` a run is the same on every machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGETS = {"fuzz_frame": [], "fuzz_payload": [ROOT / "bindings/host/batch.c"]}


def build(name: str, out: Path) -> Path:
    """Compile a target with clang's fuzzer and both sanitizers."""
    flags = ["-std=c99", "-O1", "-g", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"]
    includes = [f"-I{ROOT / 'c_core/include'}", f"-I{ROOT / 'bindings/host'}"]
    sources = [ROOT / f"c_core/tests/{name}.c", *sorted((ROOT / "c_core/src").glob("*.c")), *TARGETS[name]]
    subprocess.run(["clang-22", *flags, *includes, *map(str, sources), "-o", str(out)], check=True)
    return out


def frames() -> Iterator[tuple[int, bytes]]:
    """Every frame of the negative vectors, with a width that fits."""
    for path in sorted((ROOT / "spec/vectors").glob("frame_bad_*.json")):
        for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
            yield int(case["profiles"][0]["width"]) if case["profiles"] else 48, bytes.fromhex(case["frame"])


def small(frame: bytes) -> bytes:
    """The same frame, unsealed, in the small world of fuzz_payload: profile 1, device 1."""
    return b"\x11\x01" + (1).to_bytes(4, "little") * 2 + frame[10:16] + bytes(4) + b"\x00\x01"


def write_corpus(name: str, folder: Path) -> Path:
    """One file per frame, in the form that the target reads."""
    folder.mkdir(parents=True, exist_ok=True)
    for position, (width, frame) in enumerate(frames()):
        head = width.to_bytes(2, "little") if name == "fuzz_frame" else b"\x28"
        body = frame if name == "fuzz_frame" else small(frame) + frame
        (folder / str(position)).write_bytes(head + body)
    return folder


def run(name: str, work: Path, *, seconds: int, runs: int, seed: int) -> int:
    """Fuzz one target for a bounded time or number of inputs; the exit code is the fuzzer's."""
    corpus = write_corpus(name, work / f"{name}_corpus")
    limits = [f"-max_total_time={seconds}", f"-runs={runs}", "-max_len=600", "-timeout=60", "-rss_limit_mb=1024"]
    target = build(name, work / name)
    outputs = [f"-artifact_prefix={work}/{name}_", "-print_final_stats=1"]
    return subprocess.run([str(target), str(corpus), f"-seed={seed}", *limits, *outputs]).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="for each target, at most (0: no limit)")
    parser.add_argument("--runs", type=int, default=-1, help="inputs for each target, at most (-1: no limit)")
    parser.add_argument("--seed", type=int, default=0, help="of the fuzzer's choices (0: another one each time)")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "fuzz", help="corpus and crashes are kept here")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    limits = {"seconds": arguments.seconds, "runs": arguments.runs, "seed": arguments.seed}
    return max(run(name, arguments.work, **limits) for name in TARGETS)


if __name__ == "__main__":
    sys.exit(main())
