# SPDX-License-Identifier: MIT
"""Cases for section 13: tables, roots, openings, messages, receipts with coin fields, audits and challenges."""

from collections.abc import Iterator
from dataclasses import replace

import reference as ref
from cases.frames import flipped
from cases.tools import Case, Vectors, made, made_int, outcome

PROFILE = 0x6B1D40C2
DEVICE = 0x12345678
KEY = made("coin key", 16)
RECEIPT_KEY = made("coin receipt key", 16)
SECRET = made("batch secret", 16)

# keep, change, g for K = 3, 4, 5, 11, 16, 17, 53, 64, 64, 64
ODDS = (
    (2, 1, 2),
    (3, 1, 2),
    (3, 1, 3),
    (8, 3, 2),
    (8, 2, 5),
    (2, 1, 16),
    (23, 2, 16),
    (34, 2, 16),
    (33, 31, 2),
    (2, 1, 63),
)


def coin(keep: int, change: int, g: int, number: int = 1001) -> ref.Coin:
    return ref.Coin(PROFILE, DEVICE, number, keep, change, g)


def table(of: ref.Coin) -> ref.Table:
    return ref.coin_table(of, ref.coin_seed(SECRET, of.number))


FIVE = coin(3, 1, 3)
ELEVEN = coin(8, 3, 2)


# ---- 13.1 and 13.2: tables, roots, openings ----


def coin_table() -> Vectors:
    comment = (
        "Section 13.1 and 13.2: the table of a number and its root. `masked` is d for the answer `answer`; `outcomes` "
        "has one byte for each."
    )
    cases: list[Case] = []
    for place, odds in enumerate((*ODDS, (8, 3, 2), (8, 3, 2))):
        of = coin(*odds, number=(1, 2**48 - 1, 2**32)[place % 3] if place < len(ODDS) else place)
        made_ = table(of)
        answer = place % of.g
        cases.append(
            {
                **vars(of),
                "secret": SECRET,
                "seed": ref.coin_seed(SECRET, of.number),
                "mask": made_.mask,
                "shift": made_.shift,
                "outcomes": bytes(made_.outcomes),
                "root": ref.coin_root(of, made_),
                "answer": answer,
                "masked": ref.masked_answer(answer, made_.mask, of.g),
            }
        )
    return comment, cases


def coin_opening() -> Vectors:
    comment = "Section 13.2: openings, each with its index. Its first byte is the outcome."
    cases: list[Case] = []
    for odds in ((2, 1, 2), (3, 1, 3), (8, 3, 2), (2, 1, 16), (34, 2, 16)):
        of = coin(*odds)
        made_ = table(of)
        every = range(of.size) if of.size <= 17 else (0, 21, 63)
        openings = [(i, ref.coin_opening(of, made_, i)) for i in every]
        root = ref.coin_root(of, made_)
        for i, opening in openings:
            assert ref.coin_verify(of, root, i, opening) == made_.outcomes[i]
        seed = ref.coin_seed(SECRET, of.number)
        cases.append({**vars(of), "seed": seed, "root": root, "openings": openings})
    return comment, cases


def bad_opening(expect: str, note: str, of: ref.Coin, root: bytes, i: int, opening: bytes) -> Case:
    fault = outcome(ref.coin_verify, of, root, i, opening)
    assert fault == expect, (note, fault)
    return {"note": note, **vars(of), "root": root, "index": i, "opening": opening, "expect": expect}


def opened(of: ref.Coin, i: int) -> tuple[bytes, bytes]:
    """Return the root of the coin's table, and the opening of outcome i."""
    return ref.coin_root(of, table(of)), ref.coin_opening(of, table(of), i)


