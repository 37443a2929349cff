# SPDX-License-Identifier: MIT
"""The simulation's attackers as a table."""

from __future__ import annotations

from peel_core import MECHANISMS
from peel_tools.simulation.attackers import ATTACKS, Attack

__all__ = ["attack_table"]


def attack_table() -> str:
    """Return one row per kind of attacker: its share, the layer that must expose it and when, and what it does."""
    lines = [
        "| kind | share of | mechanisms | layer | at the latest after | in `peel demo` | what |",
        "|---" * 7 + "|",
    ]
    for attack in ATTACKS.values():
        of = "devices" if attack.by_device else "reports"
        layer = attack.layer_label or "none"
        able = "all" if attack.mechanisms == frozenset(MECHANISMS) else ", ".join(sorted(attack.mechanisms))
        cells = [
            f"`{attack.name}`",
            of,
            able,
            layer,
            _latest(attack),
            f"{attack.share:.0%}",
            attack.help.removesuffix("."),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _latest(attack: Attack) -> str:
    if attack.patience is not None:
        return f"{attack.patience} reports"
    return "one piece" if attack.layer else ""
