"""Builds the fuzz target and runs it from the vectors as seed corpus: ``python c_core/tests/fuzz.py --seconds 600``."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build(out: Path) -> Path:
    """Compile the target with clang's fuzzer and both sanitizers."""
    flags = ["-std=c99", "-O1", "-g", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"]
    sources = [ROOT / "c_core/tests/fuzz_frame.c", *sorted((ROOT / "c_core/src").glob("*.c"))]
    subprocess.run(["clang-22", *flags, f"-I{ROOT / 'c_core/include'}", *map(str, sources), "-o", str(out)], check=True)
    return out


def write_corpus(folder: Path) -> None:
    """One file per frame in the vectors, sealed and faulty, behind its width."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((ROOT / "spec/vectors").glob("frame_bad_*.json")):
        for position, case in enumerate(json.loads(path.read_text(encoding="utf-8"))["cases"]):
            width = int(case["profiles"][0]["width"]) if case["profiles"] else 48
            (folder / f"{path.stem}_{position}").write_bytes(width.to_bytes(2, "little") + bytes.fromhex(case["frame"]))


def run(target: Path, work: Path, seconds: int) -> int:
    """Fuzz for a bounded time; the exit code is the fuzzer's."""
    corpus = work / "corpus"
    write_corpus(corpus)
    limits = [f"-max_total_time={seconds}", "-max_len=300", "-timeout=5", "-rss_limit_mb=1024"]
    command = [str(target), str(corpus), *limits, f"-artifact_prefix={work}/", "-print_final_stats=1"]
    return subprocess.run(command, timeout=seconds + 60).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "fuzz", help="corpus and crashes are kept here")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    return run(build(arguments.work / "fuzz_frame"), arguments.work, arguments.seconds)


if __name__ == "__main__":
    sys.exit(main())