def opening_bad_outcome() -> Vectors:
    root, opening = opened(FIVE, 4)
    cases = [
        bad_opening("root", f"outcome {y} in place of {opening[0]}", FIVE, root, 4, bytes([y]) + opening[1:])
        for y in range(3)
        if y != opening[0]
    ]
    for y in (3, 64, 255):
        cases.append(bad_opening("outcome", f"outcome {y} of 3", FIVE, root, 4, bytes([y]) + opening[1:]))
    beyond = ref.coin_leaf(FIVE, 4, 3, opening[1:14])
    lone = ref.coin_node(FIVE, 1, [beyond])
    forged = ref.coin_node(FIVE, 2, [opening[14:30], lone])
    note = "outcome 3 of 3, to which the device committed"
    cases.append(bad_opening("outcome", note, FIVE, forged, 4, b"\x03" + opening[1:]))
    return "An outcome that is not in the table, or that the coin does not have.", cases


def opening_bad_nonce() -> Vectors:
    root, opening = opened(FIVE, 4)
    return "A wrong nonce.", [
        bad_opening("root", f"bit {bit} of the nonce flipped", FIVE, root, 4, flipped(opening, 8 + bit))
        for bit in (0, 55, 56, 103)
    ]


def opening_bad_sibling() -> Vectors:
    return "A wrong sibling, or siblings in another order.", list(_wrong_siblings())


def _wrong_siblings() -> Iterator[Case]:
    root, opening = opened(ELEVEN, 10)
    for at in (14, 30, 45, 46, 77):
        yield bad_opening("root", f"byte {at} changed", ELEVEN, root, 10, flipped(opening, 8 * at + at % 8))
    swapped = opening[:14] + opening[30:46] + opening[14:30] + opening[46:]
    yield bad_opening("root", "two siblings exchanged", ELEVEN, root, 10, swapped)
    yield bad_opening("root", "the root of another table", ELEVEN, flipped(root, 127), 10, opening)


def opening_bad_length() -> Vectors:
    return "An opening whose length is not that of its index, whatever else is wrong with it.", list(_wrong_lengths())


def _wrong_lengths() -> Iterator[Case]:
    root, opening = opened(FIVE, 4)
    for size in (0, 1, 14, 29):
        yield bad_opening("length", f"the first {size} bytes", FIVE, root, 4, opening[:size])
    yield bad_opening("length", "a byte too many", FIVE, root, 4, opening + b"\x00")
    yield bad_opening("length", "a sibling too many", FIVE, root, 4, opening + bytes(16))
    yield bad_opening("length", "no such outcome either: the length comes first", FIVE, root, 4, b"\xff" + opening)
    root, opening = opened(ELEVEN, 0)
    yield bad_opening("length", "the length of index 10", ELEVEN, root, 0, opened(ELEVEN, 10)[1])
    root, opening = opened(FIVE, 0)
    inner = ref.coin_node(FIVE, 1, [ref.coin_leaf(FIVE, 4, table(FIVE).outcomes[4], table(FIVE).nonces[4])])
    note = "a node of level 1 as if it were the leaf"
    yield bad_opening("length", note, FIVE, root, 0, inner[:14] + opening[62:])


def opening_bad_index() -> Vectors:
    cases = []
    for i, other in ((0, 1), (1, 0), (0, 4), (8, 10)):
        root, opening = opened(ELEVEN, i)
        cases.append(bad_opening("root", f"the opening of {i} for {other}", ELEVEN, root, other, opening))
    root, opening = opened(FIVE, 4)
    for i in (5, 63, 255):
        cases.append(bad_opening("coin", f"no index {i} in a table of 5", FIVE, root, i, opening))
    return "The opening of another index, or an index beyond the table.", cases


def opening_bad_name() -> Vectors:
    root, opening = opened(ELEVEN, 10)
    others = {
        "number": replace(ELEVEN, number=ELEVEN.number + 1),
        "device": replace(ELEVEN, device=ELEVEN.device ^ 1),
        "profile": replace(ELEVEN, profile=ELEVEN.profile ^ 1 << 31),
        "odds, same K": replace(ELEVEN, keep=7, change=4),
        "odds and symbols, same K": replace(ELEVEN, keep=5, change=3, g=3),
    }
    return "An opening for another coin.", [
        bad_opening("root", f"another {what}", of, root, 10, opening) for what, of in others.items()
    ]


