# SPDX-License-Identifier: MIT
"""The vectors of spec/vectors as lines for c_core/tests/driver.c: a command, and its expected answer.

Any machine that can run the driver, or speak its protocol, can be checked against the specification this way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from peel_core import CODE_NAMES
from peel_core.frame import DEVICE, NUMBER, PROFILE, TRITS_AT

_CODES = {name: code for code, name in CODE_NAMES.items()}
#: Faults that a reader finds in a frame with nothing but the device's key and the width.
_FRAME_FAULTS = {"version", "flags", "unsealed", "seal", "trits"}


class Line(NamedTuple):
    """One exchange with the driver."""

    source: str
    command: str
    answer: str


def seal_key_of(case: dict[str, Any], frame: bytes) -> str | None:
    """Return the key that the reader of a case has for a frame, by its device and number."""
    number = NUMBER.of(frame)
    begun = [known for known in case["bundles"] if known["device"] == DEVICE.of(frame) and known["first"] <= number]
    latest = max(begun, key=lambda known: known["first"], default=None)
    return str(latest["seal_key"]) if latest and number <= latest.get("last", number) else None


def driver_lines(folder: Path) -> list[Line]:
    """Yield every vector that the driver understands, in an order that keeps its state right."""
    lines: list[Line] = []
    for path in sorted(folder.glob("*.json")):
        for position, case in enumerate(json.loads(path.read_text(encoding="utf-8"))["cases"]):
            source = f"{path.stem}[{position}]"
            lines += [Line(source, command, answer) for command, answer in _exchanges(path.stem, case)]
    return lines


def _exchanges(name: str, case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    maker = _MAKERS.get(name)
    if maker is not None:
        yield from maker(case)
    elif name.startswith("encode_bad_"):
        yield from _encode_bad(case)
    elif name.startswith("frame_bad_") and case["expect"] in _FRAME_FAULTS:
        yield from _frame_bad(case)
    elif name.startswith("receipt_bad_"):
        yield _read(case), str(_code(case))
    elif name.startswith("opening_bad_"):
        yield _verify(case, case["root"], case["index"], case["opening"]), str(_code(case))
    elif name.startswith("message_bad_"):
        yield f"body {case['coin_key']} {case['size']} {_hex(case['frame'])}", str(_code(case))
    elif name.startswith("coin_receipt_bad_"):
        yield _informed(case), str(_code(case))


def _hex(text: str) -> str:
    return text or "-"


def _code(case: dict[str, Any]) -> str | None:
    expect = case.get("expect", "ok")
    return None if expect == "ok" else str(_CODES[expect])


def _ints(values: list[int]) -> str:
    return ",".join(map(str, values)) or "-"


def _aead(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    head = f"{case['key']} {case['nonce']} {_hex(case['ad'])}"
    yield f"seal {head} {_hex(case['text'])}", f"{_hex(case['ciphertext'])} {case['tag']}"
    yield f"open {head} {_hex(case['ciphertext'])} {case['tag']}", _hex(case["text"])
    yield f"open {head} {_hex(case['ciphertext'])} {case['tag'][:16]}", _hex(case["text"])
    wrong = f"{int(case['tag'][:2], 16) ^ 1:02x}{case['tag'][2:]}"
    yield f"open {head} {_hex(case['ciphertext'])} {wrong}", str(_CODES["seal"])
    yield f"open {head} {_hex(case['ciphertext'])} {case['tag'][:14]}", str(_CODES["length"])


def _xof(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield f"xof {_hex(case['message'])} {len(case['output']) // 2}", case["output"]


def _hash(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    label = case["label"].encode()
    message = bytes([len(label)]) + label + bytes.fromhex(case["data"])
    yield f"xof {message.hex()} {case['length']}", _hex(case["output"])


def _stream(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield f"stream {case['key']} {case['nonce']} {case['length']}", _hex(case["output"])


def _drbg(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "new", "ok"
    for step in case["steps"]:
        failure = _code(step)
        if step["op"] == "seed":
            yield f"seed {_hex(step['entropy'])}", failure or "ok"
        elif step["op"] == "bytes":
            yield f"bytes {step['length']}", failure or _hex(step["output"])
        elif failure:
            yield "bytes 4", failure
        else:
            for word in step["output"]:
                yield "bytes 4", int(word).to_bytes(4, "little").hex()


def _blocks(blocks: list[list[int]]) -> str:
    return ",".join(":".join(map(str, block)) for block in blocks) or "-"


def _perturb(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "new", "ok"
    yield f"seed {case['entropy']}", "ok"
    words = " ".join(map(str, case["words"]))
    command = f"perturb {case['width']} {_blocks(case['blocks'])} {words} {_ints(case['readings'])}"
    yield command, f"{case['index']} {case['minus']}"
    yield "bytes 4", int(case["next_word"]).to_bytes(4, "little").hex()


def _index(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    found = " ".join(map(str, (*case["words"], case["unit"])))
    yield f"unit {case['index_key']} {case['header']} {_blocks(case['blocks'])}", found


def _projection(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for cached in (0, 1):
        yield f"codeword {case['seed']} {case['width']} {case['index']} {case['minus']} {cached}", case["trits"]


def _device(encoder: dict[str, Any]) -> str:
    fields = ("flags", "profile", "device", "width", "seed", "seal_key", "index_key")
    return "device " + " ".join([*(str(encoder[field]) for field in fields), _blocks(encoder["blocks"])])


def _report(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "new", "ok"
    yield f"seed {case['entropy']}", "ok"
    yield _device(case["encoder"]), "ok"
    for report in case["reports"]:
        yield f"encode {report['number']} {_ints(report['readings'])} {case.get('secret', '-')}", report["frame"]
        if "coin" in report:
            yield f"name {report['number']}", report["coin"]
        if case["encoder"]["flags"] & 1:  # unsealed: the expected content is visible in the frame
            found = f"{report['rule']} {report['frame'][2 * TRITS_AT :]}"
            yield f"frame {case['encoder']['width']} - {report['frame']}", found


def _encode_bad(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "new", "ok"
    if case["entropy"]:
        yield f"seed {case['entropy']}", "ok"
    # the driver checks a device when it is set, so a fault of the encoder itself shows there
    failure = str(_code(case))
    encoder_fault = case["expect"] in {"flags", "device", "block", "width", "domain", "odds"}
    yield _device(case["encoder"]), failure if encoder_fault else "ok"
    yield f"encode {case['number']} {_ints(case['readings'])} -", failure


def _frame_bad(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    frame = bytes.fromhex(case["frame"])
    width = next((p["width"] for p in case["profiles"] if p["id"] == PROFILE.of(frame)), None)
    key = seal_key_of(case, frame)
    if width is not None and key is not None:
        yield f"frame {width} {'-' if case['accept_unsealed'] else key} {case['frame']}", str(_code(case))


def _read(case: dict[str, Any]) -> str:
    return f"read {case['receipt_key']} {case['device']} {_hex(case['receipt'])}"


def _receipt(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    numbers = [case["upto"], *(number for run in case["runs"] for number in run)]
    claim = b"".join(number.to_bytes(6, "little") for number in numbers).hex()
    yield f"receipt {case['receipt_key']} {case['device']} {claim}", case["receipt"]
    yield _read(case), claim


_COIN = ("profile", "device", "number", "keep", "change", "g")


def coin_name(case: dict[str, Any]) -> bytes:
    """Return the name of a coin (SPEC section 13.2)."""
    sizes = (4, 4, 6, 1, 1, 1)
    return b"".join(
        int(case[field]).to_bytes(size, "little") for field, size in zip(_COIN, sizes, strict=True)
    ) + bytes(3)


def _coin_table(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    name = coin_name(case).hex()
    yield "coin " + " ".join(str(case[field]) for field in _COIN), name
    yield f"table {case['secret']} {name} {case['answer']}", f"{case['seed']} {case['masked']} {case['root']}"
    for index, outcome in enumerate(bytes.fromhex(case["outcomes"])):
        yield f"mirror {name} {case['seed']} {index}", str(outcome)


def _verify(case: dict[str, Any], root: str, index: int, opening: str) -> str:
    return f"verify {coin_name(case).hex()} {root} {index} {_hex(opening)}"


def _coin_opening(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for index, opening in case["openings"]:
        yield f"reveal {coin_name(case).hex()} {case['seed']} {index}", f"{case['root']} {opening}"
        yield _verify(case, case["root"], index, opening), str(bytes.fromhex(opening)[0])


def _coin_index(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield f"challenge {case['challenge_seed']} {case['number']} {case['table']}", str(case["index"])


def _coin_message(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    fields = " ".join(str(case[field]) for field in ("coin_key", "type", "profile", "device", "number"))
    yield f"message {fields} {case['body']}", case["frame"]
    yield f"body {case['coin_key']} {len(case['body']) // 2} {case['frame']}", f"{case['type']} {case['body']}"


def _numbers(numbers: list[int]) -> str:
    return b"".join(number.to_bytes(6, "little") for number in numbers).hex()


def _informed(case: dict[str, Any]) -> str:
    return f"informed {case['receipt_key']} {case['device']} {_hex(case['receipt'])}"


def _coin_receipt(case: dict[str, Any]) -> Iterator[tuple[str, str]]:
    settled = _numbers([case["upto"], *(number for run in case["runs"] for number in run)])
    fields = case["era"] + _numbers([case["approved"], case["audit_first"]])
    fields += b"".join(case[field].to_bytes(4, "little") for field in ("audit", "opened")).hex()
    asked = _numbers([number for run in case["challenge"] for number in run])
    content = f"{settled} {fields} {_hex(case['challenge_seed'])} {_hex(asked)}"
    yield f"inform {case['receipt_key']} {case['device']} {content}", case["receipt"]
    yield _informed(case), content


_MAKERS = {
    "ascon_aead": _aead,
    "ascon_xof": _xof,
    "hash": _hash,
    "stream": _stream,
    "drbg": _drbg,
    **dict.fromkeys(("sign", "choice", "hashed", "mixed", "missing"), _perturb),
    "index": _index,
    "projection": _projection,
    "report": _report,
    "receipt": _receipt,
    "coin_table": _coin_table,
    "coin_opening": _coin_opening,
    "coin_index": _coin_index,
    "coin_message": _coin_message,
    "coin_receipt": _coin_receipt,
}
