# SPDX-License-Identifier: MIT
"""Settings that all tests share: one kind per test, one seed for all random choices, and no silent skips under CI.

pytest -m quick            the tests to run while editing
pytest -m "not board"      all tests except those on emulated boards
pytest --seed 7            other random choices than those of the default seed (PEEL_SEED works too)

`make explore` runs the tests that make random choices with a new seed each round.
"""

from __future__ import annotations

import functools
import os
import random
import secrets
import signal
import sys
import zlib
from collections.abc import Generator
from pathlib import Path

# Before numpy is loaded: its matrices are small here, and threads of their own only get into the other workers' way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import numpy as np
import pytest

from peel_tools.boards.build_tools import MissingToolError

KINDS = {
    "board": "firmware in an emulator, or what is built for one",
    "install": "the package as published, in an empty environment",
    "storm": "many faults at once, under load, for a minute or so",
    "browser": "the page in a real Chromium",
    "broker": "a real broker, and mostly a gateway process",
    "slow": "more than about a second on one core, or with a PostgreSQL server",
    "quick": "everything else",
}
"""Each test has one of these markers. A run begins with the first kind: in parallel, no worker is then left alone with a long one."""

PLACES = {
    "c_core/tests/test_freestanding.py": "slow",
    "c_core/tests/test_fuzz.py": "slow",
    "c_core/tests/test_misuse.py": "slow",
    "docs/tests/test_audit.py": "slow",
    "docs/tests/test_c_example.py": "slow",
    "docs/tests/test_figures_run.py": "broker",
    "docs/tests/test_promise_figures.py": "slow",
    "docs/tests/test_release.py": "slow",
    "firmware/tests/test_app.py": "broker",
    "firmware/tests/test_confirm.py": "broker",
    "firmware/tests/test_link.py": "broker",
    "firmware/tests/test_micropython.py": "board",
    "firmware/tests/test_tcp.py": "broker",
    "firmware/tests/test_watchdog.py": "broker",
    "firmware/tests/test_window.py": "slow",
    "gateway/tests/service": "broker",
    "gateway/tests/service/test_store_storm.py": "storm",
    "gateway/tests/test_confirmation.py": "broker",
    "gateway/tests/test_end_to_end.py": "storm",
    "gateway/tests/test_engine_crash.py": "slow",
    "gateway/tests/test_leases.py": "slow",
    "gateway/tests/test_migration.py": "slow",
    "gateway/tests/test_postgres.py": "slow",
    "gateway/tests/test_random_histories.py": "slow",
    "gateway/tests/test_resilience_storm.py": "storm",
    "hil_tests": "board",
    "hil_tests/unit": "quick",
    "tools/research/tests/lab/test_lab_mechanisms_textbook.py": "slow",
    "tools/research/tests/lab/test_lab_tables.py": "slow",
    "tools/research/tests/lab/test_ratios.py": "slow",
    "tools/research/tests/lab/test_rivals.py": "slow",
    "tools/research/tests/test_bench_alone.py": "slow",
    "tools/research/tests/test_bench_core.py": "slow",
    "tools/research/tests/test_bench_disk.py": "broker",
    "tools/research/tests/test_bench_engine.py": "slow",
    "tools/research/tests/test_bench_gateway.py": "slow",
    "tools/research/tests/test_bench_growth.py": "slow",
    "tools/research/tests/test_bench_hostile.py": "broker",
    "tools/research/tests/test_bench_ingest.py": "broker",
    "tools/research/tests/test_bench_peers.py": "slow",
    "tools/research/tests/test_bench_scale.py": "slow",
    "tools/research/tests/test_promise.py": "slow",
    "tools/research/tests/test_soak.py": "storm",
    "tools/research/tests/test_soak_faults.py": "broker",
    "tools/tests/browser": "browser",
    "tools/tests/guides": "broker",
    "tools/tests/test_boards_commands.py": "board",
    "tools/tests/test_boards_natmod.py": "board",
    "tools/tests/test_broker.py": "broker",
    "tools/tests/test_damaged_files.py": "slow",
    "tools/tests/test_demonstration.py": "broker",
    "tools/tests/test_device_run.py": "board",
    "tools/tests/test_flashing_pico.py": "board",
    "tools/tests/test_flashing_provision.py": "board",
    "tools/tests/test_freeze.py": "slow",
    "tools/tests/test_install.py": "install",
    "tools/tests/test_nats.py": "storm",
    "tools/tests/test_simulation_coins.py": "slow",
    "tools/tests/test_simulation_command.py": "broker",
    "tools/tests/test_simulation_promise.py": "slow",
    "tools/tests/test_simulation_publisher.py": "broker",
    "tools/tests/test_simulation_thermometer.py": "slow",
}
"""Files and folders whose tests are not quick. Single tests are marked in their files."""

