# SPDX-License-Identifier: MIT
"""What cffi needs of a C header, taken from the header itself: there is one place where a signature is written."""

import re
from pathlib import Path

__all__ = ["constants", "declarations"]


def declarations(header: Path) -> str:
    """The C declarations of a header, without comments and preprocessor lines."""
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", text, flags=re.S)
    return re.sub(r"^[ \t]*#.*$", "", text, flags=re.M)


def constants(header: Path) -> str:
    """The number-valued macros of a header. Plain numbers are named, for they may be sizes of arrays; the compiler supplies the others."""
    macros = re.findall(r"^#define (PEEL_\w+) +([^\s\"]+)", header.read_text(), flags=re.M)
    return "\n".join(f"#define {name} {value if value.isdecimal() else '...'}" for name, value in macros)
