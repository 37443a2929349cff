# SPDX-License-Identifier: MIT
"""Cases for section 11: topics, receipts, and receipts that are refused."""

from collections.abc import Iterator

import reference as ref
from cases.frames import flipped
from cases.tools import Case, Vectors, made, outcome

KEY = made("receipt key", 16)
OTHER_KEY = made("another receipt key", 16)
DEVICE = 0x12345678
LAST = 2**48 - 1
RUNS: list[ref.Run] = [(1003, 1003), (1005, 1100), (2**40, 2**40 + 7)]


def topics() -> Vectors:
    comment = "Section 11: where messages to and from a device go."
    cases = []
    for fleet in ("a", "plant-7"):
        for device in (1, 0x3F, 0x40, 0x12345678, 0xFFFFFFFF):
            for about in ("report", "status", "receipt"):
                topic = ref.device_topic(fleet, device, about)
                cases.append({"fleet": fleet, "device": device, "about": about, "topic": topic})
    return comment, cases


def receipt() -> Vectors:
    comment = (
        "Section 11: receipts. Every number up to `upto` is settled, and those of `runs`, each its first and last."
    )
    many: list[ref.Run] = [(10 * place, 10 * place + 3) for place in range(1, 17)]
    contents: list[tuple[int, int, list[ref.Run]]] = [
        (DEVICE, 0, []),
        (DEVICE, 1, []),
        (1, LAST, []),
        (0xFFFFFFFF, 0, [(2, LAST)]),
        (DEVICE, 1001, RUNS),
        (DEVICE, 4, many),
    ]
    cases = []
    for device, upto, runs in contents:
        written = ref.receipt_write(KEY, device, upto, runs)
        cases.append({"receipt_key": KEY, "device": device, "upto": upto, "runs": runs, "receipt": written})
    return comment, cases


def bad(expect: str, note: str, receipt: bytes, *, device: int = DEVICE, key: bytes = KEY) -> Case:
    fault = outcome(ref.receipt_read, key, device, receipt)
    assert fault == expect, (note, fault)
    return {"note": note, "receipt_key": key, "device": device, "receipt": receipt, "expect": expect}


def receipt_bad_length() -> Vectors:
    whole = ref.receipt_write(KEY, DEVICE, 1001, RUNS)
    cases = [bad("length", f"the first {size} bytes", whole[:size]) for size in (0, 1, 5, 11, 18, 20, 30, 32, 54)]
    seventeen = ref.receipt_write(KEY, DEVICE, 4, [(10 * place, 10 * place) for place in range(1, 18)])
    cases.append(bad("length", "17 runs, rightly tagged", seventeen))
    cases.append(bad("length", "a byte too many, and another version: the length comes first", b"\x20" + whole))
    return "A receipt that is cut short, or longer than 16 runs.", cases


def receipt_bad_version() -> Vectors:
    whole = ref.receipt_write(KEY, DEVICE, 1001, RUNS)
    return "Another version.", [
        bad("version", f"first byte {first:#04x}", bytes([first]) + whole[1:]) for first in (0x00, 0x11, 0x20, 0xFF)
    ]


def receipt_bad_device() -> Vectors:
    foreign = ref.receipt_write(OTHER_KEY, DEVICE ^ 1, 1001, RUNS)
    return "The receipt of another device.", [
        bad("device", "as its own gateway made it", foreign),
        bad("device", "tagged with this device's key", ref.receipt_write(KEY, DEVICE ^ 1, 1001, RUNS)),
        bad("device", "device 0", ref.receipt_write(KEY, 0, 1001, [])),
    ]


def receipt_bad_tag() -> Vectors:
    return "A wrong tag.", list(_wrong_tags())


def _wrong_tags() -> Iterator[Case]:
    short = ref.receipt_write(KEY, DEVICE, 1001, [])
    for bit in range(8 * 11, 8 * 19, 9):
        yield bad("seal", f"bit {bit} flipped, in the tag", flipped(short, bit))
    yield bad("seal", "a tag of zeros", short[:-8] + bytes(8))
    body = short[:-8]
    tag, whole = short[-8:], ref.hash_("peel/1 receipt", KEY + body, 16)
    assert whole[:8] == tag
    yield bad("seal", "the second half of a 16-byte tag", body + whole[8:])
    yield bad("seal", "tagged with the right key under another label", body + ref.hash_("peel/1 key", KEY + body, 8))


def receipt_bad_claim() -> Vectors:
    """Change the fields that a forger would: the number up to which all is settled, and the runs."""
    whole = ref.receipt_write(KEY, DEVICE, 1001, RUNS)
    cases = [bad("seal", f"bit {bit} flipped", flipped(whole, bit)) for bit in range(8 * 5, 8 * 47, 29)]
    longer, shorter = whole[:-8] + ref.le(5000, 6) + ref.le(6000, 6) + whole[-8:], whole[:-20] + whole[-8:]
    cases.append(bad("seal", "a run added, with the old tag", longer))
    cases.append(bad("seal", "a run taken away, with the old tag", shorter))
    return "Claims that were altered after they were tagged.", cases


def receipt_bad_bundle() -> Vectors:
    written = ref.receipt_write(OTHER_KEY, DEVICE, 1001, RUNS)
    return "A receipt under the key of another bundle of the device.", [bad("seal", "an earlier bundle's", written)]


MAKERS = (
    topics,
    receipt,
    receipt_bad_length,
    receipt_bad_version,
    receipt_bad_device,
    receipt_bad_tag,
    receipt_bad_claim,
    receipt_bad_bundle,
)
