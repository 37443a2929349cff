# SPDX-License-Identifier: MIT
"""The ESP32's native module without Espressif's toolchain: Debian's LLVM compiles it, MicroPython's linker links it.

LLVM's Xtensa back end is young. So the module is one translation unit without jump tables, and llvm-mc assembles it, because objects
from llc do not link. MicroPython's mpy_ld.py expects relocations as GCC writes them; `normalise` rewrites LLVM's.
"""

from __future__ import annotations

import struct
import sys
from io import BytesIO
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from peel_tools.boards.build_tools import BuildError, Word, require, run
from peel_tools.boards.sources import Sources

__all__ = ["assemble", "build_xtensawin", "c_headers", "compile_c", "normalise", "xtensa_inputs"]

_R_XTENSA_32 = 1
_R_XTENSA_SLOT0_OP = 20
_L32R = 0x1
_RELA_BYTES = 12


def xtensa_inputs() -> list[Path]:
    """This file decides what comes out, so it belongs to the key of the product."""
    return [Path(__file__)]


def c_headers() -> Path:
    """Return the folder of a C library's headers. Any freestanding one will do, as the module calls none of its functions."""
    folder = Path("/usr/lib/picolibc/riscv64-unknown-elf/include")
    if not folder.is_dir():
        raise BuildError("C headers are missing. On Debian: apt-get install picolibc-riscv64-unknown-elf")
    return folder


def build_xtensawin(sources: Sources, bindings: Path, build: Path) -> Path:
    """Build peelcore.mpy for windowed Xtensa in a folder."""
    build.mkdir(parents=True, exist_ok=True)
    linker: list[Word] = [sys.executable, sources.path / "tools" / "mpy_ld.py", "--arch", "xtensawin"]
    config = build / "peelcore.config.h"
    run([*linker, "--preprocess", "-o", config, bindings / "peelcore.c"], what="collecting the module's names")
    flags = [
        "-DNDEBUG",
        "-DNO_QSTR",
        "-DMICROPY_ENABLE_DYNRUNTIME",
        "-DMP_CONFIGFILE=<peelcore.config.h>",
        "-DMICROPY_FLOAT_IMPL=MICROPY_FLOAT_IMPL_FLOAT",
        *(f"-I{folder}" for folder in (build, sources.path, bindings.parents[1] / "c_core" / "include")),
    ]
    assembly = compile_c(bindings / "peelcore.c", build, flags, entry="mpy_init")
    compiled = assemble(assembly, build / "peelcore.llvm.o")
    fixed = build / "peelcore.o"
    fixed.write_bytes(normalise(compiled.read_bytes()))
    native, product = "native.mpy", build / "peelcore.mpy"
    # The linker writes the path of its output into the module. A relative path is the same on every machine.
    run(
        [*linker, "--qstrs", config, "-o", native, fixed],
        cwd=build,
        env={"PYTHONHASHSEED": "0"},
        what="linking the xtensawin module",
    )
    tool = sources.path / "tools" / "mpy-tool.py"
    run([sys.executable, tool, "--merge", "-o", product, native], cwd=build, what="packing the xtensawin module")
    return product


def compile_c(source: Path, build: Path, flags: list[str], *, entry: str | None = None, attributes: str = "") -> Path:
    """Compile C to ESP32 assembly. With an entry point, code that it does not reach is removed."""
    require("clang-22", "llc-22", "opt-22")
    bitcode, assembly = build / f"{source.stem}.bc", build / f"{source.stem}.s"
    front = [
        "--target=xtensa",
        "-ffreestanding",
        "-nostdlibinc",
        "-std=c99",
        "-Wall",
        "-Werror",
        "-Os",
        "-fno-jump-tables",
    ]
    what = f"compiling {source.name} for xtensa"
    run(["clang-22", *front, *flags, "-isystem", c_headers(), "-emit-llvm", "-c", source, "-o", bitcode], what=what)
    if entry:
        passes = f"--internalize-public-api-list={entry},memcpy,memset"
        run(["opt-22", "-passes=internalize,globaldce", passes, bitcode, "-o", bitcode], what=what)
    run(["llc-22", "-march=xtensa", "-mcpu=esp32", f"-mattr={attributes}", "-O2", bitcode, "-o", assembly], what=what)
    return assembly