ROOT = Path(__file__).parent
DEFAULT_SEED = 1


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help=f"seed of all random choices (default: PEEL_SEED, or {DEFAULT_SEED})")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    for kind, meaning in KINDS.items():
        config.addinivalue_line("markers", f"{kind}: {meaning}")
    config.addinivalue_line("markers", "random: makes random choices, which follow from the seed (set automatically)")
    seed = config.getoption("--seed")
    if seed is None:
        seed = int(os.environ.get("PEEL_SEED") or DEFAULT_SEED)
    os.environ["PEEL_SEED"] = str(seed)  # the workers of a parallel run inherit it
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = seed
    # Without its database Hypothesis tries the same examples on every machine. A busy machine is not a fault of a test.
    hypothesis.settings.register_profile(
        "peel", database=None, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("peel")
    _seed_system_entropy()
    # Without bytecode files every command that a test starts compiles the whole package first.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts background jobs with SIGINT ignored, and so would be every command that a test starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)


_entropy = random.Random()


def _seed_system_entropy() -> None:
    """Replace the operating system's entropy in this process, so that keys made by a test are the same each time."""
    for module, name, draw in (
        (os, "urandom", _entropy.randbytes),
        (secrets, "token_bytes", _entropy.randbytes),
        (secrets, "token_hex", lambda count: _entropy.randbytes(count).hex()),
        (secrets, "randbits", _entropy.getrandbits),
        (secrets, "randbelow", _entropy.randrange),
    ):
        setattr(module, name, draw)


def pytest_runtest_setup(item: pytest.Item) -> None:
    _entropy.seed(f"{os.environ['PEEL_SEED']} {item.nodeid}")


def pytest_report_header() -> str:
    return f"seed: {os.environ['PEEL_SEED']}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.stats.keys() & {"failed", "error"}:
        terminalreporter.write_line(f"Repeat these random choices with: --seed {os.environ['PEEL_SEED']}")


@pytest.fixture(scope="session")
def seed() -> int:
    """The number that all random choices of this run follow from."""
    return int(os.environ["PEEL_SEED"])


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator of the test's own: what other tests draw, and in which order they run, changes nothing."""
    return np.random.default_rng([seed, zlib.crc32(request.node.nodeid.encode())])


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import the files without quick tests where only quick tests are wanted."""
    unwanted = collection_path.suffix == ".py" and _kind_of_place(collection_path) != "quick"
    return True if unwanted and config.getoption("markexpr") == "quick" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not any(item.get_closest_marker(kind) for kind in KINDS):
            kind = _kind_of_place(item.path)
            item.add_marker("slow" if kind == "quick" and _needs_postgres(item) else kind)
        if _is_random(item):
            item.add_marker("random")
    order = list(KINDS)
    items.sort(key=lambda item: next(at for at, kind in enumerate(order) if item.get_closest_marker(kind)))


def _needs_postgres(item: pytest.Item) -> bool:
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return "postgres_server" in getattr(item, "fixturenames", ()) or parameters.get("make_database") == "postgres"


def _is_random(item: pytest.Item) -> bool:
    uses_seed = {"seed", "rng"} & set(getattr(item, "fixturenames", ()))
    return bool(uses_seed) or getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


@functools.cache
def _kind_of_place(path: Path) -> str:
    place = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
    while place:
        if place in PLACES:
            return PLACES[place]
        place = place.rpartition("/")[0]
    return "quick"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A tool that is missing skips the test. With CI=true everything must be here, and a skip of any kind is a failure."""
    report = yield
    if call.excinfo is not None and call.excinfo.errisinstance(MissingToolError):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"Skipped: {call.excinfo.value}")
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, although CI=true: {_reason(report)}"
    return report


def _reason(report: pytest.TestReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
