# SPDX-License-Identifier: MIT
"""Cases for sections 2 to 5: Ascon, the key schedule, the generator, the odds."""

from collections.abc import Callable, Iterator

import reference as ref
from cases.tools import Case, Vectors, made, made_int, outcome

# ---- 2. Ascon -------------------------------------------------------------------------------------------------------

AEAD_LENGTHS = (0, 1, 7, 8, 15, 16, 17, 32)
XOF_LENGTHS = (0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65)
KAT_COMMENT = (
    "A subset of the known-answer tests published with Ascon by its designers (file {}, Ascon as in NIST SP 800-232); "
    "`count` is the number of the case there. "
)


def ascon_aead() -> Vectors:
    comment = KAT_COMMENT.format("LWC_AEAD_KAT_128_128.txt") + "Ascon-AEAD128: ciphertext and 16-byte tag."
    key, nonce = bytes(range(16)), bytes(range(16, 32))
    cases = []
    for text_length in AEAD_LENGTHS:
        for ad_length in AEAD_LENGTHS:
            text, ad = bytes(range(32, 32 + text_length)), bytes(range(48, 48 + ad_length))
            ciphertext, tag = ref.aead_seal(key, nonce, ad, text)
            cases.append(
                {
                    "count": 33 * text_length + ad_length + 1,
                    "key": key,
                    "nonce": nonce,
                    "ad": ad,
                    "text": text,
                    "ciphertext": ciphertext,
                    "tag": tag,
                }
            )
    return comment, cases


def ascon_xof() -> Vectors:
    comment = KAT_COMMENT.format("LWC_XOF_KAT_128.txt") + "Ascon-XOF128: the first 64 bytes of output."
    messages = [bytes(range(length)) for length in XOF_LENGTHS]
    return comment, [{"count": len(m) + 1, "message": m, "output": ref.xof(m, 64)} for m in messages]


def stream() -> Vectors:
    comment = "Section 2, STREAM: the first `length` bytes of keystream."
    key, nonce = made("stream key", 16), made("stream nonce", 16)
    lengths = (0, 1, 4, 15, 16, 17, 31, 32, 33, 64)
    return comment, [{"key": key, "nonce": nonce, "length": m, "output": ref.stream(key, nonce, m)} for m in lengths]


LABELS = ("peel/1 key", "peel/1 drbg", "peel/1 drbg input", "peel/1 profile", "peel/1 receipt", "peel/1 device context")


def hash_() -> Vectors:
    comment = "Section 2, HASH: the first `length` bytes for a label and data."
    cases = []
    for label in LABELS:
        for data_length in (0, 1, 4, 5, 6, 7, 8, 13, 32, 100):
            for length in (4, 8, 16) if data_length in (0, 32) else (16,):
                data = made(f"hash {data_length}", data_length)
                cases.append({"label": label, "data": data, "length": length, "output": ref.hash_(label, data, length)})
    return comment, cases


# ---- 3. Keys --------------------------------------------------------------------------------------------------------


def keys() -> Vectors:
    comment = "Section 3: the keys of a device's bundle."
    cases: list[Case] = []
    for master in (bytes(32), bytes(range(32)), made("master", 32)):
        for fleet in ("a", "plant-7", "z0123456789-0123456789-012345678"):
            for device in (1, 2, 0x12345678, 0xFFFFFFFF):
                for first in (1, 2, 0x123456789ABC, 2**48 - 1) if fleet == "a" and device == 2 else (1,):
                    salt = made(f"salt {len(cases)}", 16)
                    cases.append(_keys_of(master, fleet, device, first, salt))
    for salt in (bytes(16), bytes([255]) * 16, bytes([*bytes(15), 1]), bytes([1, *bytes(15)])):
        cases.append(_keys_of(bytes(range(32)), "a", 2, 1, salt))
    return comment, cases


def _keys_of(master: bytes, fleet: str, device: int, first: int, salt: bytes) -> Case:
    about = {"master": master, "fleet": fleet, "device": device, "first": first, "salt": salt}
    return {**about, **vars(ref.bundle_keys(master, fleet, device, first, salt))}


