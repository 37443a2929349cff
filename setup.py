# SPDX-License-Identifier: MIT
"""Only what pyproject.toml cannot say: the cffi extension."""

from setuptools import setup

setup(cffi_modules=["bindings/host/build_core.py:ffi"])
