# SPDX-License-Identifier: MIT
"""Cases for sections 6 to 9, device side: from readings to the frame."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import reference as ref
from cases.tools import (
    Case,
    Vectors,
    encoder,
    encoder_fields,
    made,
    made_int,
    made_readings,
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
    """Yield rules that put the threshold of a full-scale reading exactly at the word, and next to it."""
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
    sizes = (
        *((2, 2), (2, 3), (2, 65535), (3, 3), (3, 4), (3, 500), (3, 65535), (5, 1000), (7, 65535), (13, 65535)),
        *((37, 50653), (37, 50654), (41, 65535), (127, 2), (127, 127), (127, 128), (127, 16129), (127, 65535)),
    )
    cases = []
    for g, d in sizes:
        values = (0, 1, d // 2, d - 1)
        words = (0, 2**32 - 1, 2**31, made_int(f"hash word {g} {d}", 32))
        for i, (value, word) in enumerate(zip(values, words, strict=True)):
            rule_ = (
                2**31 - 1 if i % 2 else ref.rule(2**20, g)
            )  # nearly always the true symbol, so that the hash is visible
            cases.append(hashing_case(f"hashing {g} {d} {i}", value, g, d, rule_, word))
        word = made_int(f"another hash word {g} {d}", 32)
        cases.append(hashing_case(f"hashing {g} {d} last", d - 1, g, d, 2**31 - 1, word))
    return comment, cases


def hash_symbols() -> Vectors:
    comment = "Section 6.3: g for an epsilon, at both sides of every limit."
    limits = [limit for _, limit in ref.HASH_LIMITS]
    epsilons = (1, 2**20, *(e for limit in limits for e in (limit, limit + 1)), 2**24)
    return comment, [{"epsilon": epsilon, "symbols": ref.hash_symbols(epsilon)} for epsilon in epsilons]


# ---- 7. The value that a number assigns -----------------------------------------------------------------------------


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


MAKERS: tuple[Callable[[], Vectors], ...] = (
    harmony,
    krr,
    hashing,
    hash_symbols,
    index,
    projection,
    report,
)
