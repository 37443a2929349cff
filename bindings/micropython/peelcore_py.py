# SPDX-License-Identifier: MIT
"""The core in Python: the functions of the native module peelcore, for firmware that can load none. Slow; same bytes.

Runs on MicroPython and on CPython. spec/SPEC.md defines every step; section numbers refer to it. Encoders and generators are
bytearrays, as in the native module, but with another layout: do not move them between the two. Python's big integers do not take
constant time, so an attacker who can measure time may learn something about keys and readings. Prefer the native module.
"""

VERSION = "0.1.0"

_MASK32 = 0xFFFFFFFF
_MASK64 = 0xFFFFFFFFFFFFFFFF
_ONE = 1 << 31
_MAX_WIDTH = 1024
_MAX_DOMAIN = 65535
_MAX_BLOCKS = 32
_MAX_BYTES = 65535

_MESSAGES = {
    "length": "a buffer is too short or too long",
    "version": "not a version 1 frame",
    "flags": "reserved bits are set",
    "block": "form, weight, questions or number of blocks out of range",
    "device": "0 or unknown",
    "unsealed": "only sealed frames here",
    "number": "0, negative or above 48 bits",
    "seal": "the tag does not fit",
    "trits": "invalid packing",
    "width": "symbols or width out of range",
    "reading": "wrong count, no such category, or none where all columns are used",
    "entropy": "refused by the health check, or never seeded",
    "odds": "not 1 <= change < keep <= 255",
    "domain": "not 2 to 65535 categories, or not for this form",
    "coin": "odds, symbols or index out of range",
    "value": "not an unsigned 32-bit integer",
    "index": "at or above the limit",
}


def _fail(name):
    raise ValueError("peel: %s: %s" % (name, _MESSAGES[name]))


def _u32(value):
    if value < 0 or value > _MASK32:
        _fail("value")
    return value


def _exactly(data, length):
    if len(data) != length:
        _fail("length")
    return bytes(data)


# ---- Ascon (section 2) ----


def _rotate(x, n):
    return (x >> n | x << (64 - n)) & _MASK64


def _permute(s, rounds):
    x0, x1, x2, x3, x4 = s
    for r in range(12 - rounds, 12):
        x2 ^= 0xF0 - 15 * r
        x0 ^= x4
        x4 ^= x3
        x2 ^= x1
        t0 = x0 ^ (~x1 & x2)
        t1 = x1 ^ (~x2 & x3)
        t2 = x2 ^ (~x3 & x4)
        t3 = x3 ^ (~x4 & x0)
        t4 = x4 ^ (~x0 & x1)
        t1 ^= t0
        t0 ^= t4
        t3 ^= t2
        t2 ^= _MASK64
        x0 = t0 ^ _rotate(t0, 19) ^ _rotate(t0, 28)
        x1 = t1 ^ _rotate(t1, 61) ^ _rotate(t1, 39)
        x2 = t2 ^ _rotate(t2, 1) ^ _rotate(t2, 6)
        x3 = t3 ^ _rotate(t3, 10) ^ _rotate(t3, 17)
        x4 = t4 ^ _rotate(t4, 7) ^ _rotate(t4, 41)
    s[0], s[1], s[2], s[3], s[4] = x0, x1, x2, x3, x4


def _start(key, nonce, ad):
    low, high = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    s = [0x00001000808C0001, low, high, int.from_bytes(nonce[:8], "little"), int.from_bytes(nonce[8:], "little")]
    _permute(s, 12)
    s[3] ^= low
    s[4] ^= high
    if ad:
        padded = ad + b"\x01" + bytes(15 - len(ad) % 16)
        for i in range(0, len(padded), 16):
            s[0] ^= int.from_bytes(padded[i : i + 8], "little")
            s[1] ^= int.from_bytes(padded[i + 8 : i + 16], "little")
            _permute(s, 8)
    s[4] ^= 1 << 63
    return s


def _rate(s):
    return s[0].to_bytes(8, "little") + s[1].to_bytes(8, "little")


