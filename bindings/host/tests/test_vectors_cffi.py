# SPDX-License-Identifier: MIT
"""Every vector through cffi: single calls, and through open_many the faults that need tables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peel_core import (
    CODE_NAMES,
    PeelError,
    ProfileError,
    coins,
    derive_keys,
    hash_family,
    hashing,
    make_profile,
    primitives,
)
from peel_core._core import ffi, lib
from peel_core.batch import _COLUMNS, Opened
from peel_core.coin_receipts import CoinReceipt, read_coin_receipt, write_coin_receipt
from peel_core.frame import FLAG_UNSEALED
from peel_core.odds import odds_of
from peel_core.receipts import Receipt, read_receipt, write_receipts
from peel_core.topics import device_topic

VECTORS = Path(os.environ.get("PEEL_VECTORS", Path(__file__).resolve().parents[3] / "spec" / "vectors"))
"""The vectors to run. PEEL_VECTORS can name those of another version."""


def vectors(*patterns: str) -> Callable[[Callable[[dict[str, Any]], None]], Callable[[Path], None]]:
    """Make a check of one case a test of each file of vectors. Thousands of small tests would take longer than the checks."""
    paths = sorted(path for pattern in patterns for path in VECTORS.glob(f"{pattern}.json"))

    def decorate(check: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
        @pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)
        def test(path: Path) -> None:
            for position, case in enumerate(json.loads(path.read_text(encoding="utf-8"))["cases"]):
                try:
                    check(case | {"file": path.stem})
                except BaseException as error:
                    error.add_note(f"in case {position} of {path.name}")
                    raise

        return test

    return decorate


def unhex(case: dict[str, Any], *fields: str) -> list[bytes]:
    return [bytes.fromhex(case[field]) for field in fields]


@vectors("ascon_aead")
def test_aead(case: dict[str, Any]) -> None:
    key, nonce, ad, text, ciphertext, tag = unhex(case, "key", "nonce", "ad", "text", "ciphertext", "tag")
    assert primitives.ascon_seal(key, nonce, ad, text) == (ciphertext, tag)
    assert primitives.ascon_open(key, nonce, ad, ciphertext, tag) == text


@vectors("ascon_xof")
def test_xof(case: dict[str, Any]) -> None:
    message, output = unhex(case, "message", "output")
    assert primitives.xof(message, len(output)) == output


@vectors("hash")
def test_hash(case: dict[str, Any]) -> None:
    data, output = unhex(case, "data", "output")
    assert primitives.hash_(case["label"], data, case["length"]) == output


@vectors("keys")
def test_keys(case: dict[str, Any]) -> None:
    keys = derive_keys(*_key_arguments(case))
    found = {f"{name}_key": key[0].tobytes().hex() for name, key in vars(keys).items()}
    assert found == {name: case[name] for name in ("seal_key", "index_key", "receipt_key", "coin_key")}


@vectors("keys_bad_fleet")
def test_bad_fleet(case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="fleet name"):
        derive_keys(*_key_arguments(case))


@vectors("keys_bad_salt")
def test_bad_salt(case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"salts has shape .*, expected 16 bytes"):
        derive_keys(*_key_arguments(case))


def _key_arguments(case: dict[str, Any]) -> tuple[Any, ...]:
    master, salt = unhex(case, "master", "salt")
    return master, case["fleet"], [case["device"]], [case["first"]], salt


@vectors("drbg")
def test_drbg(case: dict[str, Any]) -> None:
    drbg = primitives.Drbg()
    for step in case["steps"]:
        if step["expect"] != "ok":
            with pytest.raises(PeelError, match="entropy"):
                drbg.seed(bytes.fromhex(step["entropy"])) if step["op"] == "seed" else drbg.bytes(4)
        elif step["op"] == "seed":
            drbg.seed(bytes.fromhex(step["entropy"]))
        elif step["op"] == "bytes":
            assert drbg.bytes(step["length"]).hex() == step["output"]
        else:
            assert [int.from_bytes(drbg.bytes(4), "little") for _ in step["output"]] == step["output"]


@vectors("odds")
def test_odds(case: dict[str, Any]) -> None:
    if case["expect"] == "ok":
        assert odds_of(case["epsilon"], case["g"]) == (*case["odds"], case["g"])
    else:
        with pytest.raises(ValueError, match=r"epsilon|outcomes"):
            odds_of(case["epsilon"], case["g"])


def blocks_of(fields: dict[str, Any]) -> list[primitives.CoreBlock]:
    return [primitives.CoreBlock(*block) for block in fields["blocks"]]


@vectors("sign", "choice", "hashed", "mixed", "missing")
def test_answers(case: dict[str, Any]) -> None:
    drbg = primitives.Drbg(bytes.fromhex(case["entropy"]))
    symbol = primitives.perturb(blocks_of(case), case["width"], tuple(case["words"]), case["readings"], drbg)
    assert symbol == (case["index"], case["minus"])
    assert int.from_bytes(drbg.bytes(4), "little") == case["next_word"]


@vectors("hashed")
def test_hashes(case: dict[str, Any]) -> None:
    (block,) = blocks_of(case)
    assert case["words"][1] * hash_family.hash_count(block.symbols, block.domain) >> 32 == case["hash"]
    assert hashing.hashed(case["hash"], case["readings"][0], block.symbols, block.domain) == case["hashed"]


@vectors("hash_symbols")
def test_hash_symbols(case: dict[str, Any]) -> None:
    assert hash_family.symbols(case["epsilon"]) == case["symbols"]


@vectors("index")
def test_index(case: dict[str, Any]) -> None:
    index_key, header = unhex(case, "index_key", "header")
    words = primitives.index_words(index_key, header)
    assert list(words) == case["words"]
    assert primitives.unit(blocks_of(case), lib.PEEL_MAX_WIDTH, words) == case["unit"]


@vectors("projection")
def test_projection(case: dict[str, Any]) -> None:
    word = primitives.codeword(case["seed"], case["width"], case["index"], case["minus"])
    assert word.hex() == case["trits"]


def encoder(case: dict[str, Any]) -> primitives.Encoder:
    fields = dict(case["encoder"])
    fields["seal_key"], fields["index_key"] = unhex(fields, "seal_key", "index_key")
    fields["blocks"] = blocks_of(fields)
    return primitives.Encoder(**fields)


@vectors("report")
def test_reports(case: dict[str, Any]) -> None:
    drbg = primitives.Drbg(bytes.fromhex(case["entropy"]))
    for report in case["reports"]:
        seed = None
        if "secret" in case:
            assert encoder(case).coin_name(report["number"]).hex() == report["coin"]
            seed = coins.coin_seeds(row(bytes.fromhex(case["secret"])), [report["number"]]).tobytes()
        frame = encoder(case).encode(report["number"], report["readings"], drbg, seed)
        assert frame.hex() == report["frame"]
        width, unsealed = case["encoder"]["width"], case["encoder"]["flags"] == FLAG_UNSEALED
        rule, trits = (
            primitives.frame_open_unsealed(width, frame)
            if unsealed
            else primitives.frame_open(encoder(case).seal_key, width, frame)
        )
        assert rule == report["rule"]
        assert trits == primitives.codeword(
            case["encoder"]["seed"], case["encoder"]["width"], report["index"], report["minus"]
        )


@vectors("encode_bad_*")
def test_refused_reports(case: dict[str, Any]) -> None:
    drbg = primitives.Drbg(bytes.fromhex(case["entropy"]) or None)
    with pytest.raises(PeelError) as caught:
        encoder(case).encode(case["number"], case["readings"], drbg)
    assert caught.value.name == case["expect"]


def reader(case: dict[str, Any], payload: bytes) -> Opened:
    """Call open_many with the tables of a case, whose profiles have no seed and no names."""
    known = sorted(case["bundles"], key=lambda bundle: (bundle["device"], bundle["first"]))
    ids, counts = np.unique(np.array([bundle["device"] for bundle in known], np.uint32), return_counts=True)
    ends = np.cumsum(counts).astype(np.uint32)
    firsts = np.array([bundle["first"] for bundle in known], np.uint64)
    lasts = np.array([bundle.get("last", lib.PEEL_NUMBER_MAX) for bundle in known], np.uint64)
    seal = np.frombuffer(b"".join(bytes.fromhex(bundle["seal_key"]) for bundle in known) or bytes(16), np.uint8).copy()
    coin = np.frombuffer(
        b"".join(bytes.fromhex(bundle.get("coin_key", "00" * 16)) for bundle in known) or bytes(16), np.uint8
    ).copy()
    table = ffi.new("peel_batch_profile[]", max(1, len(case["profiles"])))
    for row, profile in zip(table, case["profiles"], strict=False):
        row.id, row.width, row.units = profile["id"], profile["width"], 1
        row.audits, row.opening = profile.get("audits", 0), profile.get("opening", 0)
    positions = {profile["id"]: i for i, profile in enumerate(case["profiles"])}
    profile_of = np.array([positions.get(bundle["profile"], -1) for bundle in known], np.int32)
    ring = ffi.new("peel_batch_keyring *")
    keep = [
        ffi.from_buffer("uint32_t[]", ids),
        ffi.from_buffer("uint8_t[]", seal),
        ffi.from_buffer("int32_t[]", profile_of),
        ffi.from_buffer("uint32_t[]", ends),
        ffi.from_buffer("uint64_t[]", firsts),
        ffi.from_buffer("uint64_t[]", lasts),
        ffi.from_buffer("uint8_t[]", coin),
    ]
    ring.profiles, ring.profile_count = table, len(case["profiles"])
    ring.devices, ring.seal_keys, ring.index_keys, ring.profile_of = keep[0], keep[1], keep[1], keep[2]
    ring.ends, ring.first_numbers, ring.last_numbers, ring.coin_keys = keep[3], keep[4], keep[5], keep[6]
    ring.device_count, ring.accept_unsealed = len(ids), case["accept_unsealed"]
    return open_with(ring, payload)


def open_with(ring: Any, payload: bytes) -> Opened:
    ends = ffi.new("uint64_t[]", [len(payload)])
    count = lib.peel_batch_count(ring, payload, ends, 1)
    arrays: dict[str, Any] = {name: np.empty(count, dtype) for name, (_, dtype) in _COLUMNS.items()}
    packed = np.zeros((count, lib.PEEL_MAX_TRIT_BYTES), np.uint8)
    rows = ffi.new("peel_batch_rows *")
    keep = {name: ffi.from_buffer(f"{ctype}[]", arrays[name]) for name, (ctype, _) in _COLUMNS.items()}
    keep["packed"] = ffi.from_buffer("uint8_t[]", packed)
    for name, pointer in keep.items():
        setattr(rows, name, pointer)
    bodies = np.zeros(len(payload), np.uint8)
    rows.stride, keep["bodies"] = packed.shape[1], ffi.from_buffer("uint8_t[]", bodies)
    rows.bodies = keep["bodies"]
    lib.peel_batch_open(rows, ring, payload, ends, 1)
    widths = tuple(ring.profiles[position].width for position in range(ring.profile_count))
    return Opened(**arrays, packed=packed, widths=widths, bodies=bodies, starts=np.zeros(1, np.int64))


@vectors("payload")
def test_payloads(case: dict[str, Any]) -> None:
    opened = reader(case, bytes.fromhex(case["payload"]))
    names = ["ok" if code == 0 else CODE_NAMES[code] for code in opened.code.tolist()]
    assert names == [piece["expect"] for piece in case["pieces"]]
    assert opened.length.tolist() == [piece["length"] for piece in case["pieces"]]
    widths = {profile["id"]: profile["width"] for profile in case["profiles"]}
    for row, piece in enumerate(case["pieces"]):
        if piece["expect"] == "ok" and "type" in piece:
            body = bytes.fromhex(piece["body"])
            assert opened.messages(np.array([row]), len(body)).tobytes() == body
            found_message = (opened.device[row], opened.number[row], opened.type[row])
            assert found_message == (piece["device"], piece["number"], piece["type"])
        elif piece["expect"] == "ok":
            found = (opened.device[row], opened.number[row], opened.rule[row], opened.flags[row])
            assert found == (piece["device"], piece["number"], piece["rule"], piece["flags"])
            width = widths[piece["profile"]]
            assert opened.trits[row, : width - 1].tolist() == primitives.unpack(width, bytes.fromhex(piece["trits"]))


@vectors("frame_bad_*")
def test_refused_frames(case: dict[str, Any]) -> None:
    opened = reader(case, bytes.fromhex(case["frame"]))
    assert CODE_NAMES[int(opened.code[0])] == case["expect"]


def profile_table(case: dict[str, Any]) -> dict[str, Any]:
    table = {key: case[key] for key in ("name", "width", "seed", "quota", "period")}
    table |= {key: case[key] for key in ("lifetime", "offline", "bucket") if key in case}
    table["verify"] = "offline" in case
    table["epsilon"] = Decimal(case["epsilon"]) / 2**20
    table["attribute"] = [attribute_table(attribute) for attribute in case["attributes"]]
    return table


def attribute_table(fields: dict[str, Any]) -> dict[str, Any]:
    table = dict(fields)
    for bound in table.keys() & {"low", "high"}:
        table[bound] = Decimal(table[bound]) / 10**6
    if "thresholds" in table:
        name = "rungs" if table["kind"] == "ladder" else "thresholds"
        table[name] = [Decimal(value) / 10**6 for value in table.pop("thresholds")]
    return table | ({"force_category": True} if table["kind"] == "category" else {})


@vectors("profile")
def test_profiles(case: dict[str, Any]) -> None:
    profile = make_profile(profile_table(case))
    assert profile.canonical() == case["canonical"]
    assert profile.id == case["id"]
    made = [
        (b.form, b.weight, b.questions, b.symbols, b.domain * (b.form == 3), b.keep, b.change) for b in profile.blocks
    ]
    assert made == blocks_of(case)


#: The vectors' name of a fault, as it appears in the key that ProfileError names.
KEYS = {
    "range": ("low", "high"),
    "category": ("categories",),
    "thresholds": ("thresholds", "rungs"),
}


@vectors("profile_bad_*")
def test_refused_profiles(case: dict[str, Any]) -> None:
    with pytest.raises(ProfileError) as caught:
        make_profile(profile_table(case))
    assert any(key in caught.value.key for key in KEYS.get(case["expect"], (case["expect"],)))


@vectors("topics")
def test_topics(case: dict[str, Any]) -> None:
    assert device_topic(case["fleet"], case["device"], case["about"]) == case["topic"]


@vectors("receipt")
def test_receipts(case: dict[str, Any]) -> None:
    key, receipt = unhex(case, "receipt_key", "receipt")
    keys = np.frombuffer(key, np.uint8).reshape(1, 16)
    assert write_receipts([case["device"]], keys, [case["upto"]], case["runs"], [len(case["runs"])]) == [receipt]
    runs = tuple((first, last) for first, last in case["runs"])
    assert read_receipt(key, case["device"], receipt) == Receipt(case["upto"], runs)


@vectors("receipt_bad_*")
def test_refused_receipts(case: dict[str, Any]) -> None:
    key, receipt = unhex(case, "receipt_key", "receipt")
    with pytest.raises(PeelError) as caught:
        read_receipt(key, case["device"], receipt)
    assert caught.value.name == case["expect"]


def coin_of(case: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the name of a case's coin, as a batch of one."""
    fields = [[case[field]] for field in ("profile", "device", "number", "keep", "change", "g")]
    return coins.coin_names(*fields)


