# SPDX-License-Identifier: MIT
"""The files of a device: their sources, their places on the board, and the flash that they need.

The sources are the folders of this checkout, or the copies in an installed package. Both have the same layout (setup.py makes the
copies). Native modules are built in a checkout; a package from scripts/package contains them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peel_core.frame import frame_bytes
from peel_tools.boards.table import HOST_ONLY, Board
from peel_tools.flashing import FlashError
from peel_tools.flashing.remote import Facts

__all__ = [
    "Copy",
    "Sources",
    "application",
    "check_room",
    "find_sources",
    "firmware_folder",
    "folders",
    "outbox_blocks",
    "outdated",
    "own_modules",
    "room",
]

FLASH_BLOCK = 4096
RESERVE_BLOCKS = 16
"""Flash for the ledger, the seed and LittleFS itself, besides the files and the outbox."""
OUTBOX_DEFAULT = 200
INLINE_BYTES = 128
"""LittleFS keeps files of up to this size in their folder's log. A larger file takes a block."""
CHECKSUM_BYTES = 4
"""Appended to each stored frame (firmware/peel_device/storage.py)."""

_NETWORK_ONLY = ("tcp.py", "wifi.py")
_VERIFIED_ONLY = ("coin_messages.py", "coin_receipt.py", "coins.py")


