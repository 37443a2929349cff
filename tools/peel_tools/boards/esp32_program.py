"""The core's vector driver (c_core/tests/driver.c) compiled for the ESP32's processor, as a program that qemu-xtensa runs."""

from __future__ import annotations

from pathlib import Path

from peel_tools.boards.cache import REPOSITORY, cached, digest, repository_files
from peel_tools.boards.command import Word, require, run
from peel_tools.boards.xtensa import assemble, compile_c, xtensa_inputs

__all__ = ["CPU", "vector_driver"]

CPU = "dc233c"
"""Of QEMU's cores the nearest to the ESP32's LX6: windowed calls, but no upper half of a multiplication."""

_SUPPORT = REPOSITORY / "hil_tests" / "esp32"


def vector_driver() -> Path:
    """Build the program, or find it in the cache."""
    files = repository_files("c_core/src", "c_core/include", "hil_tests/esp32", suffixes=(".c", ".h", ".s", ".ld"))
    driver = REPOSITORY / "c_core" / "tests" / "driver.c"
    return cached("esp32-driver", digest([Path(__file__), *xtensa_inputs(), *files, driver]), _build) / "driver"


def _build(folder: Path) -> None:
    require("clang-22", "llc-22", "llvm-mc-22", "xtensa-lx106-elf-ld", "qemu-xtensa")
    sources = [
        REPOSITORY / "c_core" / "tests" / "driver.c",
        _SUPPORT / "libc.c",
        *sorted((REPOSITORY / "c_core" / "src").glob("*.c")),
    ]
    includes = [f"-I{_SUPPORT / 'include'}", f"-I{REPOSITORY / 'c_core' / 'include'}", "-fno-builtin"]
    objects = [assemble(_SUPPORT / "start.s", folder / "start.o")]
    for source in sources:
        assembly = compile_c(source, folder, includes, attributes="-mul32high")
        objects.append(assemble(assembly, folder / f"{source.stem}.o"))
    link: list[Word] = ["xtensa-lx106-elf-ld", "-m", "elf32xtensa", "--no-relax", "-T", _SUPPORT / "program.ld"]
    run([*link, *objects, "-o", folder / "driver"], what="linking the vector driver for the ESP32")