def row(data: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(data, np.uint8).reshape(1, -1)


@vectors("coin_table")
def test_tables(case: dict[str, Any]) -> None:
    secret, seed, outcomes, root = unhex(case, "secret", "seed", "outcomes", "root")
    name, size = coin_of(case), len(outcomes)
    assert coins.coin_seeds(row(secret), [case["number"]]).tobytes() == seed
    assert coins.mask_answers(row(seed), [case["g"]], [case["answer"]]).tolist() == [case["masked"]]
    assert coins.coin_roots(name, row(seed)).tobytes() == root
    every, seeds, indices = np.repeat(name, size, 0), np.repeat(row(seed), size, 0), np.arange(size)
    opened = coins.open_coins(every, seeds, indices, coins.opening_bytes(size))
    assert opened.openings[:, 0].tobytes() == outcomes
    assert set(map(bytes, opened.roots)) == {root}
    assert coins.verify_openings(opened.roots, every, indices, opened.openings).tobytes() == outcomes


@vectors("coin_opening")
def test_openings(case: dict[str, Any]) -> None:
    seed, root = unhex(case, "seed", "root")
    for index, text in case["openings"]:
        opening, name = bytes.fromhex(text), coin_of(case)
        assert coins.open_coins(name, row(seed), [index], len(opening)).openings.tobytes() == opening
        assert coins.verify_openings(row(root), name, [index], row(opening)).tolist() == [opening[0]]


@vectors("opening_bad_*")
def test_refused_openings(case: dict[str, Any]) -> None:
    root, opening = unhex(case, "root", "opening")
    name = coin_of(case)
    code = lib.peel_coin_verify(root, name.tobytes(), case["index"], opening, len(opening))
    assert CODE_NAMES[code] == case["expect"]
    (found,) = coins.verify_openings(row(root), name, [case["index"]], row(opening)).tolist()
    whole = case["note"] in ("a byte too many", "a sibling too many") and found == opening[0]  # zeros after an opening
    assert whole or CODE_NAMES[found] == case["expect"]


@vectors("coin_message")
def test_messages(case: dict[str, Any]) -> None:
    key, body, frame = unhex(case, "coin_key", "body", "frame")
    sealed = coins.seal_message(key, case["type"], case["profile"], case["device"], case["number"], body)
    assert sealed == frame
    assert coins.open_message(key, len(body), frame) == (case["type"], body)


@vectors("message_bad_*")
def test_refused_messages(case: dict[str, Any]) -> None:
    key, frame = unhex(case, "coin_key", "frame")
    with pytest.raises(PeelError) as caught:
        coins.open_message(key, case["size"], frame)
    assert caught.value.name == case["expect"]


@vectors("coin_receipt")
def test_receipts_with_coin_fields(case: dict[str, Any]) -> None:
    key, era, seed, receipt = unhex(case, "receipt_key", "era", "challenge_seed", "receipt")
    challenge = tuple((first, last) for first, last in case["challenge"])
    content = CoinReceipt(
        settled=Receipt(case["upto"], tuple((first, last) for first, last in case["runs"])),
        era=era,
        **{field: case[field] for field in ("approved", "audit_first", "audit", "opened")},
        challenge_seed=seed,
        challenge=challenge,
    )
    assert write_coin_receipt(key, case["device"], content) == receipt
    assert read_coin_receipt(key, case["device"], receipt) == content


@vectors("coin_receipt_bad_*")
def test_refused_receipts_with_coin_fields(case: dict[str, Any]) -> None:
    key, receipt = unhex(case, "receipt_key", "receipt")
    with pytest.raises(PeelError) as caught:
        read_coin_receipt(key, case["device"], receipt)
    assert caught.value.name == case["expect"]


@vectors("coin_index")
def test_indices_of_challenges(case: dict[str, Any]) -> None:
    (seed,) = unhex(case, "challenge_seed")
    assert coins.challenge_indices(row(seed), [case["number"]], [case["table"]]).tolist() == [case["index"]]


@vectors("coin_audit")
def test_audits_and_seeds_of_challenges(case: dict[str, Any]) -> None:
    master, era, key, header, roots, seed = unhex(
        case, "master", "era", "challenge_key", "header", "roots", "challenge_seed"
    )
    assert coins.challenge_key(coins.challenge_root(master, case["fleet"]), era) == key
    assert coins.audit_many(key, row(header), row(roots), case["audits"]).tolist() == [case["audit"]]
    numbers, found, masked = zip(*case["reports"], strict=True)
    chosen = np.concatenate([row(bytes.fromhex(root)) for root in found])
    assert coins.challenge_seed(key, case["device"], case["count"], numbers, chosen, masked) == seed
