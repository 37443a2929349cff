# SPDX-License-Identifier: MIT
"""The sections of `scripts/docs figures KEY`."""

from __future__ import annotations

from docs.generator.blocks import BlockError, Source
from docs.generator.figures.core_text import application, core, device, privacy, receipts, rivals
from docs.generator.figures.engine_text import batch_seconds, disk, engine, gateway, ingest, nats
from docs.generator.figures.growth_text import bits, growth, peers, start
from docs.generator.figures.record import BENCHMARKS, taken
from docs.generator.figures.scale_text import scale, sizes
from docs.generator.figures.targets import targets_sentence
from docs.generator.figures.words import BUSY, paragraph

__all__ = ["SECTIONS", "figures_section"]


def machine() -> str:
    """Return the machines of the measurements."""
    found: dict[str, list[str]] = {}
    for name in BENCHMARKS:
        run = taken(name)
        here = run.machine
        compiler = f", GCC {run.compiler} for boards" if run.compiler else ""
        text = (
            f"{here['processor']}, {here['cores']} cores, {here['memory_gb']:g} GB of memory, {here['system']} with "
            f"{here['kernel']}, Python {here['python']}{compiler}"
        )
        found.setdefault(text, []).append(name)
    if len(found) == 1:
        where = f"Everything was measured on one machine: {next(iter(found))}."
    else:
        where = "Measured on several machines. " + " ".join(
            f"{', '.join(names)}: {text}." for text, names in found.items()
        )
    return paragraph(
        f"{where} Load is the number of other processes that ran or waited for a processor or a disk in the seconds "
        f"before and after a benchmark. Above {BUSY:g} it counts as taken under load."
    )


SECTIONS: dict[str, Source] = {
    each.__name__.replace("_", "-"): each
    for each in (
        machine, core, device, application, rivals, engine, gateway, ingest, nats, disk, batch_seconds, growth, start, peers, bits, scale,
        sizes, receipts, privacy,
    )
} | {"targets": targets_sentence}  # fmt: skip


def figures_section(key: str) -> str:
    """Return a section by its key."""
    if key not in SECTIONS:
        raise BlockError(f"there are no figures of {key!r}; there are: {', '.join(SECTIONS)}")
    return SECTIONS[key]()
