# SPDX-License-Identifier: MIT
"""The proofs cover every public function, and fail on wrong code. `scripts/check` makes a few, `make prove` all."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from peel_tools.boards.build_tools import require

ROOT = Path(__file__).resolve().parents[2]
PROOFS = ROOT / "c_core" / "proofs"
HARNESSES = [path for path in sorted(PROOFS.glob("*.c")) if path.stem != "any_ascon"]
HEADERS = tuple(
    ROOT / path
    for path in (
        "c_core/include/peel.h",
        "bindings/host/batch.h",
        "bindings/host/coins.h",
        "gateway/kernels/codewords.h",
    )
)


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
    called = {name for file in HARNESSES for name in re.findall(r"\b(peel_\w+)\(", file.read_text())}
    public = set().union(*map(declared, HEADERS))
    assert {"peel_encode", "peel_wipe", "peel_unit", "peel_batch_count"} <= public
    assert public - called == set()


def test_every_harness_is_run() -> None:
    assert {path.stem for path in HARNESSES} == {harness.name for harness in prove.HARNESSES}
    assert all(harness.quick and set(harness.quick) <= set(harness.sizes) for harness in prove.HARNESSES)


#: Harness, one of its quick sizes, and a mistake in the code that it must not let pass: file, what stands there, what is put there.
MISTAKES = {
    "a trit too many": ("projection", 2, "c_core/src/projection.c", "i < 5 && row + 1 < width", "i < 5 && row < width"),
    "a coin never drawn": (
        "question",
        252,
        "c_core/src/question.c",
        "  if (error) return error;\n  answer = below",
        "  answer = below",
    ),
    "a block too short": ("drbg", 31, "c_core/src/drbg.c", "stream[32]", "stream[31]"),
    "a shift beyond the word": ("ascon", 16, "c_core/src/ascon.c", "(xof->fill % XOF_RATE)", "(unsigned)xof->fill"),
    "a frame of any length": ("frame_open", 2, "c_core/src/frame.c", "if (len != (size_t)size)", "if (0)"),
    "a receipt of any length": ("receipt", 20, "c_core/src/receipt.c", "if (len != PEEL_R", "if (0 && len != PEEL_R"),
    "a sibling beyond the opening": (
        "coin",
        3,
        "c_core/src/coin.c",
        "if (place > own_place) place--;",
        "if (place > own_place + 1) place--;",
    ),
    "an opening of any length": ("coin", 3, "c_core/src/coin.c", "if (capacity < size)", "if (0 && capacity < size)"),
    "a challenge of any length": (
        "coin_input",
        54,
        "c_core/src/receipt.c",
        "if (len != PEEL_COIN",
        "if (0 && len != PEEL_COIN",
    ),
    "a bundle before the first": ("batch_open", 48, "bindings/host/batch.c", "if (bundle < 0) {", "if (slot < 0) {"),
    "a slot beyond the last": (
        "codewords",
        48,
        "gateway/kernels/codewords.c",
        "(slot + 1) & (codewords->slot_count - 1)",
        "slot + 1",
    ),
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
    (about,) = [each for each in prove.HARNESSES if each.name == harness]
    sources = [broken if source == ROOT / file else source for source in about.sources]
    found = prove.faults(prove.analyse(about.file, sources, about.options, [size]), [size])
    assert any(broken.name in fault or "bytes.h" in fault for fault in found), found


@pytest.mark.slow
def test_a_harness_that_stops_early_proves_nothing(tmp_path: Path) -> None:
    require("frama-c")
    harness = tmp_path / "early.c"
    harness.write_text('#include "peel.h"\nint main(void) { for (;;) {} return peel_frame_bytes(2, 0); }\n')
    assert "the end of the harness is not reached" in prove.faults(prove.analyse(harness, prove.CORE, (), [2]), [2])


@pytest.mark.slow
def test_a_mistake_at_one_size_is_found_among_others(tmp_path: Path) -> None:
    require("frama-c")
    harness = tmp_path / "third.c"
    harness.write_text(
        "#include <string.h>\nstatic char bytes[3];\nint main(void) { memset(bytes, 0, 3); return bytes[WIDTH % 4]; }\n"
    )
    assert prove.faults(prove.analyse(harness, [], (), [2, 4, 5]), [2, 4, 5]) == []
    assert any("third.c" in fault for fault in prove.faults(prove.analyse(harness, [], (), [2, 3, 4]), [2, 3, 4]))


def test_no_report_is_no_proof() -> None:
    assert len(prove.faults("", [48])) == 4


def test_the_runs_of_a_harness_cover_its_sizes_and_each_its_whole_range() -> None:
    for harness in prove.HARNESSES:
        runs = prove.Task(harness, prove.Notes(harness, ""), [], harness.sizes).runs()
        assert sorted(size for run in runs for size in run) == list(harness.sizes)
        assert all(len(run) <= prove.SIZES_PER_RUN for run in runs)
        assert runs[0][-1] - runs[0][0] >= 0.9 * (harness.sizes[-1] - harness.sizes[0])


def test_what_was_proved_is_forgotten_when_what_it_rests_on_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prove, "NOTES", tmp_path)
    source = tmp_path / "source.c"
    source.write_text("int one;\n")
    harness = prove.Harness("question", (0,), (0,), (source,), ())
    prove.Notes(harness, "25.0").add([1, 5])
    assert prove.Notes(harness, "25.0").proved() == {1, 5}
    assert prove.Notes(harness, "26.0").proved() == set()
    source.write_text("int two;\n")
    assert prove.Notes(harness, "25.0").proved() == set()