def assemble(source: Path, target: Path) -> Path:
    """Assemble for the ESP32."""
    command: list[Word] = ["llvm-mc-22", "-triple=xtensa", "-mcpu=esp32", "-filetype=obj", source, "-o", target]
    run(command, what=f"assembling {source.name} for xtensa")
    return target


def normalise(content: bytes) -> bytes:
    """Rewrite an LLVM object's relocations as GCC writes them. Refuse those that mpy_ld.py would silently get wrong."""
    elf = ELFFile(BytesIO(content))
    image = bytearray(content)
    literals = [s.name for s in elf.iter_sections() if s.name.startswith(".literal") and s["sh_type"] == "SHT_PROGBITS"]
    if len(literals) > 1:
        raise BuildError(f"several literal sections ({', '.join(literals)}): mpy_ld.py cannot tell them apart")
    for section in elf.iter_sections():
        if isinstance(section, RelocationSection):
            target = elf.get_section(section["sh_info"])
            if target.name.startswith(".literal"):
                _move_addends(image, elf, section, target["sh_offset"])
            elif target.name.startswith(".text"):
                _clear_immediates(image, elf, section, target["sh_offset"])
            elif target.name.startswith(".rodata"):
                raise BuildError(
                    f"a pointer in {target.name}: mpy_ld.py does not relocate it; move the object to .data.rel.ro"
                )
    return bytes(image)


def _symbols(elf: ELFFile, section: RelocationSection) -> SymbolTableSection:
    table = elf.get_section(section["sh_link"])
    if not isinstance(table, SymbolTableSection):
        raise BuildError(f"{section.name} has no symbol table")
    return table


def _move_addends(image: bytearray, elf: ELFFile, section: RelocationSection, base: int) -> None:
    """Move the addends of literals from the relocations into the section's content, where GCC has them and mpy_ld.py reads them."""
    symbols = _symbols(elf, section)
    for number, relocation in enumerate(section.iter_relocations()):
        if relocation["r_info_type"] != _R_XTENSA_32:
            raise BuildError(f"relocation type {relocation['r_info_type']} in the literals")
        symbol = symbols.get_symbol(relocation["r_info_sym"])
        if symbol["st_info"]["type"] != "STT_SECTION" or not relocation["r_addend"]:
            continue
        place = base + relocation["r_offset"]
        (value,) = struct.unpack_from("<I", image, place)
        struct.pack_into("<I", image, place, (value + relocation["r_addend"]) & 0xFFFFFFFF)
        struct.pack_into("<i", image, section["sh_offset"] + _RELA_BYTES * number + 8, 0)


def _clear_immediates(image: bytearray, elf: ELFFile, section: RelocationSection, base: int) -> None:
    """Clear the offset fields of l32r: llvm-mc leaves 0xffff there, and mpy_ld.py adds to them."""
    symbols = _symbols(elf, section)
    for relocation in section.iter_relocations():
        symbol = symbols.get_symbol(relocation["r_info_sym"])
        place = base + relocation["r_offset"]
        to_literal = symbol["st_info"]["type"] == "STT_SECTION" and elf.get_section(symbol["st_shndx"]).name.startswith(
            ".literal"
        )
        if relocation["r_info_type"] != _R_XTENSA_SLOT0_OP or not to_literal or image[place] & 0xF != _L32R:
            raise BuildError(
                f"unexpected relocation at {relocation['r_offset']:#x}: not an l32r of a literal ({symbol.name})"
            )
        image[place + 1] = image[place + 2] = 0
