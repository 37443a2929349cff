# SPDX-License-Identifier: MIT
"""umqtt.simple, MicroPython's MQTT client, from PyPI: an archive without a setup.py, which pip cannot fetch."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from peel_tools.boards.cache import cached
from peel_tools.boards.errors import BuildError

__all__ = ["umqtt_folder"]

_VERSION = "1.3.4"
_SHA256 = "b6a2520239e3992c63a7de9370ee9b3d9d27819a90359c521f1c0f7ccab8d12f"
_PROJECT = "micropython-umqtt-simple"
_TIMEOUT_S = 60


def umqtt_folder() -> Path:
    """A folder to put on the module path: it holds umqtt/simple.py."""
    return cached("umqtt.simple", _VERSION, _fetch)


def _fetch(folder: Path) -> None:
    archive = _download()
    found = hashlib.sha256(archive).hexdigest()
    if found != _SHA256:
        raise BuildError(f"umqtt.simple {_VERSION} has digest {found}, expected {_SHA256}: the index gave another file")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        member = next((m for m in tar.getmembers() if m.name.endswith("umqtt/simple.py")), None)
        content = tar.extractfile(member) if member else None
        if content is None:
            raise BuildError("umqtt.simple's archive has no umqtt/simple.py")
        (folder / "umqtt").mkdir()
        (folder / "umqtt" / "simple.py").write_bytes(content.read())


def _download() -> bytes:
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/") + f"/{_PROJECT}/"
    try:
        with urllib.request.urlopen(index, timeout=_TIMEOUT_S) as page:  # noqa: S310 - the index the user's pip uses
            links = re.findall(r'href="([^"#]*-' + re.escape(_VERSION) + r"\.tar\.gz)", page.read().decode())
        if not links:
            raise BuildError(f"the package index has no umqtt.simple {_VERSION}")
        link = urllib.parse.urljoin(index, links[0])
        with urllib.request.urlopen(link, timeout=_TIMEOUT_S) as archive:  # noqa: S310 - the same index
            return bytes(archive.read())
    except urllib.error.URLError as error:
        raise BuildError(
            f"umqtt.simple could not be downloaded: {error.reason}. Check the network, then try again."
        ) from error
