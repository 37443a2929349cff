# SPDX-License-Identifier: MIT
"""What the README says can be typed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from guide import ROOT, type_in

README = (ROOT / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return README.split(f"## {title}\n")[1].split("\n## ")[0]


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.M | re.S)


def typed(commands: str, folder: Path) -> None:
    run = type_in(commands, folder)
    assert run.returncode == 0, run.stderr


def test_the_commands_and_the_program_run(tmp_path: Path) -> None:
    own_data, own_fleet = blocks("", section("Use it"))
    rows = (f"{20 + place % 9},{50 + place % 31},{'sun' if place % 3 else 'rain'}" for place in range(200))
    (tmp_path / "weather.csv").write_text("\n".join(["temperature,humidity,sky", *rows]))
    typed(own_data.replace("demo --csv", "demo --seconds 3 --rate 300 --devices 40 --csv"), tmp_path)
    assert (tmp_path / "weather.toml").exists()
    typed(own_fleet, tmp_path)
    assert len(list((tmp_path / "fleet" / "bundles").glob("*.json"))) == 3

    program = blocks("python", section("Use it"))[0]
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    residual = float(re.findall(r"\[([\d.e+-]+)\]", run.stdout)[-1])
    assert residual < 1e-3


def test_the_pictures_are_there_and_small() -> None:
    names = re.findall(r"\]\((docs/images/[^)]+)\)", README)
    assert len(names) == 2
    for name in names:
        assert 10_000 < (ROOT / name).stat().st_size < 200_000
