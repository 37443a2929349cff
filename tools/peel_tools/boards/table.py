# SPDX-License-Identifier: MIT
"""The tables of boards and architectures. Everything in the tools that depends on a board is here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

__all__ = [
    "ARCHITECTURES",
    "BOARDS",
    "CABLED",
    "HOST_ONLY",
    "Architecture",
    "Board",
    "BootDrive",
    "Chip",
    "SerialLoader",
    "UnknownBoardError",
    "architecture_of",
    "find_architecture",
    "find_board",
]


class UnknownBoardError(LookupError):
    """An unknown board or architecture. The message lists the known ones."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """An architecture of native code."""

    name: str
    """Its name in MicroPython's makefiles."""
    cores: Mapping[int, str]
    """The processor cores that load such a module: bits 10 and up of sys.implementation._mpy, and MicroPython's name for each."""
    compiler: str
    """The program that compiles a module for it."""
    processors: str
    """The processors, in words."""


@dataclass(frozen=True, kw_only=True)
class BootDrive:
    """A chip that is flashed by copying a UF2 file to the drive that it shows."""

    family: int
    """The UF2 family id."""
    board_id: str
    """The chip's Board-ID in the drive's INFO_UF2.TXT."""


@dataclass(frozen=True, kw_only=True)
class SerialLoader:
    """A chip that esptool flashes."""

    chip: str
    """Its name for esptool's --chip."""
    offset: int
    """The offset of an image in its flash."""


@dataclass(frozen=True, kw_only=True)
class Chip:
    """A microcontroller."""

    name: str
    architecture: str
    """The architecture of its native code, a key of ARCHITECTURES."""
    loader: BootDrive | SerialLoader | None = None
    """The loader of its MicroPython; None if an emulator loads it."""


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board that can become a device."""

    name: str
    """Its name in bundles and for --board."""
    title: str
    platform: str
    """The value of sys.platform on it."""
    chips: tuple[Chip, ...]
    """The chips of boards with this name, the usual one first. All are flashed in the same way; only the board knows which it has."""
    network: bool
    """Whether it has a network. Otherwise it reports over a serial line."""
    files: tuple[str, ...]
    """Its modules in firmware/boards/."""
    emulator: str | None = None
    """The emulated board that tests use for it."""
    in_place: bool = False
    """Whether it is this machine: `peel device run` starts it, and there is no cable."""

    @property
    def usual_module(self) -> str:
        """The architecture of its usual chip."""
        return self.chips[0].architecture

    @property
    def boot_drives(self) -> list[BootDrive]:
        """The boot drives of its chips; empty if it is not flashed by drive."""
        return [chip.loader for chip in self.chips if isinstance(chip.loader, BootDrive)]

    @property
    def serial_loaders(self) -> list[SerialLoader]:
        """The chips that esptool may find at its port, the usual one first; empty if it is not flashed by esptool."""
        return [chip.loader for chip in self.chips if isinstance(chip.loader, SerialLoader)]


_Row = TypeVar("_Row", Architecture, Board)


def _named(name: str, rows: Iterable[_Row], what: str) -> _Row:
    known = {row.name: row for row in rows}
    if name not in known:
        raise UnknownBoardError(f"unknown {what} {name!r}; known: {', '.join(known)}")
    return known[name]


def _table(rows: Iterable[_Row]) -> Mapping[str, _Row]:
    return MappingProxyType({row.name: row for row in rows})


ARCHITECTURES = _table((
    Architecture(
        name="armv6m", cores={4: "armv6m"}, compiler="arm-none-eabi-gcc", processors="RP2040, any Cortex-M0 to M4"
    ),
    Architecture(
        name="armv7m", cores={5: "armv7m", 6: "armv7em"}, compiler="arm-none-eabi-gcc", processors="Cortex-M3, M4"
    ),
    Architecture(
        name="armv7emsp",
        cores={7: "armv7emsp", 8: "armv7emdp"},
        compiler="arm-none-eabi-gcc",
        processors="RP2350, Cortex-M4F and M33",
    ),
    Architecture(
        name="rv32imc",
        cores={11: "rv32imc"},
        compiler="riscv64-unknown-elf-gcc",
        processors="ESP32-C3 and other 32-bit RISC-V",
    ),
    Architecture(
        name="xtensawin",
        cores={10: "xtensawin"},
        compiler="clang-22",
        processors="ESP32 (S2 and S3 share the format; untried)",
    ),
    Architecture(name="x64", cores={2: "x64"}, compiler="gcc", processors="MicroPython's unix port on x86-64"),
))  # fmt: skip

_RP2040 = Chip(name="rp2040", architecture="armv6m", loader=BootDrive(family=0xE48BFF56, board_id="RPI-RP2"))
_RP2350 = Chip(name="rp2350", architecture="armv7emsp", loader=BootDrive(family=0xE48BFF59, board_id="RP2350"))

BOARDS = _table((
    Board(
        name="pico",
        title="Raspberry Pi Pico, Pico 2",
        platform="rp2",
        chips=(_RP2040, _RP2350),
        network=False,
        files=("pins", "pico"),
        emulator="pico",
    ),
    Board(
        name="pico_w",
        title="Raspberry Pi Pico W, Pico 2 W",
        platform="rp2",
        chips=(_RP2040, _RP2350),
        network=True,
        files=("pins", "pico", "pico_w"),
    ),
    Board(
        name="esp32",
        title="ESP32, S2, S3, C3",
        platform="esp32",
        chips=(
            Chip(name="esp32", architecture="xtensawin", loader=SerialLoader(chip="esp32", offset=0x1000)),
            Chip(name="esp32s2", architecture="xtensawin", loader=SerialLoader(chip="esp32s2", offset=0x1000)),
            Chip(name="esp32s3", architecture="xtensawin", loader=SerialLoader(chip="esp32s3", offset=0)),
            Chip(name="esp32c3", architecture="rv32imc", loader=SerialLoader(chip="esp32c3", offset=0)),
        ),
        network=True,
        files=("pins", "esp32"),
        emulator="esp32",
    ),
    Board(
        name="qemu",
        title="QEMU mps2-an385",
        platform="qemu",
        chips=(Chip(name="cortex-m3", architecture="armv7m"),),
        network=False,
        files=("pins", "qemu"),
        emulator="mps2",
    ),
    Board(
        name="host",
        title="this machine",
        platform="linux",
        chips=(Chip(name="x86-64", architecture="x64"),),
        network=True,
        files=("pins", "host"),
        in_place=True,
    ),
))  # fmt: skip

CABLED = [board.name for board in BOARDS.values() if not board.in_place]
"""Boards that are provisioned over a cable."""

HOST_ONLY = ("interfaces.py",)
"""Modules of firmware/peel_device that are not copied to boards. Only type checkers read them."""


def find_board(name: str) -> Board:
    """Return a board by name. UnknownBoardError lists the known ones."""
    return _named(name, BOARDS.values(), "board")


def find_architecture(name: str) -> Architecture:
    """Return an architecture by name. UnknownBoardError lists the known ones."""
    return _named(name, ARCHITECTURES.values(), "architecture")


def architecture_of(mpy: int) -> Architecture | None:
    """Return the architecture for a value of sys.implementation._mpy, or None if no module of ours runs there."""
    return next((row for row in ARCHITECTURES.values() if mpy >> 10 in row.cores), None)
