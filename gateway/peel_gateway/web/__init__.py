# SPDX-License-Identifier: MIT
"""What others may read over HTTP: JSON, server-sent events, metrics, health."""
