# SPDX-License-Identifier: MIT
"""Cases for section 9, reader side: frames that are refused."""

from collections.abc import Callable
from dataclasses import fields, replace

import reference as ref
from cases.tools import CHOICE, SMALL, WIDE, Case, Vectors, encoder, made, packed_codeword, signs

PLUS_2 = ref.Symbol(2, +1)
Later = dict[int, ref.Encoder]


def make_frame(e: ref.Encoder, number: int = 1, symbol: ref.Symbol = PLUS_2, packed: bytes | None = None) -> bytes:
    """Return a frame as its device would seal it, or one with other trits under the right key."""
    header = ref.Header(e.flags, e.profile, e.device, number)
    trits = packed_codeword(e.seed, e.width, symbol) if packed is None else packed
    return ref.frame_seal(e.seal_key, header, e.blocks[0].rule, trits)


def unsealed(e: ref.Encoder) -> ref.Encoder:
    return replace(e, flags=ref.UNSEALED)


def patched(frame: bytes, at: int, new: bytes) -> bytes:
    return frame[:at] + new + frame[at + len(new) :]


def flipped(frame: bytes, bit: int) -> bytes:
    return patched(frame, bit // 8, bytes([frame[bit // 8] ^ 1 << bit % 8]))


class Context:
    """The knowledge of a case's reader: each device's only bundle, or its bundles by their first numbers."""

    def __init__(
        self,
        *known: ref.Encoder,
        accept_unsealed: bool = False,
        later: Later | None = None,
        verified: tuple[ref.Encoder, ref.ProfileEntry, bytes] | None = None,
    ) -> None:
        first_of = [(1, e) for e in known] + list((later or {}).items())
        self.profiles = {e.profile: ref.ProfileEntry(e.width) for _, e in first_of}
        by_first = {(e.device, first): e for first, e in first_of}  # the last one of two with the same first number
        self.bundles = [ref.BundleEntry(*key, e.seal_key, e.profile) for key, e in by_first.items()]
        self.accept_unsealed = accept_unsealed
        if verified is not None:
            e, profile, coin_key = verified
            self.profiles[e.profile] = profile
            self.bundles.append(ref.BundleEntry(e.device, 1, e.seal_key, e.profile, coin_key=coin_key))

    def ending(self, place: int, last: int) -> "Context":
        """Return the same reader, with one of the bundles ending at a number."""
        self.bundles[place] = replace(self.bundles[place], last=last)
        return self

    def reader(self) -> ref.Reader:
        return ref.Reader(self.profiles, self.bundles, self.accept_unsealed)

    def fields(self) -> Case:
        return {
            "profiles": [{"id": id_, **_given(profile)} for id_, profile in self.profiles.items()],
            "bundles": [_given(bundle) for bundle in self.bundles],
            "accept_unsealed": self.accept_unsealed,
        }


def _given(entry: ref.ProfileEntry | ref.BundleEntry) -> Case:
    """Return the fields of an entry that differ from their defaults."""
    return {each.name: getattr(entry, each.name) for each in fields(entry) if getattr(entry, each.name) != each.default}


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
    cases.append(
        bad("version", "and unknown flags: the version comes first", patched(frame, 0, b"\x2e"), Context(SMALL))
    )
    return "Another version than 1.", cases


def frame_bad_flags() -> Vectors:
    frame = make_frame(SMALL)
    cases = [bad("flags", f"flags {f}", patched(frame, 0, bytes([0x10 | f])), Context(SMALL)) for f in range(2, 16)]
    cases.append(
        bad("flags", "and an unknown profile: the flags come first", patched(frame, 0, b"\x12"), Context(WIDE))
    )
    return "Reserved flags are set.", cases


def frame_bad_profile() -> Vectors:
    frame = make_frame(SMALL)
    cases = [
        bad("profile", f"bit {bit} of the profile id differs", flipped(frame, 16 + bit), Context(SMALL))
        for bit in range(0, 32, 3)
    ]
    cases.append(bad("profile", "the reader knows other profiles only", frame, Context(WIDE, CHOICE)))
    cases.append(
        bad("profile", "a header alone: the profile comes before the frame's length", frame[:16], Context(WIDE))
    )
    return "A profile that the reader does not know.", cases


def frame_bad_reserved() -> Vectors:
    frame = make_frame(SMALL)
    cases = [
        bad("flags", f"byte 1 is {value}", patched(frame, 1, bytes([value])), Context(SMALL))
        for value in (1, 2, 3, 4, 0x80, 0xFF)
    ]
    cases.append(bad("flags", "a header alone", patched(frame, 1, b"\x02")[:16], Context(SMALL)))
    cases.append(bad("flags", "and an unknown profile: byte 1 comes first", patched(frame, 1, b"\x01"), Context(WIDE)))
    return "The reserved byte after version and flags is not 0.", cases


def frame_bad_length() -> Vectors:
    cases = []
    for e in (SMALL, WIDE, unsealed(SMALL)):
        frame = make_frame(e)
        for cut in range(1, len(frame) - 15, 2):
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
        bad(
            "number",
            "unsealed, not accepted: the number comes first",
            patched(make_frame(unsealed(SMALL)), 10, bytes(6)),
            Context(SMALL),
        ),
    ]


