# SPDX-License-Identifier: MIT
"""`peel gateway`, one module per kind of question, and what `peel fleet list` shows."""
