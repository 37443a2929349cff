# SPDX-License-Identifier: MIT
"""Runs on MicroPython: checks that parts of the application behave as under CPython. Prints one line per check.

Usage: micropython on_micropython.py FIRMWARE UMQTT BINDINGS, the folders that hold the modules.
"""

import json
import sys

sys.path[:0] = sys.argv[1:4]  # before the imports that need it

import peel_load
from peel_device import config, kinds, selftest, storage
from peel_device.coin_messages import Messages
from peel_device.coin_receipt import CoinReader
from peel_device.coins import Coins
from peel_device.errors import ConfigError
from peel_device.ledger import Ledger
from peel_device.outbox import Outbox
from peel_device.storage import crc32, portable_crc32


class StillClock:
    """A clock that stands still."""

    def now(self):
        return 0


class TornFiles:
    """Files in memory. Each write first calls `witness` with the states that a power cut at each byte would leave."""

    def __init__(self, kept=()):
        self.kept = dict(kept)
        self.witness = None
        self.cuts = 0
        self.cut = 0

    def read(self, path):
        return self.kept.get(path)

    def write(self, path, data):
        if self.witness:
            for done in range(len(data) + 1):
                state = TornFiles(self.kept)
                state.kept[path] = data[:done]
                state.cut = done
                self.cuts += 1
                self.witness(state)
        self.kept[path] = bytes(data)

    def remove(self, path):
        self.kept.pop(path, None)

    def names(self, folder):
        return [path[len(folder) + 1 :] for path in self.kept if path.startswith(folder + "/")]

    def make_folder(self, path):
        pass


def check_ledger():
    store, highest = TornFiles(), 0

    def opened(state):
        ledger = Ledger(state, "l", StillClock(), 1 << 20, 100000, 60, 4)
        ledger.start(1, False)
        return ledger

    def witness(state):
        assert opened(state).take() > highest

    store.witness = witness
    for _ in range(10):
        ledger = opened(store)
        for _ in range(9):
            number = ledger.take()
            assert number > highest
            highest = number
    assert store.cuts > 1000, store.cuts


def check_outbox():
    store, kept = TornFiles(), {}

    def opened(state):
        box = Outbox(state, "o", 3)
        box.start()
        return box

    def witness(state):
        found = dict(opened(state).unsent(9))
        assert all(found[number] == frame(number) for number in found)
        assert len(set(kept) - set(found)) <= 1

    store.witness = witness
    box = opened(store)
    for number in range(1 << 40, (1 << 40) + 30):
        box.put(number, frame(number))
        kept = dict(box.unsent(9))
    assert (len(box), box.dropped, sorted(kept)[0]) == (3, 27, (1 << 40) + 27)


def frame(number):
    return bytes([number & 255]) * 38


def check_config():
    text = storage.FlashFiles().read(sys.argv[1] + "/config.example.json")
    made = config.load(text)
    assert made.profile.epsilon_q20 == 1 << 20
    assert "Secret" in repr(made.seal_key)
    for wrong, key in (
        (b'"peel": 1', "peel"),
        (b'"width": 48', "profile.width"),
        (b'"kind": "adc"', "sensors.soil.kind"),
    ):
        try:
            config.load(text.replace(wrong, wrong.split(b":")[0] + b": 7777"))
        except ConfigError as error:
            assert error.key == key, error.key
        else:
            raise AssertionError(key)


def check_readings():
    assert [kinds.to_q15(value, -10, 50) for value in (-11, -10, 20, 35.0, 50, 99)] == [
        -32768,
        -32768,
        0,
        16384,
        32768,
        32768,
    ]
    try:
        kinds.to_q15(float("nan"), 0, 1)
    except ValueError:
        return
    raise AssertionError("NaN was taken for a reading")


def check_kinds():
    """Every kind of attribute answers its questions, and thresholds and NaN behave as under CPython."""
    attributes = kinds.read_attributes(
        "attributes",
        [
            {"name": "t", "kind": "mean", "weight": 1, "keep": 8, "change": 3, "unit": "", "low": -10, "high": 50},
            {"name": "t", "kind": "above", "weight": 1, "keep": 8, "change": 3, "unit": "", "thresholds": [26, 30.5]},
            {"name": "door", "kind": "category", "weight": 2, "keep": 8, "change": 3, "categories": ["open", "shut"]},
            {"name": "error", "kind": "hashed", "weight": 1, "keep": 8, "change": 3, "domain": 5000, "symbols": 3},
        ],
    )
    readings = [0] * 5
    for attribute, value in zip(attributes, (20, 30, "shut", 4711)):
        attribute.answer(readings, value, None)
    assert readings == [0, 32768, -32768, 1, 4711], readings
    attributes[1].leave_out(readings)
    assert readings == [0, kinds.NO_READING, kinds.NO_READING, 1, 4711], readings
    for wrong in (float("nan"), "warm", None):
        for attribute in attributes[:2]:
            try:
                attribute.answer(readings, wrong, None)
            except (ValueError, TypeError):
                continue
            raise AssertionError("%r was taken for a number" % (wrong,))