def keys_bad_fleet() -> Vectors:
    comment = "Section 3: fleet names that are refused."
    fleets = ("", "7plant", "-plant", "Plant", "plant_7", "plant 7", "plänt", "plant\n", "a" * 33)
    return comment, [_bad_keys(fleet, bytes(16), "fleet") for fleet in fleets]


def keys_bad_salt() -> Vectors:
    comment = "Section 3: salts that are refused."
    return comment, [_bad_keys("a", made("salt", length), "salt") for length in (0, 1, 15, 17, 32)]


def _bad_keys(fleet: str, salt: bytes, expect: str) -> Case:
    case = {"master": bytes(range(32)), "fleet": fleet, "device": 1, "first": 1, "salt": salt}
    assert outcome(ref.bundle_keys, *case.values()) == expect
    return {**case, "expect": expect}


# ---- 4. DRBG --------------------------------------------------------------------------------------------------------


class DrbgScript:
    """Runs steps on a new generator and records the results."""

    def __init__(self, note: str) -> None:
        self.case: Case = {"note": note, "steps": []}
        self.drbg = ref.Drbg()

    def seed(self, entropy: bytes, expect: str = "ok") -> "DrbgScript":
        assert outcome(self.drbg.seed, entropy) == expect, (self.case["note"], entropy.hex())
        self.case["steps"].append({"op": "seed", "entropy": entropy, "expect": expect})
        return self

    def refused_bytes(self, length: int) -> "DrbgScript":
        assert outcome(self.drbg.bytes, length) == "entropy"
        self.case["steps"].append({"op": "bytes", "length": length, "expect": "entropy"})
        return self

    def bytes(self, *lengths: int) -> "DrbgScript":
        for length in lengths:
            output = self.drbg.bytes(length)
            self.case["steps"].append({"op": "bytes", "length": length, "expect": "ok", "output": output})
        return self

    def words(self, count: int) -> "DrbgScript":
        words = [self.drbg.word() for _ in range(count)]
        self.case["steps"].append({"op": "words", "count": count, "expect": "ok", "output": words})
        return self


def with_run(length: int, run: int, at: int) -> bytes:
    """Return healthy input, except for `run` equal bytes at position `at`."""
    e = bytearray(range(1, length + 1))
    e[at : at + run] = bytes([0xAA]) * run
    return bytes(e)


def with_value(length: int, times: int) -> bytes:
    """Return healthy input, except that the value 0xAA occurs `times` times, never twice in a row."""
    e = bytearray(range(1, length + 1))
    for i in range(times):
        e[2 * i] = 0xAA
    return bytes(e)


def with_period(length: int, period: int) -> bytes:
    return bytes(i % period + 1 for i in range(length))


def drbg_outputs() -> Iterator[DrbgScript]:
    e32, e48, e64 = made("entropy 32", 32), made("entropy 48", 48), made("entropy 64", 64)
    yield DrbgScript("words over three blocks").seed(e32).words(1).words(2).words(3).words(6)
    yield (
        DrbgScript("bytes of odd lengths; each call takes whole words").seed(e48).bytes(1, 2, 3, 4, 5, 0, 7, 16, 17, 33)
    )
    yield DrbgScript("bytes and words take from one sequence").seed(e64).bytes(6).words(1).bytes(13).words(5)
    yield (
        DrbgScript("a reseed keeps the old key in the mix and drops the rest of the block")
        .seed(e32)
        .words(3)
        .seed(e48)
        .words(5)
    )
    yield DrbgScript("reseeding at once").seed(e32).seed(e48).seed(e64).bytes(20)
    yield DrbgScript("only the last input counts as the same again").seed(e32).seed(e48).seed(e32).words(4)
    yield DrbgScript("a long input").seed(made("entropy 200", 200)).words(4)
    yield DrbgScript("never seeded").refused_bytes(4).refused_bytes(1).seed(e32).bytes(4)
    yield DrbgScript("a refused reseed changes nothing").seed(e32).words(1).seed(bytes(32), "entropy").words(4)
    yield DrbgScript("a refused first seed does not seed").seed(bytes(64), "entropy").refused_bytes(4)


