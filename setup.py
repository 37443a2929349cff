# SPDX-License-Identifier: MIT
"""Add what pyproject.toml cannot say: the version, the cffi extensions, and copies of the device's files."""

import re
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
CARRIED = Path("peel_tools") / "flashing" / "device"
"""The folder of the device's files in the package; peel_tools.flashing.device_files looks there."""


def version() -> str:
    """The version of everything, from the one file that can be used without any build."""
    header = ROOT / "c_core" / "include" / "peel.h"
    return re.findall(r'^#define PEEL_CORE_VERSION "(.+)"$', header.read_text(), flags=re.M)[0]


def device_files() -> list[Path]:
    """Return the files that provisioning copies onto a board, below ROOT. scripts/package adds the native modules."""
    patterns = (
        "firmware/main.py", "firmware/peel_device/*.py", "firmware/drivers/*.py", "firmware/boards/*.py", "firmware/native/*/peelcore.mpy",
        "bindings/micropython/*.py",
    )  # fmt: skip
    return [path.relative_to(ROOT) for pattern in patterns for path in sorted(ROOT.glob(pattern))]


class BuildWithDeviceFiles(build_py):
    """Adds the device's files to a package. An editable one has none: it takes the checkout's."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for path in device_files():
            target = self.build_lib / CARRIED / path
            self.mkpath(str(target.parent))
            self.copy_file(str(ROOT / path), str(target))


setup(
    version=version(),
    cffi_modules=["bindings/host/build_core.py:ffi", "gateway/build_kernels.py:ffi"],
    cmdclass={"build_py": BuildWithDeviceFiles},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},  # cffi's modules keep to the stable ABI
)
