# SPDX-License-Identifier: MIT
"""Peel's wire format, version 1: a slow, plain implementation to read next to SPEC.md.

The sections below have the numbers of SPEC.md. Only the vector generator and the tests beside it import this file. It is meant
to be obviously right, and it is one file so that it can be read from beginning to end. It is neither fast nor constant time:
never run it with real keys.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

# ---- 1. Conventions -------------------------------------------------------------------------------------------------

MASK32 = 2**32 - 1
MASK64 = 2**64 - 1
MAX_WIDTH = 1024


class RefusedError(Exception):
    """An input that the specification refuses. `fault` is its name in the vectors."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.fault = fault


def refuse_if(condition: bool, fault: str) -> None:
    if condition:
        raise RefusedError(fault)


def le(value: int, size: int) -> bytes:
    """LE32(x) is le(x, 4), LE48(x) is le(x, 6)."""
    return value.to_bytes(size, "little")


def from_le(data: bytes) -> int:
    return int.from_bytes(data, "little")


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def check_width(k: int, width: int, least: int = 2) -> None:
    refuse_if(not (least <= k <= width and 2 <= width <= MAX_WIDTH), "width")


# ---- 2. Ascon (NIST SP 800-232) -------------------------------------------------------------------------------------

AEAD_IV = 0x00001000808C0001
XOF_IV = 0x0000080000CC0003
LINEAR_ROTATIONS = ((19, 28), (61, 39), (1, 6), (10, 17), (7, 41))

State = list[int]  # five 64-bit words; a word's bytes are little-endian


def rotate_right(x: int, count: int) -> int:
    return (x >> count | x << (64 - count)) & MASK64


def ascon_permutation(state: State, rounds: int) -> None:
    """Apply the last `rounds` of the twelve rounds, in place."""
    for number in range(12 - rounds, 12):
        state[2] ^= 0xF0 - 0x0F * number
        substitute(state)
        for i, (a, b) in enumerate(LINEAR_ROTATIONS):
            state[i] ^= rotate_right(state[i], a) ^ rotate_right(state[i], b)


def substitute(state: State) -> None:
    """Apply the 5-bit S-box to all 64 columns at once."""
    state[0] ^= state[4]
    state[4] ^= state[3]
    state[2] ^= state[1]
    chi = [(state[(i + 1) % 5] ^ MASK64) & state[(i + 2) % 5] for i in range(5)]
    for i in range(5):
        state[i] ^= chi[i]
    state[1] ^= state[0]
    state[0] ^= state[4]
    state[3] ^= state[2]
    state[2] ^= MASK64


def rate_bytes(state: State, rate: int) -> bytes:
    return b"".join(le(word, 8) for word in state)[:rate]


def add_block(state: State, block: bytes) -> None:
    for i in range(0, len(block), 8):
        state[i // 8] ^= from_le(block[i : i + 8])


def pad(block: bytes, rate: int) -> bytes:
    return block + b"\x01" + bytes(rate - len(block) - 1)


def blocks(data: bytes, rate: int) -> list[bytes]:
    """Split into full blocks and one short (perhaps empty) block that is to be padded."""
    return [data[i : i + rate] for i in range(0, len(data) + 1, rate)]


def xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=True))


def aead(key: bytes, nonce: bytes, ad: bytes, text: bytes, *, opening: bool) -> tuple[bytes, bytes]:
    """Run Ascon-AEAD128 in either direction; return the output text and the 16-byte tag of the plaintext."""
    k0, k1 = from_le(key[:8]), from_le(key[8:])
    state = [AEAD_IV, k0, k1, from_le(nonce[:8]), from_le(nonce[8:])]
    ascon_permutation(state, 12)
    state[3] ^= k0
    state[4] ^= k1

    if ad:
        for block in blocks(ad, 16):
            add_block(state, block if len(block) == 16 else pad(block, 16))
            ascon_permutation(state, 8)
    state[4] ^= 1 << 63

    out = b""
    for block in blocks(text, 16):
        crypted = xor(block, rate_bytes(state, len(block)))
        plain = crypted if opening else block
        out += crypted
        if len(block) == 16:
            add_block(state, plain)
            ascon_permutation(state, 8)
        else:
            add_block(state, pad(plain, 16))

    state[2] ^= k0
    state[3] ^= k1
    ascon_permutation(state, 12)
    return out, le(state[3] ^ k0, 8) + le(state[4] ^ k1, 8)


def aead_seal(key: bytes, nonce: bytes, ad: bytes, text: bytes) -> tuple[bytes, bytes]:
    return aead(key, nonce, ad, text, opening=False)


def aead_open(key: bytes, nonce: bytes, ad: bytes, text: bytes, tag: bytes) -> bytes:
    """Decrypt; `tag` may be truncated."""
    plain, whole_tag = aead(key, nonce, ad, text, opening=True)
    refuse_if(whole_tag[: len(tag)] != tag, "seal")
    return plain


def stream(key: bytes, nonce: bytes, length: int) -> bytes:
    return aead_seal(key, nonce, b"", bytes(length))[0]


def xof(data: bytes, length: int) -> bytes:
    """Ascon-XOF128."""
    state = [XOF_IV, 0, 0, 0, 0]
    ascon_permutation(state, 12)
    for block in blocks(data, 8):
        add_block(state, block if len(block) == 8 else pad(block, 8))
        ascon_permutation(state, 12)
    out = b""
    while len(out) < length:
        out += rate_bytes(state, 8)
        ascon_permutation(state, 12)
    return out[:length]


def hash_(label: str, data: bytes, length: int) -> bytes:
    return xof(bytes([len(label)]) + label.encode("ascii") + data, length)


# ---- 3. Keys --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BundleKeys:
    seal_key: bytes
    index_key: bytes
    receipt_key: bytes
    coin_key: bytes


def bundle_keys(master: bytes, fleet: str, device: int, first: int, salt: bytes) -> BundleKeys:
    """Return the keys of the bundle that begins at `first`."""
    refuse_if(not re.fullmatch(r"[a-z][a-z0-9-]{0,31}", fleet), "fleet")
    refuse_if(not 1 <= device <= MASK32, "device")
    refuse_if(not 1 <= first < 2**48, "number")
    refuse_if(len(salt) != 16, "salt")
    name = fleet.encode("ascii")
    material = master + bytes([len(name)]) + name + le(device, 4) + le(first, 6) + salt
    return BundleKeys(*(hash_("peel/1 key", material + bytes([purpose]), 16) for purpose in (1, 2, 3, 4)))


