# SPDX-License-Identifier: MIT
"""The specification's vectors against a core, in the part of Python that every board has.

`failures(core, name, cases)` runs cases of spec/vectors/<name>.json, as peel_hil.duts.vectors prepares them for a device.
"""

import gc
from array import array
from binascii import hexlify, unhexlify

try:
    from receipt import Reader  # on a board, where the firmware's files are loaded separately
except ImportError:
    from peel_device.receipt import Reader


def integers(*texts):
    """Return an array of 32-bit integers from parts in hexadecimal, little-endian."""
    whole = array("i")
    for text in texts:
        whole.extend(array("i", unhexlify(text)))
    return whole


def _hex(data):
    return hexlify(data).decode()


def _fault(call, *arguments):
    """Return the name of the fault that a call raises, or "ok"."""
    try:
        call(*arguments)
    except ValueError as error:
        return str(error).split(":")[1].strip()
    return "ok"


def _ascon_aead(core, case):
    key, nonce, ad, text = [unhexlify(case[name]) for name in ("key", "nonce", "ad", "text")]
    yield _hex(core.seal(key, nonce, ad, text)), case["ciphertext"] + case["tag"]


def _ascon_xof(core, case):
    # The core has no bare XOF. A message that starts with its label's length is a hash; the empty message is not.
    message = unhexlify(case["message"])
    if message and len(message) > message[0]:
        label, data = message[1 : 1 + message[0]], message[1 + message[0] :]
        yield _hex(core.hash(label, data, len(case["output"]) // 2)), case["output"]


def _stream(core, case):
    yield _hex(core.stream(unhexlify(case["key"]), unhexlify(case["nonce"]), case["length"])), case["output"]


def _hash(core, case):
    yield _hex(core.hash(case["label"], unhexlify(case["data"]), case["length"])), case["output"]


def _keys(core, case):
    fleet = case["fleet"].encode()
    bundle = case["device"].to_bytes(4, "little") + case["first"].to_bytes(6, "little") + unhexlify(case["salt"])
    material = unhexlify(case["master"]) + bytes([len(fleet)]) + fleet + bundle
    for purpose, name in ((1, "seal_key"), (2, "index_key"), (3, "receipt_key"), (4, "coin_key")):
        yield _hex(core.hash("peel/1 key", material + bytes([purpose]), 16)), case[name]


def _profile(core, case):
    yield int.from_bytes(core.hash("peel/1 profile", case["canonical"].encode(), 4), "little"), case["id"]


def _words(data):
    return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]


def _drbg(core, case):
    generator = core.drbg()
    for step in case["steps"]:
        if step["op"] == "seed":
            yield _fault(core.drbg_seed, generator, unhexlify(step["entropy"])), step["expect"]
        elif step["expect"] != "ok":
            yield _fault(core.drbg_bytes, generator, 4), step["expect"]
        elif step["op"] == "words":
            yield _words(core.drbg_bytes(generator, 4 * step["count"])), step["output"]
        else:
            yield _hex(core.drbg_bytes(generator, step["length"])), step["output"]


def _seeded(core, entropy):
    generator = core.drbg()
    core.drbg_seed(generator, unhexlify(entropy))
    return generator


def _perturb(core, case):
    generator = _seeded(core, case["entropy"])
    symbol = core.perturb(case["blocks"], case["width"], *case["words"], case["readings"], generator)
    yield tuple(symbol), (case["index"], case["minus"])
    yield _words(core.drbg_bytes(generator, 4)), [case["next_word"]]


def _index(core, case):
    yield _words(core.stream(unhexlify(case["index_key"]), unhexlify(case["header"]), 8)), case["words"]


def _projection(core, case):
    yield _hex(core.codeword(case["seed"], case["width"], case["index"], case["minus"])), case["trits"]


_NUMBERS = ("flags", "profile", "device", "width", "seed")


def _encoder(core, fields, cached):
    numbers = [fields[name] for name in _NUMBERS]
    return core.encoder(
        *numbers, fields["blocks"], unhexlify(fields["seal_key"]), unhexlify(fields["index_key"]), cached
    )


_WIDEST_CACHED = 252


def _report(core, case):
    # The largest row cache, 4 KB, does not fit beside the native module in the heap of an emulated RISC-V board.
    for cached in (True, False) if case["encoder"]["width"] <= _WIDEST_CACHED else (False,):
        encoder = None
        gc.collect()
        encoder = _encoder(core, case["encoder"], cached)
        generator = _seeded(core, case["entropy"])
        out = bytearray(256)
        for report in case["reports"]:
            verified = ()
            if "secret" in case:
                nonce = report["number"].to_bytes(6, "little") + bytes(10)
                verified = (core.stream(unhexlify(case["secret"]), nonce, 16),)
                yield _hex(core.coin_name(encoder, report["number"])), report["coin"]
            size = core.encode(out, encoder, generator, report["number"], report["readings"], *verified)
            yield _hex(out[:size]), report["frame"]
            if not case["encoder"]["flags"]:
                fields = case["encoder"]
                opened = core.frame_open(unhexlify(fields["seal_key"]), fields["width"], out[:size])
                trits = core.codeword(fields["seed"], fields["width"], report["index"], report["minus"])
                yield tuple(opened), (report["rule"], trits)


def _encode_bad(core, case):
    def attempt():
        generator = core.drbg()
        if case["entropy"]:
            core.drbg_seed(generator, unhexlify(case["entropy"]))
        core.encode(bytearray(256), _encoder(core, case["encoder"], False), generator, case["number"], case["readings"])

    yield _fault(attempt), case["expect"]


def _frame_bad(core, case):
    yield _fault(core.frame_open, unhexlify(case["seal_key"]), case["width"], unhexlify(case["frame"])), case["expect"]


def _payload(core, case):
    if case["expect"] != "ok":
        return _frame_bad(core, case)
    opened = core.frame_open(unhexlify(case["seal_key"]), case["width"], unhexlify(case["frame"]))
    return [(tuple(opened), (case["rule"], unhexlify(case["trits"])))]


def _read(core, case):
    return Reader(core, unhexlify(case["receipt_key"]), case["device"]).settled(unhexlify(case["receipt"]))


def _receipt(core, case):
    yield [list(run) for run in _read(core, case)], [[0, case["upto"]]] + case["runs"]


def _receipt_bad(core, case):
    yield _fault(_read, core, case), case["expect"]


def _read_coins(core, case):
    try:
        from coin_receipt import CoinReader  # loaded late, for boards with little memory
    except ImportError:
        from peel_device.coin_receipt import CoinReader
    return CoinReader(core, unhexlify(case["receipt_key"]), case["device"]).read(unhexlify(case["receipt"]))


def _coin_receipt(core, case):
    found = _read_coins(core, case)
    yield [list(run) for run in found.settled], [[0, case["upto"]]] + case["runs"]
    yield [list(run) for run in found.challenge], case["challenge"]
    yield _hex(found.era.to_bytes(8, "little")), case["era"]
    yield _hex(found.seed), case["challenge_seed"]
    for name in ("approved", "audit_first", "audit", "opened"):
        yield getattr(found, name), case[name]


def _coin_receipt_bad(core, case):
    yield _fault(_read_coins, core, case), case["expect"]


_COIN_FIELDS = (("profile", 4), ("device", 4), ("number", 6), ("keep", 1), ("change", 1), ("g", 1))


def _coin_name(case):
    return b"".join([case[name].to_bytes(size, "little") for name, size in _COIN_FIELDS]) + bytes(3)


def _coin_table(core, case):
    name, seed = _coin_name(case), unhexlify(case["seed"])
    yield _hex(core.stream(unhexlify(case["secret"]), name[8:14] + bytes(10), 16)), case["seed"]
    yield core.coin_mask(seed, case["g"], case["answer"]), case["masked"]
    yield _hex(core.coin_root(name, seed)), case["root"]
    outcomes = unhexlify(case["outcomes"])
    for index in (0, len(outcomes) - 1):
        opening, root = core.coin_open(name, seed, index)
        yield (opening[0], _hex(root)), (outcomes[index], case["root"])


def _coin_opening(core, case):
    for index, expected in case["openings"]:
        opening, root = core.coin_open(_coin_name(case), unhexlify(case["seed"]), index)
        yield _hex(opening), expected
        yield _hex(root), case["root"]
    yield _fault(core.coin_open, _coin_name(case), unhexlify(case["seed"]), 64), "coin"


def _coin_index(core, case):
    data = unhexlify(case["challenge_seed"]) + case["number"].to_bytes(6, "little")
    word = int.from_bytes(core.hash("peel/1 coin index", data, 4), "little")
    yield word * case["table"] >> 32, case["index"]


def _coin_message(core, case):
    fields = [case[name].to_bytes(size, "little") for name, size in _COIN_FIELDS[:3]]
    header = bytes([0x10, case["type"]]) + b"".join(fields)
    body = unhexlify(case["body"])
    sealed = core.seal(unhexlify(case["coin_key"]), header, b"", body)[: len(body) + 8]
    yield _hex(header + sealed), case["frame"]


def _opening_bad_coin(core, case):
    yield _fault(core.coin_root, _coin_name(case), bytes(16)), case["expect"]


def _keys_bad(core, case):
    from peel_device import checks, errors

    try:
        checks.fleet_name("fleet", case["fleet"])
    except errors.ConfigError as error:
        yield error.key, case["expect"]
    else:
        yield "ok", case["expect"]


def _topics(core, case):
    from peel_device.config import Config

    class Named(Config):
        def __init__(self):  # the parts of a bundle that a topic needs
            self.fleet, self.device = case["fleet"], case["device"]

    yield Named().topic + case["about"], case["topic"]


CHECKS = {
    "ascon_aead": _ascon_aead,
    "ascon_xof": _ascon_xof,
    "stream": _stream,
    "hash": _hash,
    "keys": _keys,
    "profile": _profile,
    "drbg": _drbg,
    "sign": _perturb,
    "choice": _perturb,
    "hashed": _perturb,
    "mixed": _perturb,
    "missing": _perturb,
    "index": _index,
    "projection": _projection,
    "report": _report,
    "encode_bad": _encode_bad,
    "frame_bad": _frame_bad,
    "payload": _payload,
    "receipt": _receipt,
    "receipt_bad": _receipt_bad,
    "coin_receipt": _coin_receipt,
    "coin_receipt_bad": _coin_receipt_bad,
    "coin_table": _coin_table,
    "coin_opening": _coin_opening,
    "coin_index": _coin_index,
    "coin_message": _coin_message,
    "opening_bad_coin": _opening_bad_coin,
    "keys_bad": _keys_bad,
    "topics": _topics,
}


def failures(core, name, cases):
    """Return a line for each failed comparison, and the number of comparisons."""
    wrong, made = [], 0
    for number, case in enumerate(cases):
        for found, expected in CHECKS[name](core, case):
            made += 1
            if found != expected:
                wrong.append("%s case %d: got %r, expected %r" % (name, number, found, expected))
    return wrong, made
