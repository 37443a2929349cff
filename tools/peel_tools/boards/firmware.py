# SPDX-License-Identifier: MIT
"""Firmware images: MicroPython with the core as user C module and the application frozen in."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from peel_tools.boards.cache import REPOSITORY, cached, digest, repository_files
from peel_tools.boards.command import Word, require, run
from peel_tools.boards.sources import Sources, micropython_sources
from peel_tools.boards.umqtt import umqtt_folder
from peel_tools.boards.workspace import copy_products, file_map, workspace

__all__ = ["BOARDS", "Firmware", "build_firmware", "core_files", "mpy_cross"]

_JOBS = f"-j{min(os.cpu_count() or 1, 4)}"


@dataclass(frozen=True)
class Firmware:
    """A built image: the folder it is in, and its main file (ELF, or the unix program)."""

    board: str
    folder: Path

    @property
    def elf(self) -> Path:
        return self.folder / "firmware.elf"

    @property
    def binary(self) -> Path:
        """The flat image (Pico only)."""
        return self.folder / "firmware.bin"

    @property
    def uf2(self) -> Path:
        """The image for drag and drop (Pico only)."""
        return self.folder / "firmware.uf2"


@dataclass(frozen=True)
class _Job:
    """Everything that a board's recipe needs."""

    sources: Sources
    inputs: Path
    build: Path
    cross: Path

    @property
    def manifest(self) -> Path:
        return self.inputs / "manifest.py"


Recipe = Callable[[_Job], dict[str, Path]]


def core_files() -> list[Path]:
    """The repository's C sources that go into an image or a module."""
    return repository_files("c_core/src", "c_core/include", suffixes=(".c", ".h")) + [
        REPOSITORY / "bindings" / "micropython" / name
        for name in ("peelcore.c", "core.c", "micropython.mk", "micropython.cmake", "Makefile")
    ]


def mpy_cross(sources: Sources) -> Path:
    """MicroPython's cross compiler, built from the same sources as the firmware."""

    def build(folder: Path) -> None:
        require("gcc", "make")
        build_folder = folder / "build"
        command: list[Word] = ["make", _JOBS, "-C", sources.path / "mpy-cross", f"BUILD={build_folder}"]
        run(command, what="building mpy-cross")

    return cached("mpy-cross", sources.identity, build) / "build" / "mpy-cross"


def _make(job: _Job, port: str, *settings: str) -> None:
    command: list[Word] = [
        "make",
        _JOBS,
        "-C",
        job.sources.path / "ports" / port,
        f"BUILD={job.build}",
        f"FROZEN_MANIFEST={job.manifest}",
        f"USER_C_MODULES={job.inputs / 'bindings'}",
        f"MICROPY_MPYCROSS={job.cross}",
        f"MICROPY_MPYCROSS_DEPENDENCY={job.cross}",
        f"PYTHON={sys.executable}",
        *settings,
    ]
    run(command, what=f"building the {port} port")


def _qemu_mps2(job: _Job) -> dict[str, Path]:
    require("arm-none-eabi-gcc")
    _make(job, "qemu", "BOARD=MPS2_AN385", f"BOARD_DIR={job.inputs / 'hil_tests/boards/mps2'}")
    return {"firmware.elf": job.build / "firmware.elf"}


def _qemu_m4(job: _Job) -> dict[str, Path]:
    require("arm-none-eabi-gcc")
    _make(job, "qemu", "BOARD=MPS2_AN386", f"BOARD_DIR={job.inputs / 'hil_tests/boards/m4'}")
    return {"firmware.elf": job.build / "firmware.elf"}


def _qemu_microbit(job: _Job) -> dict[str, Path]:
    require("arm-none-eabi-gcc")
    # The stock micro:bit build refuses native modules; these are the RP2040's own settings.
    emitters = {"THUMB": 1, "THUMB_ARMV7M": 0, "INLINE_THUMB": 1, "INLINE_THUMB_FLOAT": 0}
    flags = " ".join(f"-DMICROPY_EMIT_{name}={value}" for name, value in emitters.items())
    _make(job, "qemu", "BOARD=MICROBIT", f"CFLAGS_EXTRA={flags}")
    return {"firmware.elf": job.build / "firmware.elf"}


def _qemu_rv32(job: _Job) -> dict[str, Path]:
    require("riscv64-unknown-elf-gcc")
    # rv32imac_zicsr would make Debian's GCC 12 link the 64-bit libraries.
    _make(job, "qemu", "BOARD=VIRT_RV32", "RV32_ARCH=rv32imac -misa-spec=2.2")
    return {"firmware.elf": job.build / "firmware.elf"}


