# SPDX-License-Identifier: MIT
"""Builds peel_core._core: cffi in API mode over c_core and the batch loops.

The declarations come from the headers themselves, so there is one place where a signature is written.
"""

import re
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "c_core"
HERE = ROOT / "bindings" / "host"


def declarations(header: Path) -> str:
    """The C declarations of a header, without comments and preprocessor lines."""
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", text, flags=re.S)
    return re.sub(r"^[ \t]*#.*$", "", text, flags=re.M)


def constants(header: Path) -> str:
    """Number-valued macros of a header; the compiler supplies their values."""
    names = re.findall(r"^#define (PEEL_\w+) ", header.read_text(), flags=re.M)
    return "\n".join(f"#define {name} ..." for name in names if name != "PEEL_CORE_VERSION")


ffi = FFI()
ffi.cdef(constants(CORE / "include" / "peel.h"))
ffi.cdef("extern const char *const core_version;")
ffi.cdef(declarations(CORE / "include" / "peel.h"))
ffi.cdef(declarations(HERE / "batch.h"))
ffi.set_source(
    "peel_core._core",
    '#include "batch.h"\nstatic const char *const core_version = PEEL_CORE_VERSION;\n',
    sources=[str(path.relative_to(ROOT)) for path in [*sorted((CORE / "src").glob("*.c")), HERE / "batch.c"]],
    include_dirs=[str((CORE / "include").relative_to(ROOT)), str(HERE.relative_to(ROOT))],
    depends=[
        str(path.relative_to(ROOT)) for path in [*CORE.glob("include/*.h"), *CORE.glob("src/*.h"), HERE / "batch.h"]
    ],
    extra_compile_args=["-std=c99", "-O3"],
)

if __name__ == "__main__":
    ffi.compile(verbose=True)
