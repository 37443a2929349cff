# SPDX-License-Identifier: MIT
"""Documents, templates and workflows mention only what exists: paths, make targets, `peel` commands with their options."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from project_files import ROOT, name_of, tracked

from peel_tools.cli import main

TEXTS = tracked("*.md", "*.yml", "*.yaml")
PRODUCT = ("bindings/host/peel_core", "gateway/peel_gateway", "tools/peel_tools")
OTHERS = {"--help", "--recurse-submodules"} | {
    f"--{name}" for name in ("schema", "format", "file", "clean", "if-exists", "dbname")
}
"""Options of other programs."""
FOLDERS = "bindings|c_core|docs|firmware|gateway|hil_tests|scripts|spec|tools"
PATH = re.compile(rf"(?<![\w/.-])((?:{FOLDERS})/[\w./*-]*[\w*/])")
MADE_ELSEWHERE = re.compile(r"^(gateway/$|firmware/(peel_device|boards)$)")
COMMAND = re.compile(r"(?:(?<![\w/-])|\.venv/bin/)peel ((?:[a-z]+ ?)+[^`\n|]*)")
MAKE = re.compile(r"`make (\w+)`|^make (\w+)", flags=re.M)


def code(text: str) -> Iterator[str]:
    """Yield the text in backticks, fenced and indented blocks, where `peel` is the command."""
    yield from re.findall(r"^```\w*\n(.*?)^```", text, flags=re.M | re.S)
    yield from re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
    yield from re.findall(r"^(?: {4,}|.*run: )(?!\|)(.*)$", text, flags=re.M)


def resolved(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that these words name, and the remaining words."""
    command: click.Command = main
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            break
        command, words = found, words[1:]
    return command, words


@pytest.mark.parametrize("document", TEXTS, ids=name_of)
def test_paths_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    near = [ROOT, document.parent]
    for path in PATH.findall(text):
        if MADE_ELSEWHERE.match(path):
            continue
        assert any(list(base.glob(path)) for base in near), f"{name_of(document)} mentions {path}"


@pytest.mark.parametrize("document", TEXTS, ids=name_of)
def test_make_targets_exist(document: Path) -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.M))
    for found in MAKE.findall(document.read_text(encoding="utf-8")):
        assert set(found) & targets, f"{name_of(document)} mentions make {''.join(found)}"


@functools.cache
def texts_of(source: Path) -> list[str]:
    """Return the strings of a source file, docstrings too, with X for each value that is filled in."""
    nodes = list(ast.walk(ast.parse(source.read_text(encoding="utf-8"))))
    joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in joined for part in node.values}
    filled = [
        "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values) for node in joined
    ]
    constants = [node for node in nodes if isinstance(node, ast.Constant) and id(node) not in parts]
    return [*filled, *(node.value for node in constants if isinstance(node.value, str))]


@pytest.mark.parametrize("package", PRODUCT)
def test_printed_commands_options_and_documents_exist(package: str) -> None:
    every_option = set(options_of(main))
    for source in tracked(f"{package}/*.py"):
        for text in texts_of(source):
            check_commands("\n".join([*code(text), *re.findall(r"\((peel [^)]+)\)", text)]), source)
            assert all((ROOT / path).is_file() for path in re.findall(r"docs/[\w-]+\.md", text)), (
                f"{name_of(source)}: {text}"
            )
            if not text.startswith("--") and " " in text:  # an option that is mentioned, not declared
                unknown = set(re.findall(r"(?<![\w`-])(--[a-z][a-z-]+)(?![\w=-])", text)) - every_option - OTHERS
                assert not unknown, f"{name_of(source)}: {text}"


def options_of(command: click.Command) -> Iterator[str]:
    """Yield the options of a command and of all commands below it."""
    yield from (name for param in command.params for name in (*param.opts, *param.secondary_opts))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from options_of(below)


@pytest.mark.parametrize("document", TEXTS, ids=name_of)
def test_peel_commands_and_options_exist(document: Path) -> None:
    check_commands("\n".join(code(document.read_text(encoding="utf-8"))), document)


def check_commands(text: str, document: Path) -> None:
    """Fail where a `peel` command in this text, or one of its options, does not exist."""
    for line in COMMAND.findall(text):
        words = re.split(r"[;#>]| {2,}", line)[0].split()
        command, rest = resolved(words)
        assert command is not main, f"{name_of(document)} mentions: peel {line}"
        if isinstance(command, click.Group):
            assert not rest or rest[0].startswith("-"), f"{name_of(document)} mentions: peel {line}"
        known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help", "-h"}
        for option in re.findall(r"(?<!\S)(--?[a-z][\w-]*)", " ".join(rest)):
            assert option in known, f"{name_of(document)} mentions: peel {line}: no option {option}"


def test_extras_that_are_mentioned_exist() -> None:
    """Every `pip install 'PACKAGE[EXTRA]'` in code and documents names an extra of that package."""
    known = {
        table["project"]["name"]: set(table["project"].get("optional-dependencies", {}))
        for table in (
            tomllib.loads((ROOT / path).read_text()) for path in ("pyproject.toml", "tools/research/pyproject.toml")
        )
    }
    mentioned = {
        (package, extra, path)
        for path in tracked("*.py", "*.md", "*.toml")
        for package, extras in re.findall(
            r"(peel-telemetry|peel-research)\[([a-z,]+)\]", path.read_text(encoding="utf-8")
        )
        for extra in extras.split(",")
    }
    assert {package for package, _, _ in mentioned} == set(known)
    assert not [case for case in mentioned if case[1] not in known[case[0]]]


@pytest.mark.parametrize(
    ("extra", "package"),
    [
        ("firmware", "mpremote"),
        ("firmware", "esptool"),
        ("postgres", "psycopg"),
        ("parquet", "pyarrow"),
        ("broker", "amqtt"),
    ],
)
def test_an_extra_brings_what_a_message_misses(extra: str, package: str) -> None:
    """Each `NAME is not installed` names the extra that installs it."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"][extra]
    assert any(re.match(rf"{package}\b", line) for line in wanted)
    advice = [
        text
        for folder in PRODUCT
        for source in tracked(f"{folder}/*.py")
        for text in texts_of(source)
        if f"peel-telemetry[{extra}]" in text and (package in text or extra == "broker")
    ]
    assert advice, f"no message about {package} names this extra"
