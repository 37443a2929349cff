# SPDX-License-Identifier: MIT
"""The images that emulated boards run: the Pico's, and those for boards that exist only in QEMU or on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from peel_tools.boards import firmware
from peel_tools.boards.build_tools import require
from peel_tools.boards.cache import repository_files
from peel_tools.boards.firmware import UNIX_PORT, Firmware, Job, Recipe, build_image, find_recipe, make_port, make_rp2

__all__ = ["IMAGES", "board_image"]


def _board_files(folder: str) -> tuple[Path, ...]:
    """A folder of hil_tests that is part of an image, and this file, which describes the build."""
    return (Path(__file__), *repository_files(f"hil_tests/{folder}", suffixes=(".c", ".h", ".mk", ".ld", ".cmake")))


def _qemu(job: Job, compiler: str, *settings: str) -> dict[str, Path]:
    require(compiler)
    make_port(job, "qemu", *settings)
    return {"firmware.elf": job.build / "firmware.elf"}


def _mps2(job: Job) -> dict[str, Path]:
    return _qemu(job, "arm-none-eabi-gcc", "BOARD=MPS2_AN385", f"BOARD_DIR={job.inputs / 'hil_tests/boards/mps2'}")


def _m4(job: Job) -> dict[str, Path]:
    return _qemu(job, "arm-none-eabi-gcc", "BOARD=MPS2_AN386", f"BOARD_DIR={job.inputs / 'hil_tests/boards/m4'}")


def _microbit(job: Job) -> dict[str, Path]:
    # The stock micro:bit build refuses native modules; these are the RP2040's settings.
    emitters = {"THUMB": 1, "THUMB_ARMV7M": 0, "INLINE_THUMB": 1, "INLINE_THUMB_FLOAT": 0}
    flags = " ".join(f"-DMICROPY_EMIT_{name}={value}" for name, value in emitters.items())
    return _qemu(job, "arm-none-eabi-gcc", "BOARD=MICROBIT", f"CFLAGS_EXTRA={flags}")


def _rv32(job: Job) -> dict[str, Path]:
    # rv32imac_zicsr would make Debian's GCC 12 link the 64-bit libraries.
    return _qemu(job, "riscv64-unknown-elf-gcc", "BOARD=VIRT_RV32", "RV32_ARCH=rv32imac -misa-spec=2.2")


def _pico_rivals(job: Job) -> dict[str, Path]:
    return make_rp2(job, "hil_tests/bench/micropython.cmake")


_RECIPES = (
    Recipe("mps2", _mps2, application=True, files=_board_files("boards")),
    Recipe("m4", _m4, files=_board_files("boards")),
    Recipe("microbit", _microbit, files=(Path(__file__),)),
    Recipe("rv32", _rv32, files=(Path(__file__),)),
    UNIX_PORT,
    Recipe("pico-rivals", _pico_rivals, manifest=firmware.RP2_MANIFEST, files=_board_files("bench")),
)

IMAGES: Mapping[str, Recipe] = {**firmware.RECIPES, **{recipe.name: recipe for recipe in _RECIPES}}
"""The images by name. "pico-rivals" is the Pico with other ciphers, for the benchmark."""


def board_image(name: str) -> Firmware:
    """Build an image, or find it in the cache."""
    return build_image(find_recipe(name, IMAGES))
