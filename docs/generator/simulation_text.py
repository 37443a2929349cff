# SPDX-License-Identifier: MIT
"""The simulation's attackers as a table."""

from __future__ import annotations

from peel_tools.simulation.attackers import ATTACKS

__all__ = ["attack_table"]


def attack_table() -> str:
    """One line per kind of attacker: what it takes a share of, who must expose it, what it does."""
    lines = ["| kind | share of | layer | what |", "|---|---|---|---|"]
    for attack in ATTACKS.values():
        of = "devices" if attack.by_device else "reports"
        lines.append(f"| `{attack.name}` | {of} | {attack.layer or 'none'} | {attack.help.removesuffix('.')} |")
    return "\n".join(lines) + "\n"
