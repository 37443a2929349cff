# SPDX-License-Identifier: MIT
"""MicroPython's unix port: the interpreter of a board, on this machine, with the core and TLS in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from peel_tools.boards.command import Word, require, run
from peel_tools.boards.firmware import Job, Recipe, build_image, make_port

__all__ = ["UNIX_PORT", "micropython_program"]

_OFF = ("MICROPY_PY_FFI", "MICROPY_PY_BTREE", "MICROPY_PY_BLUETOOTH")
_PROGRAM = "firmware.elf"
_TLS_CONFIG = "mbedtls/mbedtls_config_port.h"
_FROM_THE_HEAP = "-DMICROPY_UNIX_COVERAGE"
"""Tells the port's configuration of Mbed TLS to take memory from MicroPython's heap, as on a board."""


def _mbedtls(job: Job) -> Path:
    """Mbed TLS as static libraries, configured as the port would: Debian's tree links one instead of compiling its own."""
    require("cmake", "gcc")
    tree, build = job.sources.path, job.build.with_name("mbedtls_heap")
    settings = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_C_FLAGS": f"-I{tree} -I{tree / 'ports' / 'unix'} {_FROM_THE_HEAP}",
        "MBEDTLS_CONFIG_FILE": tree / "ports" / "unix" / _TLS_CONFIG,
        "ENABLE_PROGRAMS": "OFF",
        "ENABLE_TESTING": "OFF",
        "GEN_FILES": "OFF",
    }
    defines = [f"-D{name}={value}" for name, value in settings.items()]
    configure: list[Word] = ["cmake", "-S", tree / "lib" / "mbedtls", "-B", build, *defines]
    run(configure, what="configuring Mbed TLS")
    run(["make", "-j2", "-C", build, "lib"], what="building Mbed TLS")
    return build / "library"


def _make(job: Job) -> dict[str, Path]:
    libraries = _mbedtls(job)
    # In a folder of its own: make would keep objects of a build with other settings.
    job = replace(job, build=job.build.with_name("build_heap"))
    (job.build / _PROGRAM).unlink(missing_ok=True)  # what is left of an interrupted link would pass for it
    include = job.sources.path / "lib" / "mbedtls" / "include"
    make_port(
        job,
        "unix",
        "VARIANT=standard",
        f"PROG={_PROGRAM}",  # not called micropython: a folder of object files has that name
        f"CFLAGS_EXTRA=-DMBEDTLS_CONFIG_FILE='\"{_TLS_CONFIG}\"' -DMICROPY_TRACKED_ALLOC=1 -I{include}",
        f"LDFLAGS_EXTRA=-L{libraries}",
        *(f"{name}=0" for name in _OFF),
    )
    return {_PROGRAM: job.build / _PROGRAM}


UNIX_PORT = Recipe("unix", _make, files=(Path(__file__),))


def micropython_program() -> Path:
    """Build the interpreter, or find it in the cache."""
    return build_image(UNIX_PORT).elf