def _unix(job: _Job) -> dict[str, Path]:
    require("gcc")
    off = ("MICROPY_PY_SSL", "MICROPY_SSL_MBEDTLS", "MICROPY_PY_FFI", "MICROPY_PY_BTREE", "MICROPY_PY_BLUETOOTH")
    # Not called micropython: a folder of object files has that name.
    _make(job, "unix", "VARIANT=standard", "PROG=firmware.elf", *(f"{name}=0" for name in off))
    return {"firmware.elf": job.build / "firmware.elf"}


def _pico(job: _Job) -> dict[str, Path]:
    return _rp2(job, "bindings/micropython/micropython.cmake")


def _pico_rivals(job: _Job) -> dict[str, Path]:
    return _rp2(job, "hil_tests/bench/micropython.cmake")


def _rp2(job: _Job, modules: str) -> dict[str, Path]:
    require("cmake", "arm-none-eabi-gcc", "g++")
    port = job.sources.path / "ports" / "rp2"
    settings = {
        "CMAKE_BUILD_TYPE": "MinSizeRel",
        "MICROPY_BOARD": "RPI_PICO",
        "PICO_NO_PICOTOOL": "1",
        "MICROPY_FROZEN_MANIFEST": job.manifest,
        "USER_C_MODULES": job.inputs / modules,
        "MICROPY_MPYCROSS": job.cross,
        "Python3_EXECUTABLE": sys.executable,
    }
    if not (job.build / "Makefile").exists():
        defines = [f"-D{name}={value}" for name, value in settings.items()]
        env = {"MICROPY_MPYCROSS": str(job.cross)}
        run(["cmake", "-S", port, "-B", job.build, *defines], env=env, what="configuring the rp2 port")
    run(["make", _JOBS, "-C", job.build], env={"MICROPY_MPYCROSS": str(job.cross)}, what="building the rp2 port")
    binary, uf2 = job.build / "firmware.bin", job.build / "firmware.uf2"
    convert = job.sources.path / "tools" / "uf2conv.py"
    run(
        [sys.executable, convert, "-b", "0x10000000", "-f", "0xe48bff56", "-c", "-o", uf2, binary],
        what="making the UF2",
    )
    return {"firmware.elf": job.build / "firmware.elf", "firmware.bin": binary, "firmware.uf2": uf2}


BOARDS: Mapping[str, Recipe] = {
    "mps2": _qemu_mps2,
    "m4": _qemu_m4,
    "microbit": _qemu_microbit,
    "rv32": _qemu_rv32,
    "pico": _pico,
    "unix": _unix,
}

# Images that are no board's firmware: for the benchmark.
_RECIPES: Mapping[str, Recipe] = {**BOARDS, "pico-rivals": _pico_rivals}

# Only boards that run the application carry it; on the others the space would be wasted and some modules are missing.
_WITH_APPLICATION = ("mps2", "pico", "unix")

_FOR_TYPE_CHECKERS = ("interfaces.py",)


def _manifest(board: str) -> str:
    lines = []
    if board.startswith("pico"):
        lines += ['freeze("$(PORT_DIR)/modules")', 'include("$(MPY_DIR)/extmod/asyncio")']
    if board in _WITH_APPLICATION:
        lines += ['freeze("frozen")']
    return "\n".join(lines) + "\n"


def _frozen_files() -> dict[str, Path]:
    """Frozen modules, by path below frozen/: the application, its board files and the MQTT client."""
    application = repository_files("firmware/peel_device", suffixes=(".py",))
    frozen = [file for file in application if file.name not in _FOR_TYPE_CHECKERS]
    files = {f"frozen/{file.relative_to(REPOSITORY / 'firmware')}": file for file in frozen}
    files["frozen/peel_load.py"] = REPOSITORY / "bindings" / "micropython" / "peel_load.py"
    files["frozen/umqtt/simple.py"] = umqtt_folder() / "umqtt" / "simple.py"
    return files


def _inputs(board: str) -> dict[str, Path | str]:
    inputs: dict[str, Path | str] = dict(file_map(core_files()))
    inputs |= file_map(repository_files("hil_tests/boards", suffixes=(".c", ".h", ".mk", ".ld")))
    if board == "pico-rivals":
        inputs |= file_map(repository_files("hil_tests/bench", suffixes=(".c", ".cmake")))
    inputs["manifest.py"] = _manifest(board)
    if board in _WITH_APPLICATION:
        inputs |= _frozen_files()
    return inputs


def build_firmware(board: str) -> Firmware:
    """Build the image of a board, or find it in the cache."""
    sources = micropython_sources()
    inputs = _inputs(board)
    key = digest(
        [sources.identity, Path(__file__), *(part for name in sorted(inputs) for part in (name, inputs[name]))]
    )

    def build(folder: Path) -> None:
        with workspace(board, sources.identity, inputs) as work:
            job = _Job(sources, work / "inputs", work / "build", mpy_cross(sources))
            copy_products(_RECIPES[board](job), folder)

    return Firmware(board, cached(f"firmware-{board}", key, build))
