# SPDX-License-Identifier: MIT
"""Figures of the core, the device, receipts and privacy."""

from __future__ import annotations

from collections.abc import Iterator

from docs.generator.figures.record import figures
from docs.generator.figures.targets import target_table
from docs.generator.figures.words import paragraph, rounded, run_sentence, table

__all__ = ["application", "core", "device", "privacy", "receipts", "rivals"]

_MEGAHERTZ = 125
_SIZES = {
    "k16": "k = 16, width 48",
    "k64": "k = 64, width 64",
    "k252": "k = 252, width 252",
    "hashing": "hashing, 65,535 categories into 3, width 48",
}
_RIVALS = {
    "aes128_cbc": "AES-128-CBC, 80 bytes",
    "sha256": "SHA-256, 71 bytes",
    "ecc_p256": "one scalar multiplication on P-256",
}
_PRIVACY = {
    "privacy_1_60": "1, every minute",
    "privacy_1_900": "1, every 15 minutes",
    "privacy_1_21600": "1, every 6 hours",
    "privacy_0.1_900": "0.1, every 15 minutes",
}


def core() -> str:
    """Return sizes and speed of the C core."""
    run = figures("core")
    beside = f"It is {rounded(run['ratio_vs_reference'])} times faster than the Python reference in the same run. It uses no heap."
    return f"{run_sentence('core')}\n{target_table('core')}\n{paragraph(beside)}"


def device() -> str:
    """Return cycles, stack and bytes on the emulated RP2040."""
    run = figures("device")
    rows = [
        [
            name,
            *(f"{each['cycles']:,}" for each in (run[size], run[size]["cached"])),
            f"{run[size]['stack_bytes']} bytes",
        ]
        for size, name in _SIZES.items()
    ]
    largest, ram = run["k252"], run["ram_bytes"]
    text = (
        f"At {_MEGAHERTZ} MHz, {largest['cycles']:,} cycles take {largest['cycles'] / _MEGAHERTZ / 1000:.2f} ms; the "
        f"mean of the reports is {largest['cycles'] - largest['mean_cycles']:,} cycles less. RAM between reports: "
        f"{ram['drbg']} bytes for the generator and {ram['encoder_k252']} for the encoder; the row cache adds "
        "4 (width - 1)."
    )
    cycles = table(["", "cycles", "with row cache", "stack"], rows)
    return f"{run_sentence('device')}\n{cycles}\n{paragraph(text)}"


def application() -> str:
    """Return the heap with the application on an emulated Pico."""
    heap = figures("device")["heap_bytes"]
    rows = [
        ["heap in use after 20 reports", f"{round(heap['used'], -4) // 1000} KB of {heap['total'] // 1000} KB"],
        ["largest free block", f"{round(heap['largest_free'], -4) // 1000} KB"],
        ["TLS buffers, in two blocks", f"{heap['tls_buffers'] // 1000} KB, and a few KB for certificates"],
    ]
    return table(["", ""], rows)


def rivals() -> str:
    """Return the cost of other primitives on the same emulated core."""
    run = figures("device")["rivals"]
    rows = [[name, f"{run[key]['cycles']:,}", rounded(run[key]["ratio"], 2)] for key, name in _RIVALS.items()]
    text = (
        f"A report costs as much as {1 / run['aes128_cbc']['ratio']:.1f} AES encryptions of its own length. It needs no "
        "public-key operation, unlike other defences against poisoning."
    )
    return f"{table(['', 'cycles', 'relative to a whole report, k = 252'], rows)}\n{paragraph(text)}"


def receipts() -> str:
    """Return the cost of a receipt in three bullets."""
    run = figures("receipts")
    gap = (run["bytes_with_4_gaps"] - run["bytes"]) // 4
    away = 1 / (run["flash_per_report"]["gateway_away_deep_sleep"]["written"] - 1)
    return (
        _bullet(
            f"**Air**: a receipt has {run['bytes']} bytes, {run['bytes_on_air']} with the topic and MQTT's own; {gap} "
            "more for each gap in a device's numbers. The gateway sends one at most every 10 s per device "
            f"(`mqtt.receipt_seconds`), whatever the number of reports. A connection costs {run['bytes_subscribing']} "
            "bytes more, for subscribing."
        )
        + _bullet(
            "**Flash**: nothing. One file written and one removed per report, as without receipts; only while the "
            f"gateway is away, and with deep sleep, one more write per {away:.0f} reports."
        )
        + _bullet(
            "**Time**: one hash of about ten Ascon permutations on the device; in the gateway "
            f"{rounded(run['gateway_us_to_write'], 2)} µs to write a receipt and "
            f"{rounded(run['gateway_us_to_publish'], 2)} µs of Python to publish it."
        )
    )


def _bullet(text: str) -> str:
    first, *rest = paragraph(text).splitlines()
    return "".join(f"{line}\n" for line in [f"- {first}", *(f"  {line}" for line in rest)])


def privacy() -> str:
    """Return what a day, a month and a year of reports reveal about a constant reading."""
    header = [
        "epsilon, interval",
        "",
        "reports",
        "epsilon together",
        "with delta",
        "error, measured",
        "error, by the formula",
    ]
    return table(header, _privacy_rows())


def _privacy_rows() -> Iterator[list[str]]:
    for name, title in _PRIVACY.items():
        for stretch in ("day", "month", "year"):
            run = figures(name)[stretch]
            yield [
                title if stretch == "day" else "",
                stretch,
                f"{run['reports']:,}",
                _short(run["epsilon"]),
                _short(run["epsilon_at_delta"]),
                rounded(run["error"]),
                rounded(run["expected_error"]),
            ]


def _short(value: float) -> str:
    """Return three digits, or all digits before the point; 4 rather than 4.00."""
    text = rounded(value, max(3, len(str(int(value)))))
    return text.rstrip("0").rstrip(".") if "." in text else text
