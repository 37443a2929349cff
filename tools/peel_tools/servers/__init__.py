# SPDX-License-Identifier: MIT
"""Servers of our own on this machine, for demonstrations, tests and benchmarks: brokers, a database, gateways, and sites of them."""
