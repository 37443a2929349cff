# SPDX-License-Identifier: MIT
"""Print the bill of materials of an installation as CycloneDX JSON: the package and everything that it requires.

Versions are those of .venv, the ones that were tested; the same environment and SOURCE_DATE_EPOCH give the same bytes. Fails where a
licence is missing or is not one of those that may be shipped with: ``scripts/check`` runs it for that. Known vulnerabilities are looked
up by scripts/audit.py.
"""

from __future__ import annotations

import json
import os
import re
import sys
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "peel-telemetry"
#: What classifiers stand for, where a package has nothing newer.
CLASSIFIED = {"License :: OSI Approved :: MIT License": "MIT"}
#: Licences that ask for no more than a notice. Of an expression each part must be one, where parts are alternatives one of them.
FREE = {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "MIT", "MIT-0", "PSF-2.0", "Zlib"}


def required(name: str, extras: Sequence[str] = ()) -> dict[str, Distribution]:
    """Return the distribution and its installed requirements by canonical name, extras included."""
    found: dict[str, Distribution] = {}
    waiting: list[tuple[str, Sequence[str]]] = [(name, extras)]
    while waiting:
        wanted, with_extras = waiting.pop()
        key = canonicalize_name(wanted)
        if key in found:
            continue
        try:
            found[key] = distribution(key)
        except PackageNotFoundError:
            if not extras:
                raise
            continue
        for line in found[key].requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in ("", *with_extras)
            ):
                waiting.append((requirement.name, tuple(requirement.extras)))
    return found


def licence(package: Distribution) -> str:
    """Return the package's licence: an expression, a word or, in older metadata, a classifier."""
    said = [package.metadata.get_all(name) or [""] for name in ("License-Expression", "License")]
    classified = [CLASSIFIED[each] for each in package.metadata.get_all("Classifier") or [] if each in CLASSIFIED]
    return str(next((names[0] for names in (*said, classified) if names and names[0]), ""))


def is_free(expression: str) -> bool:
    """Return whether a licence may be shipped with. Expressions have no brackets here."""
    return any(all(part.strip() in FREE for part in choice.split(" AND ")) for choice in re.split(r" OR ", expression))


def component(package: Distribution) -> dict[str, Any]:
    name = canonicalize_name(package.metadata["Name"])
    reference = f"pkg:pypi/{name}@{package.version}"
    return {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": package.version,
        "licenses": [{"expression": licence(package)}],
        "purl": reference,
    }


def bill(packages: dict[str, Distribution]) -> dict[str, Any]:
    """Return the document; https://cyclonedx.org/docs/1.5/json explains every field."""
    main = component(packages[PROJECT]) | {"type": "application"}
    parts = [component(packages[name]) for name in sorted(packages) if name != PROJECT]
    moment = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), UTC)
    identity = uuid.uuid5(uuid.NAMESPACE_URL, " ".join([main["purl"], *(part["purl"] for part in parts)]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{identity}",
        "version": 1,
        "metadata": {"timestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": main},
        "components": parts,
    }


def main() -> int:
    packages = required(PROJECT)
    refused = [
        f"{name}: {licence(package) or 'none'}" for name, package in packages.items() if not is_free(licence(package))
    ]
    if refused:
        print(
            f"sbom: licences that nobody has looked at (FREE in scripts/sbom.py): {'; '.join(refused)}", file=sys.stderr
        )
        return 1
    print(json.dumps(bill(packages), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
