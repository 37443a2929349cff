# SPDX-License-Identifier: MIT
"""Sources for board builds: MicroPython 1.25.0 with the libraries of its Pico port, and the MQTT client umqtt.simple.

MicroPython comes from the user's checkout or from Debian 13 ("trixie"), which has the sources of MicroPython and Mbed TLS, and
packages with those of the pico-sdk and TinyUSB. They are fetched with a private apt state, so the machine's own package set-up stays
as it is. apt checks the archive's signatures.

umqtt.simple comes from PyPI, as an archive without a setup.py, which pip cannot fetch.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from peel_tools.boards.build_tools import BuildError, require, run
from peel_tools.boards.cache import cached, digest

__all__ = ["MICROPYTHON_VERSION", "Sources", "micropython_sources", "umqtt_folder"]

MICROPYTHON_VERSION = "1.25.0"

_SUITE = "trixie"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SOURCE_PACKAGES = ("micropython", "mbedtls")
_BINARY_PACKAGES = ("pico-sdk-source", "tinyusb-source")
_RECIPE = "2"  # raise when the assembled tree changes
_ADVICE = (
    f"Set MICROPYTHON_DIR to a checkout of MicroPython v{MICROPYTHON_VERSION} with its submodules "
    "(git clone -b v1.25.0 --recurse-submodules), or run this on Debian 12 or later with apt."
)


@dataclass(frozen=True)
class Sources:
    """A MicroPython tree ready to build, and a string that changes when the tree does."""

    path: Path
    identity: str


def micropython_sources() -> Sources:
    """Return the tree at MICROPYTHON_DIR if that is set, else one assembled once from Debian's archive."""
    chosen = os.environ.get("MICROPYTHON_DIR")
    if chosen:
        return _user_sources(Path(chosen).expanduser().resolve())
    folder = cached("sources", f"{MICROPYTHON_VERSION}-{_RECIPE}", _fetch)
    return Sources(folder / "micropython", (folder / "identity").read_text())


def _user_sources(path: Path) -> Sources:
    found = _version(path)
    if found != MICROPYTHON_VERSION:
        what = f"is MicroPython {found}" if found else "is not a MicroPython source tree"
        raise BuildError(f"MICROPYTHON_DIR={path} {what}. {_ADVICE}")
    parts = ("py", "extmod", "shared", "ports", "tools")
    files = sorted(file for part in parts for file in (path / part).rglob("*.[ch]") if "build" not in file.parts[-3])
    return Sources(path, digest([f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]))


def _version(path: Path) -> str | None:
    """Return the version in py/mpconfig.h, or None if the file is missing."""
    header = path / "py" / "mpconfig.h"
    if not header.is_file():
        return None
    numbers = dict(re.findall(r"#define MICROPY_VERSION_(MAJOR|MINOR|MICRO) (\d+)", header.read_text()))
    return ".".join(numbers.get(part, "?") for part in ("MAJOR", "MINOR", "MICRO"))


def _fetch(folder: Path) -> None:
    require("dpkg-source")
    downloads = folder / "downloads"
    downloads.mkdir()
    _download(folder / "apt", downloads)
    tree = folder / "micropython"
    _unpack_source(downloads, "micropython", tree)
    if _version(tree) != MICROPYTHON_VERSION:
        raise BuildError(f"{_SUITE} now has MicroPython {_version(tree)}, not {MICROPYTHON_VERSION}. {_ADVICE}")
    _unpack_source(downloads, "mbedtls", tree / "lib" / "mbedtls")
    _unpack_binary(downloads, "pico-sdk", tree / "lib" / "pico-sdk")
    _unpack_binary(downloads, "tinyusb", tree / "lib" / "tinyusb")
    # makemanifest.py needs this file before it freezes anything. Debian's tree comes without the library.
    library = tree / "lib" / "micropython-lib"
    library.mkdir(exist_ok=True)
    (library / "README.md").touch()
    (folder / "identity").write_text(digest(sorted(downloads.iterdir())))
    shutil.rmtree(downloads)
    shutil.rmtree(folder / "apt")


def _download(state: Path, downloads: Path) -> None:
    apt = _private_apt(state)
    run([*apt, "update"], what=f"reading {_SUITE}'s package lists")
    run([*apt, "source", "--download-only", *_SOURCE_PACKAGES], cwd=downloads, what="downloading sources")
    run([*apt, "download", *_BINARY_PACKAGES], cwd=downloads, what="downloading source packages")


