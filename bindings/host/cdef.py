# SPDX-License-Identifier: MIT
"""Extract cffi declarations from C headers, so that each signature is written once."""

import re
from pathlib import Path

__all__ = ["constants", "declarations"]


def declarations(header: Path) -> str:
    """Return the C declarations of a header, without comments and preprocessor lines."""
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", text, flags=re.S)
    return re.sub(r"^[ \t]*#.*$", "", text, flags=re.M)


def constants(header: Path) -> str:
    """Return a header's numeric macros. Plain numbers keep their value, as array sizes need it; the compiler supplies the others."""
    macros = re.findall(r"^#define (PEEL_\w+) +([^\s\"]+)", header.read_text(), flags=re.M)
    return "\n".join(f"#define {name} {value if value.isdecimal() else '...'}" for name, value in macros)
