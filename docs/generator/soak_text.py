# SPDX-License-Identifier: MIT
"""The faults of a soak as a table."""

from __future__ import annotations

from peel_research.soak.schedule import KINDS

__all__ = ["fault_table"]


def fault_table() -> str:
    """Return one row per kind of fault: its target, duration and description."""
    lines = ["| kind | track | seconds | what |", "|---" * 4 + "|"]
    for kind in KINDS.values():
        what = f"{kind.text}; with `--store {kind.store}`" if kind.store else kind.text
        lines.append(f"| `{kind.name}` | {kind.track} | {kind.shortest:g} to {kind.longest:g} | {what} |")
    return "\n".join(lines) + "\n"
