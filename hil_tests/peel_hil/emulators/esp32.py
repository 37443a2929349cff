# SPDX-License-Identifier: MIT
"""Programs for the ESP32's processor that qemu-xtensa runs: the core's vector driver (c_core/tests/driver.c), and MicroPython's core."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from peel_tools.boards.build_tools import Word, require, run
from peel_tools.boards.cache import REPOSITORY, cached, digest, repository_files
from peel_tools.boards.sources import micropython_sources
from peel_tools.boards.xtensa import assemble, c_headers, compile_c, xtensa_inputs

__all__ = ["CPU", "micropython_core", "vector_driver"]

CPU = "dc233c"
"""QEMU's nearest core to the ESP32's LX6: windowed calls, but no upper half of a product."""

_SUPPORT = REPOSITORY / "hil_tests" / "esp32"
_TOOLS = ("clang-22", "llc-22", "llvm-mc-22", "xtensa-lx106-elf-ld", "qemu-xtensa")


def vector_driver() -> Path:
    """Build the driver, or find it in the cache. Return its path."""
    files = repository_files("c_core/src", "c_core/include", "hil_tests/esp32", suffixes=(".c", ".h", ".s", ".ld"))
    driver = REPOSITORY / "c_core" / "tests" / "driver.c"
    return cached("esp32-driver", digest([Path(__file__), *xtensa_inputs(), *files, driver]), _build_driver) / "driver"


def _build_driver(folder: Path) -> None:
    require(*_TOOLS)
    sources = [
        REPOSITORY / "c_core" / "tests" / "driver.c",
        _SUPPORT / "libc.c",
        _SUPPORT / "multiply.c",
        *sorted((REPOSITORY / "c_core" / "src").glob("*.c")),
    ]
    includes = [f"-I{_SUPPORT / 'include'}", f"-I{REPOSITORY / 'c_core' / 'include'}", "-fno-builtin"]
    objects = [assemble(_SUPPORT / "start.s", folder / "start.o")]
    for source in sources:
        assembly = compile_c(source, folder, includes, attributes="-mul32high")
        objects.append(assemble(assembly, folder / f"{source.stem}.o"))
    link: list[Word] = ["xtensa-lx106-elf-ld", "-m", "elf32xtensa", "--no-relax", "-T", _SUPPORT / "program.ld"]
    run([*link, *objects, "-o", folder / "driver"], what="linking the vector driver for the ESP32")


def micropython_core() -> Path:
    """Build MicroPython's core with a raw REPL (hil_tests/esp32/micropython), or find it in the cache."""
    sources = micropython_sources()
    files = repository_files("hil_tests/esp32", suffixes=(".c", ".h", ".s", ".ld", ""))

    def build(folder: Path) -> None:
        require("make", *_TOOLS)
        objects = folder / "build"
        command: list[Word] = ["make", f"-j{min(os.cpu_count() or 1, 4)}", "-C", _SUPPORT / "micropython"]
        settings = {"MPY_DIR": sources.path, "C_HEADERS": c_headers(), "BUILD": objects, "PYTHON": sys.executable}
        run(
            [*command, *(f"{name}={value}" for name, value in settings.items())],
            what="building MicroPython's core for the ESP32",
        )
        (objects / "firmware.elf").rename(folder / "firmware.elf")
        shutil.rmtree(objects)

    return cached("esp32-micropython", digest([sources.identity, Path(__file__), *files]), build) / "firmware.elf"
