# SPDX-License-Identifier: MIT
"""Every command of `peel` ends with a code of the one table, and prints JSON in one way."""

from __future__ import annotations

import ast
import errno
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import peel_gateway
import peel_tools
from peel_core.projection import search_seed, soundness
from peel_gateway.exits import LASTING, Exit
from peel_gateway.fleet.folder import Fleet
from peel_gateway.printing import explaining
from peel_tools.cli import main

PROFILE = f"""name = "climate"
epsilon = 1.0
verify = false
seed = {search_seed(48, 1)[0]}
quota = 60
period = 3600
[[attribute]]
name = "temperature"
kind = "mean"
low = -10
high = 50
"""
ON_A_BOARD = "device/launch.py"
"""Code that runs under MicroPython, without our exit codes."""


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(click.Context(command)):
        child = command.get_command(click.Context(command), name)
        assert child is not None
        yield from commands(child, (*path, name))


COMMANDS = dict(commands(main))
IDS = [" ".join(path) for path in COMMANDS]


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, list(words))
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    "path", [*COMMANDS, *sorted({path[:-1] for path in COMMANDS})], ids=lambda path: " ".join(path) or "peel"
)
def test_help_fits_into_eighty_columns_and_is_whole(path: tuple[str, ...]) -> None:
    code, text, _ = run(*path, "--help")
    assert code == 0
    assert [line for line in text.splitlines()[1:] if len(line) > 80 or line.endswith("...")] == []


@pytest.mark.parametrize("path", COMMANDS, ids=IDS)
def test_json_is_asked_for_in_one_way(path: tuple[str, ...]) -> None:
    asked = [param for param in COMMANDS[path].params if "--json" in param.opts]
    for option in asked:
        assert isinstance(option, click.Option)
        assert (option.name, option.is_flag) == ("as_json", True)
        assert option.help == "Print one JSON object, on the last line of stdout."


@pytest.mark.parametrize("path", COMMANDS, ids=IDS)
def test_a_wrong_option_is_usage(path: tuple[str, ...]) -> None:
    assert run(*path, "--no-such-option")[0] == Exit.USAGE


FOLDER_COMMANDS = [
    path
    for path, command in COMMANDS.items()
    if path[0] == "fleet" and path[1] not in ("init", "provision") and command.params[0].name == "folder"
]


@pytest.mark.parametrize("path", FOLDER_COMMANDS, ids=[" ".join(path) for path in FOLDER_COMMANDS])
def test_a_folder_that_is_no_fleet_is_refused_by_all(path: tuple[str, ...], tmp_path: Path) -> None:
    words = {"device": "1", "text": "x", "name": "x"}
    arguments = [words[param.name or ""] for param in COMMANDS[path].params[1:] if isinstance(param, click.Argument)]
    needed = [param.opts[0] for param in COMMANDS[path].params if isinstance(param, click.Option) and param.required]
    options = [word for option in needed for word in (option, "x")]
    code, _, said = run(*path, str(tmp_path), *arguments, *options)
    assert (code, "not a fleet folder" in said) == (Exit.FLEET, True), said


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("profile", "show", "none.toml"), Exit.USAGE),
        (("profile", "check", "none.toml"), Exit.USAGE),
        (("plan", "--devices", "0"), Exit.USAGE),
        (("gateway", "estimates", "--config", "none.toml"), Exit.USAGE),
        (("simulate", "--fleet", "none"), Exit.FLEET),
        (("fleet", "provision", "1", "--fleet", ".", "--board", "pico", "--dry-run"), Exit.MISSING),
    ],
)
def test_what_is_wrong_decides_the_code(words: tuple[str, ...], code: Exit) -> None:
    assert run(*words)[0] == code


def test_an_unsound_profile_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(PROFILE)
    assert run("profile", "check", str(path))[0] == Exit.DONE
    unsound = next(seed for seed in range(10_000) if not soundness(seed, 8, 1).sound)
    path.write_text("width = 8\n" + re.sub(r"seed = \d+", f"seed = {unsound}", PROFILE))
    code, out, _ = run("profile", "check", str(path), "--json")
    assert code == Exit.FOUND
    assert [item["sound"] for item in json.loads(out)["items"]] == [False]


