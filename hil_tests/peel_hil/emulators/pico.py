# SPDX-License-Identifier: MIT
"""The emulated Pico, ready to run: its boot ROM built from source, its npm package installed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from peel_tools.boards.build_tools import BuildError, Word, require, run
from peel_tools.boards.cache import REPOSITORY, cached, digest, repository_files
from peel_tools.boards.firmware import Firmware

__all__ = ["FLASH_BYTES", "PicoEmulator", "flash_image", "pico_emulator"]

FLASH_BYTES = 2 * 1024 * 1024
_ROM_BYTES = 16 * 1024
_HIL = REPOSITORY / "hil_tests"


@dataclass(frozen=True)
class PicoEmulator:
    """The paths of the emulator's program and boot ROM."""

    program: Path
    rom: Path


def pico_emulator() -> PicoEmulator:
    """Install and build the emulator, or find it in the cache."""
    files = repository_files("hil_tests/pico", suffixes=(".mjs", ".S", ".c", ".ld"))
    packages = [_HIL / "package.json", _HIL / "package-lock.json"]
    folder = cached("pico-emulator", digest([Path(__file__), *files, *packages]), _build)
    return PicoEmulator(folder / "pico" / "main.mjs", folder / "rom.bin")


def _build(folder: Path) -> None:
    if shutil.which("npm") is None:
        raise BuildError("the emulated Pico needs Node.js 18 or later with npm. On Debian: apt-get install nodejs npm")
    shutil.copytree(_HIL / "pico", folder / "pico")
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(_HIL / name, folder / name)
    run(["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, what="installing rp2040js")
    _build_rom(folder)


def _build_rom(folder: Path) -> None:
    require("arm-none-eabi-gcc")
    source = folder / "pico" / "rom"
    elf, binary = folder / "rom.elf", folder / "rom.bin"
    machine = ["-mcpu=cortex-m0plus", "-mthumb", "-mfloat-abi=soft"]
    flags = [
        "-Os",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-ffreestanding",
        "-fno-tree-loop-distribute-patterns",
        "-ffunction-sections",
    ]
    link = ["-nostdlib", "-nostartfiles", f"-Wl,-T,{source / 'rom.ld'}", "-Wl,--no-warn-mismatch"]
    inputs: list[Word] = [source / "rom.S", source / "rom.c", "-lgcc"]
    run(["arm-none-eabi-gcc", *machine, *flags, *link, "-o", elf, *inputs], what="building the Pico's boot ROM")
    run(["arm-none-eabi-objcopy", "-O", "binary", "-j", ".rom", elf, binary], what="building the Pico's boot ROM")
    if binary.stat().st_size > _ROM_BYTES:
        raise BuildError(f"the boot ROM has {binary.stat().st_size} bytes; only {_ROM_BYTES} fit")


def flash_image(firmware: Firmware) -> bytes:
    """Return the flash of a new Pico with this firmware."""
    return firmware.binary.read_bytes().ljust(FLASH_BYTES, b"\xff")
