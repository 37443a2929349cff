# SPDX-License-Identifier: MIT
"""Measurements in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any
from unittest import mock

__all__ = ["alone"]

_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Threads that wait for each other spend CPU time: the product would look dearer than it is."""


def alone(function: Callable[..., dict[str, Any]], *given: object) -> dict[str, Any]:
    """Call it in a fresh process: memory that was used before does not count."""
    with (
        mock.patch.dict(os.environ, _ONE_THREAD),
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        try:
            return pool.submit(function, *given).result()
        except BaseException:
            for (
                child
            ) in multiprocessing.active_children():  # else leaving the pool waits for it, after a Ctrl-C for minutes
                child.terminate()
            raise
