# SPDX-License-Identifier: MIT
"""From opened frames to verdicts and their effects: pure functions on arrays. No file, no clock, no SQL."""