@dataclass(frozen=True, kw_only=True)
class Copy:
    """One file to be on the board."""

    source: Path
    target: str
    secret: bool = False

    @property
    def size(self) -> int:
        """Bytes."""
        return self.source.stat().st_size

    @property
    def digest(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(self.source.read_bytes()).hexdigest()


def application(
    board: Board, sources: Sources, *, core: Sequence[Path], bundle: Path, ca: Path | None, files: Sequence[Path] = ()
) -> list[Copy]:
    """Return all files of a device in the order of copying. main.py is last, so that a partial copy never starts."""
    firmware, bindings = sources.firmware, sources.bindings
    without: tuple[str, ...] = HOST_ONLY if board.network else HOST_ONLY + _NETWORK_ONLY
    if not _verified(bundle):
        without += _VERIFIED_ONLY
    modules = [path for path in sorted((firmware / "peel_device").glob("*.py")) if path.name not in without]
    copies = [Copy(source=path, target=path.name) for path in core]
    copies += [Copy(source=bindings / "peel_load.py", target="peel_load.py")]
    copies += [Copy(source=sources.umqtt / "umqtt" / "simple.py", target="umqtt/simple.py")]
    copies += [Copy(source=path, target=f"peel_device/{path.name}") for path in modules]
    copies += [Copy(source=firmware / "drivers" / name, target=f"drivers/{name}") for name in _drivers(bundle)]
    copies += [Copy(source=firmware / "boards" / f"{name}.py", target=f"boards/{name}.py") for name in board.files]
    copies += [Copy(source=path, target=path.name) for path in files]
    if ca is not None:
        copies.append(Copy(source=ca, target=ca.name))
    copies.append(Copy(source=bundle, target="peel.json", secret=True))
    copies.append(Copy(source=firmware / "main.py", target="main.py"))
    _check_names(copies, files)
    return copies


def _verified(bundle: Path) -> bool:
    """Whether the profile of a bundle has verified coins. Other devices need no code for them."""
    try:
        return "audits" in json.loads(bundle.read_bytes()).get("profile", {})
    except (OSError, ValueError):
        return False  # the caller reads the bundle too and reports the fault


def _drivers(bundle: Path) -> list[str]:
    """Return the drivers that a bundle's sensors need. A small board has no room for the others."""
    try:
        sensors = json.loads(bundle.read_bytes()).get("sensors", {}).values()
    except (OSError, ValueError):
        return []  # the caller reads the bundle too and reports the fault
    on_bus = {entry["device"].partition("_")[0] for entry in sensors if entry.get("kind") == "i2c"}
    names = on_bus | ({"measured"} if on_bus else set()) | {"ds18b20" for e in sensors if e.get("kind") == "ds18b20"}
    return sorted(f"{name}.py" for name in names)


def _check_names(copies: Sequence[Copy], files: Sequence[Path]) -> None:
    """Refuse a file of the user that cannot be imported, or that would replace one of the application's."""
    for path in files:
        if path.suffix not in (".py", ".mpy") or not path.stem.isidentifier():
            raise FlashError(f"{path}: a file for the board must be a module, name.py or name.mpy. Rename it")
        same = [copy for copy in copies if copy.target.removesuffix(".py").removesuffix(".mpy") == path.stem]
        if len(same) > 1 or path.stem in ("drivers", *folders(copies)):
            raise FlashError(f"{path}: the application already has a module {path.stem}. Rename yours")


def own_modules(settings: Mapping[str, Any], files: Sequence[Path]) -> list[str]:
    """Return the user modules that a bundle's sensors need and that are not among these files."""
    named = [entry["module"] for entry in settings.get("sensors", {}).values() if entry.get("kind") == "callable"]
    return sorted(set(named) - {path.stem for path in files})


def folders(copies: Sequence[Copy]) -> list[str]:
    """Return the folders of the copies, in order of first use."""
    return list(dict.fromkeys(copy.target.rsplit("/", 1)[0] for copy in copies if "/" in copy.target))


def outdated(copies: Sequence[Copy], present: Mapping[str, Sequence[object]]) -> list[Copy]:
    """Return the copies whose target is missing on the board or differs. `present` maps paths to [size, SHA-256]."""
    return [copy for copy in copies if copy.target not in present or present[copy.target][1] != copy.digest]


def outbox_blocks(settings: Mapping[str, Any], present: int = 0) -> int:
    """Return the flash blocks that a bundle's outbox may still need, beyond the frames present. Measured on LittleFS, rounded up."""
    frames: int = max(0, settings.get("outbox", OUTBOX_DEFAULT) - present)
    size = frame_bytes(settings["profile"]["width"]) + CHECKSUM_BYTES
    if size > INLINE_BYTES:
        return math.ceil(1.1 * frames)
    return math.ceil(frames * size / 350) + 2


def room(copies: Sequence[Copy], outbox: int) -> int:
    """Return the bytes of flash that the copies, the device's records and an outbox of this many blocks need."""
    return FLASH_BLOCK * (sum(-(-copy.size // FLASH_BLOCK) for copy in copies) + RESERVE_BLOCKS + outbox)


def check_room(copies: Sequence[Copy], free: int, outbox: int) -> int:
    """Return the bytes that the copies and an outbox of this many blocks need. Raise FlashError if `free` is less."""
    needed = room(copies, outbox)
    if needed > free:
        raise FlashError(
            f"the board's flash has {free // 1024} KiB free and {needed // 1024} KiB are needed, "
            f"{outbox * FLASH_BLOCK // 1024} of them for the outbox. Remove files from it, or erase it and flash MicroPython again, "
            "or lower `outbox` in the template"
        )
    return needed


_CARRIED = Path(__file__).with_name("device")
_CHECKOUT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The sources of a device's files. `native` builds or finds the module for an architecture; it is called only if needed."""

    root: Path
    """The folder that contains firmware/ and bindings/micropython/."""
    umqtt: Path
    native: Callable[[str], Path]

    @property
    def firmware(self) -> Path:
        """The folder that contains main.py, peel_device/ and boards/."""
        return self.root / "firmware"

    @property
    def bindings(self) -> Path:
        """The folder that contains the core's loader and the pure-Python core."""
        return self.root / "bindings" / "micropython"

    def core(self, facts: Facts) -> list[Path]:
        """Return the core for a board: no file if it is built in, a native module, or the slow pure-Python one."""
        if facts.core == "built in":
            return []
        return [self.native(facts.module)] if facts.module else [self.bindings / "peelcore_py.py"]


def firmware_folder() -> Path:
    """Return the folder that contains main.py, peel_device/ and boards/."""
    return (_CARRIED if _CARRIED.is_dir() else _CHECKOUT) / "firmware"


def find_sources(module: Path | None = None) -> Sources:
    """Return the installed package's copies, or the checkout's files. `module` replaces their native module."""
    from peel_tools.boards.sources import umqtt_folder  # here, because other commands need no downloads

    carried = _CARRIED.is_dir()
    native = _carried_module if carried else _built_module
    return Sources(
        root=_CARRIED if carried else _CHECKOUT,
        umqtt=umqtt_folder(),
        native=native if module is None else lambda architecture: module,
    )


def _carried_module(architecture: str) -> Path:
    path = _CARRIED / "firmware" / "native" / architecture / "peelcore.mpy"
    if not path.is_file():
        raise FlashError(
            f"this installation of Peel has no native module for {architecture}. Install a released package, or build the module in a "
            f"checkout of the repository (`peel firmware natmod {architecture}`) and name it with --module"
        )
    return path


def _built_module(architecture: str) -> Path:
    # Imported here: the [firmware] extra may be missing in an installed package.
    from peel_tools.boards.natmod import build_natmod

    return build_natmod(architecture)