def opening_bad_coin() -> Vectors:
    root, opening = opened(FIVE, 4)
    return "A coin that no verified profile has.", [
        bad_opening("coin", f"odds {keep}:{change}, g = {g}", coin(keep, change, g), root, 2, opening)
        for keep, change, g in (
            (3, 3, 2),
            (3, 0, 2),
            (0, 1, 2),
            (3, 4, 2),
            (10, 1, 1),
            (10, 1, 0),
            (34, 31, 2),
            (2, 1, 64),
        )
    ]


# ---- 13.3: messages ----

OPENING_BYTES = ref.opening_bytes(ELEVEN.size, 0)


def bodies() -> dict[int, bytes]:
    roots = [ref.coin_root(of, table(of)) for of in (coin(3, 1, 2, 1001 + j) for j in range(32))]
    seeds = [ref.coin_seed(SECRET, 1001 + j) for j in range(0, 32, 4)]
    return {
        ref.COMMITMENT: b"".join(roots),
        ref.AUDIT_ANSWER: b"".join(seeds),
        ref.OPENING: ref.padded_opening(opened(ELEVEN, 10)[1], OPENING_BYTES),
    }


def coin_message() -> Vectors:
    comment = "Section 13.3: a commitment, an audit answer and an opening, padded."
    cases: list[Case] = []
    for type_, body in bodies().items():
        assert len(body) == ref.message_body_bytes(type_, 8, OPENING_BYTES)
        frame = ref.message_seal(KEY, type_, PROFILE, DEVICE, 1001, body)
        assert ref.message_read(KEY, len(body), frame)[2] == body
        fields = {"coin_key": KEY, "type": type_, "profile": PROFILE, "device": DEVICE, "number": 1001}
        cases.append({**fields, "body": body, "frame": frame})
    return comment, cases


MESSAGE = ref.message_seal(KEY, ref.OPENING, PROFILE, DEVICE, 1001, made("body", 30))


def bad_message(expect: str, note: str, frame: bytes, key: bytes = KEY) -> Case:
    fault = outcome(ref.message_read, key, 30, frame)
    assert fault == expect, (note, fault)
    return {"note": note, "coin_key": key, "size": 30, "frame": frame, "expect": expect}


def with_byte(frame: bytes, at: int, value: int) -> bytes:
    return frame[:at] + bytes([value]) + frame[at + 1 :]


def message_bad_length() -> Vectors:
    cases = [bad_message("length", f"the first {size} bytes", MESSAGE[:size]) for size in (0, 15, 16, 53)]
    cases.append(bad_message("length", "a byte too many", MESSAGE + b"\x00"))
    return "A message of another length than its type and profile give.", cases


def message_bad_version() -> Vectors:
    return "Another version.", [
        bad_message("version", f"first byte {first:#04x}", with_byte(MESSAGE, 0, first)) for first in (0x00, 0x20, 0xF0)
    ]


def message_bad_flags() -> Vectors:
    cases = [
        bad_message("flags", f"first byte {first:#04x}", with_byte(MESSAGE, 0, first)) for first in (0x11, 0x12, 0x1F)
    ]
    cases += [bad_message("flags", f"type {type_}", with_byte(MESSAGE, 1, type_)) for type_ in (0, 4, 255)]
    return "A flag, or a type that is not of a message.", cases


def message_bad_device() -> Vectors:
    return "Device 0.", [bad_message("device", "device 0", MESSAGE[:6] + bytes(4) + MESSAGE[10:])]


def message_bad_number() -> Vectors:
    return "Number 0.", [bad_message("number", "number 0", MESSAGE[:10] + bytes(6) + MESSAGE[16:])]


def message_bad_tag() -> Vectors:
    cases = [
        bad_message("seal", f"bit {bit} flipped", flipped(MESSAGE, bit)) for bit in (17, 50, 81, 128, 367, 368, 431)
    ]
    cases += [bad_message("seal", f"as type {type_}", with_byte(MESSAGE, 1, type_)) for type_ in (1, 2)]
    cases.append(bad_message("seal", "another key", MESSAGE, RECEIPT_KEY))
    return "A message altered on the way, or under another key.", cases


