# SPDX-License-Identifier: MIT
"""Prove by abstract interpretation (Frama-C's Eva) that no input causes undefined behaviour in the C code.

Each harness of this folder calls functions with inputs of which only the sizes are known. Sizes are fixed: a harness is compiled
for each, and one run of Frama-C covers several of them, so that their common parts are analysed once. ``python
c_core/proofs/prove.py`` proves all sizes, ``--quick`` a few. Results are stored in build/proofs and reused until one of their
inputs changes, so an interrupted run can be continued.

A run passes if, for each size, Eva raises no alarm and no warning, proves every precondition of memcpy and memset, and reaches
the end of the harness.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "c_core" / "proofs"
NOTES = ROOT / "build" / "proofs"
CORE = (*sorted((ROOT / "c_core" / "src").glob("*.c")), *sorted((ROOT / "bindings" / "host").glob("*.c")))
#: Without Ascon, of which any_ascon.c takes the place.
COIN = (
    HERE / "any_ascon.c",
    *(path for path in CORE if path.stem in ("coin", "coins", "lanes", "message", "receipt", "frame", "projection")),
)
KERNELS = ROOT / "gateway" / "kernels"
INCLUDES = ("c_core/include", "c_core/proofs", "bindings/host", "gateway/kernels")

WIDTHS = range(2, 1025)
SIZES_PER_RUN = 32
#: Eva keeps the states apart that these functions return, since their callers go on differently; it finds out the others by itself.
SPLIT = (
    "peel_frame_bytes",
    "peel_frame_open",
    "peel_frame_open_unsealed",
    "open_frame",
    "split",
    "find_device",
    "find_bundle",
    "find_profile",
)
#: How precise Eva is, and what it looks for besides undefined behaviour: pointers that go out of bounds without being used. The one piece
#: of assembly that it meets is empty (`wipe`), so that nothing is lost where it is passed over.
OPTIONS = (
    "-machdep=gcc_x86_64",
    "-kernel-warn-key=asm:clobber=inactive",
    "-eva",
    "-eva-no-print",
    "-eva-min-loop-unroll=1100",
    "-eva-slevel=100",
    "-eva-partition-history=1",
    "-eva-split-return=auto",
    "-warn-invalid-pointer",
)
CORE_OPTIONS = (
    "-eva-slevel-function=peel_batch_open:1000,open_piece:300",
    "-eva-split-return-function=" + ",".join(f"{name}:full" for name in SPLIT),
)


@dataclass(frozen=True)
class Harness:
    """A file of this folder, the sizes that it is run for, the sources that it covers, and options that name their functions."""

    name: str
    sizes: Sequence[int]
    quick: Sequence[int]
    sources: Sequence[Path] = CORE
    options: Sequence[str] = CORE_OPTIONS

    @property
    def file(self) -> Path:
        return HERE / f"{self.name}.c"


HARNESSES = (
    Harness("ascon", range(1025), (0, 16, 37)),
    Harness("drbg", range(129), (31, 48)),
    Harness("receipt", range(256), (20, 55)),
    Harness("question", WIDTHS, (252,)),
    Harness("projection", WIDTHS, (2, 48, 252)),
    Harness("frame_open", WIDTHS, (2, 48, 252)),
    Harness("frame_seal", WIDTHS, (48,)),
    Harness("encode", WIDTHS, (48,)),
    Harness("batch_open", WIDTHS, (48,)),
    Harness("batch_make", WIDTHS, (7,)),
    Harness("coin", range(3, 65), (3,), sources=COIN, options=()),
    Harness("coin_input", range(600), (30, 54), sources=COIN, options=()),
    Harness("codewords", WIDTHS, (2, 48), sources=(KERNELS / "codewords.c",), options=()),
)


def write_units(folder: Path, harness: Path, sizes: Sequence[int]) -> list[Path]:
    """Write the harness once per size, each with its own statics, and a program that calls them all."""
    units = []
    for size in sizes:
        unit = folder / f"size_{size}.c"
        unit.write_text(f'#define WIDTH {size}\n#define SIZE {size}\n#define main main_{size}\n#include "{harness}"\n')
        units.append(unit)
    program = folder / "all.c"
    declared = "".join(f"int main_{size}(void);\n" for size in sizes)
    called = "".join(f"  main_{size}();\n  //@ slevel merge;\n" for size in sizes)
    program.write_text(f"{declared}int main(void) {{\n{called}  return 0;\n}}\n")
    return [*units, program]


def analyse(harness: Path, sources: Sequence[Path], options: Sequence[str], sizes: Sequence[int]) -> str:
    """Return Frama-C's output for a harness, with the width and the number of bytes set to each of these sizes."""
    includes = " ".join(f"-I{ROOT / folder}" for folder in INCLUDES)
    with tempfile.TemporaryDirectory() as folder:
        files = [str(path) for path in (*write_units(Path(folder), harness, sizes), *sources)]
        command = ["frama-c", *OPTIONS, *options, f"-cpp-extra-args={includes}", *files, "-then", "-metrics-eva-cover"]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def faults(report: str, sizes: Sequence[int]) -> list[str]:
    """Return why this output is not a proof; empty if it is one."""
    alarms = re.findall(r"\[eva:alarm\] (\S+):\s*Warning:\s*(.*)", report)
    found = [f"{place} {what}" for place, what in alarms]
    if "  0 alarms generated by the analysis." not in report and not alarms:
        found.append("the analysis did not come to an end: " + report.rstrip().rpartition("\n")[2])
    if "No errors or warnings raised during the analysis." not in report:
        found.append("the analysis warns of something")
    if not re.search(r"^ +Preconditions +\d+ valid +0 unknown +0 invalid", report, re.M):
        found.append("a precondition is not proved")
    ended = set(re.findall(r"^ +(main\w*): (\d+) stmts out of \2 ", report, re.M))
    if {name for name, _ in ended} != {"main", *(f"main_{size}" for size in sizes)}:
        found.append("the end of the harness is not reached")
    return found


