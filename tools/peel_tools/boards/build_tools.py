# SPDX-License-Identifier: MIT
"""Run build tools: their output goes into the error message, and a missing tool is named with its Debian package."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from peel_gateway.exits import Exit

__all__ = ["DEBIAN_PACKAGES", "BuildError", "MissingToolError", "Word", "require", "run"]


class BuildError(Exception):
    """A build step failed. The message says which one and what to do next."""

    exit_code = Exit.MISSING


class MissingToolError(BuildError):
    """A tool is not installed. The message names its package. This is the only error for which a test may skip."""


Word = str | Path
"""One word of a command line."""

# Tool on the path -> Debian package that has it. scripts/packages lists the same packages (a test compares them).
DEBIAN_PACKAGES: Mapping[str, str] = {
    "make": "make",
    "gcc": "gcc",
    "g++": "g++",
    "cmake": "cmake",
    "dpkg-source": "dpkg-dev",
    "arm-none-eabi-gcc": "gcc-arm-none-eabi",
    "riscv64-unknown-elf-gcc": "gcc-riscv64-unknown-elf",
    "clang-22": "clang-22",
    "frama-c": "frama-c-base",
    "llc-22": "llvm-22",
    "llvm-mc-22": "llvm-22",
    "xtensa-lx106-elf-ld": "binutils-xtensa-lx106",
    "qemu-system-arm": "qemu-system-arm",
    "qemu-system-riscv32": "qemu-system-misc",
    "qemu-xtensa": "qemu-user",
    "mosquitto": "mosquitto",
    "node": "nodejs",
    "openssl": "openssl",
    "s390x-linux-gnu-gcc": "gcc-s390x-linux-gnu",
    "qemu-s390x": "qemu-user",
}

_TAIL_LINES = 25


def require(*tools: str) -> None:
    """Raise MissingToolError, with the Debian packages to install, unless all tools are installed."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        packages = sorted({DEBIAN_PACKAGES.get(tool, tool) for tool in missing})
        raise MissingToolError(f"not installed: {', '.join(missing)}. On Debian: apt-get install {' '.join(packages)}")


def run(
    command: Sequence[Word],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    what: str,
) -> str:
    """Run a command and return its output. On failure raise BuildError with the last lines of the output."""
    words = [str(word) for word in command]
    require(words[0])
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-_TAIL_LINES:])
        raise BuildError(f"{what} failed with status {done.returncode}: {' '.join(words[:3])} ...\n{tail}")
    return done.stdout