def _crypt(s, text, opening):
    out = bytearray(len(text))
    for i in range(0, len(text) + 1, 16):
        block = bytearray(_rate(s))
        piece = text[i : i + 16]
        for j in range(len(piece)):
            out[i + j] = piece[j] ^ block[j]
            block[j] = piece[j] if opening else out[i + j]
        if len(piece) < 16:
            block[len(piece)] ^= 1
        s[0], s[1] = int.from_bytes(block[:8], "little"), int.from_bytes(block[8:], "little")
        if len(piece) == 16:
            _permute(s, 8)
    return bytes(out)


def _tag(s, key):
    low, high = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    s[2] ^= low
    s[3] ^= high
    _permute(s, 12)
    return (s[3] ^ low).to_bytes(8, "little") + (s[4] ^ high).to_bytes(8, "little")


def seal(key, nonce, ad, text):
    key, nonce = _exactly(key, 16), _exactly(nonce, 16)
    if len(text) + 16 > _MAX_BYTES:
        _fail("length")
    s = _start(key, nonce, bytes(ad))
    return _crypt(s, bytes(text), False) + _tag(s, key)


def stream(key, nonce, n):
    if _u32(n) > _MAX_BYTES:
        _fail("length")
    s = _start(_exactly(key, 16), _exactly(nonce, 16), b"")
    out = b""
    while len(out) < n:
        out += _rate(s)
        _permute(s, 8)
    return out[:n]


def hash(label, data, n):
    if isinstance(label, str):
        label = label.encode()
    if len(label) > 255 or _u32(n) > _MAX_BYTES:
        _fail("length")
    message = bytes([len(label)]) + bytes(label) + bytes(data) + b"\x01"
    message += bytes(-len(message) % 8)
    s = [0x0000080000CC0003, 0, 0, 0, 0]
    _permute(s, 12)
    for i in range(0, len(message), 8):
        s[0] ^= int.from_bytes(message[i : i + 8], "little")
        _permute(s, 12)
    out = b""
    while len(out) < n:
        out += s[0].to_bytes(8, "little")
        _permute(s, 12)
    return out[:n]


# ---- Random generator (section 4): key 16, block 16, last 8, left, seeded ----

_DRBG_BYTES = 42


def drbg():
    return bytearray(_DRBG_BYTES)


def _live(state):
    if len(state) != _DRBG_BYTES or state[40] > 16:
        _fail("length")
    return state