# ---- 4. The random generator of a device (DRBG) ---------------------------------------------------------------------


class Drbg:
    def __init__(self) -> None:
        self.key = bytes(16)
        self.block = bytes(16)
        self.used = 16
        self.last = bytes(8)
        self.seeded = False

    def seed(self, entropy: bytes) -> None:
        digest = hash_("peel/1 drbg input", entropy, 8)
        refuse_if(not is_healthy(entropy), "entropy")
        refuse_if(self.seeded and digest == self.last, "entropy")
        self.last = digest
        self.key = hash_("peel/1 drbg", self.key + entropy, 16)
        self.used = 16
        self.seeded = True

    def word(self) -> int:
        refuse_if(not self.seeded, "entropy")
        if self.used == 16:
            fresh = stream(self.key, bytes(16), 32)
            self.key, self.block, self.used = fresh[:16], fresh[16:], 0
        word = from_le(self.block[self.used : self.used + 4])
        self.block = self.block[: self.used] + bytes(4) + self.block[self.used + 4 :]
        self.used += 4
        return word

    def bytes(self, length: int) -> bytes:
        refuse_if(not self.seeded, "entropy")
        return b"".join(le(self.word(), 4) for _ in range(ceil_div(length, 4)))[:length]


def is_healthy(e: bytes) -> bool:
    """Apply health rules 1 to 4, in their order."""
    return not (len(e) < 32 or is_stuck(e) or is_skewed(e) or is_repeating(e))


def is_stuck(e: bytes) -> bool:
    return any(len(set(e[i : i + 6])) == 1 for i in range(len(e) - 5))


def is_skewed(e: bytes) -> bool:
    return any(e.count(value) >= ceil_div(len(e), 4) for value in range(256))