def drbg_health() -> Iterator[DrbgScript]:
    yield DrbgScript("rule 1: 31 bytes").seed(made("short", 31), "entropy").seed(b"", "entropy").refused_bytes(4)
    yield DrbgScript("rule 1: 32 bytes are enough").seed(made("short", 32)).words(1)
    for length, at in ((32, 0), (32, 13), (32, 26), (65, 59)):
        yield DrbgScript(f"rule 2: six equal bytes at {at} of {length}").seed(with_run(length, 6, at), "entropy")
    for length, at in ((32, 0), (32, 13), (32, 27), (65, 60)):
        yield DrbgScript(f"rule 2: five equal bytes at {at} of {length}").seed(with_run(length, 5, at)).words(1)
    for length, limit in ((32, 8), (33, 9), (36, 9), (37, 10), (64, 16)):
        yield DrbgScript(f"rule 3: one value {limit} times in {length}").seed(with_value(length, limit), "entropy")
        yield (
            DrbgScript(f"rule 3: one value {limit - 1} times in {length}").seed(with_value(length, limit - 1)).words(1)
        )
    for length, period in ((32, 5), (32, 15), (32, 16), (33, 16), (64, 17), (64, 32), (65, 32)):
        yield DrbgScript(f"rule 4: period {period} in {length}").seed(with_period(length, period), "entropy")
    for length, period in ((32, 17), (33, 17), (64, 33), (65, 33)):
        yield DrbgScript(f"rule 4: period {period} in {length}").seed(with_period(length, period)).words(1)
    broken = with_period(64, 16)[:-1] + b"\xee"
    yield DrbgScript("rule 4: period 16 in 64, broken by the last byte").seed(broken).words(1)
    e = made("again", 40)
    yield DrbgScript("rule 5: the same input again").seed(e).words(2).seed(e, "entropy").words(3)
    yield (
        DrbgScript("rule 5: the same input after a refused one")
        .seed(e)
        .seed(bytes(32), "entropy")
        .seed(e, "entropy")
        .words(1)
    )
    yield DrbgScript("rule 5: almost the same input").seed(e).seed(e[:-1] + bytes([e[-1] ^ 1])).words(1)


def drbg() -> Vectors:
    comment = (
        "Section 4: steps on a new generator, in order. `words` with count m is `bytes` with length 4 m, read as LE32."
    )
    return comment, [script.case for script in (*drbg_outputs(), *drbg_health())]


# ---- 5. Odds --------------------------------------------------------------------------------------------------------

ODDS_EPSILONS = (0.004, 0.01, 0.1, 1 / 3, 0.5, 1, 1.0986, 1.5, 2, 3, 4, 5, 5.5, 5.6)


def odds() -> Vectors:
    comment = "Section 5: keep and change for an epsilon, in units of 2^-20, and g outcomes; or the fault."
    cases: list[Case] = []
    for epsilon in (1, *(int(each * 2**20) for each in ODDS_EPSILONS)):
        for g in (2, 3, 10, 127, 1024):
            cases.append(odds_case(epsilon, g))
    for tag in range(20):
        cases.append(odds_case(made_int(f"epsilon {tag}", 24) % (6 * 2**20), 2 + tag))
    for epsilon, g in ((0, 2), (6 * 2**20 + 1, 2), (2**32 - 1, 2), (2**20, 0), (2**20, 1), (2**20, 1025)):
        case = odds_case(epsilon, g)
        assert case["expect"] == ("width" if epsilon == 2**20 else "epsilon")
        cases.append(case)
    return comment, cases


def odds_case(epsilon: int, g: int) -> Case:
    expect = outcome(ref.odds_of, epsilon, g)
    case: Case = {"epsilon": epsilon, "g": g, "expect": expect}
    return {**case, "odds": ref.odds_of(epsilon, g)} if expect == "ok" else case


MAKERS: tuple[Callable[[], Vectors], ...] = (
    ascon_aead,
    ascon_xof,
    stream,
    hash_,
    keys,
    keys_bad_fleet,
    keys_bad_salt,
    drbg,
    odds,
)
