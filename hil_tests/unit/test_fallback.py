# SPDX-License-Identifier: MIT
"""The core in Python (bindings/micropython/peelcore_py.py) passes the vectors and refuses wrong input."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from peel_hil.duts.vectors import CHECKS_FILE, application_files, core_files, device_cases, kind
from peel_tools.boards.cache import REPOSITORY

BINDINGS = REPOSITORY / "bindings" / "micropython"


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def core() -> ModuleType:
    return _module(BINDINGS / "peelcore_py.py")


@pytest.mark.parametrize("file", core_files() + application_files(), ids=lambda file: file.stem)
def test_vectors(file: Path, core: ModuleType) -> None:
    cases = device_cases(file)
    wrong, made = _module(CHECKS_FILE).failures(core, kind(file), cases)
    assert wrong == []
    assert made >= len(cases) - 1  # the XOF's empty message is not a hash


def test_values_that_do_not_fit_are_refused(core: ModuleType) -> None:
    for function, arguments in ((core.codeword, (1 << 32, 48, 0, 0)), (core.codeword, (-1, 48, 0, 0))):
        with pytest.raises(ValueError, match="peel: value"):
            function(*arguments)
    with pytest.raises(ValueError, match="peel: index"):
        core.codeword(1, 48, 48, 0)
    with pytest.raises(ValueError, match="peel: length"):
        core.encoder(0, 1, 1, 48, 1, [(1, 1, 16, 1, 0, 8, 3)], b"short", bytes(16))
    with pytest.raises(ValueError, match="peel: reading"):
        core.perturb([(1, 1, 2, 1, 0, 8, 3)], 48, 0, 0, [1 << 31, 0], core.drbg())


def test_it_has_the_native_modules_functions(core: ModuleType) -> None:
    source = (BINDINGS / "peelcore.c").read_text()
    native = {
        line.split("MP_QSTR_")[1].split(",")[0] for line in source.splitlines() if "mp_store_global(MP_QSTR_" in line
    }
    assert len(native) > 10
    assert native <= set(dir(core))


def test_the_loader_prefers_the_native_module_and_falls_back() -> None:
    loader = _module(BINDINGS / "peel_load.py")
    assert loader.load("json", "array").__name__ == "json"
    assert loader.load("no_such_module", "array").__name__ == "array"
    with pytest.raises(ImportError, match=r"no module no_such_module: install no_other.py instead"):
        loader.load("no_such_module", "no_other")
