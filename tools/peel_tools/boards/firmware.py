# SPDX-License-Identifier: MIT
"""Firmware images: MicroPython with the core as user C module and the application frozen in."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from peel_tools.boards.build_tools import Word, require, run
from peel_tools.boards.cache import REPOSITORY, cached, copy_products, digest, file_map, repository_files, workspace
from peel_tools.boards.sources import Sources, micropython_sources, umqtt_folder
from peel_tools.boards.table import HOST_ONLY, UnknownBoardError, find_board

__all__ = [
    "RECIPES",
    "RP2_MANIFEST",
    "UNIX_PORT",
    "Firmware",
    "Job",
    "Recipe",
    "build_firmware",
    "build_image",
    "core_files",
    "find_recipe",
    "make_port",
    "make_rp2",
    "micropython_program",
    "mpy_cross",
]

_RP2_FLASH = "0x10000000"
_JOBS = f"-j{min(os.cpu_count() or 1, 4)}"


@dataclass(frozen=True)
class Firmware:
    """A built image: its folder and main file (ELF, or the unix program)."""

    board: str
    folder: Path

    @property
    def elf(self) -> Path:
        return self.folder / "firmware.elf"

    @property
    def binary(self) -> Path:
        """The flat image (Pico only)."""
        return self.folder / "firmware.bin"

    @property
    def uf2(self) -> Path:
        """The image for drag and drop (Pico only)."""
        return self.folder / "firmware.uf2"


@dataclass(frozen=True)
class Job:
    """Everything that a recipe's steps need."""

    sources: Sources
    inputs: Path
    build: Path
    cross: Path

    @property
    def manifest(self) -> Path:
        return self.inputs / "manifest.py"


@dataclass(frozen=True)
class Recipe:
    """The recipe of an image: its build steps and inputs."""

    name: str
    make: Callable[[Job], dict[str, Path]]
    """Runs the build and returns its products by their published names."""
    manifest: tuple[str, ...] = ()
    """Lines of MicroPython's manifest."""
    application: bool = False
    """Whether the application is frozen in. Images that do not run it have no room for it and its modules."""
    files: tuple[Path, ...] = ()
    """Further files of the repository that go into it, besides the core's and the application's."""


def core_files() -> list[Path]:
    """Return the repository's C sources that go into an image or a module."""
    return repository_files("c_core/src", "c_core/include", suffixes=(".c", ".h")) + [
        REPOSITORY / "bindings" / "micropython" / name
        for name in ("peelcore.c", "core.c", "micropython.mk", "micropython.cmake", "Makefile")
    ]


def mpy_cross(sources: Sources) -> Path:
    """Return MicroPython's cross compiler, built from the same sources as the firmware."""

    def build(folder: Path) -> None:
        require("gcc", "make")
        build_folder = folder / "build"
        command: list[Word] = ["make", _JOBS, "-C", sources.path / "mpy-cross", f"BUILD={build_folder}"]
        run(command, what="building mpy-cross")

    return cached("mpy-cross", sources.identity, build) / "build" / "mpy-cross"


def make_port(job: Job, port: str, *settings: str) -> None:
    """Build a MicroPython port that uses make, with the core as user module."""
    command: list[Word] = [
        "make",
        _JOBS,
        "-C",
        job.sources.path / "ports" / port,
        f"BUILD={job.build}",
        f"FROZEN_MANIFEST={job.manifest}",
        f"USER_C_MODULES={job.inputs / 'bindings'}",
        f"MICROPY_MPYCROSS={job.cross}",
        f"MICROPY_MPYCROSS_DEPENDENCY={job.cross}",
        f"PYTHON={sys.executable}",
        *settings,
    ]
    run(command, what=f"building the {port} port")


def make_rp2(job: Job, modules: str) -> dict[str, Path]:
    """Build the Pico's port with the user modules in a CMake file of the inputs."""
    require("cmake", "arm-none-eabi-gcc", "g++")
    port = job.sources.path / "ports" / "rp2"
    settings = {
        "CMAKE_BUILD_TYPE": "MinSizeRel",
        "MICROPY_BOARD": "RPI_PICO",
        "PICO_NO_PICOTOOL": "1",
        "MICROPY_FROZEN_MANIFEST": job.manifest,
        "USER_C_MODULES": job.inputs / modules,
        "MICROPY_MPYCROSS": job.cross,
        "Python3_EXECUTABLE": sys.executable,
    }
    if not _configured_for_this_python(job.build):
        defines = [f"-D{name}={value}" for name, value in settings.items()]
        env = {"MICROPY_MPYCROSS": str(job.cross)}
        run(["cmake", "-S", port, "-B", job.build, *defines], env=env, what="configuring the rp2 port")
    run(["make", _JOBS, "-C", job.build], env={"MICROPY_MPYCROSS": str(job.cross)}, what="building the rp2 port")
    binary, uf2 = job.build / "firmware.bin", job.build / "firmware.uf2"
    convert = job.sources.path / "tools" / "uf2conv.py"
    family = hex(find_board("pico").boot_drives[0].family)
    run([sys.executable, convert, "-b", _RP2_FLASH, "-f", family, "-c", "-o", uf2, binary], what="making the UF2")
    return {"firmware.elf": job.build / "firmware.elf", "firmware.bin": binary, "firmware.uf2": uf2}


