# SPDX-License-Identifier: MIT
"""The attack lab: the tables of the PEEL paper, its rivals, every attack we know, on one's own data. ``peel lab``.

`data` turns a CSV file or the built-in traces into readings; `attacks` say what attackers do and what exposes it; `arena` plays them
against the gateway's own engine; `tables` puts all figures together, and `page` shows them.
"""