# ---- 13.3: receipts ----

ERA = made("era", 8)
ASKED = ref.Challenge(made("challenge", 16), [(1001, 1003), (1005, 1010), (1012, 1012)])
SAID = ref.CoinReceipt(1001, [(1003, 1003), (1005, 1100)], ERA, 1001, 1033, 0x11121488, 3, ASKED)


def receipts_said() -> list[ref.CoinReceipt]:
    many: list[ref.Run] = [(10 * place, 10 * place + 3) for place in range(1, 17)]
    asked: list[ref.Run] = [(7 + 5 * place, 9 + 5 * place) for place in range(64)]
    wide: list[ref.Run] = [(2**32, 2**32 + 65534), (2**32 + 65535 + 65535, 2**32 + 65535 + 65535)]
    return [
        ref.CoinReceipt(0, [], ERA, 0, 0, 0, 0, None),
        SAID,
        replace(SAID, challenge=None, runs=[]),
        replace(SAID, runs=[], challenge=ref.Challenge(ASKED.seed, [(2**48 - 1, 2**48 - 1)])),
        replace(SAID, runs=[], audit_first=0, audit=0, challenge=ref.Challenge(ASKED.seed, wide)),
        ref.CoinReceipt(
            4, many, bytes([255]) * 8, 2**48 - 1, 2**48 - 1, 2**32 - 1, 2**32 - 1, ref.Challenge(ERA * 2, asked)
        ),
    ]


def coin_receipt() -> Vectors:
    comment = (
        "Section 13.3: receipts for a device with a verified profile. `challenge` is the runs of the next challenge, each "
        "its first and last number, or empty; `challenge_seed` is c, or empty."
    )
    cases: list[Case] = []
    for said in receipts_said():
        written = ref.coin_receipt_write(RECEIPT_KEY, DEVICE, said)
        assert ref.coin_receipt_read(RECEIPT_KEY, DEVICE, written) == said
        asked = said.challenge
        fields = {
            **vars(said),
            "challenge_seed": asked.seed if asked else b"",
            "challenge": asked.runs if asked else [],
        }
        cases.append({"receipt_key": RECEIPT_KEY, "device": DEVICE, **fields, "receipt": written})
    return comment, cases


def bad_receipt(expect: str, note: str, receipt: bytes, key: bytes = RECEIPT_KEY) -> Case:
    fault = outcome(ref.coin_receipt_read, key, DEVICE, receipt)
    assert fault == expect, (note, fault)
    return {"note": note, "receipt_key": key, "device": DEVICE, "receipt": receipt, "expect": expect}


def retagged(body: bytes) -> bytes:
    return body + ref.receipt_tag(RECEIPT_KEY, body)


def coin_receipt_bad_length() -> Vectors:
    whole = ref.coin_receipt_write(RECEIPT_KEY, DEVICE, replace(SAID, runs=SAID.runs[:1]))
    least = ref.coin_receipt_write(RECEIPT_KEY, DEVICE, receipts_said()[0])
    cases = [bad_receipt("length", f"the first {size} bytes", least[:size]) for size in (0, 1, 19, 40, 48)]
    cases.append(bad_receipt("length", "a byte too many", least + b"\x00"))
    cases.append(bad_receipt("length", "a run fewer than it counts", retagged(whole[:41] + whole[53:-8])))
    for at, value, note in (
        (39, 0, "no settled run counted, where there is one"),
        (39, 17, "17 settled runs"),
        (40, 0, "no challenge counted, where there is one"),
        (40, 4, "a run of the challenge too many"),
    ):
        cases.append(bad_receipt("length", note, retagged(with_byte(whole[:-8], at, value))))
    long = retagged(with_byte(whole[:-8], 40, 65) + bytes(4 * 62))
    cases.append(bad_receipt("length", "65 runs of a challenge, all there", long))
    plain = ref.receipt_write(RECEIPT_KEY, DEVICE, 1001, [])
    cases.append(bad_receipt("length", "the receipt of section 11", plain))
    return "A receipt whose length is not what its counts give, or that counts too much.", cases


