# SPDX-License-Identifier: MIT
"""Everything breaks, again and again, by a schedule that its seed repeats; in the end nothing may be lost or counted twice."""
