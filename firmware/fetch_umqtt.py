"""Fetch umqtt.simple, the MQTT client that runs on the device, from PyPI: a pinned release, checked by its digest.

Its source distribution holds no setup.py, so pip refuses it; the file is taken from the index that pip is set up with.
Host only. Run it as `python firmware/fetch_umqtt.py FOLDER`; FOLDER then holds umqtt/simple.py.
"""

from __future__ import annotations

import hashlib
import html
import io
import re
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
from pathlib import Path

PROJECT = "micropython-umqtt.simple"
RELEASE = "1.3.4"
SHA256 = "b6a2520239e3992c63a7de9370ee9b3d9d27819a90359c521f1c0f7ccab8d12f"
MEMBER = f"{PROJECT}-{RELEASE}/umqtt/simple.py"
DEFAULT_INDEX = "https://pypi.org/simple"
TIMEOUT_S = 60
_LINK = re.compile(r'href="([^"]+)"')  # every index serves its pages as HTML too


class FetchError(Exception):
    """The release could not be had, or is not the one that was pinned."""


def fetch(folder: Path) -> Path:
    """Make sure that folder/umqtt/simple.py is there and return it. Goes to the network only when it is not."""
    target = folder / "umqtt" / "simple.py"
    if not target.exists():
        source = _member(_download())
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(".partial")
        partial.write_bytes(source)
        partial.rename(target)
    return target


def _download() -> bytes:
    page = f"{_index()}/{PROJECT.replace('.', '-')}/"
    try:
        links = _LINK.findall(_get(page).decode())
        url = next(link for link in links if f"/{PROJECT}-{RELEASE}.tar.gz" in link)
        data = _get(urllib.parse.urljoin(page, html.unescape(url)))
    except (OSError, ValueError, StopIteration) as error:
        raise FetchError(f"cannot fetch {PROJECT} {RELEASE} from {_index()}: {error!r}; check the network and pip's index-url") from error
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise FetchError(f"{PROJECT} {RELEASE} from {_index()} is not the pinned file: its SHA-256 differs")
    return data


def _get(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": "text/html, */*;q=0.1"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        body: bytes = answer.read()
    return body


def _member(archive: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        member = tar.extractfile(MEMBER)
        if member is None:
            raise FetchError(f"{PROJECT} {RELEASE} has no {MEMBER}")
        return member.read()


def _index() -> str:
    """The index that pip would use."""
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return (answer.stdout.strip() or DEFAULT_INDEX).rstrip("/")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FOLDER")
    print(fetch(Path(sys.argv[1])))
