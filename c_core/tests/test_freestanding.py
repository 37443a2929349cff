# SPDX-License-Identifier: MIT
"""The header's guarantees for the core: no state, no allocation, no libc but memcpy and memset, no 64-bit division."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from peel_tools.boards.build_tools import require

CORE = Path(__file__).resolve().parents[1]
#: What the compiler may call by itself on a Cortex-M0+: memory, 64-bit shifts and multiplication. No division of any size.
ALLOWED = {"memcpy", "memset", "__aeabi_lmul", "__aeabi_llsl", "__aeabi_llsr"}


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    require("arm-none-eabi-gcc")
    folder = tmp_path_factory.mktemp("armv6m")
    for source in sorted((CORE / "src").glob("*.c")):
        flags = ["-mcpu=cortex-m0plus", "-mthumb", "-Os", "-ffreestanding", "-std=c99", f"-I{CORE / 'include'}"]
        out = str(folder / f"{source.stem}.o")
        subprocess.run(["arm-none-eabi-gcc", *flags, "-c", str(source), "-o", out], check=True)
    found = sorted(folder.glob("*.o"))
    assert [path.stem for path in found] == [path.stem for path in sorted((CORE / "src").glob("*.c"))] != []
    return found


def symbols(objects: list[Path], kinds: str) -> set[str]:
    text = subprocess.run(["arm-none-eabi-nm", *map(str, objects)], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.endswith(":")]
    return {row[-1] for row in rows if row[-2] in kinds}


def test_calls_nothing_else(objects: list[Path]) -> None:
    defined = symbols(objects, "Tt")
    undefined = symbols(objects, "U") - defined
    assert "memcpy" in undefined, "nm's answer was understood"
    assert undefined <= ALLOWED


def test_no_writable_statics(objects: list[Path]) -> None:
    assert symbols(objects, "BbDdCGgSs") == set()


def test_public_names_have_the_prefix(objects: list[Path]) -> None:
    names = symbols(objects, "T")
    assert "peel_encode" in names
    assert {name for name in names if not name.startswith("peel_")} == set()


def test_header_compiles_alone_as_c_and_cpp(tmp_path: Path) -> None:
    require("gcc", "g++")
    for compiler, suffix, standard in (("gcc", "c", "c99"), ("g++", "cpp", "c++11")):
        source = tmp_path / f"only.{suffix}"
        source.write_text('#include "peel.h"\nint main(void) { return (int)sizeof(peel_encoder) == 0; }\n')
        flags = [
            f"-std={standard}",
            "-Wall",
            "-Wextra",
            "-pedantic",
            "-Werror",
            "-fsyntax-only",
            f"-I{CORE / 'include'}",
        ]
        subprocess.run([compiler, *flags, str(source)], check=True)
