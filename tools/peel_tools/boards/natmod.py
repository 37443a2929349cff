# SPDX-License-Identifier: MIT
"""Native modules: the core as peelcore.mpy for stock MicroPython, one per architecture."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

from peel_tools.boards.build_tools import BuildError, require, run
from peel_tools.boards.cache import REPOSITORY, cached, copy_products, digest, file_map, workspace
from peel_tools.boards.firmware import core_files
from peel_tools.boards.sources import micropython_sources
from peel_tools.boards.table import find_architecture

__all__ = ["build_natmod", "publish"]

_BINDINGS = "bindings/micropython"


def build_natmod(arch: str) -> Path:
    """Return peelcore.mpy for an architecture, built or from the cache."""
    compiler = find_architecture(arch).compiler  # before the sources are fetched
    sources = micropython_sources()
    inputs: dict[str, Path | str] = dict(file_map([*core_files(), Path(__file__).with_name("xtensa.py")]))
    key = digest(
        [sources.identity, arch, Path(__file__), *(part for name in sorted(inputs) for part in (name, inputs[name]))]
    )

    def build(folder: Path) -> None:
        require(compiler)
        with workspace(f"natmod-{arch}", sources.identity, inputs) as work:
            bindings = work / "inputs" / _BINDINGS
            if arch == "xtensawin":
                from peel_tools.boards.xtensa import build_xtensawin  # imports what only the [firmware] extra brings

                product = build_xtensawin(sources, bindings, work / "build")
            else:
                product = _make(sources.path, bindings, arch)
            copy_products({"peelcore.mpy": product}, folder)

    return cached(f"natmod-{arch}", key, build) / "peelcore.mpy"


def _make(micropython: Path, bindings: Path, arch: str) -> Path:
    # MicroPython's linker writes the path of its output into the module. A relative path is the same on every machine.
    settings = [f"MPY_DIR={micropython}", f"ARCH={arch}", "BUILD=build", f"PYTHON={sys.executable}"]
    run(["make", "-C", bindings, *settings, "clean"], what=f"cleaning the {arch} module's folder")
    # The linker lays out parts of libgcc in the order of Python's sets, so the hash seed is fixed.
    run(["make", "-C", bindings, *settings], env={"PYTHONHASHSEED": "0"}, what=f"building the {arch} module")
    return bindings / "peelcore.mpy"


def publish(arch: str, folder: Path) -> Path:
    """Write a folder that mip can install from: the module for one architecture, the loader, and package.json."""
    target = folder / arch
    target.mkdir(parents=True, exist_ok=True)
    try:
        copy_products(
            {"peelcore.mpy": build_natmod(arch), "peel_load.py": REPOSITORY / _BINDINGS / "peel_load.py"},
            target,
        )
    except OSError as error:
        raise BuildError(
            f"cannot write the {arch} module to {target}: {error.strerror}. Check the path and its permissions."
        ) from error
    # Relative addresses: mip resolves them against package.json's own.
    urls = [[name, name] for name in ("peelcore.mpy", "peel_load.py")]
    package = {"version": version("peel-telemetry"), "urls": urls, "deps": []}
    (target / "package.json").write_text(json.dumps(package, indent=2) + "\n")
    return target
