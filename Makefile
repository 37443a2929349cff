# SPDX-License-Identifier: MIT
# make run       broker, gateway and a simulated fleet on this machine; Ctrl-C stops all of it
# make test      checks and all tests, emulated boards included
# make quick     run while editing: lint, types, and the tests of less than about a second that need no server
# make explore   the tests that make random choices, each round with a new seed, until one fails or Ctrl-C
# make coverage  which lines the tests run, boards apart: the total and the ten files with the least
# make check     formatting, lint, types, warnings, a few of the proofs
# make prove     that no input makes the C code do anything undefined: every function, every width, some hours
# make bench     sizes and speed of the core, of an emulated device and of the gateway
# make fuzz      the parsers under a coverage-guided fuzzer, ten minutes each (SECONDS=n for another time)
# make package   source distribution and wheel in dist/, native modules for all boards in them
# make clean     removes what was built here
#
# Each target sets up what it needs (scripts/setup).

.PHONY: run test quick explore coverage check prove bench fuzz package clean help
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

run:
	@scripts/setup base broker
	@.venv/bin/peel demo

test:
	@scripts/setup base broker test firmware prove
	@scripts/test

quick:
	@scripts/setup base test
	@scripts/quick

explore:
	@scripts/setup base test
	@scripts/explore

coverage:
	@scripts/setup base broker test firmware
	@scripts/coverage

check:
	@scripts/setup base test prove
	@scripts/check

bench:
	@scripts/setup base test firmware
	@.venv/bin/peel bench core
	@.venv/bin/peel bench device
	@.venv/bin/peel bench gateway

prove:
	@scripts/setup base prove
	@.venv/bin/python c_core/proofs/prove.py

SECONDS ?= 600
fuzz:
	@scripts/setup base test
	@.venv/bin/python c_core/tests/fuzz.py --seconds $(SECONDS)

package:
	@scripts/setup base test firmware
	@scripts/package

clean:
	rm -rf .venv build dist *.egg-info hil_tests/*.egg-info hil_tests/node_modules
	rm -f bindings/host/peel_core/_core.c bindings/host/peel_core/_core*.so
	rm -f gateway/peel_gateway/_kernels.c gateway/peel_gateway/_kernels*.so
	rm -rf .pytest_cache .mypy_cache .ruff_cache firmware/.ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
