# SPDX-License-Identifier: MIT
"""Servers that this project starts on this machine for demonstrations, tests and benchmarks: brokers, PostgreSQL, gateways."""
