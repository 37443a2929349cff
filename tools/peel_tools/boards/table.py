# SPDX-License-Identifier: MIT
"""The boards that Peel knows, and the kinds of native code that they run. Whatever depends on a board is said here, once."""

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
    """A board, or a kind of native code, that is in no table; the message lists those that are."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A kind of native code."""

    name: str
    """As MicroPython's makefiles call it."""
    cores: Mapping[int, str]
    """What sys.implementation._mpy has from bit 10 on, on cores that load this module, and what MicroPython calls those."""
    compiler: str
    """The program that compiles a module for it."""
    processors: str
    """Whose code it is, for people."""


@dataclass(frozen=True, kw_only=True)
class BootDrive:
    """A chip that is flashed by copying a UF2 file to the drive that it shows."""

    family: int
    """The number in the file."""
    board_id: str
    """How the drive's INFO_UF2.TXT calls the chip."""


@dataclass(frozen=True, kw_only=True)
class SerialLoader:
    """A chip that esptool flashes."""

    chip: str
    """As esptool's --chip says it."""
    offset: int
    """Where an image begins in its flash."""


@dataclass(frozen=True, kw_only=True)
class Chip:
    """A microcontroller."""

    name: str
    architecture: str
    """Of its native code; see ARCHITECTURES."""
    loader: BootDrive | SerialLoader | None = None
    """How MicroPython gets onto it; None where an emulator loads it."""


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board that can become a device."""

    name: str
    """As bundles and --board say it."""
    title: str
    platform: str
    """What sys.platform says on it."""
    chips: tuple[Chip, ...]
    """Chips that boards of this name have, all flashed alike, the usual one first; only the board itself knows which it is."""
    network: bool
    """Whether it reaches the broker by itself; else over a serial line."""
    files: tuple[str, ...]
    """The modules of firmware/boards/ that it needs."""
    emulator: str | None = None
    """The emulated board that stands in for it in tests."""
    in_place: bool = False
    """Whether it is the machine at hand: `peel device run` starts it, nothing is at the end of a cable."""

    @property
    def usual_module(self) -> str:
        """The native module that it most likely loads."""
        return self.chips[0].architecture

    @property
    def boot_drives(self) -> list[BootDrive]:
        """The drives that it may show; none where it is flashed otherwise."""
        return [chip.loader for chip in self.chips if isinstance(chip.loader, BootDrive)]

    @property
    def serial_loaders(self) -> list[SerialLoader]:
        """What esptool may find at its port, the usual one first; nothing where it is flashed otherwise."""
        return [chip.loader for chip in self.chips if isinstance(chip.loader, SerialLoader)]


_Row = TypeVar("_Row", Architecture, Board)


def _named(name: str, rows: Iterable[_Row], what: str) -> _Row:
    known = {row.name: row for row in rows}
    if name not in known:
        raise UnknownBoardError(f"{name!r} is no {what} that Peel knows; there is: {', '.join(known)}")
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
"""Modules of firmware/peel_device that no board needs: type checkers read them."""


def find_board(name: str) -> Board:
    """A board by its name; UnknownBoardError lists the known ones."""
    return _named(name, BOARDS.values(), "board")


def find_architecture(name: str) -> Architecture:
    """A kind of native code by its name; UnknownBoardError lists the known ones."""
    return _named(name, ARCHITECTURES.values(), "architecture")


def architecture_of(mpy: int) -> Architecture | None:
    """The native code that a board loads whose sys.implementation._mpy is this; None where it loads none of ours."""
    return next((row for row in ARCHITECTURES.values() if mpy >> 10 in row.cores), None)
