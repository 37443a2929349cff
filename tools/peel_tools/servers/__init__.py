# SPDX-License-Identifier: MIT
"""Servers of our own on this machine, for demonstrations, tests and benchmarks: brokers, and a database."""
