# SPDX-License-Identifier: MIT
"""Cases for section 9, reader side: the pieces of a payload."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import reference as ref
from cases.frames import Context, flipped, make_frame, patched, renewed, unsealed
from cases.tools import CHOICE, SMALL, WIDE, Case, Vectors, encoder, made, packed_codeword, signs


def piece_fields(piece: bytes, result: ref.Report | ref.CoinMessage | str) -> Case:
    if isinstance(result, str):
        return {"length": len(piece), "expect": result}
    if isinstance(result, ref.CoinMessage):
        return {"length": len(piece), "expect": "ok", **vars(result.header), "type": result.type, "body": result.body}
    return {
        "length": len(piece),
        "expect": "ok",
        **vars(result.header),
        "rule": result.rule,
        "trits": ref.pack(result.trits),
    }


def payload_case(note: str, payload: bytes, context: Context, *expected: str) -> Case:
    pieces = context.reader().read_payload(payload)
    fields = [piece_fields(piece, result) for piece, result in pieces]
    assert [piece["expect"] for piece in fields] == list(expected), (note, fields)
    return {"note": note, "payload": payload, **context.fields(), "pieces": fields}


def ruled(e: ref.Encoder, number: int, rule: int) -> bytes:
    """Return a frame with these four bytes in place of the odds."""
    header = ref.Header(e.flags, e.profile, e.device, number)
    return ref.frame_seal(e.seal_key, header, rule, packed_codeword(e.seed, e.width, ref.Symbol(2, +1)))


VERIFIED = encoder("verified", [signs(3)], 48)
COIN_KEY = made("a bundle's coin key", 16)


def message(type_: int, number: int, body: int | None = None) -> bytes:
    """Return a message of the verified device; `body` is another size than the right one."""
    size = ref.message_body_bytes(type_, 8, ref.opening_bytes(11, 0)) if body is None else body
    return ref.message_seal(
        COIN_KEY, type_, VERIFIED.profile, VERIFIED.device, number, made(f"body {type_} {number}", size)
    )


def verified() -> Iterator[Case]:
    entry = ref.ProfileEntry(48, 8, ref.opening_bytes(11, 0))
    known = Context(SMALL, verified=(VERIFIED, entry, COIN_KEY))
    lenient = Context(SMALL, verified=(VERIFIED, entry, COIN_KEY), accept_unsealed=True)
    commitment, answer, opening = message(ref.COMMITMENT, 33), message(ref.AUDIT_ANSWER, 33), message(ref.OPENING, 35)
    report, small = make_frame(VERIFIED, 34), make_frame(SMALL, 3)
    yield payload_case("messages of verified coins", opening + report + answer + small, known, *["ok"] * 4)
    yield payload_case("a commitment", small + commitment, known, "ok", "ok")
    yield payload_case("a wrong tag of an opening", flipped(opening, 200) + opening, known, "seal", "ok")
    yield payload_case("an opening cut short", opening + opening[:-1], known, "ok", "length")
    yield payload_case("type 4", patched(opening, 1, b"\x04") + small, known, "flags")
    yield payload_case("a flag with a type", patched(opening, 0, b"\x11") + small, known, "flags")
    other = patched(opening, 2, ref.le(SMALL.profile, 4))
    yield payload_case("a type under a profile without verified coins", other + small, known, "flags")
    yield payload_case("a type under an unknown profile", patched(opening, 2, bytes(4)) + small, known, "flags")
    yield payload_case("another device", patched(opening, 6, ref.le(SMALL.device, 4)), known, "profile")
    yield payload_case("number 0", patched(opening, 10, bytes(6)) + small, known, "number", "ok")
    yield payload_case("an unsealed report", make_frame(unsealed(VERIFIED), 34) + small, lenient, "unsealed", "ok")


def payload() -> Vectors:
    comment = (
        "Section 9: payloads, and the pieces a reader finds in them: length in bytes, then what the frame says or the "
        "fault. The lengths add up to the payload's."
    )
    s, w, c, u = make_frame(SMALL, 3), make_frame(WIDE, 2**48 - 1), make_frame(CHOICE, 9), make_frame(unsealed(WIDE), 4)
    all_known = Context(SMALL, WIDE, CHOICE)
    lenient = Context(SMALL, WIDE, CHOICE, accept_unsealed=True)
    return comment, [
        payload_case("empty", b"", all_known, "length"),
        payload_case("one frame", w, all_known, "ok"),
        payload_case("three profiles", s + w + c, all_known, "ok", "ok", "ok"),
        payload_case("the same frame twice: replays are not the reader's affair", s + s, all_known, "ok", "ok"),
        payload_case("sealed and unsealed, accepted", w + u + s, lenient, "ok", "ok", "ok"),
        payload_case("sealed and unsealed, not accepted", w + u + s, all_known, "ok", "unsealed", "ok"),
        payload_case("a wrong tag spoils its own frame only", s + flipped(w, 300) + c, all_known, "ok", "seal", "ok"),
        payload_case(
            "an unknown device spoils its own frame only",
            s + w + s,
            Context(SMALL, replace(WIDE, device=1)),
            "ok",
            "device",
            "ok",
        ),
        payload_case("device 0 spoils its own frame only", patched(s, 6, bytes(4)) + c, all_known, "device", "ok"),
        payload_case("number 0 spoils its own frame only", patched(s, 10, bytes(6)) + c, all_known, "number", "ok"),
        payload_case(
            "invalid trits spoil their own frame only",
            make_frame(SMALL, packed=b"\xf3\x00") + c,
            all_known,
            "trits",
            "ok",
        ),
        payload_case("an unknown profile ends the splitting", s + w + c, Context(SMALL, CHOICE), "ok", "profile"),
        payload_case("another version ends the splitting", s + patched(w, 0, b"\x20") + c, all_known, "ok", "version"),
        payload_case("unknown flags end the splitting", s + patched(w, 0, b"\x18") + c, all_known, "ok", "flags"),
        payload_case("a reserved byte ends the splitting", s + patched(w, 1, b"\x02") + c, all_known, "ok", "flags"),
        payload_case("a last frame cut short", s + w[:-1], all_known, "ok", "length"),
        payload_case("a byte too many", s + b"\x10", all_known, "ok", "length"),
        payload_case(
            "a frame cut short in the middle shifts the next one",
            w[:-8] + make_frame(WIDE, 5),
            all_known,
            "seal",
            "version",
        ),
        payload_case(
            "unsealed flag set on a sealed frame: the tag is left over",
            patched(s, 0, b"\x11"),
            all_known,
            "unsealed",
            "length",
        ),
        payload_case(
            "reports of a device that was provisioned again, delivered late and out of order",
            make_frame(renewed(SMALL), 10)
            + make_frame(SMALL, 9)
            + make_frame(renewed(SMALL), 19)
            + make_frame(SMALL, 1)
            + make_frame(replace(WIDE, device=SMALL.device), 20),
            Context(SMALL, later={10: renewed(SMALL), 20: replace(WIDE, device=SMALL.device)}),
            *["ok"] * 5,
        ),
        payload_case(
            "a number below all bundles spoils its own frame only",
            make_frame(SMALL, 9) + make_frame(SMALL, 10),
            Context(later={10: SMALL}),
            "device",
            "ok",
        ),
        payload_case(
            "any rule passes the reader",
            ruled(SMALL, 1, 0) + ruled(SMALL, 2, 2**32 - 1) + ruled(SMALL, 3, 0x10308),
            all_known,
            *["ok"] * 3,
        ),
        *verified(),
    ]


MAKERS: tuple[Callable[[], Vectors], ...] = (payload,)
