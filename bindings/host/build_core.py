# SPDX-License-Identifier: MIT
"""Build peel_core._core: cffi in API mode over c_core and the batch loops."""

import sys
from pathlib import Path

from cffi import FFI

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cdef import constants, declarations

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "c_core"
HERE = ROOT / "bindings" / "host"


ffi = FFI()
ffi.cdef(constants(CORE / "include" / "peel.h"))
ffi.cdef("extern const char *const core_version;")
ffi.cdef(declarations(CORE / "include" / "peel.h"))
ffi.cdef(declarations(HERE / "batch.h"))
ffi.cdef(declarations(HERE / "coins.h"))
ffi.set_source(
    "peel_core._core",
    '#include "batch.h"\n#include "coins.h"\nstatic const char *const core_version = PEEL_CORE_VERSION;\n',
    sources=[str(path.relative_to(ROOT)) for path in [*sorted((CORE / "src").glob("*.c")), *sorted(HERE.glob("*.c"))]],
    include_dirs=[str((CORE / "include").relative_to(ROOT)), str(HERE.relative_to(ROOT))],
    depends=[
        str(path.relative_to(ROOT)) for path in [*CORE.glob("include/*.h"), *CORE.glob("src/*.h"), *HERE.glob("*.h")]
    ],
    extra_compile_args=["-std=c99", "-O3"],
)

if __name__ == "__main__":
    ffi.compile(verbose=True)
