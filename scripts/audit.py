# SPDX-License-Identifier: MIT
"""Known vulnerabilities of what an installation consists of, extras included, by the advisories that PyPI publishes with each version.

Fails where there is one that nobody has looked at (`ACCEPTED`). Needs a network; without one it says that nothing was looked up, and with
``--strict`` fails. PEEL_AUDIT_URL names another place that answers like https://pypi.org/pypi.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import Distribution

from packaging.utils import canonicalize_name
from sbom import PROJECT, required

EXTRAS = ("broker", "firmware", "parquet", "postgres", "research")
"""Extras that users may install. Packages for developers alone are not audited."""
ACCEPTED: dict[str, str] = {}
"""Advisories that do not affect us, by id, with the reason."""
_URL = "https://pypi.org/pypi"
_SECONDS = 10.0


@dataclass(frozen=True)
class Advisory:
    """A known vulnerability of a version that is installed."""

    package: str
    version: str
    id: str
    summary: str
    fixed_in: tuple[str, ...]

    def __str__(self) -> str:
        fixed = f"fixed in {', '.join(self.fixed_in)}" if self.fixed_in else "not fixed yet"
        return f"{self.package} {self.version}: {self.id}: {self.summary} ({fixed})"


def advisories(package: Distribution, url: str) -> list[Advisory]:
    """Return the advisories of one version; raise OSError without an answer, ValueError for a malformed one."""
    name = canonicalize_name(package.metadata["Name"])
    with urllib.request.urlopen(f"{url}/{name}/{package.version}/json", timeout=_SECONDS) as answer:  # noqa: S310 - https, or our own
        found = json.load(answer)["vulnerabilities"]
    return [
        Advisory(name, package.version, each["id"], each.get("summary") or "no summary", tuple(each["fixed_in"]))
        for each in found
        if not each.get("withdrawn")
    ]


def look_up(packages: list[Distribution], url: str) -> Iterator[Advisory | str]:
    """Yield advisories, and for each package that could not be looked up the reason."""
    with ThreadPoolExecutor(8) as pool:
        answers = [(package, pool.submit(partial(advisories, package, url))) for package in packages]
        for package, answer in answers:
            try:
                yield from answer.result()
            except (OSError, ValueError, KeyError) as error:
                yield f"{package.metadata['Name']} {package.version}: {error}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strict", action="store_true", help="fail where something could not be looked up")
    strict = parser.parse_args().strict
    packages = [each for name, each in sorted(required(PROJECT, EXTRAS).items()) if name != PROJECT]
    found = list(look_up(packages, os.environ.get("PEEL_AUDIT_URL", _URL)))
    unknown = [each for each in found if isinstance(each, str)]
    known = [each for each in found if isinstance(each, Advisory) and each.id not in ACCEPTED]
    for advisory in known:
        print(f"audit: {advisory}", file=sys.stderr)
    if unknown:
        print(
            f"audit: NOT LOOKED UP: {len(unknown)} of {len(packages)} packages, for want of an answer ({unknown[0]}); "
            "run scripts/audit.py where there is a network",
            file=sys.stderr,
        )
    if known or (unknown and strict):
        return 1
    if len(unknown) < len(packages):
        print(f"audit: {len(packages) - len(unknown)} packages looked up, none with a known vulnerability")
    return 0


if __name__ == "__main__":
    sys.exit(main())
