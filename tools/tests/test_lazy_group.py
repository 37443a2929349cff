# SPDX-License-Identifier: MIT
"""A command loads what it needs and no more, and the tables of commands say what the commands do."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from peel_gateway.fleet.folder import Fleet
from peel_tools.cli import LazyGroup, main

PROFILE = Path(__file__).resolve().parents[1] / "peel_tools" / "simulation" / "profiles" / "greenhouse.toml"

# Runs a command in a process of its own and prints, last, which modules that took.
WATCHED = """
import json, sys
from peel_tools.cli import main
main(sys.argv[1:], standalone_mode=False)
print(json.dumps(sorted(sys.modules)))
"""
SERVERS = {"uvicorn", "starlette", "paho", "amqtt", "prometheus_client", "asyncio", "sqlite3"}
BUILDS = {"elftools", "serial", "peel_tools.boards", "peel_tools.flashing", "peel_hil"}


def modules_of(*words: str) -> set[str]:
    # What measures coverage loads sqlite3.
    unwatched = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *words], env=unwatched, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    loaded: list[str] = json.loads(done.stdout.splitlines()[-1])
    return set(loaded)


def test_a_note_on_a_device_loads_no_server_and_no_build(tmp_path: Path) -> None:
    Fleet.create(tmp_path / "fleet", "lab", [PROFILE]).add("greenhouse", count=3)
    loaded = modules_of("fleet", "note", str(tmp_path / "fleet"), "1", "by the door")
    assert "peel_gateway.fleet.folder" in loaded
    assert not loaded & {*SERVERS - {"sqlite3"}, *BUILDS}  # it compares the folder with the gateway's database


@pytest.mark.parametrize(
    ("words", "without"),
    [
        (("--help",), {*SERVERS, *BUILDS, "numpy", "peel_core"}),
        (("fleet", "--help"), {*SERVERS, *BUILDS, "numpy", "peel_core"}),
        (("fleet", "provision", "--help"), {*SERVERS, "elftools", "numpy"}),
        (("firmware", "flash", "--help"), {*SERVERS, "elftools", "numpy"}),
        (("bench", "core", "--help"), {*SERVERS, *BUILDS}),
    ],
    # Without the sets, whose order is another one in each worker.
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_help_loads_little(words: tuple[str, ...], without: set[str]) -> None:
    assert not modules_of(*words) & without


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")
def test_matrices_get_no_threads_of_their_own() -> None:
    """A pool of them spins between two products, and takes more of the processor than all that a gateway does."""
    said = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}  # by conftest.py
    done = subprocess.run([sys.executable, "-c", PRODUCT], env=said, capture_output=True, text=True, check=True)
    assert int(done.stdout) == 1


PRODUCT = """
import os, peel_tools.cli, numpy
numpy.ones((500, 500)) @ numpy.ones((500, 500))
print(len(os.listdir("/proc/self/task")))
"""


def groups(command: click.Command) -> Iterator[LazyGroup]:
    if isinstance(command, LazyGroup):
        yield command
        for name in command.table:
            child = command.get_command(click.Context(command), name)
            assert child is not None
            yield from groups(child)


def test_each_command_begins_its_help_with_what_its_table_says() -> None:
    found = list(groups(main))
    assert [group.name for group in found] == ["main", "fleet"]
    for group in found:
        for name, (_, line) in group.table.items():
            child = group.get_command(click.Context(group), name)
            assert child is not None
            assert child.name == name
            first = " ".join(inspect.cleandoc(child.help or "").split())
            assert first.startswith(line.rstrip(".")), f"{name}: {line!r} is not how {first!r} begins"


def test_an_unknown_command_is_refused() -> None:
    assert main.get_command(click.Context(main), "toaster") is None


@pytest.mark.slow
def test_the_shell_completes_commands_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    def completed(words: str, place: int) -> str:
        monkeypatch.setenv("_PEEL_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(place))
        done = subprocess.run([sys.executable, "-c", COMPLETE], capture_output=True, text=True, check=False)
        return done.stdout

    assert "plain,gateway" in completed("peel gat", 1)
    assert "plain,export" in completed("peel gateway ex", 2)
    assert "plain,--table" in completed("peel gateway export --ta", 3)


COMPLETE = "from peel_tools.cli import main; main(prog_name='peel')"
