# SPDX-License-Identifier: MIT
"""Pictures of the page for the README: a demonstration runs for a while, and a browser looks at it.

`scripts/screenshots` calls this; it takes about two minutes.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from peel_tools.servers import free_port

FOLDER = Path(__file__).resolve().parents[1] / "images"
RUN_SECONDS = 90
START_SECONDS = 60
MOST_BYTES = 200_000
COLOURS = 128


@dataclass(frozen=True)
class Shot:
    """One picture."""

    name: str
    width: int
    height: int
    scheme: Literal["light", "dark"]
    scale: float = 1.0


SHOTS = (Shot("page.png", 1240, 2000, "light"), Shot("phone.png", 390, 1000, "dark", 1.5))


@contextmanager
def demonstration() -> Iterator[str]:
    """The address of a demonstration's page."""
    port = free_port()
    command = [sys.executable, "-m", "peel_tools", "demo", "--port", str(port), "--seed", "11"]
    with tempfile.TemporaryDirectory() as folder:
        running = subprocess.Popen([*command, "--dir", folder], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        try:
            _wait(f"http://127.0.0.1:{port}/healthz", running)
            yield f"http://127.0.0.1:{port}/"
        finally:
            running.send_signal(signal.SIGINT)
            running.wait(120)


def _wait(url: str, running: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while running.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310 - our own http URL
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit("the demonstration did not start; try `peel demo` by hand")


def take(browser: Browser, url: str, shot: Shot) -> None:
    """Take one picture, with few colours: it is kept in the repository."""
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
        color_scheme=shot.scheme,
        device_scale_factor=shot.scale,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(url)
    page.locator("#why-body svg").first.wait_for()
    page.wait_for_timeout(3000)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    path = FOLDER / shot.name
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    context.close()
    size = path.stat().st_size
    print(f"{path.name}: {picture.width} x {picture.height}, {size} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"{path}: more than {MOST_BYTES} bytes; make it smaller")


def main() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is missing: apt-get install chromium")
    FOLDER.mkdir(exist_ok=True)
    with demonstration() as url, sync_playwright() as playwright:
        time.sleep(RUN_SECONDS)
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=sandbox)
        for shot in SHOTS:
            take(browser, url, shot)
        browser.close()


if __name__ == "__main__":
    main()
