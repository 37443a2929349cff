# SPDX-License-Identifier: MIT
"""Every source file names its licence."""

from __future__ import annotations

from project_files import name_of, tracked

SOURCES = {".py", ".pyi", ".c", ".h", ".S", ".s", ".ld", ".mjs", ".mk", ".cmake", ".toml", ".ini", ".yml", ".yaml", ""}
OTHERS = {"LICENSE", ".gitignore", ".gitattributes", ".clang-format", "gateway.sample.toml", "py.typed"}
"""Files without a licence line: those not written by hand, and those that users copy and change."""


def test_every_source_file_begins_with_its_licence() -> None:
    sources = [path for path in tracked() if path.suffix in SOURCES and path.name not in OTHERS]
    assert len(sources) > 300
    without = [
        name_of(path) for path in sources if "SPDX-License-Identifier: MIT" not in _head(path.read_text("utf-8"))
    ]
    assert not without, f"add an SPDX line: {', '.join(without)}"


def _head(text: str) -> str:
    return "\n".join(text.splitlines()[:6])
