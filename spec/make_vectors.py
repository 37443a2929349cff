"""Write spec/vectors/*.json with the reference. Usage: make_vectors.py [directory]

SPDX-License-Identifier: MIT

Every input is made by rule, so the files come out the same on every machine. A negative case states the fault it was built for;
making it fails when the reference does not refuse it for just that fault. The format is described in README.md.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import reference as ref

Case = dict[str, Any]
Vectors = tuple[str, list[Case]]

OUT = Path(__file__).parent / "vectors"


def made(tag: str, length: int) -> bytes:
    """Bytes without structure, different for every tag."""
    return ref.xof(b"peel vectors: " + tag.encode(), length)


def made_int(tag: str, bits: int) -> int:
    return ref.from_le(made(tag, bits // 8))


def outcome(call: Callable[..., object], *arguments: object) -> str:
    """ "ok", or the fault that the call is refused for."""
    try:
        call(*arguments)
    except ref.RefusedError as refused:
        return refused.fault
    return "ok"


def seeded(entropy: bytes) -> ref.Drbg:
    drbg = ref.Drbg()
    drbg.seed(entropy)
    return drbg


# ---- 2. Ascon -------------------------------------------------------------------------------------------------------

AEAD_LENGTHS = (0, 1, 7, 8, 9, 15, 16, 17, 31, 32)
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
            cases.append({
                "count": 33 * text_length + ad_length + 1, "key": key, "nonce": nonce, "ad": ad, "text": text,
                "ciphertext": ciphertext, "tag": tag,
            })  # fmt: skip
    return comment, cases


def ascon_xof() -> Vectors:
    comment = KAT_COMMENT.format("LWC_XOF_KAT_128_512.txt") + "Ascon-XOF128: the first 64 bytes of output."
    messages = [bytes(range(length)) for length in XOF_LENGTHS]
    return comment, [{"count": len(m) + 1, "message": m, "output": ref.xof(m, 64)} for m in messages]


def stream() -> Vectors:
    comment = "Section 2, STREAM: the first `length` bytes of keystream."
    key, nonce = made("stream key", 16), made("stream nonce", 16)
    lengths = (0, 1, 4, 15, 16, 17, 31, 32, 33, 64)
    return comment, [{"key": key, "nonce": nonce, "length": m, "output": ref.stream(key, nonce, m)} for m in lengths]


def hash_() -> Vectors:
    comment = "Section 2, HASH: the first `length` bytes for a label and data."
    cases = []
    for label in ("peel/1 key", "peel/1 drbg", "peel/1 drbg input", "peel/1 profile"):
        for data_length in (0, 1, 4, 5, 6, 7, 8, 13, 32, 100):
            for length in (4, 8, 16) if data_length in (0, 32) else (16,):
                data = made(f"hash {data_length}", data_length)
                cases.append({"label": label, "data": data, "length": length, "output": ref.hash_(label, data, length)})
    return comment, cases


# ---- 3. Keys --------------------------------------------------------------------------------------------------------


def keys() -> Vectors:
    comment = "Section 3: the two keys of a device."
    cases = []
    for master in (bytes(32), bytes(range(32)), made("master", 32)):
        for fleet in ("a", "plant-7", "z0123456789-0123456789-012345678"):
            for device in (1, 2, 0x12345678, 0xFFFFFFFF):
                seal_key, index_key = ref.device_keys(master, fleet, device)
                cases.append({
                    "master": master, "fleet": fleet, "device": device, "seal_key": seal_key, "index_key": index_key,
                })  # fmt: skip
    return comment, cases


def keys_bad_fleet() -> Vectors:
    comment = "Section 3: fleet names that are refused."
    fleets = ("", "7plant", "-plant", "Plant", "plant_7", "plant 7", "plänt", "plant\n", "a" * 33)
    master = bytes(range(32))
    cases = [{"master": master, "fleet": fleet, "device": 1, "expect": "fleet"} for fleet in fleets]
    for case in cases:
        assert outcome(ref.device_keys, master, case["fleet"], 1) == "fleet"
    return comment, cases


# ---- 4. DRBG --------------------------------------------------------------------------------------------------------


class DrbgScript:
    """Runs steps on a new generator and records what happened."""

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
    """Healthy but for `run` equal bytes at position `at`."""
    e = bytearray(range(1, length + 1))
    e[at : at + run] = bytes([0xAA]) * run
    return bytes(e)


def with_value(length: int, times: int) -> bytes:
    """Healthy but for the value 0xAA, which occurs `times` times, never twice in a row."""
    e = bytearray(range(1, length + 1))
    for i in range(times):
        e[2 * i] = 0xAA
    return bytes(e)


def with_period(length: int, period: int) -> bytes:
    return bytes(i % period + 1 for i in range(length))


def drbg_outputs() -> Iterator[DrbgScript]:
    e32, e48, e64 = made("entropy 32", 32), made("entropy 48", 48), made("entropy 64", 64)
    yield DrbgScript("words over three blocks").seed(e32).words(1).words(2).words(3).words(6)
    yield DrbgScript("bytes of odd lengths; each call takes whole words").seed(e48).bytes(1, 2, 3, 4, 5, 0, 7, 16, 17, 33)
    yield DrbgScript("bytes and words take from one sequence").seed(e64).bytes(6).words(1).bytes(13).words(5)
    yield DrbgScript("a reseed keeps the old key in the mix and drops the rest of the block").seed(e32).words(3).seed(e48).words(5)
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
        yield DrbgScript(f"rule 3: one value {limit - 1} times in {length}").seed(with_value(length, limit - 1)).words(1)
    for length, period in ((32, 5), (32, 15), (32, 16), (33, 16), (64, 17), (64, 32), (65, 32)):
        yield DrbgScript(f"rule 4: period {period} in {length}").seed(with_period(length, period), "entropy")
    for length, period in ((32, 17), (33, 17), (64, 33), (65, 33)):
        yield DrbgScript(f"rule 4: period {period} in {length}").seed(with_period(length, period)).words(1)
    broken = with_period(64, 16)[:-1] + b"\xee"
    yield DrbgScript("rule 4: period 16 in 64, broken by the last byte").seed(broken).words(1)
    e = made("again", 40)
    yield DrbgScript("rule 5: the same input again").seed(e).words(2).seed(e, "entropy").words(3)
    yield DrbgScript("rule 5: the same input after a refused one").seed(e).seed(bytes(32), "entropy").seed(e, "entropy").words(1)
    yield DrbgScript("rule 5: almost the same input").seed(e).seed(e[:-1] + bytes([e[-1] ^ 1])).words(1)


def drbg() -> Vectors:
    comment = "Section 4: steps on a new generator, in order. `words` with count m is `bytes` with length 4 m, read as LE32."
    return comment, [script.case for script in (*drbg_outputs(), *drbg_health())]


# ---- 5. The rule ----------------------------------------------------------------------------------------------------


def rule() -> Vectors:
    comment = "Section 5: R(epsilon, k), or the fault; epsilon in units of 2^-20."
    grid = sorted(
        {1, 2, 3, 1048, 104857, 2**20 // 3, 3 * 2**19, 0xAAAAAA, 0x555555, 2**24 - 1, 2**24}
        | {2**i for i in range(25)}
        | {made_int(f"epsilon {i}", 24) for i in range(20)}
    )
    cases: list[Case] = []
    for epsilon in grid:
        for k in (2, 3, 10, 252, 1024):
            cases.append({"epsilon": epsilon, "k": k, "expect": "ok", "rule": ref.rule(epsilon, k)})
    for epsilon, k, fault in ((0, 2, "epsilon"), (2**24 + 1, 2, "epsilon"), (2**32 - 1, 2, "epsilon"),
                              (2**20, 0, "width"), (2**20, 1, "width"), (2**20, 1025, "width")):  # fmt: skip
        assert outcome(ref.rule, epsilon, k) == fault
        cases.append({"epsilon": epsilon, "k": k, "expect": fault})
    return comment, cases


# ---- 6. Mechanisms --------------------------------------------------------------------------------------------------


def harmony_case(tag: str, x: int, rule_: int, k: int, assigned: int) -> Case:
    entropy = made(tag, 32)
    readings = [made_int(f"{tag} reading {i}", 16) - 2**15 for i in range(k)]
    readings[assigned] = x
    generator = seeded(entropy)
    symbol = ref.perturb(ref.HARMONY, rule_, k, assigned, readings, generator)
    return {
        "entropy": entropy, "rule": rule_, "k": k, "assigned": assigned, "readings": readings,
        "word": seeded(entropy).word(), "threshold": ref.harmony_threshold(x, rule_),
        "index": symbol.index, "minus": int(symbol.sign < 0), "next_word": generator.word(),
    }  # fmt: skip


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
        "Section 6.1: a new generator is seeded with `entropy`; `word` is u, `next_word` the word after it. `minus` is 1 for sign -1. "
        "Readings beyond +-2^15 are clamped."
    )
    xs = (0, 1, -1, 2**15, -(2**15), 2**15 - 1, 1 - 2**15, 2**15 + 1, -(2**15) - 1, 12345, -12345, 2**31 - 1, -(2**31))
    rules = (1, 2**15, ref.rule(2**20, 2), 2**31 - 1)
    cases = [
        harmony_case(f"harmony {x} {rule_}", x, rule_, 2 + i % 3, i % 2) for x in xs for i, rule_ in enumerate(rules)
    ]
    cases += [harmony_case(tag, x, rule_, 2, 1) for tag, x, rule_ in harmony_edges(6)]
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
        "entropy": entropy, "rule": rule_, "k": k, "readings": [value], "word": words[0], "rejected": len(words) - 2,
        "index": symbol.index, "minus": 0, "next_word": generator.word(),
    }  # fmt: skip


def krr() -> Vectors:
    comment = (
        "Section 6.2: a new generator is seeded with `entropy`; `word` is u, `rejected` how many draws of w were thrown away, "
        "`next_word` the word after the last one drawn."
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


# ---- 7. The index ---------------------------------------------------------------------------------------------------


def index() -> Vectors:
    comment = "Section 7: `word` is w, `index` is J."
    cases = []
    for i, number in enumerate((1, 2, 3, 255, 256, 2**32, 2**48 - 1)):
        key = made(f"index key {i % 2}", 16)
        header = ref.header_bytes(ref.Header(i % 2, ref.HARMONY, made_int("index profile", 32), 1 + i, number))
        word = ref.from_le(ref.stream(key, header, 4))
        for k in (2, 3, 16, 252, 1000, 1024):
            cases.append({"index_key": key, "header": header, "k": k, "word": word, "index": ref.index(key, header, k)})
    return comment, cases


# ---- 8. The projection ----------------------------------------------------------------------------------------------


def packed_codeword(seed: int, width: int, symbol: ref.Symbol) -> bytes:
    return ref.pack(ref.codeword(seed, width, symbol))


def projection() -> Vectors:
    comment = "Section 8: the packed codeword of (`index`, `minus` 1 for sign -1). These seeds need not be sound."
    cases = []
    for width in (2, 3, 4, 5, 6, 7, 10, 11, 12, 16, 48, 100, 251, 252, 253, 1023, 1024):
        for seed in (0, 1, 0xFFFFFFFF, made_int(f"seed {width}", 32)) if width < 300 else (made_int("seed", 32),):
            for j in sorted({0, width // 2, width - 1} | ({1, width // 3} if width > 40 else set(range(min(width, 3))))):
                minus = (j + seed) % 2
                symbol = ref.Symbol(j, -1 if minus else +1)
                cases.append({
                    "seed": seed, "width": width, "index": j, "minus": minus, "trits": packed_codeword(seed, width, symbol),
                })  # fmt: skip
    return comment, cases


# ---- 9. Frames: complete reports ------------------------------------------------------------------------------------


def encoder(tag: str, mechanism: int, k: int, width: int, flags: int = 0) -> ref.Encoder:
    return ref.Encoder(
        flags=flags,
        mechanism=mechanism,
        profile=made_int(f"{tag} profile", 32),
        device=made_int(f"{tag} device", 32),
        k=k,
        width=width,
        seed=made_int(f"{tag} seed", 32),
        rule=ref.rule(2**20, 2 if mechanism == ref.HARMONY else k),
        seal_key=made(f"{tag} seal key", 16),
        index_key=made(f"{tag} index key", 16),
    )


def made_readings(e: ref.Encoder, tag: str) -> list[int]:
    """Readings over the whole Q15 range, and some beyond; or a category."""
    raw = made(tag, 4 * (e.k if e.mechanism == ref.HARMONY else 1))
    words = [ref.from_le(raw[i : i + 4]) for i in range(0, len(raw), 4)]
    return [w % 80001 - 40000 for w in words] if e.mechanism == ref.HARMONY else [words[0] % e.k]


def encoder_fields(e: ref.Encoder) -> Case:
    return dict(vars(e))


def report_case(note: str, e: ref.Encoder, numbers: Iterable[int]) -> Case:
    entropy = made(f"{note} entropy", 48)
    generator = seeded(entropy)
    reports = []
    for number in numbers:
        readings = made_readings(e, f"{note} {number}")
        symbol, frame = e.encode(number, readings, generator)
        reports.append({
            "number": number, "readings": readings, "index": symbol.index, "minus": int(symbol.sign < 0), "frame": frame,
        })  # fmt: skip
    return {"note": note, "encoder": encoder_fields(e), "entropy": entropy, "reports": reports}


def report() -> Vectors:
    comment = (
        "Section 9 and all before it: one new generator per case, seeded with `entropy`, makes all reports of the case in order. "
        "`index` and `minus` are the symbol in the frame."
    )
    h, c = ref.HARMONY, ref.KRR
    last = 2**48 - 1
    cases = [
        report_case("harmony k=4", encoder("a", h, 4, 48), (*range(1, 13), 2**32, last)),
        report_case("harmony k=16", encoder("b", h, 16, 48), (1, 2, 3, 5, 8, 13, 21, 34, 55, last - 1, last)),
        report_case("harmony k=48, no spare columns", encoder("c", h, 48, 48), range(1000, 1006)),
        report_case("harmony k=252", encoder("d", h, 252, 252), (1, 2, 3, 4, 5, last)),
        report_case("harmony k=1024", encoder("e", h, 1024, 1024), (1, 2, 3, 4, 5)),
        report_case("krr k=2", encoder("f", c, 2, 48), range(1, 8)),
        report_case("krr k=10", encoder("g", c, 10, 48), (*range(1, 11), last)),
        report_case("harmony k=5, unsealed", encoder("h", h, 5, 48, ref.UNSEALED), range(1, 6)),
        report_case("krr k=3, unsealed", encoder("i", c, 3, 48, ref.UNSEALED), range(1, 6)),
        report_case("smallest", replace(encoder("j", h, 2, 2), profile=0, device=1, seed=0, rule=1), (1, 2, 3)),
        report_case("largest ids", replace(encoder("k", h, 7, 48), profile=2**32 - 1, device=2**32 - 1, rule=2**31 - 1), (1, 2)),
    ]
    return comment, cases


# ---- 9. Frames: what a reader refuses -------------------------------------------------------------------------------

# Small frames keep the exhaustive files small: 6 trits in 2 bytes, 4 digits of padding.
SMALL = encoder("small", ref.HARMONY, 4, 7)
WIDE = encoder("wide", ref.HARMONY, 16, 48)
CHOICE = encoder("choice", ref.KRR, 5, 48)


def make_frame(e: ref.Encoder, number: int = 1, symbol: ref.Symbol = ref.Symbol(2, +1), packed: bytes | None = None) -> bytes:  # noqa: B008
    """A frame as its device would seal it, or one with other trits under the right key."""
    header = ref.Header(e.flags, e.mechanism, e.profile, e.device, number)
    trits = packed_codeword(e.seed, e.width, symbol) if packed is None else packed
    return ref.frame_seal(e.seal_key, header, e.rule, trits)


def unsealed(e: ref.Encoder) -> ref.Encoder:
    return replace(e, flags=ref.UNSEALED)


def patched(frame: bytes, at: int, new: bytes) -> bytes:
    return frame[:at] + new + frame[at + len(new) :]


def flipped(frame: bytes, bit: int) -> bytes:
    return patched(frame, bit // 8, bytes([frame[bit // 8] ^ 1 << bit % 8]))


class Context:
    """What the reader of a case knows."""

    def __init__(self, *known: ref.Encoder, accept_unsealed: bool = False) -> None:
        self.profiles = {e.profile: ref.ProfileEntry(e.mechanism, e.k, e.width) for e in known}
        self.seal_keys = {e.device: e.seal_key for e in known}
        self.accept_unsealed = accept_unsealed

    def reader(self) -> ref.Reader:
        return ref.Reader(self.profiles, self.seal_keys, self.accept_unsealed)

    def fields(self) -> Case:
        return {
            "profiles": [{"id": id_, **vars(profile)} for id_, profile in self.profiles.items()],
            "devices": [{"id": id_, "seal_key": key} for id_, key in self.seal_keys.items()],
            "accept_unsealed": self.accept_unsealed,
        }


def bad(expect: str, note: str, frame: bytes, context: Context) -> Case:
    pieces = context.reader().read_payload(frame)
    assert pieces == [(frame, expect)], (expect, note, pieces)
    return {"note": note, "frame": frame, **context.fields(), "expect": expect}


def frame_bad_short_header() -> Vectors:
    frame = make_frame(SMALL)
    wrong = b"\xf7" + frame[1:]
    cases = [bad("length", f"the first {n} bytes of a frame", frame[:n], Context(SMALL)) for n in range(1, 16)]
    cases.append(bad("length", "15 bytes of another version: the length comes first", wrong[:15], Context(SMALL)))
    return "A piece shorter than a header.", cases


def frame_bad_version() -> Vectors:
    frame = make_frame(SMALL)
    cases = [
        bad("version", f"version {version}", patched(frame, 0, bytes([version << 4])), Context(SMALL))
        for version in range(16)
        if version != 1
    ]
    cases.append(bad("version", "and unknown flags: the version comes first", patched(frame, 0, b"\x2e"), Context(SMALL)))
    return "Another version than 1.", cases


def frame_bad_flags() -> Vectors:
    frame = make_frame(SMALL)
    cases = [bad("flags", f"flags {f}", patched(frame, 0, bytes([0x10 | f])), Context(SMALL)) for f in range(2, 16)]
    cases.append(bad("flags", "and an unknown profile: the flags come first", patched(frame, 0, b"\x12"), Context(WIDE)))
    return "Reserved flags are set.", cases


def frame_bad_profile() -> Vectors:
    frame = make_frame(SMALL)
    cases = [bad("profile", f"bit {bit} of the profile id differs", flipped(frame, 16 + bit), Context(SMALL)) for bit in range(32)]
    cases.append(bad("profile", "the reader knows other profiles only", frame, Context(WIDE, CHOICE)))
    cases.append(bad("profile", "and an unknown mechanism: the profile comes first", patched(frame, 1, b"\x09"), Context(WIDE)))
    cases.append(bad("profile", "a header alone: the profile comes before the frame's length", frame[:16], Context(WIDE)))
    return "A profile that the reader does not know.", cases


def frame_bad_mechanism() -> Vectors:
    frame = make_frame(SMALL)
    cases = [
        bad("mechanism", f"mechanism {m} where the profile says 1", patched(frame, 1, bytes([m])), Context(SMALL))
        for m in (0, 2, 3, 0x81, 0xFF)
    ]
    choice = patched(make_frame(CHOICE), 1, b"\x01")
    cases.append(bad("mechanism", "mechanism 1 where the profile says 2", choice, Context(CHOICE)))
    short = patched(frame, 1, b"\x02")[:16]
    cases.append(bad("mechanism", "a header alone: the mechanism comes before the frame's length", short, Context(SMALL)))
    return "A mechanism that is not the profile's.", cases


def frame_bad_length() -> Vectors:
    cases = []
    for e in (SMALL, WIDE, unsealed(SMALL)):
        frame = make_frame(e)
        for cut in range(1, len(frame) - 15):
            note = f"cut short by {cut}" + (", unsealed" if e.flags else "")
            cases.append(bad("length", note, frame[:-cut], Context(e, accept_unsealed=bool(e.flags))))
    nobody = patched(make_frame(SMALL), 6, bytes(10))[:-1]
    cases.append(bad("length", "and device 0, number 0: the length comes first", nobody, Context(SMALL)))
    return "A frame that is shorter than its profile says.", cases


def frame_bad_device_zero() -> Vectors:
    frame = patched(make_frame(SMALL), 6, bytes(4))
    zero = Context(SMALL, replace(SMALL, device=0))
    return "Device 0.", [
        bad("device", "device 0", frame, Context(SMALL)),
        bad("device", "device 0, even if a table has it", frame, zero),
        bad("device", "and number 0: the device comes first", patched(frame, 10, bytes(6)), Context(SMALL)),
    ]


def frame_bad_number_zero() -> Vectors:
    frame = patched(make_frame(SMALL), 10, bytes(6))
    return "Report number 0.", [
        bad("number", "number 0", frame, Context(SMALL)),
        bad("number", "and an unknown device: the number comes first", frame, Context(replace(SMALL, device=1))),
        bad("number", "unsealed, not accepted: the number comes first",
            patched(make_frame(unsealed(SMALL)), 10, bytes(6)), Context(SMALL)),
    ]  # fmt: skip


def frame_bad_device_unknown() -> Vectors:
    other = replace(SMALL, device=SMALL.device ^ 1)
    return "A device that the reader does not know.", [
        bad("device", "another device is known", make_frame(SMALL), Context(other)),
        bad("device", "unsealed frames are accepted from known devices only", make_frame(unsealed(SMALL)),
            Context(other, accept_unsealed=True)),
        bad("device", "unsealed, not accepted: the device comes first", make_frame(unsealed(SMALL)), Context(other)),
        bad("device", "and a wrong tag: the device comes first", flipped(make_frame(SMALL), 8 * 29), Context(other)),
    ]  # fmt: skip


def frame_bad_unsealed() -> Vectors:
    cases = [bad("unsealed", f"width {e.width}", make_frame(unsealed(e)), Context(e)) for e in (SMALL, WIDE, CHOICE)]
    broken = patched(make_frame(unsealed(SMALL)), 20, b"\xff")
    cases.append(bad("unsealed", "and invalid trits: the seal comes first", broken, Context(SMALL)))
    stripped = patched(make_frame(SMALL)[:-8], 0, b"\x11")
    cases.append(bad("unsealed", "a sealed frame relabelled, its tag cut off", stripped, Context(SMALL)))
    return "An unsealed frame where only sealed ones are accepted.", cases


def frame_bad_tag() -> Vectors:
    frame = make_frame(SMALL)
    start = 8 * (len(frame) - 8)
    cases = [bad("seal", f"bit {i} of the tag flipped", flipped(frame, start + i), Context(SMALL)) for i in range(64)]
    cases.append(bad("seal", "a tag of zeros", frame[:-8] + bytes(8), Context(SMALL)))
    whole = ref.aead_seal(SMALL.seal_key, frame[:16], b"", ref.le(SMALL.rule, 4) + packed_codeword(SMALL.seed, 7, ref.Symbol(2, 1)))
    cases.append(bad("seal", "the second half of the 16-byte tag", frame[:-8] + whole[1][8:], Context(SMALL)))
    cases.append(bad("seal", "the reader has another key", frame, Context(replace(SMALL, seal_key=SMALL.index_key))))
    return "A wrong tag.", cases


def frame_bad_header_bit() -> Vectors:
    """The altered profile, device and mechanism are known to the reader, so that only the seal can tell."""
    frame = make_frame(SMALL, 3)
    cases = []
    for bit in range(48):
        cases.append(bad("seal", f"bit {bit} of the number flipped", flipped(frame, 80 + bit), Context(SMALL)))
    for bit in range(0, 32, 5):
        other = Context(SMALL, replace(SMALL, profile=SMALL.profile ^ 1 << bit))
        cases.append(bad("seal", f"bit {bit} of the profile id flipped", flipped(frame, 16 + bit), other))
        other = Context(SMALL, replace(SMALL, device=SMALL.device ^ 1 << bit))
        cases.append(bad("seal", f"bit {bit} of the device flipped, same key", flipped(frame, 48 + bit), other))
    changed = patched(frame, 1, b"\x02")
    cases.append(bad("seal", "another mechanism, the profile's", changed, Context(replace(SMALL, mechanism=ref.KRR))))
    return "A header altered on the way; all it names is known to the reader.", cases


def frame_bad_ciphertext_bit() -> Vectors:
    frame = make_frame(SMALL)
    bits = range(8 * 16, 8 * (len(frame) - 8))
    return "One bit of rule or trits flipped on the way.", [
        bad("seal", f"bit {bit} of the frame flipped", flipped(frame, bit), Context(SMALL)) for bit in bits
    ]


def frame_bad_negated() -> Vectors:
    """Knowing the codeword, an attacker without the key can turn the ciphertext into that of the negated one."""
    cases = []
    for e in (SMALL, WIDE, encoder("negated", ref.HARMONY, 252, 252)):
        for sign in (+1, -1):
            symbol = ref.Symbol(1, sign)
            frame = make_frame(e, 7, symbol)
            change = ref.xor(packed_codeword(e.seed, e.width, symbol), packed_codeword(e.seed, e.width, ref.Symbol(1, -sign)))
            forged = patched(frame, 20, ref.xor(frame[20 : 20 + len(change)], change))
            cases.append(bad("seal", f"width {e.width}, sign {sign:+} turned", forged, Context(e)))
    return "The trits negated by someone who knows the codeword but not the key.", cases


def frame_bad_trits() -> Vectors:
    good = packed_codeword(WIDE.seed, 48, ref.Symbol(2, +1))
    cases = []
    for at in range(len(good)):
        for value in (243, 255):
            frame = make_frame(WIDE, packed=patched(good, at, bytes([value])))
            cases.append(bad("trits", f"byte {at} of the trits is {value}", frame, Context(WIDE)))
    plain = make_frame(unsealed(WIDE), packed=patched(good, 4, b"\xf3"))
    cases.append(bad("trits", "unsealed, accepted, byte 4 is 243", plain, Context(WIDE, accept_unsealed=True)))
    return "Validly sealed, but a byte of the trits is above 242.", cases


def frame_bad_padding() -> Vectors:
    cases = []
    for e in (SMALL, WIDE, encoder("one trit", ref.HARMONY, 2, 2)):
        good = packed_codeword(e.seed, e.width, ref.Symbol(1, +1))
        for place in range((e.width - 1) % 5, 5):
            for digit in (1, 2):
                if good[-1] + digit * 3**place <= 242:
                    packed = good[:-1] + bytes([good[-1] + digit * 3**place])
                    note = f"width {e.width}: digit {place} of the last byte is {digit}"
                    cases.append(bad("trits", note, make_frame(e, packed=packed), Context(e)))
    return "Validly sealed, but a digit past the last trit is not 0.", cases


def frame_bad_other_device() -> Vectors:
    other = replace(SMALL, device=1 + SMALL.device % 0xFFFFFFFF, seal_key=made("other seal key", 16))
    mine, theirs, later = make_frame(SMALL), make_frame(other), make_frame(SMALL, 2, ref.Symbol(2, -1))
    both = Context(SMALL, other)
    return "Parts of two valid frames spliced into one.", [
        bad("seal", "the header of one device, the body of another", mine[:16] + theirs[16:], both),
        bad("seal", "the other way round", theirs[:16] + mine[16:], both),
        bad("seal", "the header of another report of the device", later[:16] + mine[16:], both),
        bad("seal", "header and body of one report, tag of another", mine[:-8] + later[-8:], both),
        bad("seal", "the device id of another device", patched(mine, 6, theirs[6:10]), both),
    ]


def piece_fields(piece: bytes, result: ref.Report | str) -> Case:
    if isinstance(result, str):
        return {"length": len(piece), "expect": result}
    return {"length": len(piece), "expect": "ok", **vars(result.header), "rule": result.rule, "trits": ref.pack(result.trits)}


def payload_case(note: str, payload: bytes, context: Context, *expected: str) -> Case:
    pieces = context.reader().read_payload(payload)
    fields = [piece_fields(piece, result) for piece, result in pieces]
    assert [piece["expect"] for piece in fields] == list(expected), (note, fields)
    return {"note": note, "payload": payload, **context.fields(), "pieces": fields}


def payload() -> Vectors:
    comment = (
        "Section 9: payloads, and the pieces a reader finds in them: length in bytes, then what the frame says or the fault. "
        "The lengths add up to the payload's."
    )
    s, w, c, u = make_frame(SMALL, 3), make_frame(WIDE, 2**48 - 1), make_frame(CHOICE, 9), make_frame(unsealed(WIDE), 4)
    all_known = Context(SMALL, WIDE, CHOICE)
    lenient = Context(SMALL, WIDE, CHOICE, accept_unsealed=True)
    return comment, [
        payload_case("empty", b"", all_known),
        payload_case("one frame", w, all_known, "ok"),
        payload_case("three profiles", s + w + c, all_known, "ok", "ok", "ok"),
        payload_case("the same frame twice: replays are not the reader's affair", s + s, all_known, "ok", "ok"),
        payload_case("sealed and unsealed, accepted", w + u + s, lenient, "ok", "ok", "ok"),
        payload_case("sealed and unsealed, not accepted", w + u + s, all_known, "ok", "unsealed", "ok"),
        payload_case("a wrong tag spoils its own frame only", s + flipped(w, 300) + c, all_known, "ok", "seal", "ok"),
        payload_case("an unknown device spoils its own frame only", s + w + s, Context(SMALL, replace(WIDE, device=1)),
                     "ok", "device", "ok"),
        payload_case("device 0 spoils its own frame only", patched(s, 6, bytes(4)) + c, all_known, "device", "ok"),
        payload_case("number 0 spoils its own frame only", patched(s, 10, bytes(6)) + c, all_known, "number", "ok"),
        payload_case("invalid trits spoil their own frame only", make_frame(SMALL, packed=b"\xf3\x00") + c, all_known, "trits", "ok"),
        payload_case("an unknown profile ends the splitting", s + w + c, Context(SMALL, CHOICE), "ok", "profile"),
        payload_case("another version ends the splitting", s + patched(w, 0, b"\x20") + c, all_known, "ok", "version"),
        payload_case("unknown flags end the splitting", s + patched(w, 0, b"\x18") + c, all_known, "ok", "flags"),
        payload_case("a wrong mechanism ends the splitting", s + patched(w, 1, b"\x02") + c, all_known, "ok", "mechanism"),
        payload_case("a last frame cut short", s + w[:-1], all_known, "ok", "length"),
        payload_case("a byte too many", s + b"\x10", all_known, "ok", "length"),
        payload_case("a frame cut short in the middle shifts the next one", w[:-8] + make_frame(WIDE, 5), all_known, "seal", "version"),
        payload_case("unsealed flag set on a sealed frame: the tag is left over", patched(s, 0, b"\x11"), all_known,
                     "unsealed", "length"),
        payload_case("any rule passes the reader", make_frame(replace(SMALL, rule=0)) + make_frame(replace(SMALL, rule=2**32 - 1), 2),
                     all_known, "ok", "ok"),
    ]  # fmt: skip


# ---- Encoder faults -------------------------------------------------------------------------------------------------


def bad_encode(expect: str, note: str, e: ref.Encoder, number: int = 1, readings: list[int] | None = None, is_seeded: bool = True) -> Case:
    readings = made_readings(e, "bad encode") if readings is None else readings
    entropy = made("bad encode entropy", 32) if is_seeded else b""
    generator = seeded(entropy) if is_seeded else ref.Drbg()
    fault = outcome(e.encode, number, readings, generator)
    assert fault == expect, (expect, note, fault)
    return {
        "note": note, "encoder": encoder_fields(e), "entropy": entropy, "number": number, "readings": readings, "expect": expect,
    }  # fmt: skip


def encode_bad_number() -> Vectors:
    cases = [bad_encode("number", f"number {n}", e, n) for e in (WIDE, CHOICE) for n in (0, 2**48, 2**48 + 1, 2**53 - 1)]
    return "Report number 0 or above 48 bits.", cases


def encode_bad_category() -> Vectors:
    values = (5, 6, 7, 8, 255, 2**31 - 1, -1, -(2**31))
    return "A category that is not below k.", [bad_encode("reading", f"category {v}", CHOICE, readings=[v]) for v in values]


def encode_bad_count() -> Vectors:
    return "Not as many readings as the mechanism takes.", [
        *(bad_encode("reading", f"harmony with {n} of 16 readings", WIDE, readings=[0] * n) for n in (0, 1, 15, 17)),
        *(bad_encode("reading", f"krr with {n} readings", CHOICE, readings=[0] * n) for n in (0, 2, 5)),
    ]


def encode_bad_rule() -> Vectors:
    rules = (0, 2**31, 2**32 - 1)
    return "A rule of 0, or of 2^31 or more.", [
        bad_encode("rule", f"rule {rule_}", replace(e, rule=rule_)) for e in (WIDE, CHOICE) for rule_ in rules
    ]


def encode_bad_width() -> Vectors:
    sizes = ((16, 1025), (17, 16), (1025, 1025), (1, 48), (0, 48), (0, 0), (1, 1), (2, 2**31))
    return "k or width out of range: 2 <= k <= width <= 1024.", [
        bad_encode("width", f"k={k}, width={width}", replace(WIDE, k=k, width=width), readings=[0] * k) for k, width in sizes
    ]


def encode_bad_unseeded() -> Vectors:
    return "The generator was never seeded; `entropy` is empty.", [
        bad_encode("entropy", "harmony", WIDE, is_seeded=False),
        bad_encode("entropy", "krr", CHOICE, is_seeded=False),
    ]


def encode_bad_flags() -> Vectors:
    return "Reserved flags.", [bad_encode("flags", f"flags {f}", replace(WIDE, flags=f)) for f in (2, 3, 4, 8, 15, 16, 255)]


def encode_bad_mechanism() -> Vectors:
    return "An unknown mechanism.", [
        bad_encode("mechanism", f"mechanism {m}", replace(WIDE, mechanism=m), readings=[0] * 16) for m in (0, 3, 255)
    ]


def encode_bad_device() -> Vectors:
    return "Device 0.", [bad_encode("device", "device 0", replace(e, device=0)) for e in (WIDE, CHOICE)]


# ---- 10. The profile ------------------------------------------------------------------------------------------------


def profile_fields(p: ref.Profile) -> Case:
    """low and high as decimal strings: they can exceed 2^53."""
    fields = {**vars(p), "mechanism": "harmony" if p.mechanism == ref.HARMONY else "krr"}
    if p.mechanism == ref.HARMONY:
        fields["attributes"] = [{**vars(a), "low": str(a.low), "high": str(a.high)} for a in p.attributes]
        del fields["categories"]
    else:
        fields["attributes"] = [{"name": a.name} for a in p.attributes]
    return fields


CLIMATE = ref.Profile(
    name="climate", mechanism=ref.HARMONY, epsilon=2**20, width=48, seed=12345, quota=96, period=86400,
    attributes=[
        ref.Attribute("temperature", "°C", -40_000_000, 85_000_000),
        ref.Attribute("humidity", "%", 0, 100_000_000),
        ref.Attribute("pressure", "hPa", 300_000_000, 1_100_000_000),
        ref.Attribute("count", "", 0, 1),
    ], categories=[],
)  # fmt: skip
STATE = ref.Profile(
    name="state", mechanism=ref.KRR, epsilon=3 * 2**19, width=48, seed=0, quota=1, period=1,
    attributes=[ref.Attribute("machine")], categories=["idle", "running", "Störung", "停止", "=", " 🔧 a b"],
)  # fmt: skip


def profile() -> Vectors:
    comment = "Section 10: fields, canonical form (in UTF-8) and id. `low` and `high` are in millionths, as decimal strings."
    edge = replace(
        CLIMATE, name="z" + "_" * 31, epsilon=1, width=1024, seed=2**32 - 1, quota=10**6, period=10**8,
        attributes=[ref.Attribute("a", "µ" * 16, -(10**18), 10**18), ref.Attribute("b9_", "x" * 32, -1, 0)],
    )  # fmt: skip
    wide = replace(CLIMATE, name="wide", epsilon=2**24, width=252,
                   attributes=[ref.Attribute(f"a{i}", "mm/s", -i - 1, i) for i in range(252)])  # fmt: skip
    swapped = replace(CLIMATE, attributes=CLIMATE.attributes[::-1])
    profiles = [CLIMATE, swapped, STATE, edge, wide, replace(STATE, categories=["é" * 16, "e\u0301", "é"])]
    return comment, [
        {**profile_fields(p), "canonical": ref.canonical(p).decode(), "id": ref.profile_id(p)} for p in profiles
    ]


def bad_profiles() -> Iterator[tuple[str, str, ref.Profile]]:
    """File name, note and profile: each breaks one rule of section 10."""
    first, *others = CLIMATE.attributes
    for name in ("", "Climate", "9a", "_a", "a-b", "a" * 33, "a\n"):
        yield "name", f"profile name {name!r}", replace(CLIMATE, name=name)
    for epsilon in (0, 2**24 + 1):
        yield "epsilon", f"epsilon {epsilon}", replace(CLIMATE, epsilon=epsilon)
    for width in (3, 1025, 0):
        yield "width", f"width {width} for 4 attributes", replace(CLIMATE, width=width)
    yield "width", "one attribute only", replace(CLIMATE, attributes=[first])
    yield "width", "one category only", replace(STATE, categories=["idle"])
    yield "seed", "seed 2^32", replace(CLIMATE, seed=2**32)
    for quota in (0, 10**6 + 1):
        yield "quota", f"quota {quota}", replace(CLIMATE, quota=quota)
    for period in (0, 10**8 + 1):
        yield "period", f"period {period}", replace(CLIMATE, period=period)
    yield "attribute", "two of the same name", replace(CLIMATE, attributes=[first, *others, first])
    yield "attribute", "a name in capitals", replace(CLIMATE, attributes=[replace(first, name="CO2"), *others])
    yield "attribute", "krr with two attributes", replace(STATE, attributes=[ref.Attribute("a"), ref.Attribute("b")])
    for unit in ("a|b", "a\nb", "\x7f", "\x85", "µ" * 16 + "x"):
        yield "unit", f"unit {unit!r}", replace(CLIMATE, attributes=[replace(first, unit=unit), *others])
    for low, high in ((0, 0), (1, 0), (-(10**18) - 1, 0), (0, 10**18 + 1)):
        yield "range", f"from {low} to {high}", replace(CLIMATE, attributes=[replace(first, low=low, high=high), *others])
    for category in ("", "a|b", "a\tb", "\u009f", "x" * 33, "idle"):
        yield "category", f"category {category!r}", replace(STATE, categories=["idle", category])


def profile_bad(fault: str) -> Vectors:
    cases = []
    for expect, note, p in bad_profiles():
        if expect == fault:
            assert outcome(ref.canonical, p) == expect, note
            cases.append({"note": note, **profile_fields(p), "expect": expect})
    return f"Section 10: profiles that are refused for their {fault}.", cases


# ---- Writing --------------------------------------------------------------------------------------------------------

MAKERS: tuple[Callable[[], Vectors], ...] = (
    ascon_aead, ascon_xof, stream, hash_, keys, keys_bad_fleet, drbg, rule, harmony, krr, index, projection, profile, report, payload,
    frame_bad_short_header, frame_bad_version, frame_bad_flags, frame_bad_profile, frame_bad_mechanism, frame_bad_length,
    frame_bad_device_zero, frame_bad_number_zero, frame_bad_device_unknown, frame_bad_unsealed, frame_bad_tag, frame_bad_header_bit,
    frame_bad_ciphertext_bit, frame_bad_negated, frame_bad_trits, frame_bad_padding, frame_bad_other_device,
    encode_bad_number, encode_bad_category, encode_bad_count, encode_bad_rule, encode_bad_width, encode_bad_unseeded, encode_bad_flags,
    encode_bad_mechanism, encode_bad_device,
)  # fmt: skip


def as_hex(value: object) -> str:
    assert isinstance(value, bytes), type(value)
    return value.hex()


def to_json(vectors: Vectors) -> str:
    """One case per line, so that a difference shows which case differs."""
    comment, cases = vectors
    lines = ",\n".join(json.dumps(case, default=as_hex, ensure_ascii=False) for case in cases)
    return f'{{\n"_comment": {json.dumps(comment, ensure_ascii=False)},\n"cases": [\n{lines}\n]\n}}\n'


def write_all(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    files = {maker.__name__.strip("_"): maker for maker in MAKERS}
    for name, maker in files.items():
        (directory / f"{name}.json").write_text(to_json(maker()), encoding="utf-8", newline="\n")
    for fault in sorted({fault for fault, _, _ in bad_profiles()}):
        (directory / f"profile_bad_{fault}.json").write_text(to_json(profile_bad(fault)), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
