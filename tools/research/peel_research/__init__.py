# SPDX-License-Identifier: MIT
"""Research tools of Peel: benchmarks, the attack lab, the insider's limits and the soak test. The `peel` command finds them here."""