def frame_bad_device_unknown() -> Vectors:
    other = replace(SMALL, device=SMALL.device ^ 1)
    return "A device that the reader does not know.", [
        bad("device", "another device is known", make_frame(SMALL), Context(other)),
        bad(
            "device",
            "unsealed frames are accepted from known devices only",
            make_frame(unsealed(SMALL)),
            Context(other, accept_unsealed=True),
        ),
        bad("device", "unsealed, not accepted: the device comes first", make_frame(unsealed(SMALL)), Context(other)),
        bad("device", "and a wrong tag: the device comes first", flipped(make_frame(SMALL), 8 * 29), Context(other)),
    ]


def renewed(e: ref.Encoder, times: int = 1) -> ref.Encoder:
    """The same device, provisioned again."""
    return replace(e, seal_key=made(f"renewed seal key {times}", 16), index_key=made(f"renewed index key {times}", 16))


def frame_bad_bundle() -> Vectors:
    new, wide = renewed(SMALL), renewed(replace(WIDE, device=SMALL.device))
    late, moved = Context(later={10: SMALL}), Context(SMALL, later={10: wide})
    both = Context(SMALL, later={10: new, 20: renewed(SMALL, 2)})
    ended = Context(SMALL, later={10: new}).ending(0, 6)
    return "Keys that are not those of the report's number, and profiles of another bundle.", [
        bad("device", "a number below the device's first bundle", make_frame(SMALL, 9), late),
        bad("device", "unsealed, not accepted: the number comes first", make_frame(unsealed(SMALL), 9), late),
        bad("seal", "an old copy with the new bundle's first number", make_frame(SMALL, 10), both),
        bad("seal", "an old copy with a later number", make_frame(SMALL, 2**48 - 1), both),
        bad("seal", "a second copy with the third one's first number", make_frame(new, 20), both),
        bad("seal", "the new keys with the old bundle's last number", make_frame(new, 9), both),
        bad("device", "a number above the device's only bundle", make_frame(SMALL, 10), Context(SMALL).ending(0, 9)),
        bad("device", "a number that the old bundle no longer has", make_frame(SMALL, 7), ended),
        bad("seal", "an old copy, though its own numbers have ended", make_frame(SMALL, 10), ended),
        bad("profile", "the old bundle's profile with a new number", make_frame(SMALL, 10), moved),
        bad("profile", "the new bundle's profile with an old number", make_frame(wide, 9), moved),
    ]


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
    cases = [
        bad("seal", f"bit {i} of the tag flipped", flipped(frame, start + i), Context(SMALL)) for i in range(0, 64, 3)
    ]
    cases.append(bad("seal", "a tag of zeros", frame[:-8] + bytes(8), Context(SMALL)))
    whole = ref.aead_seal(
        SMALL.seal_key,
        frame[:16],
        b"",
        ref.le(SMALL.blocks[0].rule, 4) + packed_codeword(SMALL.seed, 7, ref.Symbol(2, 1)),
    )
    cases.append(bad("seal", "the second half of the 16-byte tag", frame[:-8] + whole[1][8:], Context(SMALL)))
    cases.append(bad("seal", "the reader has another key", frame, Context(replace(SMALL, seal_key=SMALL.index_key))))
    return "A wrong tag.", cases


