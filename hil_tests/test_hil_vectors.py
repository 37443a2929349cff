# SPDX-License-Identifier: MIT
"""The specification's vectors on every emulated board, through the user C module and every native module that the board loads."""

from __future__ import annotations

from typing import Any

import pytest

from peel_hil.duts import Dut
from peel_hil.duts.vectors import (
    CHECKS_FILE,
    OFF_BOARDS,
    VECTORS,
    application_files,
    core_files,
    device_cases,
    kind,
    run_vectors,
)
from peel_tools.boards.cache import REPOSITORY
from peel_tools.boards.natmod import build_natmod

BINDINGS = REPOSITORY / "bindings" / "micropython"


def test_every_kind_of_vector_runs_on_boards_or_has_a_reason_not_to() -> None:
    scope: dict[str, Any] = {}
    exec(CHECKS_FILE.read_text(), scope)  # noqa: S102 - it is our own file
    assert {kind(file) for file in core_files() + application_files()} == set(scope["CHECKS"])
    assert {kind(file) for file in VECTORS.glob("*.json")} == set(scope["CHECKS"]) | set(OFF_BOARDS)
    assert not set(scope["CHECKS"]) & set(OFF_BOARDS)
    assert all(OFF_BOARDS.values())


def test_user_and_native_modules(dut: Dut) -> None:
    cores = ["peelcore"]
    for arch in dut.native_architectures:
        cores.append(f"native_{arch}")
        dut.load(f"native_{arch}", build_natmod(arch))
    problems, compared = run_vectors(dut, cores)
    assert problems == []
    assert compared > 2000


@pytest.mark.boards("mps2", "pico")
def test_what_the_application_does_without_the_core(dut: Dut) -> None:
    problems, compared = run_vectors(dut, ["peelcore"], application_files())
    assert problems == []
    assert compared == sum(len(device_cases(file)) for file in application_files())


def test_a_module_for_another_architecture_is_refused_readably(dut: Dut) -> None:
    dut.load("peel_load", BINDINGS / "peel_load.py")
    dut.put("foreign.mpy", build_natmod("x64" if dut.name != "unix" else "armv6m").read_bytes())
    output = dut.exec("try:\n peel_load.load('foreign')\nexcept ValueError as error:\n print(error)")
    dut.remove("foreign.mpy")
    assert "foreign.mpy does not fit this firmware (incompatible .mpy arch)" in output
    assert f"install the one for {dut.native_architectures[-1]}" in output


@pytest.mark.boards("unix", "mps2")
def test_the_fallback_is_loaded_where_there_is_no_native_module(dut: Dut) -> None:
    dut.load("peel_load", BINDINGS / "peel_load.py")
    dut.load("peelcore_py", BINDINGS / "peelcore_py.py")
    assert dut.exec("core = peel_load.load('absent')\nprint(core.__name__)").strip() == "peelcore_py"
    files = core_files() if dut.name == "unix" else [VECTORS / "drbg.json", VECTORS / "encode_bad_width.json"]
    problems, compared = run_vectors(dut, ["peelcore_py"], files)
    assert problems == []
    assert compared > 100
