# SPDX-License-Identifier: MIT
"""The upgrade of a PostgreSQL database: all steps in one transaction, while nobody reads or writes."""

from __future__ import annotations

from peel_core import Secret
from peel_gateway.storage.postgres.connection import PostgresConnection
from peel_gateway.storage.postgres.errors import translated
from peel_gateway.storage.postgres.leases import PostgresLeases
from peel_gateway.storage.postgres.schema import WORDS, find_damage, look
from peel_gateway.storage.postgres.session import Address
from peel_gateway.storage.sql.upgrade import Upgraded, run_steps, steps_from
from peel_gateway.storage.store import StoreCorrupt, StoreLocked

__all__ = ["refuse_owners", "upgrade_database"]


def refuse_owners(address: Address) -> None:
    """Raise if a gateway owns a share."""
    leases = PostgresLeases(address)
    try:
        owned = [lease for lease in leases.all() if lease.seconds > 0]
    finally:
        leases.close()
    if owned:
        raise StoreLocked(
            f"{address.place}: share {owned[0].share} is owned by {owned[0].owner}. Stop all gateways first"
        )


def upgrade_database(url: str, schema: str, timeout: float) -> Upgraded:
    """Upgrade a database that no gateway runs on. It is upgraded as a whole or, after any error, unchanged."""
    address = Address(Secret(url.encode()), schema)
    refuse_owners(address)
    options = {"lock_timeout": f"{round(timeout * 1000)}ms"}
    with translated(address.place), address.connect("peel upgrades", options) as raw, raw.transaction():
        # A gateway that starts meanwhile waits here, then finds the new version.
        raw.execute("LOCK TABLE made, lease, meta IN ACCESS EXCLUSIVE MODE")
        made = look(raw)
        assert made is not None, "the table is locked"
        steps = steps_from(made.version, address.place)
        upgraded = Upgraded(address.place, made.version, steps, None)
        if not steps:
            return upgraded
        everything = PostgresConnection(raw, None, made.shares)
        run_steps(steps, WORDS, lambda script: raw.execute(script.encode()), everything.scopes())
        if problems := find_damage(everything):
            raise StoreCorrupt(f"{address.place}: damaged: {'; '.join(problems)}; restore a copy")
        raw.execute("UPDATE made SET version = %s", (upgraded.after,))
    return upgraded
