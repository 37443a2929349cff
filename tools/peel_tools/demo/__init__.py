# SPDX-License-Identifier: MIT
"""The demonstration: the whole system on one machine, its summary on the terminal, and the gateway that knows the truth."""
