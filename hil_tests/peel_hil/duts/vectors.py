# SPDX-License-Identifier: MIT
"""The specification's vectors in the form that a device checks (device/vector_checks.py)."""

from __future__ import annotations

import ast
import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from peel_core.frame import PROFILE
from peel_hil.duts.base import DEVICE_CODE, Dut
from peel_hil.vectors import seal_key_of
from peel_tools.boards.cache import REPOSITORY

__all__ = [
    "CHECKS_FILE",
    "OFF_BOARDS",
    "VECTORS",
    "application_files",
    "core_files",
    "device_cases",
    "kind",
    "run_vectors",
]

VECTORS = REPOSITORY / "spec" / "vectors"
CHECKS_FILE = DEVICE_CODE / "vector_checks.py"
RECEIPT_FILE = REPOSITORY / "firmware" / "peel_device" / "receipt.py"
COIN_RECEIPT_FILE = RECEIPT_FILE.with_name("coin_receipt.py")

OFF_BOARDS = {
    "profile_bad": "profiles are checked where they are written; a bundle has only the values derived from one",
    "odds": "chosen where the profile is written; a bundle has keep and change",
    "hash_symbols": "chosen where the profile is written; a bundle has the number of symbols",
    "keys_bad_salt": "a device gets its keys, and no salt",
    "coin_audit": "audits and challenges are chosen by a gateway",
    "opening_bad": "a device opens its coins and verifies none",
    "message_bad": "a device sends messages and reads none",
}
"""The kinds of vectors that no board runs, with the reason. Any other kind needs a check in CHECKS_FILE."""

# Functions of the application outside the core, on boards whose image has it.
_APPLICATION = ("keys_bad", "topics")
_FAMILIES = (
    "encode_bad",
    "frame_bad",
    "keys_bad_salt",
    "keys_bad",
    "profile_bad",
    "receipt_bad",
    "opening_bad_coin",
    "opening_bad",
    "message_bad",
    "coin_receipt_bad",
)
# Faults that a frame shows by itself. The others need a reader that knows devices and profiles, and no device reads unsealed frames.
_TYPE_AT = 1
_COIN_RECEIPT = "coin_receipt"
_FRAME_FAULTS = ("length", "version", "flags", "unsealed", "seal", "trits")
_UNUSED = ("note", "count", "word", "u", "rounded", "rejected", "hash", "hashed")
_BATCH_CHARACTERS = 3000
_LONG_LIST = 32
_PART_CHARACTERS = 1024  # of a long list in one string: a small heap has no large free block

Case = dict[str, Any]


def kind(file: Path) -> str:
    """Return the name of the check for a vector file."""
    for family in _FAMILIES:
        if file.stem.startswith(family):
            return family
    return file.stem


def core_files() -> list[Path]:
    """Return the vector files about the core's functions on a device."""
    return [file for file in sorted(VECTORS.glob("*.json")) if kind(file) not in (*OFF_BOARDS, *_APPLICATION)]


def application_files() -> list[Path]:
    """Return the vector files about the application's functions outside the core."""
    return [file for file in sorted(VECTORS.glob("*.json")) if kind(file) in _APPLICATION]


def device_cases(file: Path) -> list[Case]:
    """Return the cases of a file, without the fields that a device does not use."""
    cases: list[Case] = json.loads(file.read_text())["cases"]
    if kind(file) == "frame_bad":
        return [_opening(case, bytes.fromhex(case["frame"]), case) for case in cases if _on_a_device(case, case)]
    if kind(file) == "payload":
        return [_opening(case, frame, piece) for case in cases for frame, piece in _pieces(case)]
    return [{name: value for name, value in case.items() if name not in _UNUSED} for case in cases]


def _pieces(case: Case) -> Iterator[tuple[bytes, Case]]:
    """Return the pieces of a payload that can be given to a device one by one, as it does not split payloads."""
    payload, at = bytes.fromhex(case["payload"]), 0
    verified = any("audits" in profile for profile in case["profiles"])
    for piece in case["pieces"]:
        frame = payload[at : at + piece["length"]]
        is_message = verified and len(frame) > _TYPE_AT and frame[_TYPE_AT] != 0  # only a gateway opens those
        if _on_a_device(case, piece) and not is_message:
            yield frame, piece
        at += piece["length"]


def _on_a_device(case: Case, result: Case) -> bool:
    """Whether a device, which knows one key and one width and requires a seal, comes to the same result as the case's reader."""
    if result["expect"] == "ok":
        return not result["flags"]
    return result["expect"] in _FRAME_FAULTS and (result["expect"] == "length" or not case["accept_unsealed"])