def coin_receipt_bad_version() -> Vectors:
    least = ref.coin_receipt_write(RECEIPT_KEY, DEVICE, receipts_said()[0])
    return "Another version or form.", [
        bad_receipt("version", f"first byte {first:#04x}", retagged(with_byte(least[:-8], 0, first)))
        for first in (0x00, 0x10, 0x12, 0x21)
    ]


def coin_receipt_bad_device() -> Vectors:
    return "The receipt of another device.", [
        bad_receipt("device", note, ref.coin_receipt_write(RECEIPT_KEY, device, receipts_said()[0]))
        for note, device in (("another device", DEVICE ^ 1), ("device 0", 0))
    ]


def coin_receipt_bad_tag() -> Vectors:
    whole = ref.coin_receipt_write(RECEIPT_KEY, DEVICE, replace(SAID, runs=[]))
    least = ref.coin_receipt_write(RECEIPT_KEY, DEVICE, receipts_said()[0])
    cases = [
        bad_receipt("seal", f"bit {bit} flipped", flipped(least, bit)) for bit in (41, 88, 159, 207, 250, 283, 328)
    ]
    cases += [bad_receipt("seal", f"bit {bit} flipped", flipped(whole, bit)) for bit in (328, 456, 520, 600)]
    cases.append(bad_receipt("seal", "another bundle's key", least, KEY))
    return "A receipt altered after it was tagged, or tagged with another key.", cases


# ---- 13.3 and 13.5: audits and challenges ----


def coin_index() -> Vectors:
    comment = (
        "Section 13.3: the outcome that a challenge with seed `challenge_seed` picks from a table of `table` outcomes."
    )
    cases: list[Case] = []
    for place, size in enumerate((3, 4, 5, 11, 16, 17, 53, 64)):
        seed, number = made(f"challenge {place}", 16), made_int(f"challenged {place}", 48)
        index = ref.challenge_index(seed, number, size)
        cases.append({"challenge_seed": seed, "number": number, "table": size, "index": index})
    return comment, cases


def coin_audit() -> Vectors:
    comment = (
        "Section 13.5: the challenge key of an era; the audit of a commitment of 32 `roots`; the seed of a challenge about "
        "`reports`, each a number, a root and d."
    )
    master, roots = made("master", 32), bodies()[ref.COMMITMENT]
    header = ref.message_seal(KEY, ref.COMMITMENT, PROFILE, DEVICE, 1001, roots)[:16]
    reports = [(1001, roots[:16], 1), (1003, roots[32:48], 0), (2**48 - 1, roots[-16:], 62)]
    cases: list[Case] = []
    for fleet, audits in (("a", 8), ("plant-7", 16)):
        key = ref.challenge_key(ref.challenge_root(master, fleet), ERA)
        audit = ref.audit_of(key, header, roots, audits)
        assert audit.bit_count() == audits
        seed = ref.challenge_seed(key, DEVICE, audits, reports[: audits // 8 + 1])
        cases.append(
            {
                "master": master,
                "fleet": fleet,
                "era": ERA,
                "challenge_key": key,
                "header": header,
                "roots": roots,
                "audits": audits,
                "audit": audit,
                "device": DEVICE,
                "count": audits,
                "reports": reports[: audits // 8 + 1],
                "challenge_seed": seed,
            }
        )
    return comment, cases


MAKERS = (
    coin_table,
    coin_opening,
    opening_bad_outcome,
    opening_bad_nonce,
    opening_bad_sibling,
    opening_bad_length,
    opening_bad_index,
    opening_bad_name,
    opening_bad_coin,
    coin_message,
    message_bad_length,
    message_bad_version,
    message_bad_flags,
    message_bad_device,
    message_bad_number,
    message_bad_tag,
    coin_receipt,
    coin_receipt_bad_length,
    coin_receipt_bad_version,
    coin_receipt_bad_device,
    coin_receipt_bad_tag,
    coin_index,
    coin_audit,
)
