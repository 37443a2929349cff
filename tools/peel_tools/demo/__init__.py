# SPDX-License-Identifier: MIT
"""The demonstration: the whole system on one machine, what people see of it, and the gateway that knows the truth."""