def _opening(case: Case, frame: bytes, result: Case) -> Case:
    """Return the key and the width that a reader would choose; for an unknown frame, the first ones."""
    widths = [known["width"] for known in case["profiles"] if known["id"] == PROFILE.of(frame)]
    return {
        "frame": frame.hex(),
        "seal_key": seal_key_of(case, frame) or case["bundles"][0]["seal_key"],
        "width": (widths or [case["profiles"][0]["width"]])[0],
        **{name: result[name] for name in ("expect", "rule", "trits") if name in result},
    }


def _literal(value: Any) -> str:
    """Return a Python expression for a device. Long lists of readings become arrays, which a small heap compiles more easily."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{name!r}:{_literal(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list) and len(value) > _LONG_LIST and all(isinstance(item, int) for item in value):
        text = struct.pack(f"<{len(value)}i", *value).hex()
        parts = [text[at : at + _PART_CHARACTERS] for at in range(0, len(text), _PART_CHARACTERS)]
        return f"vector_checks.integers({','.join(map(repr, parts))})"
    if isinstance(value, list):
        return "[" + ",".join(map(_literal, value)) + "]"
    return repr(value)


def _statements(case: Case) -> list[str]:
    """Yield statements that append a case to `cases`; each report of a long case has its own statement."""
    whole = f"cases.append({_literal(case)})"
    if len(whole) <= _BATCH_CHARACTERS or "reports" not in case:
        return [whole]
    bare = {**case, "reports": []}
    return [
        f"cases.append({_literal(bare)})",
        *(f"cases[-1]['reports'].append({_literal(report)})" for report in case["reports"]),
    ]


def _batches(cases: list[Case]) -> Iterator[list[str]]:
    """Yield batches of cases that fit in a small heap, each as the pieces of code that make it."""
    pieces: list[str] = []
    for case in cases:
        if sum(map(len, pieces)) > _BATCH_CHARACTERS:
            yield pieces
            pieces = []
        pieces += _statements(case)
    if pieces:
        yield pieces


def _joined(pieces: list[str]) -> Iterator[str]:
    """Join short pieces, so that there are fewer exchanges."""
    text = ""
    for piece in pieces:
        if text and len(text) + len(piece) > _BATCH_CHARACTERS:
            yield text
            text = ""
        text += piece + "\n"
    yield text


def _load_coin_receipt(dut: Dut) -> None:
    """Load the reader of receipts with coin fields, on a board that may not have the package of its import."""
    source = COIN_RECEIPT_FILE.read_text(encoding="utf-8").replace(
        "from peel_device.receipt import", "from receipt import"
    )
    dut.put("coin_receipt.py", source.encode())
    dut.exec("import coin_receipt")
    dut.remove("coin_receipt.py")


def run_vectors(dut: Dut, cores: Sequence[str], files: Sequence[Path] | None = None) -> tuple[list[str], int]:
    """Check a board's modules against the vectors. Return the failures, and the number of comparisons that each core passed."""
    dut.load("receipt", RECEIPT_FILE)
    dut.load("vector_checks", CHECKS_FILE)
    dut.exec(f"import gc, {', '.join(cores)}")
    problems: list[str] = []
    total = 0

    # A small heap has room for the largest reports while little else was loaded, and beside them none for a reader of receipts.
    def place(file: Path) -> tuple[bool, bool]:
        return file.stem.startswith(_COIN_RECEIPT), file.stem != "report"

    chosen = sorted(core_files() if files is None else files, key=place)
    loaded = False
    for file in chosen:
        if file.stem.startswith(_COIN_RECEIPT) and not loaded:
            _load_coin_receipt(dut)
            loaded = True
        for pieces in _batches(device_cases(file)):
            dut.exec("cases=[]")
            for piece in _joined(pieces):
                dut.exec(f"{piece}\ngc.collect()")
            check = f"vector_checks.failures(core, {kind(file)!r}, cases)"
            code = f"for core in ({','.join(cores)},):\n print({check})\n gc.collect()"
            results = [ast.literal_eval(line) for line in dut.exec(code, timeout=300).splitlines()]
            problems += [
                f"{dut.name}, {core}: {line}" for core, (wrong, _) in zip(cores, results, strict=True) for line in wrong
            ]
            counts = {made for _, made in results}
            if len(counts) != 1:
                problems.append(f"{dut.name}: the cores went through different numbers of comparisons: {results}")
            total += max(counts)
    return problems, total
