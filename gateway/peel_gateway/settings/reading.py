# SPDX-License-Identifier: MIT
"""Reading the gateway's settings: the environment wins over the file, the file over the default of the table."""

from __future__ import annotations

import codecs
import dataclasses
import difflib
import os
import stat
import tomllib
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peel_core import Secret
from peel_gateway.settings.checks import SECRET_FILES, SettingsError, check_store, check_together, dotted
from peel_gateway.settings.table import ENVIRONMENT_PREFIX, Setting, Settings, settings_table

__all__ = ["load_settings", "with_store"]


def load_settings(path: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Read the file (if any) and the environment, and check every value."""
    environment = os.environ if environment is None else environment
    values: dict[str, object] = {}
    if path is not None:
        values |= _default_paths(path.parent) | _from_file(path)
    values |= _from_environment(environment)
    settings = Settings(**values)  # type: ignore[arg-type]  # each value was parsed by its row of the table
    check_together(settings)
    return _with_secret_files(settings)


def _default_paths(base: Path) -> dict[str, object]:
    """Return the default paths, relative to the folder of a settings file, as the paths in it are."""
    return {row.field: base / row.default for row in settings_table() if isinstance(row.default, Path)}


def _from_file(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            document = tomllib.loads(file.read().decode("utf-8-sig"))  # some editors put a mark first
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except FileNotFoundError:
        raise SettingsError(
            f"{path}: no such file; `peel gateway settings --sample` prints one to start from"
        ) from None
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not TOML: {error}") from None
    rows = {row.name: row for row in settings_table()}
    values = {}
    for name, raw in _flatten(document, path).items():
        if name not in rows:
            raise SettingsError(f"{path}: {name}: unknown setting{_suggestion(name, list(rows))}")
        row = rows[name]
        if row.secret and raw != "" and mode & 0o077:
            raise SettingsError(f"{path}: holds {name} but others can read it (mode {mode:04o}); run chmod 600 {path}")
        values[row.field] = _parse(row, raw, f"{path}: {name}", base=path.parent)
    return values


def _flatten(document: Mapping[str, object], path: Path) -> dict[str, object]:
    sections = sorted({row.section for row in settings_table()})
    flat: dict[str, object] = {}
    for section, content in document.items():
        if section not in sections:
            raise SettingsError(f"{path}: [{section}]: unknown section{_suggestion(section, sections)}")
        if not isinstance(content, dict):
            raise SettingsError(f"{path}: {section} must be a section, written [{section}]")
        flat |= {f"{section}.{key}": value for key, value in content.items()}
    return flat


def _from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    rows = {row.variable: row for row in settings_table()}
    values = {}
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        if variable not in rows:
            raise SettingsError(f"{variable}: unknown setting{_suggestion(variable, list(rows))}")
        row = rows[variable]
        values[row.field] = _parse(row, _from_text(row, text), variable, base=Path())
    return values


def _from_text(row: Setting, text: str) -> object:
    """Give the text of an environment variable the type that TOML would have given it; what does not fit stays text."""
    try:
        if row.kind is bool:
            return {"true": True, "false": False}.get(text.lower(), text)
        if row.kind in (int, float):
            return row.kind(text)
    except ValueError:
        return text
    return text


def _parse(row: Setting, raw: object, where: str, *, base: Path) -> object:
    if row.kind in (int, float):
        return _number(row, raw, where)
    if row.kind is bool:
        if not isinstance(raw, bool):
            raise SettingsError(f"{where}: must be true or false, not {_shown(row, raw)}")
        return raw
    if not isinstance(raw, str):
        raise SettingsError(f"{where}: must be text, not {_shown(row, raw)}")
    if row.choices and raw not in row.choices:
        raise SettingsError(f"{where}: must be one of {', '.join(row.choices)}, not {raw!r}")
    if row.optional and not raw:
        return None
    if row.kind is Secret:
        return Secret(raw.encode())
    return base / raw if row.kind is Path else raw


def _number(row: Setting, raw: object, where: str) -> object:
    right = isinstance(raw, int) if row.kind is int else isinstance(raw, int | float)
    if not right or isinstance(raw, bool):
        raise SettingsError(f"{where}: must be {'a whole number' if row.kind is int else 'a number'}, not {raw!r}")
    number = row.kind(raw)
    low, high = row.minimum, row.maximum
    if not (low is None or number >= low) or not (high is None or number <= high):  # written so that nan fails
        raise SettingsError(f"{where}: must be between {low:,.15g} and {high:,.15g}, not {raw!r}")
    return number


def _shown(row: Setting, raw: object) -> str:
    return f"a {type(raw).__name__}" if row.secret else repr(raw)


def _suggestion(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(known)}"


def with_store(settings: Settings, store: str | None) -> Settings:
    """The same settings with another store, given on a command line as a URL or as a path; None changes nothing."""
    if store is None:
        return settings
    if "://" not in store:
        return dataclasses.replace(settings, store_url=None, store_path=Path(store))
    if _has_password(store):
        raise SettingsError(
            "everybody on this machine can read a password on a command line; put it into store.url "
            "(the environment, or a file of mode 0600), a password file (PGPASSFILE) or a service file"
        )
    changed = dataclasses.replace(settings, store_url=Secret(store.encode()))
    check_store(changed)
    return changed


def _has_password(url: str) -> bool:
    parts = urllib.parse.urlsplit(url)
    return parts.password is not None or not {"password", "sslpassword"}.isdisjoint(urllib.parse.parse_qs(parts.query))


def _with_secret_files(settings: Settings) -> Settings:
    found: dict[str, Any] = {}
    for secret, file in SECRET_FILES:
        path = getattr(settings, file)
        if path is not None:
            found[secret] = _read_secret(path, dotted(file))
    return dataclasses.replace(settings, **found)


def _read_secret(path: Path, name: str) -> Secret:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(4096).removeprefix(codecs.BOM_UTF8).strip()
    except OSError as error:
        raise SettingsError(f"{name}: cannot read {path}: {error.strerror}") from None
    if mode & 0o077:
        raise SettingsError(f"{name}: {path} can be read by others (mode {mode:04o}); run chmod 600 {path}")
    if not text:
        raise SettingsError(f"{name}: {path} is empty")
    return Secret(text)
