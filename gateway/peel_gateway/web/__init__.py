# SPDX-License-Identifier: MIT
"""The HTTP server: the page, the JSON API, server-sent events, metrics and health."""
