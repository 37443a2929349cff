# SPDX-License-Identifier: MIT
"""What runs: the parts wired together, how they are, and the process around them."""