def check_no_reading():
    """The core takes "no reading", which is no small integer on a 32-bit board."""
    core = peel_load.load()
    drbg = core.drbg()
    core.drbg_seed(drbg, bytes(range(48)))
    blocks = [(1, 1, 2, 1, 0, 8, 3)]
    encoder = core.encoder(0, 1, 1, 48, 7, blocks, bytes(16), bytes(16))
    frame = bytearray(64)
    size = core.encode(frame, encoder, drbg, 1, [kinds.NO_READING, kinds.NO_READING])
    _, trits = core.frame_open(bytes(16), 48, bytes(frame[:size]))
    assert trits == core.codeword(7, 48, 2, False)


def check_checksum():
    assert crc32(b"123456789") == portable_crc32(b"123456789") == 0xCBF43926


def verified_config():
    bundle = json.loads(storage.FlashFiles().read(sys.argv[1] + "/config.example.json"))
    bundle["profile"].update({"audits": 8, "offline": 3600, "bucket": 300})
    return config.Config(bundle)


def receipt(core, settings, approved, audit_first, audit, opened, challenge):
    """Return a receipt with coin fields. `challenge` is a seed, a first number and a length, or empty."""
    made = bytes([0x11]) + settings.device.to_bytes(4, "little") + bytes(6) + (7 << 32).to_bytes(8, "little")
    made += approved.to_bytes(6, "little") + audit_first.to_bytes(6, "little") + audit.to_bytes(4, "little")
    made += opened.to_bytes(4, "little") + bytes([0, 1 if challenge else 0])
    if challenge:
        made += challenge[0] + challenge[1].to_bytes(6, "little") + bytes(2) + challenge[2].to_bytes(2, "little")
    return made + core.hash(b"peel/1 receipt", settings.receipt_key.reveal() + made, 8)


def check_coins():
    """A batch from its commitment to its end, with a restart at each write: no answer ever changes."""
    core, settings, store = peel_load.load(), verified_config(), TornFiles()
    profile = settings.profile
    encoder = core.encoder(
        0, profile.id, settings.device, profile.width, profile.seed, profile.blocks,
        settings.seal_key.reveal(), settings.index_key.reveal(), True,
    )  # fmt: skip
    drbg = core.drbg()
    core.drbg_seed(drbg, bytes(range(48)))
    reader = CoinReader(core, settings.receipt_key.reveal(), settings.device)
    sent = {}

    def random(count):
        return core.drbg_bytes(drbg, count)

    def opened(state):
        box = Outbox(state, "o", 50)
        box.start()
        coins = Coins(state, "c", core, settings, box)
        coins.start(1, state.read("c/state.0") is not None)
        coins.use(encoder)
        return coins

    def send(coins):
        messages = Messages(core, settings, coins, StillClock(), random)
        while messages.waiting:
            payload = messages.next()
            messages.sent()
            size = 24 + 94 if payload[1:2] == b"\x03" else 536
            for at in range(0, len(payload), size):
                name = bytes(payload[at + 1 : at + 16])
                assert sent.setdefault(name, payload[at : at + size]) == payload[at : at + size]

    def witness(state):
        if state.cut in (0, 20):
            send(opened(state))

    def take(content, start):
        coins = opened(store)
        found = reader.read(content)
        assert coins.take_era(found.era)
        coins.take(found, start)
        send(coins)
        return coins

    store.witness = witness
    opened(store).make_batch(1, random)
    send(opened(store))
    assert [len(frame) for frame in sent.values()] == [536]
    assert take(receipt(core, settings, 0, 1, 0xFF, 0, ()), 1).usable(1, 3) == []
    assert take(receipt(core, settings, 1, 0, 0, 0, ()), 1).usable(1, 3) == [9, 10, 11]
    for seed in (bytes(range(16)), bytes(16)):
        coins = take(receipt(core, settings, 1, 0, 0, 0, (seed, 1, 20)), 21)
        assert coins.unopened(21) == 12
    assert len(sent) == 2 + 12, len(sent)
    coins = take(receipt(core, settings, 1, 0, 0, 1, (bytes(16), 21, 12)), 33)
    assert coins.unopened(33) == 12
    take(receipt(core, settings, 1, 0, 0, 2, ()), 33)
    assert len(sent) == 2 + 24
    assert [path for path in store.kept if path.startswith("c/b")] == []


def check_core():
    problem = selftest.check_core(peel_load.load())
    assert not problem, problem


for check in (
    check_checksum,
    check_config,
    check_readings,
    check_kinds,
    check_no_reading,
    check_core,
    check_ledger,
    check_outbox,
    check_coins,
):
    check()
    print("ok", check.__name__)
