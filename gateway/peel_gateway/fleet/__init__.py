# SPDX-License-Identifier: MIT
"""The fleet folder: keys, devices, profiles, bundles, and the commands that keep them."""
