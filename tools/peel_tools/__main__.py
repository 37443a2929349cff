# SPDX-License-Identifier: MIT
"""`python -m peel_tools` is `peel`, also where the command itself is not on the path."""

from peel_tools.cli import main

main(prog_name="peel")