def test_an_error_that_nobody_expected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Fleet.create(tmp_path / "fleet", "home")
    monkeypatch.setattr(Fleet, "annotate", lambda *_: 1 / 0)
    code, _, said = run("fleet", "note", str(tmp_path / "fleet"), "1", "x")
    assert code == Exit.INTERNAL
    assert "ZeroDivisionError" in said


@pytest.mark.parametrize(
    "words",
    [
        ("profile", "new", "none/p.toml", "--mean", "temperature:-40:85"),
        ("profile", "new", "file/p.toml", "--mean", "temperature:-40:85"),
        ("demo", "--dir", "file/demo", "--seconds", "1"),
        ("device", "run", "fleet/bundles/00000001.json", "--flash", "file/flash"),
    ],
)
def test_a_place_that_cannot_be_written_to_is_named(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("p.toml").write_text(PROFILE)
    Fleet.create(Path("fleet"), "home", [Path("p.toml")])
    assert run("fleet", "add", "fleet")[0] == Exit.DONE
    code, _, said = run(*words)
    assert (code, "Traceback" in said) == (Exit.USAGE, False), said
    assert re.search(r"Error: .*(file|none)/.*: .*(Check the path|another)", said), said


def test_what_may_pass_by_itself_lets_a_service_manager_try_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files", "devices.jsonl")

    Fleet.create(tmp_path / "fleet", "home")
    monkeypatch.setattr(Fleet, "annotate", fail)
    code, _, said = run("fleet", "note", str(tmp_path / "fleet"), "1", "x")
    assert code == Exit.MISSING and code not in LASTING
    assert "devices.jsonl: Too many open files" in said


def test_errors_without_a_code_are_usage() -> None:
    with pytest.raises(click.ClickException) as stopped, explaining(KeyError):
        raise KeyError("x")
    assert stopped.value.exit_code == Exit.USAGE


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys(each)


def test_json_has_plain_keys_and_lists_are_items(tmp_path: Path) -> None:
    path = tmp_path / "climate.toml"
    path.write_text(PROFILE)
    folder = str(Fleet.create(tmp_path / "fleet", "home", [path]).folder)
    for words, lists in (
        (("profile", "show", str(path)), False),
        (("profile", "check", str(path)), True),
        (("plan", "--devices", "200", "--attributes", "4", "--every", "15m", "--epsilon", "1"), False),
        (("fleet", "add", folder), True),
        (("fleet", "list", folder), True),
        (("fleet", "bundle", folder, "1"), True),
        (("fleet", "revoke", folder, "1"), True),
        (("fleet", "unrevoke", folder, "1", "--reason", "found"), True),
        (("fleet", "audit", folder), True),
    ):
        code, out, said = run(*words, "--json")
        assert code == Exit.DONE, said
        found = json.loads(out.splitlines()[-1])
        assert isinstance(found, dict)
        assert ("items" in found) == lists, words
        assert all(re.fullmatch(r"[a-z0-9_]+", key) for key in keys(found)), set(keys(found))


def test_no_command_ends_in_a_way_of_its_own() -> None:
    """Neither click's own failure, whose code is 1, nor a number in place of a name."""
    for package in (peel_gateway, peel_tools):
        root = Path(package.__file__ or "").parent
        for path in sorted(root.rglob("*.py")):
            if ON_A_BOARD in path.as_posix():
                continue
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if re.search(r"ClickException|exit\(", text) else ():
                if isinstance(node, ast.Call):
                    called = ast.unparse(node.func)
                    assert called != "click.ClickException", f"{path}:{node.lineno}"
                    number = node.args and isinstance(node.args[0], ast.Constant)
                    assert not (called in ("sys.exit", "ctx.exit") and number), f"{path}:{node.lineno}"
