# SPDX-License-Identifier: MIT
"""Flash MicroPython: copy a UF2 file to a Pico's boot volume, or write an image to an ESP32 with esptool."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from peel_tools.boards.table import BOARDS, SerialLoader
from peel_tools.flashing import FlashError

__all__ = ["Uf2", "esptool_command", "find_volume", "flash_esp32", "flash_pico", "read_uf2"]

_DRIVES = {drive.family: drive.board_id for board in BOARDS.values() for drive in board.boot_drives}
_BLOCK = struct.Struct("<8I476sI")
_MAGIC = (0x0A324655, 0x9E5D5157, 0x0AB16F30)
_FAMILY_FLAG = 0x2000
_INFO = "INFO_UF2.TXT"


@dataclass(frozen=True, kw_only=True)
class Uf2:
    """A checked UF2 file: its bytes by address, and the chip that it is for."""

    family: int
    blocks: dict[int, bytes]

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return sum(len(data) for data in self.blocks.values())


def read_uf2(path: Path) -> Uf2:
    """Parse a UF2 file. Raise FlashError unless every block is valid and all are for one known chip."""
    data = path.read_bytes()
    if not data or len(data) % _BLOCK.size:
        raise FlashError(
            f"{path}: not a UF2 file (its size is not a multiple of {_BLOCK.size}). Download or build it again"
        )
    blocks: dict[int, bytes] = {}
    families = set()
    for number, fields in enumerate(_BLOCK.iter_unpack(data)):
        first, second, flags, address, count, index, total, family, payload, last = fields
        if (first, second, last) != _MAGIC or count > len(payload):
            raise FlashError(f"{path}: block {number} is damaged. Download or build the file again")
        if total != len(data) // _BLOCK.size or index != number:
            raise FlashError(
                f"{path}: block {number} says it is {index} of {total}, so the file is incomplete. Download or build it again"
            )
        blocks[address] = payload[:count]
        families.add(family if flags & _FAMILY_FLAG else 0)
    if len(families) != 1 or not families <= set(_DRIVES):
        raise FlashError(
            f"{path}: not for one of the chips {', '.join(_DRIVES.values())}. Get the MicroPython for your board"
        )
    return Uf2(family=families.pop(), blocks=blocks)


def find_volume(roots: list[Path], family: int) -> Path:
    """Return the boot volume of a board in BOOTSEL mode. Raise FlashError if none is mounted, or it has another chip."""
    found = [info.parent for root in roots if root.is_dir() for info in sorted(root.glob(f"*/{_INFO}"))]
    found += [root for root in roots if (root / _INFO).is_file()]
    if not found:
        raise FlashError(
            "no board in boot mode was found. Hold BOOTSEL while you plug it in and wait for its drive, or name the drive with --volume"
        )
    for volume in found:
        if f"Board-ID: {_DRIVES[family]}" in (volume / _INFO).read_text(errors="replace"):
            return volume
    raise FlashError(
        f"the board at {found[0]} has another chip than this UF2 file ({_DRIVES[family]}). Get the MicroPython for your board"
    )


def flash_pico(image: Path, roots: list[Path], say: Callable[[str], None], *, dry_run: bool) -> None:
    """Copy a UF2 file to the board's boot volume. The board then boots into it."""
    uf2 = read_uf2(image)
    volume = find_volume(roots, uf2.family)
    say(f"{image.name}: {uf2.size // 1024} KiB for {_DRIVES[uf2.family]}, to {volume}")
    if dry_run:
        say("dry run: nothing was changed")
        return
    try:
        (volume / image.name).write_bytes(image.read_bytes())
    except OSError as error:
        raise FlashError(
            f"cannot write to {volume}: {error.strerror}. Plug the board in again with BOOTSEL held, and retry"
        ) from None
    say("written; the board boots into it now")


def esptool_command(image: Path, port: str, loader: SerialLoader) -> list[str]:
    """Return the esptool command that writes an image."""
    return [
        sys.executable, "-m", "esptool", "--chip", loader.chip, "--port", port, "--baud", "460800",
        "write-flash", "--erase-all", hex(loader.offset), str(image),
    ]  # fmt: skip


def flash_esp32(image: Path, port: str, loader: SerialLoader, say: Callable[[str], None], *, dry_run: bool) -> None:
    """Erase an ESP32 and write an image to it. esptool verifies what it wrote."""
    if image.read_bytes()[:1] != b"\xe9":
        raise FlashError(f"{image}: not an ESP32 image (it does not start with 0xe9). Get the .bin file for your board")
    command = esptool_command(image, port, loader)
    say(" ".join(command[2:]))
    if dry_run:
        say("dry run: nothing was changed")
        return
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FlashError(_explain_esptool(done.stdout + done.stderr, port, loader.chip))
    say("written and verified by esptool")


def _explain_esptool(output: str, port: str, chip: str) -> str:
    lowered = output.lower()
    if "no module named esptool" in lowered:
        return "esptool is not installed. Run: pip install 'peel-telemetry[firmware]'"
    if "could not open" in lowered or "port doesn't exist" in lowered:
        return f"cannot open {port}. Check that the board is plugged in, that it is this port, and that no other program uses it"
    if "this chip is" in lowered or "wrong --chip" in lowered:
        return f"the board at {port} is not an {chip}. Name the right chip with --chip"
    if "failed to connect" in lowered:
        return f"the chip at {port} does not answer. Hold its BOOT button while you run the command again"
    return "esptool failed:\n" + "\n".join(output.strip().splitlines()[-3:])
