# SPDX-License-Identifier: MIT
"""Cases for section 9, device side: inputs that an encoder refuses."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import reference as ref
from cases.tools import (
    CHOICE,
    MANY,
    MIXED,
    WIDE,
    Case,
    Vectors,
    assigned_block,
    choice,
    encoder_fields,
    made,
    made_readings,
    outcome,
    seeded,
    signs,
)


def bad_encode(
    expect: str, note: str, e: ref.Encoder, number: int = 1, readings: list[int] | None = None, is_seeded: bool = True
) -> Case:
    readings = made_readings(e, "bad encode") if readings is None else readings
    entropy = made("bad encode entropy", 32) if is_seeded else b""
    generator = seeded(entropy) if is_seeded else ref.Drbg()
    fault = outcome(e.encode, number, readings, generator)
    assert fault == expect, (expect, note, fault)
    return {
        "note": note,
        "encoder": encoder_fields(e),
        "entropy": entropy,
        "number": number,
        "readings": readings,
        "expect": expect,
    }


def changed(e: ref.Encoder, place: int = 0, **fields: int) -> ref.Encoder:
    """Return an encoder with other values in one block."""
    blocks = [replace(block, **fields) if i == place else block for i, block in enumerate(e.blocks)]
    return replace(e, blocks=blocks)


def number_for(e: ref.Encoder, place: int) -> int:
    """Return the first number that assigns a question of this block."""
    return next(n for n in itertools.count(1) if assigned_block(e, n) == place)


def encode_bad_number() -> Vectors:
    cases = [
        bad_encode("number", f"number {n}", e, n) for e in (WIDE, CHOICE) for n in (0, 2**48, 2**48 + 1, 2**53 - 1)
    ]
    return "Report number 0 or above 48 bits.", cases


def encode_bad_category() -> Vectors:
    values = (5, 6, 7, 8, 255, 2**31 - 1, -1, 1 - 2**31)
    beyond = (500, 501, 729, 65535, 65536, 2**31 - 1, -1, 1 - 2**31)
    return (
        "A category of the assigned question that is not below its symbols, or not below its domain if it is hashed.",
        [
            *(bad_encode("reading", f"category {v}", CHOICE, readings=[v]) for v in values),
            *(bad_encode("reading", f"category {v} of 500", MANY, readings=[v]) for v in beyond),
            bad_encode("reading", "category 500 in the fourth block", MIXED, number_for(MIXED, 3), [0] * 6 + [500]),
            bad_encode(
                "reading", "category 4 in the second block", MIXED, number_for(MIXED, 1), [0] * 3 + [4] + [0] * 3
            ),
        ],
    )


def encode_bad_missing() -> Vectors:
    full = replace(WIDE, blocks=[signs(48)])
    return "No reading (-2^31) for the assigned question where no column is unused.", [
        bad_encode("reading", "48 signs, width 48", full, readings=[ref.NO_READING] * 48),
        bad_encode("reading", "a choice of 5, width 5", replace(CHOICE, width=5), readings=[ref.NO_READING]),
    ]


def encode_bad_count() -> Vectors:
    return "Not one reading per question.", [
        *(bad_encode("reading", f"16 signs with {n} readings", WIDE, readings=[0] * n) for n in (0, 1, 15, 17)),
        *(bad_encode("reading", f"a choice with {n} readings", CHOICE, readings=[0] * n) for n in (0, 2, 5)),
        *(
            bad_encode("reading", f"a hashed question with {n} readings", MANY, readings=[0] * n)
            for n in (0, 2, 3, 500)
        ),
        *(
            bad_encode("reading", f"seven mixed questions with {n} readings", MIXED, readings=[0] * n)
            for n in (1, 6, 8)
        ),
    ]


def encode_bad_odds() -> Vectors:
    bad = ((0, 0), (8, 0), (0, 3), (3, 3), (3, 8), (1, 1), (255, 255))
    return "Odds other than 1 <= change < keep <= 255, in any block.", [
        *(
            bad_encode("odds", f"odds {keep}:{change}", changed(e, keep=keep, change=change))
            for e in (WIDE, CHOICE)
            for keep, change in bad
        ),
        *(bad_encode("odds", f"change 0 in block {place}", changed(MIXED, place, change=0)) for place in range(4)),
    ]


def encode_bad_width() -> Vectors:
    sizes = ((2, 1025), (17, 16), (1025, 1024), (2, 0), (1, 1), (2, 2**31))
    return "Symbols or width out of range.", [
        *(
            bad_encode("width", f"{k} signs, width {width}", replace(WIDE, blocks=[signs(k)], width=width), 1, [0])
            for k, width in sizes
        ),
        *(bad_encode("width", f"signs with {n} symbols", changed(WIDE, symbols=n)) for n in (0, 2)),
        bad_encode("width", "a choice of one", changed(CHOICE, symbols=1)),
        bad_encode("width", "a choice of 49, width 48", changed(CHOICE, symbols=49)),
        *(
            bad_encode("width", f"hashing into {k}", replace(changed(MANY, symbols=k), width=1024))
            for k in (0, 1, 128, 1024)
        ),
        bad_encode("width", "hashing into 53, width 48", changed(MANY, symbols=53)),
        bad_encode("width", "mixed questions with 12 columns, width 11", replace(MIXED, width=11)),
        bad_encode("width", "a block that would fit alone", replace(MIXED, blocks=[signs(40), choice(9)])),
    ]


def encode_bad_domain() -> Vectors:
    return "A domain out of range, or one where the form has none.", [
        *(bad_encode("domain", f"hashing of {d} categories", changed(MANY, domain=d), readings=[0]) for d in (0, 1)),
        bad_encode("domain", "signs with a domain", changed(WIDE, domain=16)),
        bad_encode("domain", "a choice with a domain", changed(CHOICE, domain=5)),
        bad_encode("domain", "no domain in the fourth block", changed(MIXED, 3, domain=0)),
    ]


def encode_bad_block() -> Vectors:
    many = [signs(1)] * 33
    return "A block of unknown form, or its weight or number of questions out of range; no block, or more than 32.", [
        *(bad_encode("block", f"form {form}", changed(WIDE, form=form), readings=[0] * 16) for form in (0, 4, 255)),
        *(bad_encode("block", f"weight {weight}", changed(WIDE, weight=weight)) for weight in (0, 17, 255)),
        bad_encode("block", "weight 17 in the last block", changed(MIXED, 3, weight=17)),
        bad_encode("block", "no questions", changed(WIDE, questions=0), readings=[]),
        bad_encode("block", "two questions in a choice", changed(CHOICE, questions=2), readings=[0, 0]),
        bad_encode("block", "two hashed questions in a block", changed(MANY, questions=2), readings=[0, 0]),
        bad_encode("block", "no block", replace(WIDE, blocks=[]), readings=[]),
        bad_encode("block", "33 blocks", replace(WIDE, blocks=many)),
    ]


def encode_bad_unseeded() -> Vectors:
    return "The generator was never seeded; `entropy` is empty.", [
        bad_encode("entropy", "signs", WIDE, is_seeded=False),
        bad_encode("entropy", "choice", CHOICE, is_seeded=False),
        bad_encode("entropy", "hashed", MANY, is_seeded=False),
    ]


def encode_bad_flags() -> Vectors:
    return "Reserved flags.", [
        bad_encode("flags", f"flags {f}", replace(WIDE, flags=f)) for f in (2, 3, 4, 8, 15, 16, 255)
    ]


def encode_bad_device() -> Vectors:
    return "Device 0.", [bad_encode("device", "device 0", replace(e, device=0)) for e in (WIDE, CHOICE)]


def encode_bad_order() -> Vectors:
    """Combine every fault from one place in the order on: the first one is named."""
    of_encoder: tuple[tuple[str, Case], ...] = (("flags", {"flags": 2}), ("device", {"device": 0}))
    of_block: tuple[tuple[str, dict[str, int]], ...] = (
        ("block", {"weight": 0}),
        ("width", {"symbols": 2}),
        ("domain", {"domain": 7}),
        ("odds", {"change": 0}),
    )
    of_report = ("number", "reading", "entropy")
    cases = []
    for place, (fault, _) in enumerate((*of_encoder, *of_block)):
        in_block = {name: value for _, fields in of_block[max(0, place - 2) :] for name, value in fields.items()}
        e = changed(WIDE, **in_block)
        e = replace(e, **{name: value for _, fields in of_encoder[place:] for name, value in fields.items()})
        cases.append(bad_encode(fault, f"{fault}, and all that come after it", e, 0, [0], is_seeded=False))
    for place, fault in enumerate(of_report):
        number, readings = int(place > 0), [0] * (16 if place > 1 else 1)
        cases.append(bad_encode(fault, f"{fault}, and all that come after it", WIDE, number, readings, is_seeded=False))
    later = changed(changed(MIXED, 1, change=0), 2, weight=0)
    cases.append(bad_encode("odds", "odds in one block, a weight in the next: the first block comes first", later))
    wide = replace(changed(MIXED, 0, weight=0), width=1025)
    cases.append(bad_encode("width", "the width comes before the blocks", wide))
    none = replace(MIXED, blocks=[], width=1025)
    cases.append(bad_encode("block", "the number of blocks comes before the width", none, readings=[]))
    return "Several faults at once: the order of section 9.", cases


MAKERS: tuple[Callable[[], Vectors], ...] = (
    encode_bad_number,
    encode_bad_category,
    encode_bad_count,
    encode_bad_missing,
    encode_bad_odds,
    encode_bad_width,
    encode_bad_domain,
    encode_bad_unseeded,
    encode_bad_flags,
    encode_bad_block,
    encode_bad_device,
    encode_bad_order,
)
