# SPDX-License-Identifier: MIT
"""Groups of devices: a group's estimate equals that of a gateway with these devices alone."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from click.testing import CliRunner
from field import Field

from peel_gateway.queries.estimates import FEW
from peel_tools.commands.fleet import fleet as fleet_group
from peel_tools.servers.gateway import GatewayProcess

NORTH, SOUTH = range(1, 15), range(15, 21)
SAME = ("n", "devices", "withdrawn", "withdrawn_devices", "estimates")


def has_exposed(gateway: GatewayProcess) -> bool:
    return bool(gateway.summary()["totals"]["exposed"])


def told(items: list[Any]) -> list[Any]:
    """Return the items without the values that change with the time of the query."""
    rate = ("seconds_missing", "reports_missing")
    return [
        {key: item[key] for key in SAME if key != "estimates"}
        | {"estimates": [{key: row[key] for key in row if key not in rate} for row in item["estimates"]]}
        for item in items
    ]


def estimates(gateway: GatewayProcess, query: str = "") -> list[Any]:
    items: list[Any] = gateway.get(f"/api/estimates{query}")["items"]
    return items


def test_a_group_is_estimated_as_if_there_were_nobody_else(field: Field) -> None:
    field.fleet.assign(NORTH, "north")
    field.fleet.assign(SOUTH, "south")
    everything = field.new_gateway("everything", mqtt_client_id="everything").start()
    field.publish(field.reports(300, devices=NORTH))
    field.wait_accepted(everything, 300)
    south_only = field.new_gateway("south", mqtt_client_id="south").start()
    field.publish(field.reports(180, devices=SOUTH))
    for gateway, accepted in ((everything, 480), (south_only, 180)):
        field.wait_accepted(gateway, accepted)
    field.publish(field.reports(1, devices=[20], rule=5))  # and with it device 20 is withdrawn
    for gateway in (everything, south_only):
        gateway.wait_for(partial(has_exposed, gateway))
    assert told(estimates(everything, "?group=south")) == told(estimates(south_only))
    north, south = estimates(everything, "?groups=yes")
    assert [north["group"], south["group"]] == ["north", "south"]
    assert (north["n"], south["n"], south["withdrawn"], south["withdrawn_devices"]) == (300, 150, 30, 1)
    assert (north["note"], len(NORTH)) == (None, north["members"])
    assert len(SOUTH) < FEW
    assert f"only {len(SOUTH)} devices" in south["note"]
    whole, *_ = estimates(everything)
    assert (whole["n"], whole["group"], whole["note"]) == (450, None, None)
    assert [row["group"] for row in everything.get("/api/groups")["items"]] == ["north", "south"]
    assert {row["group"] for row in everything.get("/api/devices?group=south")["items"]} == {"south"}
    printed = everything.command("estimates", "--groups")
    assert [line.split()[3] for line in printed.stdout.splitlines()[1:]] == ["north"] * 4 + ["south"] * 4
    assert "group south: only 6 devices" in printed.stderr
    _moves(field, everything)


def _moves(field: Field, gateway: GatewayProcess) -> None:
    """A device that moves takes its past with it, without a restart."""
    (before,) = estimates(gateway, "?group=north")
    field.fleet.assign([15], "north")
    gateway.wait_for(lambda: estimates(gateway, "?group=north")[0]["n"] == before["n"] + 30)


def test_wrong_groups_are_named(field: Field) -> None:
    field.fleet.assign([1], "attic")
    gateway = field.new_gateway().start()
    for words, said in (
        (("--group", "cellar"), "group: no device is in 'cellar'; the groups are: attic"),
        (("--group", "attic", "--no-devices"), "devices: no cannot be combined with group or groups"),
        (("--group", "attic", "--groups"), "groups: yes cannot be combined with group"),
    ):
        done = gateway.command("estimates", *words)
        assert done.returncode == 2
        assert said in done.stderr


def test_groups_from_the_command_line(field: Field) -> None:
    folder = str(field.fleet.folder)

    def fleet(*words: str) -> Any:
        return CliRunner().invoke(fleet_group, list(words))

    added = fleet("add", folder, "--group", "roof", "--no-bundles", "--json")
    assert json.loads(added.stdout)["items"][0]["group"] == "roof"
    assert fleet("group", folder, "cellar", "1", "2").exit_code == 0
    assert [device.group for device in field.fleet.devices()][:3] == ["cellar", "cellar", ""]
    assert fleet("group", folder, "", "1").exit_code == 0
    assert field.fleet.devices()[0].group == ""
    for name in ("Upper", "a/b", "-x", "x" * 33, "ä"):
        refused = fleet("group", folder, "--", name, "1")
        assert refused.exit_code == 3
        assert "1 to 32 characters" in refused.output
