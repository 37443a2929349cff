# SPDX-License-Identifier: MIT
"""Cases for sections 6 to 9, device side: from readings to the frame."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import reference as ref
from cases.tools import (
    MIXED,
    Case,
    Vectors,
    assigned_block,
    block_fields,
    encoder,
    encoder_fields,
    made,
    made_int,
    made_readings,
    packed_codeword,
    seeded,
    signs,
)
from cases.tools import choice as choice_block
from cases.tools import hashed as hashed_block

# ---- 6. Questions ---------------------------------------------------------------------------------------------------


def perturb_case(
    tag: str, blocks: list[ref.Block], words: tuple[int, int], readings: list[int], width: int = ref.MAX_WIDTH
) -> Case:
    entropy = made(tag, 32)
    generator = seeded(entropy)
    symbol, _ = ref.perturb(blocks, width, words, readings, generator)
    return {
        "entropy": entropy,
        "blocks": block_fields(blocks),
        "width": width,
        "words": words,
        "readings": readings,
        "word": seeded(entropy).word(),
        "index": symbol.index,
        "minus": int(symbol.sign < 0),
        "next_word": generator.word(),
    }


def words_of(tag: str) -> tuple[int, int]:
    return made_int(f"{tag} index word", 32), made_int(f"{tag} hash word", 32)


def with_odds(block: ref.Block, keep: int, change: int) -> ref.Block:
    return replace(block, keep=keep, change=change)


def recorded(entropy: bytes) -> tuple[list[int], Callable[[], int]]:
    """Return a list, and a generator that appends each of its words to it."""
    words: list[int] = []
    generator = seeded(entropy)

    def next_word() -> int:
        words.append(generator.word())
        return words[-1]

    return words, next_word


def sign_case(tag: str, x: int, odds: tuple[int, int], k: int) -> Case:
    words = words_of(tag)
    readings = [made_int(f"{tag} reading {i}", 16) - 2**15 for i in range(k)]
    readings[ref.assign(words[0], k)] = x
    drawn, next_word = recorded(made(tag, 32))
    b = ref.rounded(x, next_word)
    ref.coin(b, 2, *odds, next_word)
    case = perturb_case(tag, [with_odds(signs(k), *odds)], words, readings)
    return {**case, "rounded": b, "rejected": len(drawn) - 2}


def sign_edges(count: int) -> Iterator[tuple[str, int]]:
    """Yield readings that put the threshold of the rounding exactly at the word, and next to it."""
    for i in range(count):
        tag = f"sign edge {i}"
        level = (seeded(made(tag, 32)).word() >> 16) - 2**15
        yield from ((tag, x) for x in (level - 1, level, level + 1, level + 2))


SIGN_ODDS = ((2, 1), (8, 3), (255, 254), (255, 1))


def sign() -> Vectors:
    comment = (
        "Sections 6.1 and 6.2: a new generator is seeded with `entropy`; `word` is v, `rounded` is b, `rejected` how many "
        "draws of u were thrown away, `next_word` the word after the last one drawn; `words` are WORD0 and WORD1 of "
        "section 7; a block is form, weight, questions, symbols, domain, keep, change. `minus` is 1 for sign -1. Readings "
        "beyond +-2^15 are clamped."
    )
    xs = (0, 1, -1, 2**15, -(2**15), 2**15 - 1, 1 - 2**15, 2**15 + 1, -(2**15) - 1, 12345, -12345, 2**31 - 1, 1 - 2**31)
    cases = [sign_case(f"sign {x} {odds}", x, odds, 1 + i) for x in xs for i, odds in enumerate(SIGN_ODDS)]
    cases += [sign_case(tag, x, (255, 1), 2) for tag, x in sign_edges(4)]
    return comment, cases


def choice_case(tag: str, value: int, k: int, odds: tuple[int, int]) -> Case:
    drawn, next_word = recorded(made(tag, 32))
    total = odds[0] + (k - 1) * odds[1]
    u = ref.uniform(total, next_word)
    case = perturb_case(tag, [with_odds(choice_block(k), *odds)], words_of(tag), [value])
    return {**case, "u": u, "rejected": len(drawn) - 1}


def choice_edges(k: int, keep: int, change: int) -> Iterator[Case]:
    """Yield a case for each u at an end of a part of the pattern."""
    total = keep + (k - 1) * change
    ends = {0, keep - 1, keep, keep + change - 1, keep + change, total - change - 1, total - change, total - 1}
    ends &= set(range(total))
    for i in itertools.count():
        case = choice_case(f"choice edge {k} {keep} {change} {i}", i % k, k, (keep, change))
        if case["u"] in ends:
            ends.remove(case["u"])
            yield case
        if not ends:
            return


def choice() -> Vectors:
    comment = (
        "Sections 6.1 and 6.2: a new generator is seeded with `entropy`; `u` is the draw below K, `rejected` how many draws "
        "were thrown away before it, `next_word` the word after the last one drawn."
    )
    cases = []
    for k in (2, 3, 5, 8, 9, 513, 1000, 1024):
        for i, odds in enumerate((ref.odds_of(2**20, k), (2, 1), (255, 254), (255, 1))):
            for value in (0, k - 1):
                cases.append(choice_case(f"choice {k} {i} {value}", value, k, odds))
    cases += [*choice_edges(5, 8, 3), *choice_edges(4, 7, 2), *choice_edges(2, 8, 3), *choice_edges(3, 20, 19)]
    cases += [choice_case(f"choice rejections {i}", 1, 2, (8, 1)) for i in range(12)]
    assert max(case["rejected"] for case in cases) >= 3
    return comment, cases


def hashed_case(tag: str, value: int, g: int, d: int, odds: tuple[int, int], hash_word: int) -> Case:
    words = words_of(tag)[0], hash_word
    a = ref.assign(hash_word, ref.hash_count(g, d))
    case = perturb_case(tag, [with_odds(hashed_block(g, d), *odds)], words, [value])
    return {**case, "hash": a, "hashed": ref.hashed(a, value, g, d)}


def hashed() -> Vectors:
    comment = (
        "Section 6.3: a new generator is seeded with `entropy`; `next_word` is the word after the last one "
        "drawn; `hash` is a, `hashed` is h_a(v)."
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
            odds = (255, 1) if i % 2 else ref.odds_of(2**20, g)  # mostly the true symbol, so that the hash is visible
            cases.append(hashed_case(f"hashing {g} {d} {i}", value, g, d, odds, word))
        word = made_int(f"another hash word {g} {d}", 32)
        cases.append(hashed_case(f"hashing {g} {d} last", d - 1, g, d, (255, 1), word))
    return comment, cases


#: Blocks of every form, in several orders and weights.
MIXTURES = (
    MIXED.blocks,
    [hashed_block(3, 500), signs(1)],
    [choice_block(2, 16), choice_block(2, 1), choice_block(2, 7)],
    [signs(1, weight) for weight in range(1, 17)],
    [signs(40, 16), hashed_block(7, 65535, 3), choice_block(9)],
    [signs(1)] * 32,
)


def first_slots(blocks: list[ref.Block]) -> Iterator[int]:
    """Yield words at both ends of each block's slots."""
    slots, at = sum(block.slots for block in blocks), 0
    for block in blocks:
        yield -(-(at << 32) // slots)
        at += block.slots
        yield -(-(at << 32) // slots) - 1


def mixed() -> Vectors:
    comment = (
        "Section 6, blocks of several forms: `words` at both ends of each block's slots. Readings of other questions are "
        "not checked: they are -1 here where the question is a choice."
    )
    cases = []
    for i, blocks in enumerate(MIXTURES):
        words = list(first_slots(blocks))
        for j, word in enumerate(words[:: max(1, len(words) // 6)] + words[-1:]):
            cases.append(mixed_case(f"mixed {i} {j}", blocks, word))
    return comment, cases


def mixed_case(tag: str, blocks: list[ref.Block], word: int) -> Case:
    at, _ = ref.assigned(blocks, word)
    readings: list[int] = []
    for i, block in enumerate(blocks):
        if block.form == ref.SIGN:
            readings += [(-1) ** n * (2**15 - n) for n in range(block.questions)]
        else:
            readings.append((block.domain or block.symbols) - 1 if i == at else -1)
    return perturb_case(tag, blocks, (word, made_int(f"{tag} hash word", 32)), readings)


def missing() -> Vectors:
    comment = (
        "Section 6.4: the reading of the assigned question is -2^31, so the symbol is the first unused column; as many words "
        "are drawn as for category 0 or reading 0."
    )
    cases = []
    for i, blocks in enumerate((MIXED.blocks, [signs(1)], [choice_block(5)], [hashed_block(3, 500)])):
        k = sum(block.columns for block in blocks)
        for j, word in enumerate(first_slots(blocks)):
            readings = [ref.NO_READING] * sum(block.questions for block in blocks)
            words = word, made_int(f"missing {i} {j}", 32)
            cases.append(perturb_case(f"missing {i} {j}", blocks, words, readings, max(2, k + 1)))
    return comment, cases


def hash_symbols() -> Vectors:
    comment = "Section 6.3: g for an epsilon, at both sides of every limit."
    limits = [limit for _, limit in ref.HASH_LIMITS]
    epsilons = (1, 2**20, *(e for limit in limits for e in (limit, limit + 1)), 6 * 2**20)
    return comment, [{"epsilon": epsilon, "symbols": ref.hash_symbols(epsilon)} for epsilon in epsilons]


# ---- 7. The question that a number assigns --------------------------------------------------------------------------


def index() -> Vectors:
    comment = "Section 7: `words` are WORD0 and WORD1, `unit` what they assign of the units of `blocks`."
    cases = []
    mixtures = ([signs(1)], [signs(252)], [hashed_block(127, 65535)], *MIXTURES[:3], MIXTURES[4])
    for i, number in enumerate((1, 2, 3, 255, 256, 2**32, 2**48 - 1)):
        key = made(f"index key {i % 2}", 16)
        header = ref.header_bytes(ref.Header(i % 2, made_int("index profile", 32), 1 + i, number))
        words = ref.index_words(key, header)
        for blocks in mixtures:
            found = {"blocks": block_fields(blocks), "words": words, "unit": ref.unit(blocks, words)}
            cases.append({"index_key": key, "header": header, **found})
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


def report_case(
    note: str,
    e: ref.Encoder,
    numbers: Iterable[int],
    missing: Sequence[int] = (),
    secret: bytes | None = None,
) -> Case:
    entropy = made(f"{note} entropy", 48)
    generator = seeded(entropy)
    reports = []
    for number in numbers:
        readings = made_readings(e, f"{note} {number}")
        if number in missing:
            readings = [ref.NO_READING] * len(readings)
        symbol, frame = e.encode(number, readings, generator, secret)
        reports.append(
            {
                "number": number,
                "readings": readings,
                "index": symbol.index,
                "minus": int(symbol.sign < 0),
                "rule": e.blocks[assigned_block(e, number)].rule,
                "frame": frame,
            }
        )
        if secret is not None:
            reports[-1]["coin"] = ref.coin_name(ref.coin_of(e, number))
    case = {"note": note, "encoder": encoder_fields(e), "entropy": entropy, "reports": reports}
    return case if secret is None else {**case, "secret": secret}


def report() -> Vectors:
    comment = (
        "Section 9 and all before it: one new generator per case, seeded with `entropy`, makes all reports of the case "
        "in order. `index` and `minus` are the symbol in the frame, `rule` the four bytes with its question's odds. "
        "With the `secret` of a batch, coins are verified (section 13): `coin` is the name of the report's coin."
    )
    last = 2**48 - 1
    smallest = encoder("j", [with_odds(signs(2), 255, 254)], 2)
    largest = encoder("k", [with_odds(signs(7), 255, 1)], 48)
    mixed_blocks = [with_odds(MIXED.blocks[0], 3, 1), *MIXED.blocks[1:]]
    verified_blocks = [signs(3), with_odds(choice_block(5), 8, 2), with_odds(hashed_block(3, 300), 3, 1)]
    cases = [
        report_case("4 signs", encoder("a", [signs(4)], 48), (*range(1, 13), 2**32, last)),
        report_case("16 signs", encoder("b", [signs(16)], 48), (1, 2, 3, 5, 8, 13, 21, 34, 55, last - 1, last)),
        report_case("48 signs, no spare columns", encoder("c", [signs(48)], 48), range(1000, 1006)),
        report_case("252 signs", encoder("d", [signs(252)], 252), (1, 2, 3, 4, 5, last)),
        report_case("1024 signs", encoder("e", [signs(1024)], 1024), (1, 2, 3, 4)),
        report_case("choice of 2", encoder("f", [choice_block(2)], 48), range(1, 8)),
        report_case("choice of 10", encoder("g", [choice_block(10)], 48), (*range(1, 11), last)),
        report_case("5 signs, unsealed", encoder("h", [signs(5)], 48, ref.UNSEALED), range(1, 6)),
        report_case("choice of 3, unsealed", encoder("i", [choice_block(3)], 48, ref.UNSEALED), range(1, 6)),
        report_case("smallest", replace(smallest, profile=0, device=1, seed=5), (1, 2, 3)),
        report_case("largest ids", replace(largest, profile=2**32 - 1, device=2**32 - 1), (1, 2)),
        report_case("1 sign", encoder("l", [signs(1)], 48), range(1, 8)),
        report_case("65535 hashed into 3", encoder("m", [hashed_block(3, 65535)], 48), (*range(1, 11), last)),
        report_case("2 hashed into 2", encoder("n", [hashed_block(2, 2)], 48), range(1, 5)),
        report_case("1000 hashed into 127", encoder("o", [hashed_block(127, 1000)], 127), range(1, 5)),
        report_case("40 hashed into 5, unsealed", encoder("p", [hashed_block(5, 40)], 48, ref.UNSEALED), range(1, 4)),
        report_case("mixed", encoder("q", mixed_blocks, 48), (*range(1, 21), last), missing=(5, 6, 7, 8, 20)),
        report_case(
            "verified", encoder("s", verified_blocks, 48), (*range(33, 45), last), (36, 37), made("secret", 16)
        ),
        report_case("mixed, unsealed", encoder("r", mixed_blocks, 48, ref.UNSEALED), range(1, 13), missing=(3, 4)),
    ]
    return comment, cases


MAKERS: tuple[Callable[[], Vectors], ...] = (
    sign,
    choice,
    hashed,
    mixed,
    missing,
    hash_symbols,
    index,
    projection,
    report,
)
