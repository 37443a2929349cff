# SPDX-License-Identifier: MIT
"""Builds peel_gateway._kernels: cffi in API mode over the gateway's arithmetic in C."""

import sys
from pathlib import Path

from cffi import FFI

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bindings" / "host"))
from cdef import constants, declarations

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "gateway" / "kernels"

ffi = FFI()
HEADERS = ("e_process.h", "codewords.h", "packets.h", "packing.h", "device_sums.h")
for header in HEADERS:
    ffi.cdef(constants(HERE / header))
    ffi.cdef(declarations(HERE / header))
ffi.set_source(
    "peel_gateway._kernels",
    "".join(f'#include "{header}"\n' for header in HEADERS),
    sources=[str(path.relative_to(ROOT)) for path in sorted(HERE.glob("*.c"))],
    include_dirs=[str(HERE.relative_to(ROOT))],
    depends=[str(path.relative_to(ROOT)) for path in HERE.glob("*.h")],
    # The same bytes on every machine: no fused multiply-add behind our back. A recount depends on it.
    extra_compile_args=["-std=c99", "-O3", "-ffp-contract=off"],
)