def _private_apt(state: Path) -> list[str]:
    """Return an apt-get command with separate lists and cache. Its one source is another suite of this machine's archive."""
    if shutil.which("apt-get") is None or not _KEYRING.exists():
        raise BuildError(f"MicroPython's sources cannot be fetched: this machine has no Debian apt set-up. {_ADVICE}")
    for part in ("lists/partial", "cache/archives/partial", "sources"):
        (state / part).mkdir(parents=True)
    (state / "sources" / "suite.sources").write_text(
        f"Types: deb deb-src\nURIs: {_archive()}\nSuites: {_SUITE}\nComponents: main\nSigned-By: {_KEYRING}\n"
    )
    options = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": state / "sources",
        "Dir::State::Lists": state / "lists",
        "Dir::Cache": state / "cache",
        "APT::Sandbox::User": "root",
    }
    return ["apt-get", "-qq", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]


def _archive() -> str:
    """Return the address of the archive that this machine already uses."""
    listing = run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"],
        what="asking apt for this machine's archive",
    )
    for line in listing.splitlines():
        address, _, release = line.partition(" ")
        if release and "-" not in release:
            return address
    raise BuildError(f"apt knows no Debian archive on this machine. {_ADVICE}")


def _unpack_source(downloads: Path, package: str, target: Path) -> None:
    [description] = downloads.glob(f"{package}_*.dsc")
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    run(["dpkg-source", "--no-check", "--no-copy", "-x", description, target], what=f"unpacking {package}")


def _unpack_binary(downloads: Path, name: str, target: Path) -> None:
    """Move usr/src/<name> out of the Debian package <name>-source."""
    [package] = downloads.glob(f"{name}-source_*.deb")
    staging = downloads.parent / f"{name}-unpacked"
    run(["dpkg-deb", "-x", package, staging], what=f"unpacking {name}")
    shutil.rmtree(target, ignore_errors=True)
    shutil.move(staging / "usr" / "src" / name, target)
    shutil.rmtree(staging)


_UMQTT_VERSION = "1.3.4"
_UMQTT_SHA256 = "b6a2520239e3992c63a7de9370ee9b3d9d27819a90359c521f1c0f7ccab8d12f"
_UMQTT_PROJECT = "micropython-umqtt-simple"
_DOWNLOAD_SECONDS = 60


def umqtt_folder() -> Path:
    """Return a folder for the module path that contains umqtt/simple.py."""
    return cached("umqtt.simple", _UMQTT_VERSION, _fetch_umqtt)


def _fetch_umqtt(folder: Path) -> None:
    archive = _download_umqtt()
    found = hashlib.sha256(archive).hexdigest()
    if found != _UMQTT_SHA256:
        raise BuildError(
            f"umqtt.simple {_UMQTT_VERSION} has digest {found}, expected {_UMQTT_SHA256}. "
            "Set PIP_INDEX_URL to an index that has the original file."
        )
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        member = next((m for m in tar.getmembers() if m.name.endswith("umqtt/simple.py")), None)
        content = tar.extractfile(member) if member else None
        if content is None:
            raise BuildError("umqtt.simple's archive has no umqtt/simple.py")
        (folder / "umqtt").mkdir()
        (folder / "umqtt" / "simple.py").write_bytes(content.read())


def _download_umqtt() -> bytes:
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/") + f"/{_UMQTT_PROJECT}/"
    try:
        with urllib.request.urlopen(index, timeout=_DOWNLOAD_SECONDS) as page:  # noqa: S310 - the index the user's pip uses
            links = re.findall(r'href="([^"#]*-' + re.escape(_UMQTT_VERSION) + r"\.tar\.gz)", page.read().decode())
        if not links:
            raise BuildError(f"the package index has no umqtt.simple {_UMQTT_VERSION}")
        link = urllib.parse.urljoin(index, links[0])
        with urllib.request.urlopen(link, timeout=_DOWNLOAD_SECONDS) as archive:  # noqa: S310 - the same index
            return bytes(archive.read())
    except urllib.error.URLError as error:
        raise BuildError(
            f"umqtt.simple could not be downloaded: {error.reason}. Check the network, then try again."
        ) from error