class Notes:
    """Return the sizes of a harness that are proved for the present sources and Frama-C."""

    def __init__(self, harness: Harness, version: str) -> None:
        folders = {HERE, ROOT / "c_core" / "include", *(source.parent for source in harness.sources)}
        headers = [path for folder in sorted(folders) for path in sorted(folder.glob("*.h"))]
        parts = [path.read_bytes() for path in (harness.file, *harness.sources, *headers)]
        parts += [part.encode() for part in (version, *OPTIONS, *harness.options)]
        key = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]
        self._path = NOTES / f"{harness.name}-{key}"

    def proved(self) -> set[int]:
        return {int(word) for word in self._path.read_text().split()} if self._path.exists() else set()

    def add(self, sizes: Sequence[int]) -> None:
        NOTES.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write("".join(f"{size}\n" for size in sizes))


@dataclass
class Task:
    """A harness, with its proved sizes and those still to prove."""

    harness: Harness
    notes: Notes
    before: Sequence[int]
    sizes: Sequence[int]
    failed: int = 0

    def runs(self) -> list[Sequence[int]]:
        """Return the sizes of each run, spread over the whole range; each further run lies between the earlier ones.

        So an early end leaves out no part of the range.
        """
        count = -(-len(self.sizes) // SIZES_PER_RUN)
        order = sorted(range(count), key=lambda first: f"{first:08b}"[::-1])
        return [self.sizes[first::count] for first in order]

    def summary(self) -> str:
        done = len(self.before) + len(self.sizes) - self.failed
        known = f", {len(self.before)} of them before" if self.before else ""
        return f"{self.harness.name:12} {done} of {done + self.failed} sizes proved{known}"


def tasks(names: Sequence[str], sizes: Sequence[int], version: str, *, quick: bool) -> Iterator[Task]:
    for harness in HARNESSES:
        if names and harness.name not in names:
            continue
        asked = sizes or (harness.quick if quick else harness.sizes)
        chosen = [size for size in asked if size in harness.sizes]
        notes = Notes(harness, version)
        proved = notes.proved()
        before = [size for size in chosen if size in proved]
        yield Task(harness, notes, before, [size for size in chosen if size not in proved])


class Progress:
    """Prints lines about runs, with the remaining work."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._done = 0
        self._begun = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def show(self, harness: Harness, sizes: Sequence[int], seconds: float, found: Sequence[str]) -> None:
        self._done += 1
        left = self.seconds() / self._done * (self._runs - self._done)
        which = f"{sizes[0]}" if len(sizes) == 1 else f"{len(sizes)} sizes from {sizes[0]} to {sizes[-1]}"
        word = "FAILED" if found else "proved"
        print(f"[{self._done}/{self._runs}, {duration(left)} left] {word} {harness.name}, {which} ({seconds:.0f} s)")
        for fault in found:
            print(f"    {fault}")
        sys.stdout.flush()


def duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def prove(task: Task, sizes: Sequence[int], progress: Progress) -> None:
    """Make one run, store its result, and print a line."""
    begun = time.monotonic()
    found = faults(analyse(task.harness.file, task.harness.sources, task.harness.options, sizes), sizes)
    if found:
        task.failed += len(sizes)
    else:
        task.notes.add(sizes)
    progress.show(task.harness, sizes, time.monotonic() - begun, found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("harness", nargs="*", help="which ones (all)")
    parser.add_argument("--sizes", type=int, nargs="+", default=(), help="which widths, or numbers of bytes (all)")
    parser.add_argument("--quick", action="store_true", help="a few sizes of each, half a minute in all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time (%(default)s)")
    arguments = parser.parse_args()
    if shutil.which("frama-c") is None:
        print("prove: frama-c is not installed; run scripts/setup prove", file=sys.stderr)
        return 1 if os.environ.get("CI") or not arguments.quick else 0
    version = subprocess.run(["frama-c", "-version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    todo = list(tasks(arguments.harness, arguments.sizes, version, quick=arguments.quick))
    # The first run of each harness, then the second of each, so that an early end leaves out no harness.
    rounds = [(turn, task, part) for task in todo for turn, part in enumerate(task.runs())]
    rounds.sort(key=lambda each: each[0])
    progress = Progress(len(rounds))
    with ThreadPoolExecutor(arguments.jobs) as workers:
        list(workers.map(lambda each: prove(each[1], each[2], progress), rounds))
    print("\n".join(task.summary() for task in todo))
    failed = sum(task.failed for task in todo)
    print(f"prove: {'FAILED' if failed or not todo else 'all proved'}, in {duration(progress.seconds())}")
    return 1 if failed or not todo else 0


if __name__ == "__main__":
    sys.exit(main())
