# SPDX-License-Identifier: MIT
"""The reference agrees with published test vectors, and with the values in SPEC.md."""

import importlib.util
import json
from decimal import Decimal, localcontext
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SPEC = Path(__file__).parents[1]

# Outputs copied from the published files that spec/vectors/ascon_*.json names, by the number of the case there.
PUBLISHED_AEAD = {
    1: "4f9c278211bec9316bf68f46ee8b2ec6",
    17: "e4230cdb8330ee9dc0cfd7c7b346e6dc",
    265: "e8c3deee246cc5eae455ef6b33b782a3dd91ed6695373c27",
    561: "cb34d04660a66dbfbe9c856601f5b8aa7a81d0a7a37f8a346c0f6fc60093d40b",
    1089: "cb34d04660a66dbfbe9c856601f5b8aa51a499b55ac8f7fbefbc331a613ee9cdfd191750a47f211c0a15ed28173d7caa",
}
PUBLISHED_XOF = {
    1: "473d5e6164f58b39dfd84aacdb8ae42ec2d91fed33388ee0d960d9b3993295c6"
    "ad77855a5d3b13fe6ad9e6098988373af7d0956d05a8f1665d2c67d1a3ad10ff",
    8: "7ae562db37212a9acd2673ecfd5b4f1c5cb2e6f64ebf00aa7f6ef8dc82c448d5"
    "fe11cd91f4368c37690d79e5de0ca8ad419e1918ce8dab2d42363e9476638a7b",
    9: "8d1886f5d3ec4af8d15b44bc62b74da6ea91bc28fb82f9c34079b5ed6e38b6c9"
    "51803d7dfb3c5e512a0ef5e4060062a6fd067f9c73ef9bee527411bda67fc896",
    10: "db3013bfbbd132dc1d3152fd955ed48f7cbb675e9ad2a2fecf92b74c957592e0"
    "c89959e81c16fd07ead9eeb8e40359c497aa20258b43d87ec69ad0bb0993fd38",
    65: "0865c2fa92c71058e79e5c4214f3a1505540411586920536ccee85fbf2940b9f"
    "0131385ffe92f15f35bd35373f14d8bf11f078d9850096016f857d27575da423",
}


