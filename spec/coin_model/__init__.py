# SPDX-License-Identifier: MIT
"""An abstract model of verified coins (SPEC.md, section 13), to play attacks on its rules.

`device` and `gateway` exchange the messages of `tables`. `rules` has a switch for each rule. `chance` enumerates plays exactly.
Names are those of section 13. The model is slow and readable, and no product code uses it.
"""

from coin_model.chance import Chance, Dice, Fixed, distribution, likelihood_ratio
from coin_model.device import DAMAGED, Batch, Device, Flash, PowerCutError
from coin_model.gateway import Database, Entry, Gateway, Group, mean_of_device
from coin_model.rules import Rules
from coin_model.tables import (
    Commit,
    Message,
    Odds,
    Open,
    Receipt,
    Report,
    Reveal,
    Root,
    Sealed,
    Shape,
    Table,
    Tables,
    fair_table,
    opening_size,
    seal,
)  # fmt: skip

__all__ = [
    "DAMAGED", "Batch", "Chance", "Commit", "Database", "Device", "Dice", "Entry", "Fixed", "Flash", "Gateway", "Group",
    "Message", "Odds", "Open", "PowerCutError", "Receipt", "Report", "Reveal", "Root", "Rules", "Sealed", "Shape", "Table",
    "Tables", "distribution", "fair_table", "likelihood_ratio", "mean_of_device", "opening_size", "seal",
]  # fmt: skip
