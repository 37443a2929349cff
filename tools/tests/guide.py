# SPDX-License-Identifier: MIT
"""Read the commands that a document shows, and type them into a shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

__all__ = ["ROOT", "commands", "documents", "start", "type_in"]

ROOT = Path(__file__).resolve().parents[2]
_PROGRAMS = r"(?:\.venv/bin/)?peel|make|scripts/\w+|cp|chmod|curl|mosquitto_sub|systemctl|eval|cc|pytest|pip|mypy"
_FENCE = re.compile(r"^ *```(\w*)")
_COMMAND = re.compile(rf"(?:{_PROGRAMS}) ")


def documents() -> list[str]:
    """All documents that show commands, by their path from the top of the project."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split() if name != "CHANGELOG.md" and commands(name)]


def commands(document: str) -> list[str]:
    """The lines of a document that are to be typed, in order: in blocks without a language, or indented."""
    found, language = [], None
    text = re.sub(r"\\\n *", "", (ROOT / document).read_text(encoding="utf-8"))  # a command may go on in the next line
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if fence:
            language = fence[1] if language is None else None
        elif _COMMAND.match(line.strip()) and (language == "" or (language is None and line.startswith("    "))):
            found.append(line.strip())
    return found


def type_in(
    text: str, folder: Path, variables: dict[str, str] | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Type something into a shell that finds `peel`, in a folder."""
    shell = _shell("umask 022\n" + text)
    environment = _environment(variables)
    return subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout)


def start(text: str, folder: Path, variables: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start what does not end by itself; what it says goes to `started.log`."""
    with (folder / "started.log").open("ab") as log:
        return subprocess.Popen(_shell(f"exec {text}"), cwd=folder, env=_environment(variables), stdout=log, stderr=log)


def _shell(text: str) -> list[str]:
    return ["bash", "-euc", text.replace(".venv/bin/peel", "peel")]


def _environment(variables: dict[str, str] | None) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8", **(variables or {})}
