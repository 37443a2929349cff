# SPDX-License-Identifier: MIT
"""All attacks of the lab, by name. Each says where it acts, what it takes, and what exposes it or why nothing can."""

from peel_research.lab.attacks.coins import COIN_ATTACKS
from peel_research.lab.attacks.frames import FRAME_ATTACKS
from peel_research.lab.attacks.paper import PAPER_ATTACKS
from peel_research.lab.attacks.readings import READING_ATTACKS
from peel_research.lab.attacks.record import LabAttack
from peel_research.lab.attacks.targets import TARGET_ATTACKS

__all__ = ["LAB_ATTACKS"]

LAB_ATTACKS: dict[str, LabAttack] = {
    attack.name: attack for attack in (*READING_ATTACKS, *COIN_ATTACKS, *PAPER_ATTACKS, *TARGET_ATTACKS, *FRAME_ATTACKS)
}
