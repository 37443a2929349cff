"""Cases for section 11: topics.

SPDX-License-Identifier: MIT
"""

import reference as ref
from cases.tools import Vectors


def topics() -> Vectors:
    comment = "Section 11: where a device's messages go."
    cases = []
    for fleet in ("a", "plant-7"):
        for device in (1, 0x3F, 0x40, 0x12345678, 0xFFFFFFFF):
            for about in ("report", "status"):
                topic = ref.device_topic(fleet, device, about)
                cases.append({"fleet": fleet, "device": device, "about": about, "topic": topic})
    return comment, cases


MAKERS = (topics,)
