# SPDX-License-Identifier: MIT
"""The proofs speak of every public function, and fail where something is wrong. `scripts/check` makes a few, `make prove` all."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from peel_tools.boards.command import require

ROOT = Path(__file__).resolve().parents[2]
PROOFS = ROOT / "c_core" / "proofs"
HEADERS = (ROOT / "c_core/include/peel.h", ROOT / "bindings/host/batch.h")


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prove", PROOFS / "prove.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["prove"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


prove = load()


def declared(header: Path) -> set[str]:
    return set(
        re.findall(r"^(?:void|int|size_t|double|uint32_t|peel_\w+) \*?(peel_\w+)\(", header.read_text(), flags=re.M)
    )


def test_every_public_function_has_a_harness() -> None:
    called = {name for file in PROOFS.glob("*.c") for name in re.findall(r"\b(peel_\w+)\(", file.read_text())}
    public = set().union(*map(declared, HEADERS))
    assert {"peel_encode", "peel_wipe", "peel_index", "peel_batch_count"} <= public
    assert public - called == set()


def test_every_harness_is_run() -> None:
    assert {path.stem for path in PROOFS.glob("*.c")} == {harness.name for harness in prove.HARNESSES}
    assert all(harness.quick and set(harness.quick) <= set(harness.sizes) for harness in prove.HARNESSES)


#: Harness, one of its quick sizes, and a mistake in the code that it must not let pass: file, what stands there, what is put there.
MISTAKES = {
    "a trit too many": ("projection", 2, "c_core/src/projection.c", "i < 5 && row + 1 < width", "i < 5 && row < width"),
    "a coin never drawn": (
        "mechanism",
        252,
        "c_core/src/mechanism.c",
        "  if (error) return error;\n  *word",
        "  *word",
    ),
    "a block too short": ("drbg", 31, "c_core/src/drbg.c", "stream[32]", "stream[31]"),
    "a shift beyond the word": ("ascon", 16, "c_core/src/ascon.c", "(xof->fill % XOF_RATE)", "(unsigned)xof->fill"),
    "a frame of any length": ("frame_open", 2, "c_core/src/frame.c", "if (len != (size_t)size)", "if (0)"),
    "a receipt of any length": ("receipt", 20, "c_core/src/receipt.c", "if (len != PEEL", "if (0 && len != PEEL"),
    "a bundle before the first": ("batch_open", 48, "bindings/host/batch.c", "if (bundle < 0) {", "if (slot < 0) {"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name: str, tmp_path: Path) -> None:
    require("frama-c")
    harness, size, file, right, wrong = MISTAKES[name]
    code = (ROOT / file).read_text()
    assert code.count(right) == 1
    broken = tmp_path / Path(file).name
    broken.write_text(code.replace(right, wrong))
    for header in (ROOT / file).parent.glob("*.h"):
        (tmp_path / header.name).write_text(header.read_text())
    sources = [broken if source == ROOT / file else source for source in prove.SOURCES]
    found = prove.faults(prove.analyse(PROOFS / f"{harness}.c", sources, size))
    assert any(broken.name in fault or "bytes.h" in fault for fault in found), found


@pytest.mark.slow
def test_a_harness_that_stops_early_proves_nothing(tmp_path: Path) -> None:
    require("frama-c")
    harness = tmp_path / "early.c"
    harness.write_text('#include "peel.h"\nint main(void) { for (;;) {} return peel_frame_bytes(2, 0); }\n')
    assert "the end of the harness is not reached" in prove.faults(prove.analyse(harness, prove.SOURCES, 2))


def test_no_report_is_no_proof() -> None:
    assert len(prove.faults("")) == 4
