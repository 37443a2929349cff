# SPDX-License-Identifier: MIT
"""Cases for sections 6 to 9 as a device sees them: from readings to the frame."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import reference as ref
from cases.tools import (
    CHOICE,
    MANY,
    WIDE,
    Case,
    Vectors,
    encoder,
    encoder_fields,
    made,
    made_int,
    made_readings,
    outcome,
    packed_codeword,
    seeded,
)

# ---- 6. Mechanisms --------------------------------------------------------------------------------------------------


def harmony_case(tag: str, x: int, rule_: int, k: int) -> Case:
    entropy = made(tag, 32)
    index_word = made_int(f"{tag} index word", 32)
    readings = [made_int(f"{tag} reading {i}", 16) - 2**15 for i in range(k)]
    readings[ref.assign(index_word, k)] = x
    generator = seeded(entropy)
    symbol = ref.perturb(ref.HARMONY, rule_, k, 0, index_word, readings, generator)
    return {
        "entropy": entropy,
        "rule": rule_,
        "k": k,
        "index_word": index_word,
        "readings": readings,
        "word": seeded(entropy).word(),
        "threshold": ref.harmony_threshold(x, rule_),
        "index": symbol.index,
        "minus": int(symbol.sign < 0),
        "next_word": generator.word(),
    }


def harmony_edges(count: int) -> Iterator[tuple[str, int, int]]:
    """Rules that put the threshold of a full-scale reading right at the word, and one beside it."""
    for i in range(count):
        tag = f"harmony edge {i}"
        distance = seeded(made(tag, 32)).word() - 2**31
        x = 2**15 if distance >= 0 else -(2**15)
        for step in (-1, 0, 1):
            rule_ = abs(distance) + step
            if 1 <= rule_ < 2**31:
                yield tag, x, rule_


def harmony() -> Vectors:
    comment = (
        "Section 6.1: a new generator is seeded with `entropy`; `word` is u, `next_word` the word after it; "
        "`index_word` is WORD of section 7. "
        "`minus` is 1 for sign -1. Readings beyond +-2^15 are clamped."
    )
    xs = (0, 1, -1, 2**15, -(2**15), 2**15 - 1, 1 - 2**15, 2**15 + 1, -(2**15) - 1, 12345, -12345, 2**31 - 1, -(2**31))
    rules = (1, 2**15, ref.rule(2**20, 2), 2**31 - 1)
    cases = [
        harmony_case(
            f"harmony {x} {rule_}",
            x,
            rule_,
            1 + i,
        )
        for x in xs
        for i, rule_ in enumerate(rules)
    ]
    cases += [harmony_case(tag, x, rule_, 2) for tag, x, rule_ in harmony_edges(6)]
    return comment, cases


def krr_case(tag: str, value: int, k: int, rule_: int) -> Case:
    entropy = made(tag, 32)
    words: list[int] = []
    generator = seeded(entropy)

    def recorded() -> int:
        words.append(generator.word())
        return words[-1]

    symbol = ref.krr(value, k, rule_, recorded)
    return {
        "entropy": entropy,
        "rule": rule_,
        "k": k,
        "readings": [value],
        "word": words[0],
        "rejected": len(words) - 2,
        "index": symbol.index,
        "minus": 0,
        "next_word": generator.word(),
    }


def krr() -> Vectors:
    comment = (
        "Section 6.2: a new generator is seeded with `entropy`; `word` is u, `rejected` how many draws of w were "
        "thrown away, `next_word` the word after the last one drawn."
    )
    cases = []
    for k in (2, 3, 5, 8, 9, 513, 1000, 1024):
        for i, rule_ in enumerate((1, ref.rule(2**20, k), 2**30, 2**31 - 1)):
            for value in (0, k - 1):
                cases.append(krr_case(f"krr {k} {i} {value}", value, k, rule_))
    for i in range(4):
        tag = f"krr edge {i}"
        half = seeded(made(tag, 32)).word() // 2
        cases += [krr_case(tag, 3, 5, rule_) for rule_ in (half, half + 1) if 1 <= rule_ < 2**31]
    cases += [krr_case(f"krr rejections {i}", 4, 5, 2**20) for i in range(12)]
    assert max(case["rejected"] for case in cases) >= 3
    return comment, cases


def hashing_case(tag: str, value: int, g: int, d: int, rule_: int, index_word: int) -> Case:
    entropy = made(tag, 32)
    generator = seeded(entropy)
    symbol = ref.perturb(ref.HASHING, rule_, g, d, index_word, [value], generator)
    a = ref.assign(index_word, ref.hash_count(g, d))
    return {
        "entropy": entropy,
        "rule": rule_,
        "k": g,
        "domain": d,
        "index_word": index_word,
        "readings": [value],
        "hash": a,
        "hashed": ref.hashed(a, value, g, d),
        "word": seeded(entropy).word(),
        "index": symbol.index,
        "minus": 0,
        "next_word": generator.word(),
    }


def hashing() -> Vectors:
    comment = (
        "Section 6.3: a new generator is seeded with `entropy`; `word` is u, `next_word` the word after the last one "
        "drawn; `index_word` is WORD of section 7, `hash` is a, `hashed` is h_a(v)."
    )
    sizes = ((2, 2), (2, 3), (2, 65535), (3, 3), (3, 4), (3, 500), (3, 65535), (5, 1000), (7, 65535), (13, 65535))
    sizes += ((37, 50653), (37, 50654), (41, 65535), (127, 2), (127, 127), (127, 128), (127, 16129), (127, 65535))
    cases = []
    for g, d in sizes:
        values = (0, 1, d // 2, d - 1)
        words = (0, 2**32 - 1, 2**31, made_int(f"hash word {g} {d}", 32))
        for i, (value, word) in enumerate(zip(values, words, strict=True)):
            rule_ = 2**31 - 1 if i % 2 else ref.rule(2**20, g)  # nearly always kept, so that the hash shows
            cases.append(hashing_case(f"hashing {g} {d} {i}", value, g, d, rule_, word))
        word = made_int(f"another hash word {g} {d}", 32)
        cases.append(hashing_case(f"hashing {g} {d} last", d - 1, g, d, 2**31 - 1, word))
    return comment, cases


def hash_symbols() -> Vectors:
    comment = "Section 6.3: g for an epsilon, at both sides of every limit."
    limits = [limit for _, limit in ref.HASH_LIMITS]
    epsilons = (1, 2**20, *(e for limit in limits for e in (limit, limit + 1)), 2**24)
    return comment, [{"epsilon": epsilon, "symbols": ref.hash_symbols(epsilon)} for epsilon in epsilons]


# ---- 7. What the number assigns -------------------------------------------------------------------------------------


def index() -> Vectors:
    comment = "Section 7: `word` is WORD, `index` what it assigns of `limit` things."
    cases = []
    for i, number in enumerate((1, 2, 3, 255, 256, 2**32, 2**48 - 1)):
        key = made(f"index key {i % 2}", 16)
        header = ref.header_bytes(ref.Header(i % 2, ref.HARMONY, made_int("index profile", 32), 1 + i, number))
        word = ref.index_word(key, header)
        for limit in (1, 2, 3, 252, 1024, 3**11, 127**3):
            found = ref.assign(word, limit)
            cases.append({"index_key": key, "header": header, "limit": limit, "word": word, "index": found})
    return comment, cases


# ---- 8. The projection ----------------------------------------------------------------------------------------------


def projection() -> Vectors:
    comment = "Section 8: the packed codeword of (`index`, `minus` 1 for sign -1). These seeds need not be sound."
    cases = []
    for width in (2, 3, 4, 5, 6, 7, 10, 11, 12, 16, 48, 100, 251, 252, 253, 1023, 1024):
        for seed in (0, 1, 0xFFFFFFFF, made_int(f"seed {width}", 32)) if width < 300 else (made_int("seed", 32),):
            for j in sorted(
                {0, width // 2, width - 1} | ({1, width // 3} if width > 40 else set(range(min(width, 3))))
            ):
                minus = (j + seed) % 2
                symbol = ref.Symbol(j, -1 if minus else +1)
                cases.append(
                    {
                        "seed": seed,
                        "width": width,
                        "index": j,
                        "minus": minus,
                        "trits": packed_codeword(seed, width, symbol),
                    }
                )
    return comment, cases


# ---- 9. Frames: complete reports ------------------------------------------------------------------------------------


def report_case(note: str, e: ref.Encoder, numbers: Iterable[int]) -> Case:
    entropy = made(f"{note} entropy", 48)
    generator = seeded(entropy)
    reports = []
    for number in numbers:
        readings = made_readings(e, f"{note} {number}")
        symbol, frame = e.encode(number, readings, generator)
        reports.append(
            {
                "number": number,
                "readings": readings,
                "index": symbol.index,
                "minus": int(symbol.sign < 0),
                "frame": frame,
            }
        )
    return {"note": note, "encoder": encoder_fields(e), "entropy": entropy, "reports": reports}


def report() -> Vectors:
    comment = (
        "Section 9 and all before it: one new generator per case, seeded with `entropy`, makes all reports of the case "
        "in order. `index` and `minus` are the symbol in the frame."
    )
    h, c, x = ref.HARMONY, ref.KRR, ref.HASHING
    last = 2**48 - 1
    cases = [
        report_case("harmony k=4", encoder("a", h, 4, 48), (*range(1, 13), 2**32, last)),
        report_case("harmony k=16", encoder("b", h, 16, 48), (1, 2, 3, 5, 8, 13, 21, 34, 55, last - 1, last)),
        report_case("harmony k=48, no spare columns", encoder("c", h, 48, 48), range(1000, 1006)),
        report_case("harmony k=252", encoder("d", h, 252, 252), (1, 2, 3, 4, 5, last)),
        report_case("harmony k=1024", encoder("e", h, 1024, 1024), (1, 2, 3, 4)),
        report_case("krr k=2", encoder("f", c, 2, 48), range(1, 8)),
        report_case("krr k=10", encoder("g", c, 10, 48), (*range(1, 11), last)),
        report_case("harmony k=5, unsealed", encoder("h", h, 5, 48, ref.UNSEALED), range(1, 6)),
        report_case("krr k=3, unsealed", encoder("i", c, 3, 48, ref.UNSEALED), range(1, 6)),
        report_case("smallest", replace(encoder("j", h, 2, 2), profile=0, device=1, seed=5, rule=1), (1, 2, 3)),
        report_case(
            "largest ids", replace(encoder("k", h, 7, 48), profile=2**32 - 1, device=2**32 - 1, rule=2**31 - 1), (1, 2)
        ),
        report_case("harmony k=1", encoder("l", h, 1, 48), range(1, 8)),
        report_case("hashing d=65535 into 3", encoder("m", x, 3, 48, domain=65535), (*range(1, 11), last)),
        report_case("hashing d=2 into 2", encoder("n", x, 2, 48, domain=2), range(1, 5)),
        report_case("hashing d=1000 into 127", encoder("o", x, 127, 127, domain=1000), range(1, 5)),
        report_case("hashing d=40 into 5, unsealed", encoder("p", x, 5, 48, ref.UNSEALED, 40), range(1, 4)),
    ]
    return comment, cases


# ---- Encoder faults -------------------------------------------------------------------------------------------------


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
    """Every fault from some place in the order on: the first one is named."""
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
    harmony,
    krr,
    hashing,
    hash_symbols,
    index,
    projection,
    report,
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
