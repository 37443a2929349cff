# SPDX-License-Identifier: MIT
"""This machine and its load, to publish with measured times."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any

__all__ = ["describe_machine", "load", "processor_name"]

_LOOKS_PER_SECOND = 20


def describe_machine() -> dict[str, Any]:
    """Processor, cores, memory, kernel, system, Python."""
    return {
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "system": _system(),
        "python": platform.python_version(),
    }


def processor_name() -> str:
    """The processor's name, where Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform()


def load(seconds: float = 2.0) -> float:
    """Return the mean number of other processes that run or wait for a processor or disk, over the next seconds.

    The kernel's load average does not serve here: after a minute it still contains the previous benchmark.
    """
    looks = max(1, round(seconds * _LOOKS_PER_SECOND))
    busy = 0
    for _ in range(looks):
        time.sleep(1 / _LOOKS_PER_SECOND)
        busy += _busy_processes() - 1
    return round(busy / looks, 1)


def _busy_processes() -> int:
    lines = dict(line.split(maxsplit=1) for line in Path("/proc/stat").read_text(encoding="ascii").splitlines())
    return int(lines["procs_running"]) + int(lines["procs_blocked"])
