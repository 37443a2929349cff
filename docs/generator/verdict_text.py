# SPDX-License-Identifier: MIT
"""The gateway's table of verdicts, in the order of the layers, and that of a device's states."""

from __future__ import annotations

from peel_gateway.model.standing import Standing
from peel_gateway.model.verdict import LAYERS, Blame, Verdict

__all__ = ["state_table", "verdict_table"]

_BLAMED = {Blame.NOBODY: "", Blame.NETWORK: "nobody", Blame.DEVICE: "the device", Blame.EARLIER: "the device, earlier"}


def verdict_table() -> str:
    """Return one row per verdict: layer, meaning, whether the report is in the log, and whom it blames."""
    lines = ["| layer | verdict | meaning | in the log | blames |", "|---|---|---|---|---|"]
    for layer in (*LAYERS, None):
        for verdict in Verdict:
            if verdict.layer is layer:
                name = layer.label if layer else "none"
                logged = "yes" if verdict.logged else "no"
                cells = (name, f"`{verdict.label}`", verdict.sentence, logged, _BLAMED[verdict.blame])
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def state_table() -> str:
    """Return one row per state of a device, in the order of the checks."""
    lines = ["| state | meaning |", "|---|---|"]
    lines += [f"| `{standing.label}` | {standing.sentence} |" for standing in Standing]
    return "\n".join(lines) + "\n"
