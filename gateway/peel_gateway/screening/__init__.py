# SPDX-License-Identifier: MIT
"""From opened frames to verdicts and estimates: pure functions on arrays, and the engine that runs them in one transaction."""