def _unhealthy(e):
    if len(e) < 32:
        return True
    for i in range(len(e) - 5):
        if e[i : i + 6] == e[i : i + 1] * 6:
            return True
    counts = [0] * 256
    for byte in e:
        counts[byte] += 1
    if max(counts) * 4 >= len(e):
        return True
    for period in range(1, len(e) // 2 + 1):
        if e[period:] == e[:-period]:
            return True
    return False


def drbg_seed(state, entropy):
    _live(state)
    entropy = bytes(entropy)
    if _unhealthy(entropy):
        _fail("entropy")
    last = hash(b"peel/1 drbg input", entropy, 8)
    if state[41] and last == bytes(state[32:40]):
        _fail("entropy")
    state[:16] = hash(b"peel/1 drbg", bytes(state[:16]) + entropy, 16)
    state[16:32] = bytes(16)
    state[32:40] = last
    state[40], state[41] = 0, 1


def drbg_bytes(state, n):
    _live(state)
    if _u32(n) > _MAX_BYTES:
        _fail("length")
    if not state[41]:
        _fail("entropy")
    out = b""
    while len(out) < n:
        if not state[40]:
            state[:32] = stream(bytes(state[:16]), bytes(16), 32)
            state[40] = 16
        at = 32 - state[40]
        out += bytes(state[at : at + 4])
        state[at : at + 4] = bytes(4)
        state[40] -= 4
    return out[:n]


def _word(state):
    return int.from_bytes(drbg_bytes(state, 4), "little")


# ---- Questions (sections 5 to 7) ----
# A block is (form, weight, questions, symbols, domain, keep, change): 1 signs, 2 a choice, 3 a choice of hashed categories.

_NO_READING = -_ONE


def _readings(values):
    """Return integers, from a sequence or from a buffer of little-endian 32-bit words."""
    if isinstance(values, (bytes, bytearray)):
        if len(values) % 4:
            _fail("reading")
        words = [int.from_bytes(values[i : i + 4], "little") for i in range(0, len(values), 4)]
        return [word - ((word >> 31) << 32) for word in words]
    values = list(values)
    for value in values:
        if not -_ONE <= value < _ONE:
            _fail("reading")
    return values


def _check_block(block, columns_left):
    if len(block) != 7:
        _fail("block")
    form, weight, questions, symbols, domain, keep, change = [_u32(field) for field in block]
    if form not in (1, 2, 3) or not 1 <= weight <= 16 or questions < 1 or (form != 1 and questions != 1):
        _fail("block")
    if not (symbols == 1 if form == 1 else 2 <= symbols <= (127 if form == 3 else _MAX_WIDTH)):
        _fail("width")
    if questions * symbols > columns_left:
        _fail("width")
    if not (2 <= domain <= _MAX_DOMAIN if form == 3 else domain == 0):
        _fail("domain")
    if not 1 <= change < keep <= 255:
        _fail("odds")
    return questions * symbols


def _columns(blocks, width):
    """Return the columns of all blocks, which are checked."""
    if not 1 <= len(blocks) <= _MAX_BLOCKS:
        _fail("block")
    if not 2 <= width <= _MAX_WIDTH:
        _fail("width")
    columns = 0
    for block in blocks:
        columns += _check_block(block, width - columns)
    return columns


def _assigned(blocks, word):
    """Return the block that owns a word's slot, the question's place in it, and the block's first question and column."""
    slot = word * sum([block[1] * block[2] for block in blocks]) >> 32
    question = column = 0
    for block in blocks:
        if slot < block[1] * block[2]:
            break
        slot -= block[1] * block[2]
        question += block[2]
        column += block[2] * block[3]
    return block, slot // block[1], question, column


def perturb(blocks, width, word, hash_word, readings, drbg):
    values = _readings(readings)
    return _answer(blocks, _columns(blocks, width), width, word, hash_word, values, drbg, None)[:2]


def _answer(blocks, columns, width, word, hash_word, values, drbg, coin_seed):
    """Return the symbol (index, minus), and the block of its question."""
    if len(values) != sum([block[2] for block in blocks]):
        _fail("reading")
    block, within, question, column = _assigned(blocks, word)
    reading = values[question + within]
    missing = reading == _NO_READING
    if missing and columns == width:
        _fail("reading")
    if block[0] == 1:
        index, minus = within, _sign(block, reading, drbg, coin_seed)
    else:
        index, minus = _category(block, hash_word, 0 if missing else reading, drbg, coin_seed), 0
    return (columns, 0, block) if missing else (column + index, minus, block)


def _sign(block, reading, drbg, coin_seed):
    """Return 0 for plus, 1 for minus: the reading rounded to 0 or 1 at random, and hidden."""
    rounded = 1 if _word(drbg) >> 16 < 32768 + max(-32768, min(32768, reading)) else 0
    return 1 - _hide(block, 2, rounded, drbg, coin_seed)


def _hide(block, g, answer, drbg, coin_seed):
    return _coin(block, g, answer, drbg) if coin_seed is None else coin_mask(coin_seed, g, answer)


def _category(block, hash_word, category, drbg, coin_seed):
    form, _, _, symbols, domain, _, _ = block
    if not 0 <= category < (domain or symbols):
        _fail("reading")
    if form == 3:
        category = _hashed(hash_word, symbols, domain, category)
    return _hide(block, symbols, category, drbg, coin_seed)


def _hashed(word, k, domain, category):
    reach, symbol = 1, 0
    while reach < domain:  # the hash's digits from the first one, the category's from the last
        word *= k
        symbol += (word >> 32) * (category % k)
        word &= _MASK32
        category //= k
        reach *= k
    return symbol % k


def _coin(block, g, answer, drbg):
    """Keep the answer, or turn it into another one of g."""
    keep, change = block[5], block[6]
    total = keep + (g - 1) * change
    mask = 1
    while mask < total - 1:
        mask = mask << 1 | 1
    u = _word(drbg) & mask
    while u >= total:
        u = _word(drbg) & mask
    offset = (u - keep) // change + 1 if u >= keep else 0
    return (answer + offset) % g


# ---- Projection (section 8) ----


def _mix(x):
    x ^= x >> 16
    x = x * 0x7FEB352D & _MASK32
    x ^= x >> 15
    x = x * 0x846CA68B & _MASK32
    return x ^ x >> 16


def _digit(word, width, column, minus):
    partner = (((word >> 16) * width >> 16) - column) % width
    if partner == column:
        return 1
    h = word ^ min(column, partner) * 0x85EBCA6B & _MASK32
    h = (h ^ h >> 15) * 0x2C1B3C6D & _MASK32
    if not h >> 31:
        return 1
    negative = (h >> 30 & 1) ^ (column > partner) ^ minus
    return 0 if negative else 2


def codeword(seed, width, index, minus):
    if not 2 <= _u32(width) <= _MAX_WIDTH:
        _fail("width")
    if _u32(index) >= width:
        _fail("index")
    minus = 1 if minus else 0
    out = bytearray((width + 3) // 5)
    weight = 1
    for row in range(width - 1):
        word = _mix((_u32(seed) + (row + 1) * 0x9E3779B9) & _MASK32)
        out[row // 5] += weight * _digit(word, width, index, minus)
        weight = 1 if weight == 81 else weight * 3
    return bytes(out)


def _valid_trits(trits, width):
    last = (width - 1) % 5 or 5
    for i in range(len(trits)):
        if trits[i] >= (243 if i < len(trits) - 1 else 3**last):
            return False
    return True


# ---- Frame and report (section 9) ----


def frame_open(seal_key, width, frame):
    seal_key, frame = _exactly(seal_key, 16), bytes(frame)
    if len(frame) < 16:
        _fail("length")
    if frame[0] >> 4 != 1:
        _fail("version")
    flags = frame[0] & 15
    if flags & ~1 or frame[1]:
        _fail("flags")
    if not 2 <= _u32(width) <= _MAX_WIDTH:
        _fail("width")
    body_end = 20 + (width + 3) // 5
    if len(frame) != body_end + (0 if flags else 8):
        _fail("length")
    if flags:
        _fail("unsealed")
    s = _start(seal_key, frame[:16], b"")
    body = _crypt(s, frame[16:body_end], True)
    difference = 0
    for one, other in zip(_tag(s, seal_key), frame[body_end:]):
        difference |= one ^ other
    if difference:
        _fail("seal")
    if not _valid_trits(body[4:], width):
        _fail("trits")
    return (int.from_bytes(body[:4], "little"), body[4:])


_FIELDS = 5  # flags, profile, device, width, seed; then the two keys, then seven fields per block: 32 bits each
_KEYS_AT = 4 * _FIELDS
_BLOCKS_AT = _KEYS_AT + 32


def encoder(flags, profile, device, width, seed, blocks, seal_key, index_key, cached=False):
    packed = _pack((flags, profile, device, width, seed)) + _exactly(seal_key, 16) + _exactly(index_key, 16)
    _check(flags, device)
    _columns(blocks, width)
    return bytearray(packed + b"".join([_pack(block) for block in blocks]))  # there is no cache here


def _pack(fields):
    return b"".join([_u32(field).to_bytes(4, "little") for field in fields])


def _unpack(packed):
    return [int.from_bytes(packed[i : i + 4], "little") for i in range(0, len(packed), 4)]


def _check(flags, device):
    if flags & ~1:
        _fail("flags")
    if not device:
        _fail("device")


def _read_encoder(encoder):
    if len(encoder) < _BLOCKS_AT or (len(encoder) - _BLOCKS_AT) % 28:
        _fail("length")
    flags, profile, device, width, seed = _unpack(encoder[:_KEYS_AT])
    blocks = [_unpack(encoder[at : at + 28]) for at in range(_BLOCKS_AT, len(encoder), 28)]
    _check(flags, device)
    return flags, profile, device, width, seed, blocks, _columns(blocks, width)


def _assignment(encoder, flags, profile, device, number):
    """Return the header of a report, and the two words that assign its question."""
    header = bytes([16 | flags, 0]) + _pack((profile, device)) + number.to_bytes(6, "little")
    return header, _unpack(stream(encoder[_KEYS_AT + 16 : _BLOCKS_AT], header, 8))


def encode(out, encoder, drbg, number, readings, coin_seed=None):
    _live(drbg)
    values = _readings(readings)
    if number < 0 or number >> 48:
        _fail("number")
    flags, profile, device, width, seed, blocks, columns = _read_encoder(encoder)
    size = 20 + (width + 3) // 5 + (0 if flags else 8)
    if len(out) < size:
        _fail("length")
    if not number:
        _fail("number")
    header, words = _assignment(encoder, flags, profile, device, number)
    index, minus, block = _answer(blocks, columns, width, words[0], words[1], values, drbg, coin_seed)
    body = bytes([block[5], block[6], 0, 0]) + codeword(seed, width, index, minus)
    if not flags:
        body = seal(encoder[_KEYS_AT : _KEYS_AT + 16], header, b"", body)[: len(body) + 8]
    out[:size] = header + body
    return size


# ---- Verified coins (section 13). A name: the last 14 bytes of a report's header, then keep, change, symbols, three zeros ----

_MAX_TABLE = 64


def _coin_of(name):
    name = _exactly(name, 20)
    keep, change, symbols = name[14], name[15], name[16]
    size = keep + (symbols - 1) * change
    if not (1 <= change < keep and symbols >= 2 and size <= _MAX_TABLE) or any(name[17:]):
        _fail("coin")
    return keep, change, symbols, size


class _Words:
    """The words from which mask and shift of a seed are drawn."""

    def __init__(self, seed):
        self._seed, self._block, self._words = _exactly(seed, 16), 0, []

    def draw(self, bound):
        mask = 1
        while mask < bound - 1:
            mask = mask << 1 | 1
        while True:
            if not self._words:
                self._block += 1
                self._words = _unpack(stream(self._seed, bytes([self._block]) + bytes(15), 16))
            value = self._words.pop(0) & mask
            if value < bound:
                return value


def coin_name(encoder, number):
    flags, profile, device, _, _, blocks, _ = _read_encoder(encoder)
    if not 0 < number < 1 << 48:
        _fail("number")
    header, words = _assignment(encoder, flags, profile, device, number)
    block = _assigned(blocks, words[0])[0]
    g = 2 if block[0] == 1 else block[3]
    name = header[2:] + bytes([block[5], block[6], min(g, 255), 0, 0, 0])
    _coin_of(name)
    return name


def coin_mask(seed, symbols, answer):
    if not 2 <= _u32(symbols) < _MAX_TABLE:
        _fail("coin")
    if _u32(answer) >= symbols:
        _fail("reading")
    return (answer - _Words(seed).draw(symbols)) % symbols


def _coin_hash(name, data):
    return hash(b"peel/1 coin", name + data, 16)


def coin_root(name, seed):
    return coin_open(name, seed, 0)[1]


def coin_open(name, seed, index):
    keep, change, symbols, size = _coin_of(name)
    name, words = bytes(name), _Words(seed)
    mask, shift = words.draw(symbols), words.draw(size)
    if _u32(index) >= size:
        _fail("coin")
    nonces = stream(seed, bytes(16), 13 * size)
    nodes, opening = [], b""
    for j in range(size):
        u = (shift + j) % size
        leaf = bytes([(mask + (0 if u < keep else 1 + (u - keep) // change)) % symbols]) + nonces[13 * j : 13 * j + 13]
        if j == index:
            opening = leaf
        nodes.append(_coin_hash(name, bytes([j]) + leaf))
    level = 64
    while len(nodes) > 1:
        level += 1
        first = index - index % 4
        for place, node in enumerate(nodes[first : first + 4]):
            if first + place != index:
                opening += node
        index //= 4
        nodes = [_coin_hash(name, bytes([level]) + b"".join(nodes[at : at + 4])) for at in range(0, len(nodes), 4)]
    return (opening, nodes[0])