def frame_bad_header_bit() -> Vectors:
    """The reader knows the altered profile and device, so that only the seal can reveal the change."""
    frame = make_frame(SMALL, 3)
    cases = []
    for bit in range(0, 48, 3):
        cases.append(bad("seal", f"bit {bit} of the number flipped", flipped(frame, 80 + bit), Context(SMALL)))
    for bit in range(0, 32, 5):
        other = Context(SMALL, replace(SMALL, profile=SMALL.profile ^ 1 << bit))
        cases.append(bad("seal", f"bit {bit} of the profile id flipped", flipped(frame, 16 + bit), other))
        other = Context(SMALL, replace(SMALL, device=SMALL.device ^ 1 << bit))
        cases.append(bad("seal", f"bit {bit} of the device flipped, same key", flipped(frame, 48 + bit), other))
    return "A header altered on the way; all it names is known to the reader.", cases


def frame_bad_ciphertext_bit() -> Vectors:
    frame = make_frame(SMALL)
    bits = range(8 * 16, 8 * (len(frame) - 8), 3)
    return "One bit of odds or trits flipped on the way.", [
        bad("seal", f"bit {bit} of the frame flipped", flipped(frame, bit), Context(SMALL)) for bit in bits
    ]


def frame_bad_negated() -> Vectors:
    """An attacker without the key who knows the codeword can turn the ciphertext into that of the negated one."""
    cases = []
    for e in (SMALL, WIDE, encoder("negated", [signs(252)], 252)):
        for sign in (+1, -1):
            symbol = ref.Symbol(1, sign)
            frame = make_frame(e, 7, symbol)
            change = ref.xor(
                packed_codeword(e.seed, e.width, symbol), packed_codeword(e.seed, e.width, ref.Symbol(1, -sign))
            )
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
    for e in (SMALL, WIDE, encoder("one trit", [signs(2)], 2)):
        good = packed_codeword(e.seed, e.width, ref.Symbol(1, +1))
        for place in range((e.width - 1) % 5, 5):
            for digit in (1, 2):
                if good[-1] + digit * 3**place <= 242:
                    packed = good[:-1] + bytes([good[-1] + digit * 3**place])
                    note = f"width {e.width}: digit {place} of the last byte is {digit}"
                    cases.append(bad("trits", note, make_frame(e, packed=packed), Context(e)))
    return "Validly sealed, but a digit past the last trit is not 0.", cases


def frame_bad_device_profile() -> Vectors:
    context = Context(SMALL, WIDE)
    return "Well-sealed frames of a known profile that is not their device's.", [
        bad(
            "profile",
            "small device, wide profile",
            make_frame(replace(WIDE, device=SMALL.device, seal_key=SMALL.seal_key)),
            context,
        ),
        bad(
            "profile",
            "wide device, small profile",
            make_frame(replace(SMALL, device=WIDE.device, seal_key=WIDE.seal_key)),
            context,
        ),
        bad("profile", "before the flag", make_frame(replace(SMALL, device=WIDE.device, flags=ref.UNSEALED)), context),
        bad("profile", "before the seal", flipped(make_frame(replace(WIDE, device=SMALL.device)), 200), context),
    ]


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


MAKERS: tuple[Callable[[], Vectors], ...] = (
    frame_bad_short_header,
    frame_bad_version,
    frame_bad_flags,
    frame_bad_profile,
    frame_bad_reserved,
    frame_bad_length,
    frame_bad_device_zero,
    frame_bad_number_zero,
    frame_bad_device_unknown,
    frame_bad_bundle,
    frame_bad_unsealed,
    frame_bad_tag,
    frame_bad_header_bit,
    frame_bad_ciphertext_bit,
    frame_bad_negated,
    frame_bad_trits,
    frame_bad_padding,
    frame_bad_device_profile,
    frame_bad_other_device,
)
