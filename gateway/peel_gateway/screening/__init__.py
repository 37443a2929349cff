# SPDX-License-Identifier: MIT
"""From opened frames to verdicts and their effects: functions on arrays. No file, no clock, no SQL.

`judge` updates the test states in the cache in place; a function that changes an argument says so.
"""
