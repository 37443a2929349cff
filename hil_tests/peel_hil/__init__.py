# SPDX-License-Identifier: MIT
"""Hardware in the loop: a real broker, a real gateway, and devices on emulated boards that report to them."""
