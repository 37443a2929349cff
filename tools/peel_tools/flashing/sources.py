# SPDX-License-Identifier: MIT
"""Where the files for a board come from: the folders of this checkout, or the copies that an installed package carries.

Both have the same layout below their root (setup.py makes the copies). Native modules are built in a checkout; a package has them ready
made, if scripts/package made it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from peel_tools.flashing.errors import FlashError
from peel_tools.flashing.probe import Facts

__all__ = ["Sources", "find_sources", "firmware_folder"]

_CARRIED = Path(__file__).with_name("device")
_CHECKOUT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The parts of a device. `native` builds or finds the module for an architecture; it is called only if needed."""

    root: Path
    """Has firmware/ and bindings/micropython/."""
    umqtt: Path
    native: Callable[[str], Path]

    @property
    def firmware(self) -> Path:
        """Has main.py, peel_device/ and boards/."""
        return self.root / "firmware"

    @property
    def bindings(self) -> Path:
        """Has the core's loader, and the core in Python."""
        return self.root / "bindings" / "micropython"

    def core(self, facts: Facts) -> list[Path]:
        """What the board needs to have a core: nothing, a native module, or the slow pure-Python one."""
        if facts.core == "built in":
            return []
        return [self.native(facts.module)] if facts.module else [self.bindings / "peelcore_py.py"]


def firmware_folder() -> Path:
    """Where main.py, peel_device/ and boards/ are."""
    return (_CARRIED if _CARRIED.is_dir() else _CHECKOUT) / "firmware"


def find_sources(module: Path | None = None) -> Sources:
    """The package's own copies where there are some, else the checkout's files; `module` goes before any native module of theirs."""
    from peel_tools.boards.umqtt import umqtt_folder  # here, because other commands need no downloads

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
            f"this installation of Peel has no native module for {architecture}: install a released package, or build the module in a "
            f"checkout of the repository (peel firmware natmod {architecture}) and name it with --module"
        )
    return path


def _built_module(architecture: str) -> Path:
    # Here, because an installed package without the [firmware] extra lacks what it imports.
    from peel_tools.boards.natmod import build_natmod

    return build_natmod(architecture)
