# SPDX-License-Identifier: MIT
"""``peel fleet``: the registry's commands, and provisioning, which needs a board at the end of a cable."""

from peel_gateway.fleet.commands import fleet
from peel_tools.flashing.commands import provision_device

__all__ = ["fleet"]

fleet.add_command(provision_device)
