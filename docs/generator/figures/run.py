# SPDX-License-Identifier: MIT
"""`scripts/figures`: run the benchmarks one after another, and keep what they print in docs/figures.json.

Each is a process of its own with a folder for its temporary files. One that fails or takes too long leaves what the file had of it,
and the others go on.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from docs.generator.figures.record import BENCHMARKS, PATH, Benchmark, Load, Taken, read, write
from peel_research.bench.machine import describe_machine, load

ROOT = Path(__file__).resolve().parents[3]

_PR_SET_CHILD_SUBREAPER = 36
_LAST_WORDS = 60.0
"""Seconds that a benchmark has to stop its servers after a stop signal."""
_POLL_SECONDS = 0.5
_TAIL_LINES = 3

Tick = Callable[[float], None]
"""A function that takes the seconds a benchmark has run."""


class FailedError(Exception):
    """A benchmark gave no figures. The message has the reason."""


@click.command()
@click.option(
    "--only", multiple=True, type=click.Choice(list(BENCHMARKS)), metavar="NAME",
    help=f"Run this one alone; may be given several times. One of {', '.join(BENCHMARKS)}.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), default=PATH, help="Another file than docs/figures.json."
)
def main(only: Sequence[str], out: Path) -> None:
    """Take the figures of the documents again, all of them or some, into docs/figures.json; then run scripts/docs."""
    adopt_orphans()
    failures: list[str] = []
    chosen = [BENCHMARKS[name] for name in only or BENCHMARKS]
    for place, benchmark in enumerate(chosen, start=1):
        with _bar(benchmark, f"{place} of {len(chosen)}") as tick:
            try:
                run = take(benchmark, tick)
            except FailedError as error:
                failures.append(f"{benchmark.name}: {error}; {_kept(benchmark.name, out)}")
                continue
        write(read(out) | {benchmark.name: run}, out)
        click.echo(f"{benchmark.name}: {run.seconds:.0f} s, load {run.load.before} before and {run.load.after} after")
    for failure in failures:
        click.echo(failure, err=True)
    click.echo(f"{len(chosen) - len(failures)} of {len(chosen)} taken", err=True)
    sys.exit(1 if failures else 0)


def _kept(name: str, out: Path) -> str:
    runs = read(out)
    return f"the figures of {runs[name].date} stay" if name in runs else "there are no earlier figures of it"


@contextlib.contextmanager
def _bar(benchmark: Benchmark, place: str) -> Iterator[Tick]:
    """Return a progress bar that is full after the duration on a quiet machine."""
    label = f"{place:>8} {benchmark.name:<15}"
    with click.progressbar(length=benchmark.seconds, label=label, file=sys.stderr) as bar:
        yield lambda passed: bar.update(min(round(passed), benchmark.seconds) - bar.pos)


def take(benchmark: Benchmark, tick: Tick) -> Taken:
    """Run a benchmark; `FailedError` if it gives no figures. Nothing that it started or wrote is left."""
    before, average_before = load(), os.getloadavg()[0]
    date, began = datetime.now(UTC), time.monotonic()
    figures = _figures(benchmark, tick)
    seconds, average_after = time.monotonic() - began, os.getloadavg()[0]
    return Taken(
        command=benchmark.command,
        date=date.isoformat(timespec="seconds"),
        seconds=round(seconds, 1),
        version=version("peel-telemetry"),
        commit=_git("rev-parse", "--short=10", "HEAD"),
        changed=bool(_git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs", ":!*.md")),
        compiler=_compiler(),
        machine=describe_machine(),
        load=Load(before, load(), round(average_before, 1), round(average_after, 1)),
        figures=figures,
    )


def _figures(benchmark: Benchmark, tick: Tick) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="figures.", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # PostgreSQL, which does not run as root, must reach its own folder below
        said, wrong = Path(folder) / "said", Path(folder) / "wrong"
        command = [sys.executable, "-m", "peel_tools", "bench", *benchmark.words, "--json"]
        with said.open("wb") as out, wrong.open("wb") as err:
            running = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env=os.environ | {"TMPDIR": folder}, process_group=0,
            )  # fmt: skip
        try:
            code = _wait(running, benchmark.patience, tick)
        finally:
            _end(running)
        if code is None:
            raise FailedError(f"given up after {benchmark.patience:g} s")
        if code:
            last = wrong.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
            raise FailedError(f"exit code {code}: {' / '.join(map(str.strip, last))}")
        return _last_line(said.read_text(encoding="utf-8"))


def _last_line(text: str) -> dict[str, Any]:
    *_, last = ["", *text.splitlines()]
    try:
        figures: dict[str, Any] = json.loads(last)
    except ValueError:
        raise FailedError(f"its last line is no JSON: {last[:100]!r}") from None
    return figures


def _wait(running: subprocess.Popen[bytes], patience: float, tick: Tick) -> int | None:
    """Return the exit code, or None if the process has not ended within these seconds."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < patience:
        tick(passed)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return running.wait(_POLL_SECONDS)
    return None


def _end(running: subprocess.Popen[bytes]) -> None:
    """Stop it as Ctrl-C would, so that it ends its servers in order; then kill whatever is left of it."""
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(_LAST_WORDS)
    while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split():
        for child in map(int, children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def adopt_orphans() -> None:
    """Become the parent of processes that a benchmark leaves behind, also in other sessions, so they can be found."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _compiler() -> str | None:
    try:
        done = subprocess.run(["arm-none-eabi-gcc", "-dumpfullversion"], capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


if __name__ == "__main__":
    main(prog_name="scripts/figures")
