# SPDX-License-Identifier: MIT
"""Write spec/vectors/*.json with the reference. Usage: make_vectors.py [directory]

Every input is made by rule, so the files are the same on every machine. A negative case states its fault, and making it fails
unless the reference refuses it for exactly that fault. README.md describes the format.
"""

import json
import sys
from pathlib import Path

from cases import coins, delivery, encoder_faults, frames, payloads, primitives, profiles, reports
from cases.tools import Vectors

OUT = Path(__file__).parent / "vectors"


def as_hex(value: object) -> str:
    assert isinstance(value, bytes), type(value)
    return value.hex()


def to_json(vectors: Vectors) -> str:
    """Return JSON with one case per line, so that a diff shows which case differs."""
    comment, cases = vectors
    lines = ",\n".join(json.dumps(case, default=as_hex, ensure_ascii=False) for case in cases)
    return f'{{\n"_comment": {json.dumps(comment, ensure_ascii=False)},\n"cases": [\n{lines}\n]\n}}\n'


def all_vectors() -> dict[str, Vectors]:
    modules = (primitives, reports, encoder_faults, frames, payloads, profiles, delivery, coins)
    vectors = {maker.__name__.rstrip("_"): maker() for module in modules for maker in module.MAKERS}
    vectors |= {f"profile_bad_{fault}": profiles.profile_bad(fault) for fault in profiles.FAULTS}
    return vectors


def write_all(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, vectors in all_vectors().items():
        (directory / f"{name}.json").write_text(to_json(vectors), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
