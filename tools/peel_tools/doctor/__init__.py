# SPDX-License-Identifier: MIT
"""What is wrong with a gateway's surroundings, and what to do about it."""