def load_reference() -> ModuleType:
    """Import the file by its path, as it is deliberately not on the import path."""
    spec = importlib.util.spec_from_file_location("peel_spec_reference", SPEC / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ref: Any = load_reference()


def cases(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((SPEC / "vectors" / f"{name}.json").read_text("utf-8"))["cases"]
    return loaded


def by_count(name: str) -> dict[int, dict[str, Any]]:
    return {case["count"]: case for case in cases(name)}


@pytest.mark.parametrize(("count", "published"), PUBLISHED_AEAD.items())
def test_aead_vectors_carry_the_published_output(count: int, published: str) -> None:
    case = by_count("ascon_aead")[count]
    assert case["ciphertext"] + case["tag"] == published


@pytest.mark.parametrize(("count", "published"), PUBLISHED_XOF.items())
def test_xof_vectors_carry_the_published_output(count: int, published: str) -> None:
    assert by_count("ascon_xof")[count]["output"] == published


def test_aead_seals_and_opens_every_case() -> None:
    for case in cases("ascon_aead"):
        key, nonce, ad, text, ciphertext, tag = (
            bytes.fromhex(case[name]) for name in ("key", "nonce", "ad", "text", "ciphertext", "tag")
        )
        assert ref.aead_seal(key, nonce, ad, text) == (ciphertext, tag)
        assert ref.aead_open(key, nonce, ad, ciphertext, tag[:8]) == text
        with pytest.raises(ref.RefusedError, match="seal"):
            ref.aead_open(key, nonce, ad + b"\x00", ciphertext, tag[:8])


def test_xof_reproduces_every_case() -> None:
    for case in cases("ascon_xof"):
        assert ref.xof(bytes.fromhex(case["message"]), 64).hex() == case["output"]


def primes(most: int) -> list[int]:
    return [p for p in range(2, most + 1) if all(p % q for q in range(2, p))]


def test_limits_of_the_hash_are_the_logarithms_rounded_down() -> None:
    known = primes(ref.MAX_HASH_SYMBOLS)
    with localcontext(prec=60):
        limits = [int(2**19 * Decimal((p - 1) * (q - 1)).ln()) for p, q in pairwise(known)]
    assert list(zip(known, limits, strict=False)) == list(ref.HASH_LIMITS)
    assert known[-1] == ref.MAX_HASH_SYMBOLS


def test_limits_of_the_hash_are_those_of_the_text() -> None:
    text = (SPEC / "SPEC.md").read_text("utf-8").split("  p    limit\n")[1].split("\n\n")[0]
    numbers = [int(word) for word in text.split()]
    assert list(zip(numbers[::2], numbers[1::2], strict=True)) == list(ref.HASH_LIMITS)


@pytest.mark.parametrize("epsilon", [1, 2**18, 363408, 363409, 2**20, 1090226, 1090227, 2**21, 2**22, 5009456])
def test_no_other_prime_gives_a_lower_variance(epsilon: int) -> None:
    with localcontext(prec=60):
        exp = (Decimal(epsilon) / 2**20).exp()
        variance = {p: (exp - 1 + p) ** 2 / (p - 1) for p in primes(1000)}
    assert min(variance, key=lambda p: variance[p]) == ref.hash_symbols(epsilon)


@pytest.mark.parametrize(("g", "d"), [(2, 2), (2, 13), (3, 3), (3, 20), (5, 26), (7, 40), (11, 12), (13, 13)])
def test_two_categories_collide_for_exactly_one_hash_in_g(g: int, d: int) -> None:
    count = ref.hash_count(g, d)
    table = [[ref.hashed(a, v, g, d) for a in range(count)] for v in range(d)]
    for u in range(d):
        for v in range(u):
            assert sum(x == y for x, y in zip(table[u], table[v], strict=True)) * g == count


EPSILONS = [int(epsilon * 2**20) for epsilon in (0.004, 0.05, 0.5, 1, 1.5, 3, 5, 5.58)]


def variance(keep: float, change: float, g: int) -> float:
    """Return the variance of a rare answer's share per report."""
    return change * (keep + (g - 2) * change) / (keep - change) ** 2


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("g", [2, 3, 40, 1024])
def test_odds_keep_epsilon_and_the_variance(epsilon: int, g: int) -> None:
    keep, change = ref.odds_of(epsilon, g)
    with localcontext(prec=60):
        power = (Decimal(epsilon) / 2**20).exp()
        assert 1 < Decimal(keep) / change <= power
    assert variance(keep, change, g) <= (1.05 if g == 2 else 1.1) * variance(float(power), 1, g) * (1 + 1e-12)


def test_odds_are_the_smallest_that_fit() -> None:
    """With a limit of K one below theirs no odds fit, and of two with the same K the larger keep is taken."""
    for epsilon in EPSILONS[1:]:
        keep, change = ref.odds_of(epsilon, 3)
        assert ref.odds_of(epsilon, 3, most=keep + 2 * change) == (keep, change)
        with pytest.raises(ref.RefusedError, match="epsilon"):
            ref.odds_of(epsilon, 3, most=keep + 2 * change - 1)


def test_odds_of_the_text() -> None:
    assert ref.odds_of(2**20, 2) == (8, 3)


@pytest.mark.parametrize("epsilon", [0, 1, 2**11, 6 * 2**20, 6 * 2**20 + 1])
def test_an_epsilon_without_odds_is_refused(epsilon: int) -> None:
    with pytest.raises(ref.RefusedError, match="epsilon"):
        ref.odds_of(epsilon, 2)


@pytest.mark.parametrize(("keep", "change", "g"), [(8, 3, 2), (2, 1, 5), (255, 254, 3), (7, 2, 4)])
def test_the_coin_has_the_odds_by_count(keep: int, change: int, g: int) -> None:
    """Of the K draws, `keep` keep the answer and `change` turn it into each other one."""
    total = keep + (g - 1) * change
    for b in range(g):
        outcomes = [ref.coin(b, g, keep, change, lambda u=u: u) for u in range(total)]
        assert [outcomes.count(s) for s in range(g)] == [keep if s == b else change for s in range(g)]


def test_a_reading_is_rounded_in_proportion() -> None:
    for x in (-(2**15) - 5, -(2**15), -1, 0, 1, 12345, 2**15, 2**20):
        threshold = (2**15 + max(-(2**15), min(2**15, x))) * 2**16
        words = [word for word in (0, threshold - 1, threshold, 2**32 - 1) if 0 <= word < 2**32]
        assert [ref.rounded(x, lambda word=word: word) for word in words] == [int(word < threshold) for word in words]


def test_each_question_is_assigned_in_proportion_to_its_weight() -> None:
    blocks = [
        ref.Block(ref.SIGN, 2, 3, 1, 0, 8, 3),
        ref.Block(ref.CHOICE, 5, 1, 4, 0, 8, 3),
        ref.Block(ref.SIGN, 1, 1, 1, 0, 8, 3),
    ]
    found = [ref.assigned(blocks, (slot << 32) // 12 + 1) for slot in range(12)]
    assert found == [(0, 0)] * 2 + [(0, 1)] * 2 + [(0, 2)] * 2 + [(1, 0)] * 5 + [(2, 0)]


def test_units_number_the_questions_and_hashes_of_all_blocks() -> None:
    blocks = [
        ref.Block(ref.SIGN, 1, 2, 1, 0, 8, 3),
        ref.Block(ref.HASHED, 2, 1, 3, 5, 8, 3),
        ref.Block(ref.CHOICE, 1, 1, 4, 0, 8, 3),
    ]
    words = [((slot << 32) // 5 + 1, (a << 32) // 9 + 1) for slot in range(5) for a in range(9)]
    units = [ref.unit(blocks, pair) for pair in words]
    assert sorted(set(units)) == list(range(2 + 9 + 1))
    assert units.count(0) == 9 and units.count(2) == 2 and units.count(11) == 9


def test_a_missing_reading_does_not_depend_on_other_readings() -> None:
    blocks = [ref.Block(ref.SIGN, 1, 2, 1, 0, 3, 1), ref.Block(ref.CHOICE, 1, 1, 4, 0, 3, 1)]
    for slot in range(3):
        words, seen = ((slot << 32) // 3 + 1, 7), set()
        for others in (-1, 0, 3, 2**15):
            drbg = ref.Drbg()
            drbg.seed(bytes(range(1, 65)))
            readings = [ref.NO_READING if place == slot else others for place in range(3)]
            seen.add((ref.perturb(blocks, 7, words, readings, drbg)[0], drbg.word()))
        assert {symbol for symbol, _ in seen} == {ref.Symbol(6, +1)}
        assert len(seen) == 1


def test_rows_of_the_projection_sum_to_zero() -> None:
    for n in (2, 3, 7, 48):
        for p in range(n - 1):
            assert sum(ref.projection_entry(99, n, p, j) for j in range(n)) == 0


def test_frame_of_252_attributes_has_632_bits() -> None:
    assert 8 * ref.frame_length(252, 0) == 632


def test_reader_finds_in_each_report_what_the_encoder_put_there() -> None:
    for case in cases("report"):
        encoder = case["encoder"]
        profile = ref.ProfileEntry(encoder["width"])
        key = bytes.fromhex(encoder["seal_key"])
        bundles = [ref.BundleEntry(encoder["device"], 1, key, encoder["profile"])]
        reader = ref.Reader({encoder["profile"]: profile}, bundles, accept_unsealed=encoder["flags"] == ref.UNSEALED)
        payload = b"".join(bytes.fromhex(report["frame"]) for report in case["reports"])
        pieces = reader.read_payload(payload)
        assert len(pieces) == len(case["reports"])
        for (_, found), sent in zip(pieces, case["reports"], strict=True):
            assert (found.header.number, found.rule) == (sent["number"], sent["rule"])
            symbol = ref.Symbol(sent["index"], -1 if sent["minus"] else +1)
            assert found.trits == ref.codeword(encoder["seed"], encoder["width"], symbol)


def misread_entry(seed: int, n: int, p: int, j: int) -> int:
    """Return Phi[p][j] computed with the partner column's difference taken modulo 2^32 first."""
    r = ref.mix((seed + (p + 1) * 0x9E3779B9) & ref.MASK32)
    q = (((r >> 16) * n >> 16) - j & ref.MASK32) % n
    if q == j:
        return 0
    h = r ^ (min(j, q) * 0x85EBCA6B & ref.MASK32)
    h = (h ^ h >> 15) * 0x2C1B3C6D & ref.MASK32
    v = (0, 0, +1, -1)[h >> 30]
    return v if j < q else -v


def test_the_vectors_tell_the_partner_column_modulo_n_from_one_modulo_2_to_the_32() -> None:
    """Both agree exactly at widths that are powers of two."""
    differ = set()
    plus = [case for case in cases("projection") if not case["minus"]]
    for case in plus:
        n = case["width"]
        misread = [misread_entry(case["seed"], n, p, case["index"]) for p in range(n - 1)]
        if ref.pack(misread).hex() != case["trits"]:
            differ.add(n)
    assert differ == {case["width"] for case in plus if case["width"].bit_count() > 1}