def is_repeating(e: bytes) -> bool:
    return any(all(e[i] == e[i + q] for i in range(len(e) - q)) for q in range(1, len(e) // 2 + 1))


# ---- 5. Odds: epsilon as two integers -------------------------------------------------------------------------------

EPSILON_ONE = 2**20
EPSILON_MAX = 6 * EPSILON_ONE
MAX_ODDS = 255


SCALE = 2**200


def exp_bounds(epsilon: int) -> tuple[int, int]:
    """Return integers below and above 2^200 e^(epsilon / 2^20)."""
    with localcontext(prec=100):
        rounded_down = int((Decimal(epsilon) / EPSILON_ONE).exp() * SCALE)
    return rounded_down - 1, rounded_down + 2


def is_private(keep: int, change: int, below: int, above: int) -> bool:
    """Return whether keep <= change E, for the E between the bounds."""
    holds = keep * SCALE <= change * below
    refuse_if(holds != (keep * SCALE <= change * above), "epsilon")  # undecided
    return holds


def is_precise(keep: int, change: int, g: int, below: int, above: int) -> bool:
    """Return whether change (K - change) (E - 1)^2 <= (1 + t) (E + g - 2) (keep - change)^2."""
    left = 20 * change * (keep + (g - 2) * change)
    right = (21 if g == 2 else 22) * (keep - change) ** 2 * SCALE
    holds = left * (above - SCALE) ** 2 <= right * (below + (g - 2) * SCALE)  # both sides grow with E
    refuse_if(holds != (left * (below - SCALE) ** 2 <= right * (above + (g - 2) * SCALE)), "epsilon")  # undecided
    return holds


@cache
def odds_of(epsilon: int, g: int, most: int | None = None) -> tuple[int, int]:
    """Return keep and change. `most` is a limit of K."""
    refuse_if(not 1 <= epsilon <= EPSILON_MAX, "epsilon")
    check_width(g, MAX_WIDTH)
    below, above = exp_bounds(epsilon)
    pairs = [(keep, change) for keep in range(2, MAX_ODDS + 1) for change in range(1, keep)]
    pairs.sort(key=lambda odds: (odds[0] + (g - 1) * odds[1], -odds[0]))
    for keep, change in pairs:
        if most is not None and keep + (g - 1) * change > most:
            break
        if is_private(keep, change, below, above) and is_precise(keep, change, g, below, above):
            return keep, change
    raise RefusedError("epsilon")


# ---- 6. Questions ---------------------------------------------------------------------------------------------------

SIGN = 1
CHOICE = 2
HASHED = 3
MAX_DOMAIN = 65535
MAX_BLOCKS = 32
MAX_WEIGHT = 16
NO_READING = -(2**31)


@dataclass(frozen=True)
class Block:
    """Consecutive questions with one form, weight and odds."""

    form: int
    weight: int
    questions: int
    symbols: int  # columns of each question
    domain: int  # d for hashed categories, otherwise 0
    keep: int
    change: int

    @property
    def outcomes(self) -> int:
        """Return the outcomes of the coin."""
        return 2 if self.form == SIGN else self.symbols

    @property
    def rule(self) -> int:
        """Return the four bytes of the odds in a frame, as an integer."""
        return self.keep + 2**8 * self.change

    @property
    def slots(self) -> int:
        return self.questions * self.weight

    @property
    def columns(self) -> int:
        return self.questions * self.symbols

    @property
    def units(self) -> int:
        return hash_count(self.symbols, self.domain) if self.form == HASHED else self.questions


@dataclass(frozen=True)
class Symbol:
    index: int
    sign: int


def uniform(count: int, next_word: Callable[[], int]) -> int:
    """Return a number below `count`."""
    mask = (1 << (count - 1).bit_length()) - 1  # ceil(log2 count) bits
    u = next_word() & mask
    while u >= count:
        u = next_word() & mask
    return u


def pattern(keep: int, change: int, g: int) -> list[int]:
    """Return f: the K offsets, all equally likely."""
    return [0] * keep + [offset for offset in range(1, g) for _ in range(change)]


def coin(b: int, g: int, keep: int, change: int, next_word: Callable[[], int]) -> int:
    f = pattern(keep, change, g)
    return (b + f[uniform(len(f), next_word)]) % g


def rounded(x: int, next_word: Callable[[], int]) -> int:
    """Return the reading as 0 or 1, rounded at random."""
    x = max(-(2**15), min(2**15, x))
    return int(next_word() < (2**15 + x) * 2**16)


def hash_symbols(epsilon: int) -> int:
    """Return g: the first prime of the table whose limit epsilon does not exceed, or the last prime."""
    return next((prime for prime, limit in HASH_LIMITS if epsilon <= limit), MAX_HASH_SYMBOLS)


def hash_digits(g: int, d: int) -> int:
    """Return m: the smallest with g^m >= d."""
    m = 1
    while g**m < d:
        m += 1
    return m


def hash_count(g: int, d: int) -> int:
    """Return the number of hashes, g^m."""
    count: int = g ** hash_digits(g, d)
    return count


def hashed(a: int, v: int, g: int, d: int) -> int:
    """Return h_a(v). The first digit of a goes with the last digit of v."""
    m = hash_digits(g, d)
    products = [(a // g ** (m - 1 - i) % g) * (v // g**i % g) for i in range(m)]
    return int(sum(products) % g)


def check_blocks(blocks_: list[Block], width: int) -> None:
    """Refuse in the order of section 9."""
    refuse_if(not 1 <= len(blocks_) <= MAX_BLOCKS, "block")
    refuse_if(not 2 <= width <= MAX_WIDTH, "width")
    columns = 0
    for block in blocks_:
        check_shape(block)
        columns += block.columns
        refuse_if(columns > width, "width")
        refuse_if(not (2 <= block.domain <= MAX_DOMAIN if block.form == HASHED else block.domain == 0), "domain")
        refuse_if(not 1 <= block.change < block.keep <= MAX_ODDS, "odds")


def check_shape(block: Block) -> None:
    refuse_if(block.form not in (SIGN, CHOICE, HASHED), "block")
    refuse_if(not 1 <= block.weight <= MAX_WEIGHT, "block")
    refuse_if(not (block.questions >= 1 if block.form == SIGN else block.questions == 1), "block")
    if block.form == SIGN:
        refuse_if(block.symbols != 1, "width")
    else:
        refuse_if(not 2 <= block.symbols <= (MAX_HASH_SYMBOLS if block.form == HASHED else MAX_WIDTH), "width")


def perturb(
    blocks_: list[Block],
    width: int,
    words: tuple[int, int],
    readings: list[int],
    drbg: Drbg,
    seed: bytes | None = None,
) -> tuple[Symbol, Block]:
    """Return the symbol of a report, and the block of its question.

    `words` are WORD0 and WORD1 of section 7. With the `seed` of a verified coin the answer is masked (section 13.1).
    """
    check_blocks(blocks_, width)
    refuse_if(len(readings) != sum(block.questions for block in blocks_), "reading")
    at, question = assigned(blocks_, words[0])
    block, before = blocks_[at], blocks_[:at]
    reading = readings[sum(each.questions for each in before) + question]
    k = sum(each.columns for each in blocks_)
    if reading == NO_READING:
        refuse_if(k == width, "reading")
        answer(block, question, 0, words[1], drbg, seed)  # the words of a reading are drawn, and not used
        return Symbol(k, +1), block
    symbol = answer(block, question, reading, words[1], drbg, seed)
    return Symbol(sum(each.columns for each in before) + symbol.index, symbol.sign), block


def answer(block: Block, question: int, reading: int, hash_word: int, drbg: Drbg, seed: bytes | None) -> Symbol:
    """Return the symbol of one question, counted from the block's first column."""
    if block.form == SIGN:
        b = rounded(reading, drbg.word)
        return Symbol(question, +1 if hidden(b, block, drbg, seed) == 1 else -1)
    refuse_if(not 0 <= reading < (block.domain or block.symbols), "reading")
    if block.form == HASHED:
        a = assign(hash_word, hash_count(block.symbols, block.domain))
        reading = hashed(a, reading, block.symbols, block.domain)
    return Symbol(hidden(reading, block, drbg, seed), +1)


def hidden(b: int, block: Block, drbg: Drbg, seed: bytes | None) -> int:
    """Return the answer after the coin, or under the mask of a verified one."""
    if seed is None:
        return coin(b, block.outcomes, block.keep, block.change, drbg.word)
    return masked_answer(b, coin_draw(coin_words(seed), block.outcomes), block.outcomes)


# ---- 7. The question that a number assigns --------------------------------------------------------------------------


def index_words(index_key: bytes, header: bytes) -> tuple[int, int]:
    """Return WORD0 and WORD1."""
    data = stream(index_key, header, 8)
    return from_le(data[:4]), from_le(data[4:])


def assign(word: int, count: int) -> int:
    return word * count // 2**32


def assigned(blocks_: list[Block], word: int) -> tuple[int, int]:
    """Return the block that owns WORD0's slot, and the question's place in it."""
    slot, at = assign(word, sum(block.slots for block in blocks_)), 0
    while slot >= blocks_[at].slots:
        slot -= blocks_[at].slots
        at += 1
    return at, slot // blocks_[at].weight


def unit(blocks_: list[Block], words: tuple[int, int]) -> int:
    at, question = assigned(blocks_, words[0])
    block = blocks_[at]
    own = assign(words[1], block.units) if block.form == HASHED else question
    return sum(each.units for each in blocks_[:at]) + own


# ---- 8. The projection ----------------------------------------------------------------------------------------------


def mix(x: int) -> int:
    x ^= x >> 16
    x = x * 0x7FEB352D & MASK32
    x ^= x >> 15
    x = x * 0x846CA68B & MASK32
    return x ^ x >> 16


def projection_entry(seed: int, n: int, p: int, j: int) -> int:
    """Return Phi[p][j]."""
    r = mix((seed + (p + 1) * 0x9E3779B9) & MASK32)
    c = (r >> 16) * n >> 16
    q = (c - j) % n
    if q == j:
        return 0
    lo = min(j, q)
    h = r ^ (lo * 0x85EBCA6B & MASK32)
    h ^= h >> 15
    h = h * 0x2C1B3C6D & MASK32
    v = (0, 0, +1, -1)[h >> 30]
    return v if j == lo else -v


def codeword(seed: int, n: int, symbol: Symbol) -> list[int]:
    return [symbol.sign * projection_entry(seed, n, p, symbol.index) for p in range(n - 1)]


def trit_bytes(n: int) -> int:
    return ceil_div(n - 1, 5)


def pack(trits: list[int]) -> bytes:
    digits = [t + 1 for t in trits]
    digits += [0] * (-len(digits) % 5)
    return bytes(sum(digits[i + e] * 3**e for e in range(5)) for i in range(0, len(digits), 5))


def unpack(packed: bytes, n: int) -> list[int]:
    refuse_if(any(byte > 242 for byte in packed), "trits")
    digits = [byte // 3**e % 3 for byte in packed for e in range(5)]
    refuse_if(any(digits[n - 1 :]), "trits")
    return [digit - 1 for digit in digits[: n - 1]]


# ---- 9. Frame, version 1 --------------------------------------------------------------------------------------------

HEADER_BYTES = 16
TAG_BYTES = 8
UNSEALED = 1


@dataclass(frozen=True)
class Header:
    flags: int
    profile: int
    device: int
    number: int


@dataclass(frozen=True)
class ProfileEntry:
    """The parameters of a profile that a reader needs to read its frames."""

    width: int
    audits: int = 0  # of a batch; 0 if the profile has no verified coins
    opening: int = 0  # the size of its longest opening


@dataclass(frozen=True)
class BundleEntry:
    """The parameters of a device's bundle that a reader needs to read the frames made with it."""

    device: int
    first: int
    seal_key: bytes
    profile: int
    last: int = 2**48 - 1
    coin_key: bytes = bytes(16)


@dataclass(frozen=True)
class Report:
    """An accepted frame."""

    header: Header
    rule: int
    trits: list[int]


@dataclass(frozen=True)
class CoinMessage:
    """An accepted commitment, audit answer or opening (section 13.3)."""

    header: Header
    type: int
    body: bytes


def header_bytes(header: Header) -> bytes:
    refuse_if(header.flags not in (0, UNSEALED), "flags")
    refuse_if(not 1 <= header.device <= MASK32, "device")
    refuse_if(not 1 <= header.number < 2**48, "number")
    first = bytes([1 << 4 | header.flags, 0])
    return first + le(header.profile, 4) + le(header.device, 4) + le(header.number, 6)


def header_parse(data: bytes) -> Header:
    refuse_if(len(data) < HEADER_BYTES, "length")
    refuse_if(data[0] >> 4 != 1, "version")
    flags = data[0] & 15
    refuse_if(flags not in (0, UNSEALED) or data[1] != 0, "flags")
    return Header(flags, from_le(data[2:6]), from_le(data[6:10]), from_le(data[10:16]))


def frame_length(width: int, flags: int) -> int:
    tag = 0 if flags & UNSEALED else TAG_BYTES
    return HEADER_BYTES + 4 + trit_bytes(width) + tag


def frame_seal(seal_key: bytes, header: Header, rule_: int, packed: bytes) -> bytes:
    nonce = header_bytes(header)
    body = le(rule_, 4) + packed
    if header.flags & UNSEALED:
        return nonce + body
    sealed, tag = aead_seal(seal_key, nonce, b"", body)
    return nonce + sealed + tag[:TAG_BYTES]


def frame_open(seal_key: bytes, frame: bytes) -> bytes:
    """Return the body of one whole frame: odds, two reserved bytes, and trits."""
    nonce, rest = frame[:HEADER_BYTES], frame[HEADER_BYTES:]
    if frame[0] & UNSEALED:
        return rest
    return aead_open(seal_key, nonce, b"", rest[:-TAG_BYTES], rest[-TAG_BYTES:])


@dataclass(frozen=True)
class Reader:
    profiles: dict[int, ProfileEntry]
    bundles: list[BundleEntry]
    accept_unsealed: bool = False

    def split(self, data: bytes) -> int:
        """Return the length of the frame at the front of `data`. If this refuses, all of `data` is one faulty piece."""
        type_, header = self.parse(data)
        refuse_if(header.profile not in self.profiles, "profile")
        length = self.frame_length(type_, header)
        refuse_if(len(data) < length, "length")
        return length

    def parse(self, data: bytes) -> tuple[int, Header]:
        """Return the type and the header of a frame. Only verified profiles have other types than 0."""
        refuse_if(len(data) < HEADER_BYTES, "length")
        if data[1] == 0:
            return 0, header_parse(data)
        type_, header = message_header(data)
        profile = self.profiles.get(header.profile)
        refuse_if(profile is None or profile.audits == 0, "flags")
        return type_, header

    def frame_length(self, type_: int, header: Header) -> int:
        profile = self.profiles[header.profile]
        if type_ == 0:
            return frame_length(profile.width, header.flags)
        return HEADER_BYTES + message_body_bytes(type_, profile.audits, profile.opening) + TAG_BYTES

    def bundle(self, device: int, number: int) -> BundleEntry | None:
        """Return the device's bundle with the largest first number that is not above this number, unless it ends before it."""
        begun = [bundle for bundle in self.bundles if bundle.device == device and bundle.first <= number]
        latest = max(begun, key=lambda bundle: bundle.first, default=None)
        return latest if latest is not None and number <= latest.last else None

    def read_frame(self, frame: bytes) -> Report | CoinMessage:
        """Judge one whole frame, as delimited by `split`."""
        type_, header = self.parse(frame)
        refuse_if(header.device == 0, "device")
        refuse_if(header.number == 0, "number")
        bundle = self.bundle(header.device, header.number)
        if bundle is None:
            raise RefusedError("device")
        refuse_if(header.profile != bundle.profile, "profile")
        if type_ != 0:
            size = len(frame) - HEADER_BYTES - TAG_BYTES
            return CoinMessage(header, type_, message_read(bundle.coin_key, size, frame)[2])
        verified = self.profiles[header.profile].audits > 0
        refuse_if(header.flags & UNSEALED != 0 and (verified or not self.accept_unsealed), "unsealed")
        body = frame_open(bundle.seal_key, frame)
        return Report(header, from_le(body[:4]), unpack(body[4:], self.profiles[header.profile].width))

    def read_payload(self, payload: bytes) -> list[tuple[bytes, Report | CoinMessage | str]]:
        """Return each piece of the payload with its report, or with the fault for which it is refused."""
        pieces: list[tuple[bytes, Report | CoinMessage | str]] = []
        while True:
            length = len(payload)
            try:
                length = self.split(payload)
                pieces.append((payload[:length], self.read_frame(payload[:length])))
            except RefusedError as refused:
                pieces.append((payload[:length], refused.fault))
            payload = payload[length:]
            if not payload:
                return pieces


# ---- 4 to 9 together: readings in, frame out ------------------------------------------------------------------------


@dataclass(frozen=True)
class Encoder:
    flags: int
    profile: int
    device: int
    width: int
    seed: int
    blocks: list[Block]
    seal_key: bytes
    index_key: bytes

    def check(self) -> None:
        refuse_if(self.flags not in (0, UNSEALED), "flags")
        refuse_if(not 1 <= self.device <= MASK32, "device")
        check_blocks(self.blocks, self.width)

    def encode(self, number: int, readings: list[int], drbg: Drbg, secret: bytes | None = None) -> tuple[Symbol, bytes]:
        """Return the symbol, which a real device keeps to itself, and the frame. `secret` is that of the number's batch."""
        self.check()
        header = Header(self.flags, self.profile, self.device, number)
        words = index_words(self.index_key, header_bytes(header))
        seed = None if secret is None else coin_seed(secret, number)
        symbol, block = perturb(self.blocks, self.width, words, readings, drbg, seed)
        packed = pack(codeword(self.seed, self.width, symbol))
        return symbol, frame_seal(self.seal_key, header, block.rule, packed)


# ---- 10. The profile ------------------------------------------------------------------------------------------------


MEAN = "mean"
ABOVE = "above"
LADDER = "ladder"
CATEGORY = "category"
HASHED_KIND = "hashed"
NUMERIC = (MEAN, ABOVE, LADDER)


@dataclass(frozen=True)
class Attribute:
    name: str
    kind: str
    weight: int = 1
    unit: str = ""
    low: int = 0  # low, high and thresholds in millionths of the unit
    high: int = 0
    thresholds: tuple[int, ...] = ()
    categories: tuple[str, ...] = ()
    domain: int = 0  # the number of hashed categories without names

    @property
    def d(self) -> int:
        return self.domain or len(self.categories)


@dataclass(frozen=True)
class Profile:
    name: str
    epsilon: int
    width: int
    seed: int
    quota: int
    period: int
    attributes: list[Attribute]
    lifetime: int | None = None
    offline: int | None = None  # seconds; None without verified coins
    bucket: int = 300  # seconds; only with verified coins


def block_of(attribute: Attribute, profile: Profile) -> Block:
    """Return the questions of one attribute."""
    epsilon, most = profile.epsilon, None if profile.offline is None else MAX_TABLE
    if attribute.kind in NUMERIC:
        questions = 1 if attribute.kind == MEAN else len(attribute.thresholds)
        return Block(SIGN, attribute.weight, questions, 1, 0, *odds_of(epsilon, 2, most))
    if attribute.kind == CATEGORY:
        k = len(attribute.categories)
        return Block(CHOICE, attribute.weight, 1, k, 0, *odds_of(epsilon, k, most))
    g = hash_symbols(epsilon)
    return Block(HASHED, attribute.weight, 1, g, attribute.d, *odds_of(epsilon, g, most))


def profile_blocks(profile: Profile) -> list[Block]:
    """Return all questions in order; neighbouring signs of equal weight are one block."""
    made: list[Block] = []
    for block in (block_of(attribute, profile) for attribute in profile.attributes):
        if made and block.form == SIGN and (made[-1].form, made[-1].weight) == (SIGN, block.weight):
            made[-1] = replace(made[-1], questions=made[-1].questions + block.questions)
        else:
            made.append(block)
    return made


def is_name(text: str) -> bool:
    return re.fullmatch(r"[a-z][a-z0-9_]{0,31}", text) is not None


def is_label(text: str, shortest: int) -> bool:
    plain = all(unicodedata.category(c) not in ("Cc", "Cs") and c != "|" for c in text)
    return plain and shortest <= len(text.encode("utf-8")) <= 32


def check_profile(profile: Profile) -> None:
    """Refuse with the name of the faulty field."""
    refuse_if(not is_name(profile.name), "name")
    refuse_if(not 0 <= profile.seed <= MASK32, "seed")
    refuse_if(not 1 <= profile.quota <= 10**6, "quota")
    refuse_if(not 1 <= profile.period <= 10**8, "period")
    refuse_if(profile.lifetime is not None and not 1 <= profile.lifetime < 2**48, "lifetime")
    refuse_if(profile.offline is not None and not 1 <= profile.offline <= 10**8, "offline")
    refuse_if(profile.offline is not None and not 1 <= profile.bucket <= 86400, "bucket")
    refuse_if(not 1 <= profile.epsilon <= EPSILON_MAX, "epsilon")
    refuse_if(not profile.attributes, "attribute")
    for attribute in profile.attributes:
        check_attribute(attribute)
        for other in profile.attributes:
            check_pair(attribute, other)
    keys = [(attribute.name, attribute.kind) for attribute in profile.attributes]
    refuse_if(len(set(keys)) != len(keys), "attribute")
    made = profile_blocks(profile)
    refuse_if(len(made) > MAX_BLOCKS, "attribute")
    check_blocks(made, profile.width)
    refuse_if(profile.offline is not None and max(map(coin_cap, made)) > MAX_CAP, "verify")


def check_attribute(attribute: Attribute) -> None:
    refuse_if(not is_name(attribute.name), "attribute")
    refuse_if(attribute.kind not in (*NUMERIC, CATEGORY, HASHED_KIND), "kind")
    refuse_if(not 1 <= attribute.weight <= MAX_WEIGHT, "weight")
    refuse_if(not is_label(attribute.unit, 0), "unit")
    if attribute.kind in (MEAN, LADDER):
        refuse_if(not -(10**18) <= attribute.low < attribute.high <= 10**18, "range")
    if attribute.kind in (ABOVE, LADDER):
        check_thresholds(attribute)
    if attribute.kind in (CATEGORY, HASHED_KIND):
        check_categories(attribute)


def check_thresholds(attribute: Attribute) -> None:
    values = attribute.thresholds
    refuse_if(not values or list(values) != sorted(set(values)), "thresholds")
    refuse_if(any(abs(value) > 10**18 for value in values), "thresholds")
    if attribute.kind == LADDER:
        refuse_if(
            not (2 <= len(values) <= 64 and attribute.low < values[0] and values[-1] < attribute.high), "thresholds"
        )


def check_categories(attribute: Attribute) -> None:
    categories = attribute.categories
    refuse_if(len(set(categories)) != len(categories), "category")
    refuse_if(not all(is_label(category, 1) for category in categories), "category")
    if attribute.kind == CATEGORY:
        refuse_if(attribute.domain != 0, "domain")
        refuse_if(not 2 <= len(categories) <= MAX_WIDTH, "category")
    else:
        refuse_if((attribute.domain != 0) == bool(categories) or not 2 <= attribute.d <= MAX_DOMAIN, "domain")


def check_pair(attribute: Attribute, other: Attribute) -> None:
    """Refuse two attributes that contradict each other about one reading."""
    if attribute.name != other.name:
        return
    refuse_if((attribute.kind in NUMERIC) != (other.kind in NUMERIC), "attribute")
    refuse_if(attribute.unit != other.unit, "unit")
    if attribute.kind == ABOVE and other.kind in (MEAN, LADDER):
        inside = other.low < attribute.thresholds[0] and attribute.thresholds[-1] < other.high
        refuse_if(not inside, "thresholds")
        refuse_if(other.kind == LADDER and bool({*attribute.thresholds} & {*other.thresholds}), "thresholds")


def attribute_lines(a: Attribute, profile: Profile) -> list[str]:
    block = block_of(a, profile)
    odds = f"{block.keep}:{block.change}"
    thresholds = "|".join(map(str, a.thresholds))
    lines = {
        MEAN: f"mean={a.name}|{a.unit}|{a.low}|{a.high}|{a.weight}|{odds}",
        ABOVE: f"above={a.name}|{a.unit}|{a.weight}|{odds}|{thresholds}",
        LADDER: f"ladder={a.name}|{a.unit}|{a.low}|{a.high}|{a.weight}|{odds}|{thresholds}",
        CATEGORY: f"category={a.name}|{a.weight}|{odds}",
        HASHED_KIND: f"hashed={a.name}|{a.weight}|{odds}|{a.d}",
    }
    return [lines[a.kind], *(f"value={category}" for category in a.categories)]


def canonical(profile: Profile) -> bytes:
    check_profile(profile)
    lines = [
        "peel-profile-3",
        f"name={profile.name}",
        f"epsilon={profile.epsilon}",
        f"width={profile.width}",
        f"seed={profile.seed}",
        f"quota={profile.quota}",
        f"period={profile.period}",
    ]
    lines += [f"lifetime={profile.lifetime}"] if profile.lifetime is not None else []
    lines += [f"verify={profile.offline}|{profile.bucket}"] if profile.offline is not None else []
    lines += [line for attribute in profile.attributes for line in attribute_lines(attribute, profile)]
    return "".join(line + "\n" for line in lines).encode("utf-8")


def profile_id(profile: Profile) -> int:
    return from_le(hash_("peel/1 profile", canonical(profile), 4))


# ---- 11. Topics and receipts ----------------------------------------------------------------------------------------


def device_topic(fleet: str, device: int, about: str) -> str:
    return f"peel/v1/{fleet}/{device % 64:02x}/{device:08x}/{about}"


RECEIPT_RUNS = 16

Run = tuple[int, int]  # the first and the last number


def receipt_tag(receipt_key: bytes, body: bytes) -> bytes:
    return hash_("peel/1 receipt", receipt_key + body, 8)


def receipt_write(receipt_key: bytes, device: int, upto: int, runs: list[Run]) -> bytes:
    edges = [upto, *(number for run in runs for number in run)]
    for before, first in zip(edges[::2], edges[1::2], strict=False):
        refuse_if(first <= before + 1, "number")
    refuse_if(edges != sorted(edges) or edges[-1] >= 2**48, "number")
    body = bytes([1 << 4]) + le(device, 4) + le(upto, 6)
    body += b"".join(le(first, 6) + le(last, 6) for first, last in runs)
    return body + receipt_tag(receipt_key, body)


def receipt_read(receipt_key: bytes, device: int, receipt: bytes) -> tuple[int, list[Run]]:
    """Return the number up to which every number is settled, and the runs of settled numbers above it."""
    count, rest = divmod(len(receipt) - 19, 12)
    refuse_if(rest != 0 or not 0 <= count <= RECEIPT_RUNS, "length")
    refuse_if(receipt[0] != 1 << 4, "version")
    refuse_if(from_le(receipt[1:5]) != device, "device")
    body, tag = receipt[:-8], receipt[-8:]
    refuse_if(receipt_tag(receipt_key, body) != tag, "seal")
    numbers = [from_le(body[at : at + 6]) for at in range(5, len(body), 6)]
    return numbers[0], list(zip(numbers[1::2], numbers[2::2], strict=True))


# ---- 13. Verified coins ---------------------------------------------------------------------------------------------

MAX_TABLE = 64
MAX_CAP = 10
CHILDREN = 4
COIN_NONCE_BYTES = 13
COIN_HASH_BYTES = 16


@dataclass(frozen=True)
class Coin:
    """The coin of one number: its odds and symbols, and the report that it belongs to."""

    profile: int
    device: int
    number: int
    keep: int
    change: int
    g: int

    @property
    def size(self) -> int:
        """K, the number of outcomes in the table."""
        return self.keep + (self.g - 1) * self.change


def coin_of(encoder: Encoder, number: int) -> Coin:
    """Return the coin of a number: that of the question which it assigns."""
    header = Header(encoder.flags, encoder.profile, encoder.device, number)
    word, _ = index_words(encoder.index_key, header_bytes(header))
    block = encoder.blocks[assigned(encoder.blocks, word)[0]]
    return Coin(encoder.profile, encoder.device, number, block.keep, block.change, block.outcomes)


def check_coin(coin: Coin) -> None:
    refuse_if(not 1 <= coin.device <= MASK32, "device")
    refuse_if(not 1 <= coin.number < 2**48, "number")
    refuse_if(not (1 <= coin.change < coin.keep and coin.g >= 2 and coin.size <= MAX_TABLE), "coin")


# 13.1 The table of a number


@dataclass(frozen=True)
class Table:
    mask: int
    shift: int
    nonces: list[bytes]
    outcomes: list[int]


def coin_seed(secret: bytes, number: int) -> bytes:
    return stream(secret, le(number, 6) + bytes(10), 16)


def coin_words(seed: bytes) -> Iterator[int]:
    """Yield the words from which mask and shift are drawn."""
    for block in range(1, 256):
        data = stream(seed, bytes([block]) + bytes(15), 16)
        yield from (from_le(data[at : at + 4]) for at in range(0, 16, 4))


def coin_draw(words: Iterator[int], bound: int) -> int:
    mask = (1 << (bound - 1).bit_length()) - 1  # ceil(log2 bound) bits
    return next(value for value in (word & mask for word in words) if value < bound)


def coin_table(coin: Coin, seed: bytes) -> Table:
    check_coin(coin)
    size, f = coin.size, pattern(coin.keep, coin.change, coin.g)
    words = coin_words(seed)
    mask = coin_draw(words, coin.g)
    shift = coin_draw(words, size)
    data = stream(seed, bytes(16), COIN_NONCE_BYTES * size)
    nonces = [data[at : at + COIN_NONCE_BYTES] for at in range(0, len(data), COIN_NONCE_BYTES)]
    return Table(mask, shift, nonces, [(mask + f[(shift + j) % size]) % coin.g for j in range(size)])


def masked_answer(answer_: int, mask: int, g: int) -> int:
    """Return d, which a report carries in place of s."""
    return (answer_ - mask) % g


def counted_answer(outcome: int, masked: int, g: int) -> int:
    """Return s, as which an opened report counts."""
    return (outcome + masked) % g


# 13.2 Root and opening


def coin_name(coin: Coin) -> bytes:
    number = le(coin.profile, 4) + le(coin.device, 4) + le(coin.number, 6)
    return number + bytes([coin.keep, coin.change, coin.g, 0, 0, 0])


def coin_leaf(coin: Coin, j: int, outcome: int, nonce: bytes) -> bytes:
    return hash_("peel/1 coin", coin_name(coin) + bytes([j, outcome]) + nonce, COIN_HASH_BYTES)


def coin_node(coin: Coin, level: int, children: list[bytes]) -> bytes:
    return hash_("peel/1 coin", coin_name(coin) + bytes([64 + level]) + b"".join(children), COIN_HASH_BYTES)


def coin_levels(coin: Coin, table: Table) -> list[list[bytes]]:
    """Return the nodes of all levels, from the leaves to the root."""
    rows = zip(table.outcomes, table.nonces, strict=True)
    levels = [[coin_leaf(coin, j, outcome, nonce) for j, (outcome, nonce) in enumerate(rows)]]
    while len(levels[-1]) > 1:
        below, level = levels[-1], len(levels)
        groups = [below[at : at + CHILDREN] for at in range(0, len(below), CHILDREN)]
        levels.append([coin_node(coin, level, group) for group in groups])
    return levels


def coin_root(coin: Coin, table: Table) -> bytes:
    return coin_levels(coin, table)[-1][0]


def coin_opening(coin: Coin, table: Table, i: int) -> bytes:
    refuse_if(not 0 <= i < coin.size, "coin")
    opening = bytes([table.outcomes[i]]) + table.nonces[i]
    for nodes in coin_levels(coin, table)[:-1]:
        first = i - i % CHILDREN
        opening += b"".join(node for at, node in enumerate(nodes[first : first + CHILDREN], first) if at != i)
        i //= CHILDREN
    return opening


def path_shape(size: int, i: int) -> list[tuple[int, int]]:
    """Return, for each level below the root, how many children the path's node has, and which of them is on the path."""
    shape = []
    while size > 1:
        shape.append((min(CHILDREN, size - (i - i % CHILDREN)), i % CHILDREN))
        size, i = ceil_div(size, CHILDREN), i // CHILDREN
    return shape


def opening_bytes(size: int, i: int) -> int:
    return 1 + COIN_NONCE_BYTES + sum((children - 1) * COIN_HASH_BYTES for children, _ in path_shape(size, i))


def coin_verify(coin: Coin, root: bytes, i: int, opening: bytes) -> int:
    """Return the outcome that an opening reveals."""
    check_coin(coin)
    refuse_if(not 0 <= i < coin.size, "coin")
    refuse_if(len(opening) != opening_bytes(coin.size, i), "length")
    refuse_if(opening[0] >= coin.g, "outcome")
    nonce, rest = opening[1 : 1 + COIN_NONCE_BYTES], opening[1 + COIN_NONCE_BYTES :]
    node = coin_leaf(coin, i, opening[0], nonce)
    for level, (children, place) in enumerate(path_shape(coin.size, i), 1):
        used = (children - 1) * COIN_HASH_BYTES
        siblings = [rest[at : at + COIN_HASH_BYTES] for at in range(0, used, COIN_HASH_BYTES)]
        node = coin_node(coin, level, [*siblings[:place], node, *siblings[place:]])
        rest = rest[used:]
    refuse_if(node != root, "root")
    return opening[0]


# 13.3 Messages and the receipt

COMMITMENT = 1
AUDIT_ANSWER = 2
OPENING = 3
BATCH = 32


def coin_cap(block: Block) -> Fraction:
    """Return the harm of a report with the wanted outcome over that of a lie."""
    outcomes = block.keep + (block.outcomes - 1) * block.change
    return Fraction(outcomes - (block.change if block.form == CHOICE else 0), block.keep - block.change)


def batch_audits(blocks_: list[Block]) -> int:
    """Return how many numbers of a batch are audited."""
    cap = max(coin_cap(block) for block in blocks_)
    refuse_if(cap > MAX_CAP, "coin")
    return 8 if cap <= 3 else 16


def message_body_bytes(type_: int, audits: int, opening: int) -> int:
    """Return the size of a body; `opening` is the size of the profile's longest opening."""
    return {COMMITMENT: BATCH * COIN_HASH_BYTES, AUDIT_ANSWER: 16 * audits, OPENING: opening}[type_]


def message_seal(coin_key: bytes, type_: int, profile: int, device: int, number: int, body: bytes) -> bytes:
    """Return a frame of type 1, 2 or 3."""
    refuse_if(type_ not in (COMMITMENT, AUDIT_ANSWER, OPENING), "flags")
    plain = header_bytes(Header(0, profile, device, number))
    header = plain[:1] + bytes([type_]) + plain[2:]
    sealed, tag = aead_seal(coin_key, header, b"", body)
    return header + sealed + tag[:TAG_BYTES]


def message_header(frame: bytes) -> tuple[int, Header]:
    """Return the type and the header of a frame of type 1, 2 or 3."""
    refuse_if(len(frame) < HEADER_BYTES, "length")
    refuse_if(frame[0] >> 4 != 1, "version")
    refuse_if(frame[0] & 15 != 0 or frame[1] not in (COMMITMENT, AUDIT_ANSWER, OPENING), "flags")
    return frame[1], header_parse(frame[:1] + bytes(1) + frame[2:])


def message_read(coin_key: bytes, size: int, frame: bytes) -> tuple[int, Header, bytes]:
    """Return type, header and body of one whole frame whose body has `size` bytes."""
    _, header = message_header(frame)
    refuse_if(len(frame) != HEADER_BYTES + size + TAG_BYTES, "length")
    refuse_if(header.device == 0, "device")
    refuse_if(header.number == 0, "number")
    nonce, rest = frame[:HEADER_BYTES], frame[HEADER_BYTES:]
    return frame[1], header, aead_open(coin_key, nonce, b"", rest[:-TAG_BYTES], rest[-TAG_BYTES:])


def padded_opening(opening: bytes, size: int) -> bytes:
    return opening + bytes(size - len(opening))


def opening_of(coin: Coin, i: int, body: bytes) -> bytes:
    """Return the opening in the body of a message."""
    length = opening_bytes(coin.size, i)
    refuse_if(len(body) < length or any(body[length:]), "length")
    return body[:length]


CHALLENGE_RUNS = 64
COIN_FIELDS_BYTES = 30


@dataclass(frozen=True)
class Challenge:
    seed: bytes
    runs: list[Run]


@dataclass(frozen=True)
class CoinReceipt:
    """The content of a receipt for a device with a verified profile."""

    upto: int
    runs: list[Run]
    era: bytes
    approved: int
    audit_first: int
    audit: int
    opened: int
    challenge: Challenge | None


def challenge_bytes(challenge: Challenge) -> bytes:
    """Return the seed, the first number, and a distance and a length for each run."""
    refuse_if(not 1 <= len(challenge.runs) <= CHALLENGE_RUNS, "length")
    edges = [number for run in challenge.runs for number in run]
    refuse_if(edges != sorted(edges) or not 1 <= edges[0] <= edges[-1] < 2**48, "number")
    out, end = challenge.seed + le(edges[0], 6), edges[0]
    for place, (first, last) in enumerate(challenge.runs):
        distance, length = first - end, last - first + 1
        refuse_if(distance > 0xFFFF or length > 0xFFFF or (distance == 0) != (place == 0), "number")
        out += le(distance, 2) + le(length, 2)
        end = last + 1
    return out


def challenge_parse(data: bytes) -> Challenge:
    end, runs = from_le(data[16:22]), []
    for at in range(22, len(data), 4):
        first = end + from_le(data[at : at + 2])
        end = first + from_le(data[at + 2 : at + 4])
        runs.append((first, end - 1))
    return Challenge(data[:16], runs)


def coin_receipt_bytes(runs: int, challenge_runs: int) -> int:
    return 11 + COIN_FIELDS_BYTES + 12 * runs + (22 + 4 * challenge_runs if challenge_runs else 0) + TAG_BYTES


def coin_receipt_write(receipt_key: bytes, device: int, said: CoinReceipt) -> bytes:
    plain = receipt_write(receipt_key, device, said.upto, said.runs)[:-TAG_BYTES]
    asked = said.challenge
    counts = bytes([len(said.runs), len(asked.runs) if asked else 0])
    fields = said.era + le(said.approved, 6) + le(said.audit_first, 6) + le(said.audit, 4) + le(said.opened, 4)
    body = bytes([1 << 4 | 1]) + plain[1:11] + fields + counts + plain[11:] + (challenge_bytes(asked) if asked else b"")
    return body + receipt_tag(receipt_key, body)


def coin_receipt_read(receipt_key: bytes, device: int, receipt: bytes) -> CoinReceipt:
    refuse_if(len(receipt) < coin_receipt_bytes(0, 0), "length")
    count, asked = receipt[39], receipt[40]
    refuse_if(count > RECEIPT_RUNS or asked > CHALLENGE_RUNS, "length")
    refuse_if(len(receipt) != coin_receipt_bytes(count, asked), "length")
    refuse_if(receipt[0] != (1 << 4 | 1), "version")
    refuse_if(from_le(receipt[1:5]) != device, "device")
    body, tag = receipt[:-TAG_BYTES], receipt[-TAG_BYTES:]
    refuse_if(receipt_tag(receipt_key, body) != tag, "seal")
    end = 41 + 12 * count
    numbers = [from_le(body[at : at + 6]) for at in range(41, end, 6)]
    return CoinReceipt(
        upto=from_le(body[5:11]),
        runs=list(zip(numbers[::2], numbers[1::2], strict=True)),
        era=body[11:19],
        approved=from_le(body[19:25]),
        audit_first=from_le(body[25:31]),
        audit=from_le(body[31:35]),
        opened=from_le(body[35:39]),
        challenge=challenge_parse(body[end:]) if asked else None,
    )


def challenge_index(seed: bytes, number: int, size: int) -> int:
    """Return i, the outcome that a challenge picks from the table of a number."""
    return from_le(hash_("peel/1 coin index", seed + le(number, 6), 4)) * size // 2**32


# 13.5 What a gateway does


def challenge_root(master: bytes, fleet: str) -> bytes:
    return hash_("peel/1 challenge root", master + bytes([len(fleet)]) + fleet.encode(), 16)


def challenge_key(root: bytes, era: bytes) -> bytes:
    """Return the key of a gateway's audits and challenges in an era. No device has it."""
    return hash_("peel/1 challenge key", root + era, 16)


def audit_of(key: bytes, header: bytes, roots: bytes, audits: int) -> int:
    """Return the bitmap of a batch's audit. `header` and `roots` are those of its commitment."""
    data = stream(hash_("peel/1 audit", key + header + roots, 16), bytes(16), 4 * BATCH)
    chosen, left = 0, audits
    for j in range(BATCH):
        if from_le(data[4 * j : 4 * j + 4]) * (BATCH - j) // 2**32 < left:
            chosen |= 1 << j
            left -= 1
    return chosen


def challenge_seed(key: bytes, device: int, count: int, reports: list[tuple[int, bytes, int]]) -> bytes:
    """Return c of the device's challenge number `count`. A report is its number, root and d."""
    data = b"".join(le(number, 6) + root + bytes([masked]) for number, root, masked in reports)
    return hash_("peel/1 challenge", key + le(device, 4) + le(count, 4) + data, 16)


# ---- 6.3 The limits of the hash -------------------------------------------------------------------------------------

# (p, floor(2^20 * ln((p - 1)(q - 1)) / 2)) for the primes p below 127, q being the next one
HASH_LIMITS = (
    (2, 363408),
    (3, 1090226),
    (5, 1666215),
    (7, 2146615),
    (11, 2510024),
    (13, 2756441),
    (17, 2969022),
    (19, 3135983),
    (23, 3367631),
    (29, 3530241),
    (31, 3662002),
    (37, 3812831),
    (41, 3893650),
    (43, 3966926),
    (47, 4078900),
    (53, 4200431),
    (59, 4275457),
    (61, 4343201),
    (67, 4424020),
    (71, 4469639),
    (73, 4526374),
    (79, 4594560),
    (83, 4657803),
    (89, 4740446),
    (97, 4807468),
    (101, 4839253),
    (103, 4869802),
    (107, 4899770),
    (109, 4928637),
    (113, 5009456),
)
MAX_HASH_SYMBOLS = 127
