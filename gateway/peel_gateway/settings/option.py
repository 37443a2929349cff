# SPDX-License-Identifier: MIT
"""How commands find the settings."""

from __future__ import annotations

from pathlib import Path

import click

from peel_gateway.settings import Settings, load_settings

__all__ = ["config_option", "find_settings"]

_DEFAULT_CONFIG = Path("gateway.toml")

config_option = click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Settings file. Without it: gateway.toml in this folder, if there is one. The environment wins over it.",
)


def find_settings(config: Path | None) -> Settings:
    """The settings of a file that was named, or of the one in this folder, or the defaults."""
    return load_settings(config or (_DEFAULT_CONFIG if _DEFAULT_CONFIG.exists() else None))