def _configured_for_this_python(build: Path) -> bool:
    """Return whether CMake has configured this folder for this interpreter. An earlier one may be gone with its checkout."""
    known = build / "CMakeCache.txt"
    made = known.is_file() and (build / "Makefile").is_file()
    return made and f"Python3_EXECUTABLE:UNINITIALIZED={sys.executable}\n" in known.read_text(encoding="utf-8")


RP2_MANIFEST = ('freeze("$(PORT_DIR)/modules")', 'include("$(MPY_DIR)/extmod/asyncio")')
"""The manifest of the Pico's own port."""

RECIPES: Mapping[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "pico",
            lambda job: make_rp2(job, "bindings/micropython/micropython.cmake"),
            manifest=RP2_MANIFEST,
            application=True,
        ),
    )
}
"""Boards for which we build an image. All others run stock MicroPython."""


def _frozen_files() -> dict[str, Path]:
    """Return the frozen modules by path below frozen/: the application, its drivers and the MQTT client."""
    application = repository_files("firmware/peel_device", "firmware/drivers", suffixes=(".py",))
    frozen = [file for file in application if file.name not in HOST_ONLY]
    files = {f"frozen/{file.relative_to(REPOSITORY / 'firmware')}": file for file in frozen}
    files["frozen/peel_load.py"] = REPOSITORY / "bindings" / "micropython" / "peel_load.py"
    files["frozen/umqtt/simple.py"] = umqtt_folder() / "umqtt" / "simple.py"
    return files


def _inputs(recipe: Recipe) -> dict[str, Path | str]:
    inputs: dict[str, Path | str] = dict(file_map([*core_files(), *recipe.files]))
    lines = [*recipe.manifest, *(['freeze("frozen")'] if recipe.application else [])]
    inputs["manifest.py"] = "\n".join(lines) + "\n"
    if recipe.application:
        inputs |= _frozen_files()
    return inputs


def build_image(recipe: Recipe) -> Firmware:
    """Return the image of a recipe, built or from the cache."""
    sources = micropython_sources()
    inputs = _inputs(recipe)
    key = digest(
        [sources.identity, Path(__file__), *(part for name in sorted(inputs) for part in (name, inputs[name]))]
    )

    def build(folder: Path) -> None:
        with workspace(recipe.name, sources.identity, inputs) as work:
            job = Job(sources, work / "inputs", work / "build", mpy_cross(sources))
            copy_products(recipe.make(job), folder)

    return Firmware(recipe.name, cached(f"firmware-{recipe.name}", key, build))


def find_recipe(name: str, recipes: Mapping[str, Recipe]) -> Recipe:
    """Return a recipe by name. UnknownBoardError lists the known ones."""
    if name not in recipes:
        raise UnknownBoardError(f"{name!r}: no recipe for this image; known: {', '.join(recipes)}")
    return recipes[name]


def build_firmware(board: str) -> Firmware:
    """Return the image of a board, built or from the cache."""
    return build_image(find_recipe(board, RECIPES))


_UNIX_OFF = ("MICROPY_PY_FFI", "MICROPY_PY_BTREE", "MICROPY_PY_BLUETOOTH")
_PROGRAM = "firmware.elf"
_TLS_CONFIG = "mbedtls/mbedtls_config_port.h"
_FROM_THE_HEAP = "-DMICROPY_UNIX_COVERAGE"
"""Makes Mbed TLS allocate from MicroPython's heap, as on a board."""


def _mbedtls(job: Job) -> Path:
    """Build Mbed TLS as static libraries with the port's configuration. Debian's tree links a library instead of compiling one."""
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


def _make_unix(job: Job) -> dict[str, Path]:
    libraries = _mbedtls(job)
    # A separate folder, because make would keep objects that were built with other settings.
    job = replace(job, build=job.build.with_name("build_heap"))
    (job.build / _PROGRAM).unlink(missing_ok=True)  # make would take the rest of an interrupted link for the program
    include = job.sources.path / "lib" / "mbedtls" / "include"
    make_port(
        job,
        "unix",
        "VARIANT=standard",
        f"PROG={_PROGRAM}",  # a folder of object files is called micropython
        f"CFLAGS_EXTRA=-DMBEDTLS_CONFIG_FILE='\"{_TLS_CONFIG}\"' -DMICROPY_TRACKED_ALLOC=1 -I{include}",
        f"LDFLAGS_EXTRA=-L{libraries}",
        *(f"{name}=0" for name in _UNIX_OFF),
    )
    return {_PROGRAM: job.build / _PROGRAM}


UNIX_PORT = Recipe("unix", _make_unix)


def micropython_program() -> Path:
    """Return MicroPython's unix port with the core and TLS in it, built or from the cache."""
    return build_image(UNIX_PORT).elf
