# SPDX-License-Identifier: MIT
"""Cases for section 9, device side: inputs that an encoder refuses."""

from collections.abc import Callable
from dataclasses import replace

import reference as ref
from cases.tools import CHOICE, MANY, WIDE, Case, Vectors, encoder_fields, made, made_readings, outcome, seeded


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


def encode_bad_number() -> Vectors:
    cases = [
        bad_encode("number", f"number {n}", e, n) for e in (WIDE, CHOICE) for n in (0, 2**48, 2**48 + 1, 2**53 - 1)
    ]
    return "Report number 0 or above 48 bits.", cases


def encode_bad_category() -> Vectors:
    values = (5, 6, 7, 8, 255, 2**31 - 1, -1, -(2**31))
    beyond = (500, 501, 729, 65535, 65536, 2**31 - 1, -1, -(2**31))
    return "A category that is not below k, or for local hashing not below its domain.", [
        *(bad_encode("reading", f"category {v}", CHOICE, readings=[v]) for v in values),
        *(bad_encode("reading", f"category {v} of 500", MANY, readings=[v]) for v in beyond),
    ]


def encode_bad_count() -> Vectors:
    return "Not as many readings as the mechanism takes.", [
        *(bad_encode("reading", f"harmony with {n} of 16 readings", WIDE, readings=[0] * n) for n in (0, 1, 15, 17)),
        *(bad_encode("reading", f"krr with {n} readings", CHOICE, readings=[0] * n) for n in (0, 2, 5)),
        *(bad_encode("reading", f"hashing with {n} readings", MANY, readings=[0] * n) for n in (0, 2, 3, 500)),
    ]


def encode_bad_rule() -> Vectors:
    rules = (0, 2**31, 2**32 - 1)
    return "A rule of 0, or of 2^31 or more.", [
        bad_encode("rule", f"rule {rule_}", replace(e, rule=rule_)) for e in (WIDE, CHOICE) for rule_ in rules
    ]


def encode_bad_width() -> Vectors:
    sizes = ((16, 1025), (17, 16), (1025, 1025), (0, 48), (0, 0), (1, 1), (2, 2**31))
    return "k or width out of range.", [
        *(
            bad_encode("width", f"k={k}, width={width}", replace(WIDE, k=k, width=width), readings=[0] * k)
            for k, width in sizes
        ),
        bad_encode("width", "krr with one category", replace(CHOICE, k=1)),
        bad_encode("width", "krr with k=49, width=48", replace(CHOICE, k=49)),
        *(bad_encode("width", f"hashing into {k}", replace(MANY, k=k, width=1024)) for k in (0, 1, 128, 1024)),
        bad_encode("width", "hashing into 53, width 48", replace(MANY, k=53)),
    ]


def encode_bad_domain() -> Vectors:
    return "A domain out of range, or one where the mechanism has none.", [
        *(
            bad_encode("domain", f"hashing of {d} categories", replace(MANY, domain=d), readings=[0])
            for d in (0, 1, 65536, 2**32 - 1)
        ),
        bad_encode("domain", "harmony with a domain", replace(WIDE, domain=16)),
        bad_encode("domain", "krr with a domain", replace(CHOICE, domain=5)),
    ]


def encode_bad_unseeded() -> Vectors:
    return "The generator was never seeded; `entropy` is empty.", [
        bad_encode("entropy", "harmony", WIDE, is_seeded=False),
        bad_encode("entropy", "krr", CHOICE, is_seeded=False),
        bad_encode("entropy", "hashing", MANY, is_seeded=False),
    ]


def encode_bad_flags() -> Vectors:
    return "Reserved flags.", [
        bad_encode("flags", f"flags {f}", replace(WIDE, flags=f)) for f in (2, 3, 4, 8, 15, 16, 255)
    ]


def encode_bad_mechanism() -> Vectors:
    return "An unknown mechanism.", [
        bad_encode("mechanism", f"mechanism {m}", replace(WIDE, mechanism=m), readings=[0] * 16) for m in (0, 4, 255)
    ]


def encode_bad_device() -> Vectors:
    return "Device 0.", [bad_encode("device", "device 0", replace(e, device=0)) for e in (WIDE, CHOICE)]


def encode_bad_order() -> Vectors:
    """Combine every fault from one place in the order on: the first one is named."""
    faults: tuple[tuple[str, Case], ...] = (
        ("flags", {"flags": 2}),
        ("device", {"device": 0}),
        ("mechanism", {"mechanism": 9}),
        ("width", {"width": 1025}),
        ("domain", {"domain": 7}),
        ("rule", {"rule": 0}),
    )
    of_report = ("number", "reading", "entropy")
    cases = []
    for place, (fault, _) in enumerate(faults):
        e = replace(WIDE, **{name: value for _, change in faults[place:] for name, value in change.items()})
        cases.append(bad_encode(fault, f"{fault}, and all that come after it", e, 0, [0], is_seeded=False))
    for place, fault in enumerate(of_report):
        number, readings = int(place > 0), [0] * (16 if place > 1 else 1)
        cases.append(bad_encode(fault, f"{fault}, and all that come after it", WIDE, number, readings, is_seeded=False))
    return "Several faults at once: the order of section 9.", cases


MAKERS: tuple[Callable[[], Vectors], ...] = (
    encode_bad_number,
    encode_bad_category,
    encode_bad_count,
    encode_bad_rule,
    encode_bad_width,
    encode_bad_domain,
    encode_bad_unseeded,
    encode_bad_flags,
    encode_bad_mechanism,
    encode_bad_device,
    encode_bad_order,
)
