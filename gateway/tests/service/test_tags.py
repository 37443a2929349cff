# SPDX-License-Identifier: MIT
"""Tags: the estimate of a tag equals that of a gateway with its devices alone, and a device counts in each of its tags."""

from __future__ import annotations

import json
from functools import partial
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from field import Field

from peel_gateway.queries.estimates import FEW
from peel_tools.cli import fleet as fleet_commands
from peel_tools.servers.gateway import GatewayProcess

NORTH, SOUTH = range(1, 15), range(15, 21)
EVERYWHERE = "北棟"
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


def test_a_tag_is_estimated_as_if_there_were_nobody_else(field: Field) -> None:
    field.fleet.tag(NORTH, add=["north", EVERYWHERE])
    field.fleet.tag(SOUTH, add=["Süd 2", EVERYWHERE])
    everything = field.new_gateway("everything", mqtt_client_id="everything").start()
    field.publish(field.reports(300, devices=NORTH))
    field.wait_accepted(everything, 300)
    south_only = field.new_gateway("south", mqtt_client_id="south").start()
    field.publish(field.reports(180, devices=SOUTH))
    for gateway, accepted in ((everything, 480), (south_only, 180)):
        field.wait_accepted(gateway, accepted)
    field.publish(field.reports(1, devices=[20], odds=(5, 1)))  # and with it device 20 is withdrawn
    for gateway in (everything, south_only):
        gateway.wait_for(partial(has_exposed, gateway))
    for spelling in ("Süd 2", "Su\u0308d 2"):
        assert told(estimates(everything, f"?tag={quote(spelling)}")) == told(estimates(south_only))
    assert told(estimates(everything, f"?tag={quote(EVERYWHERE)}")) == told(estimates(everything))
    south, north, both = estimates(everything, "?tags=yes")
    assert [north["tag"], south["tag"], both["tag"]] == ["north", "Süd 2", EVERYWHERE]
    assert (north["n"], south["n"], south["withdrawn"], south["withdrawn_devices"]) == (300, 150, 30, 1)
    assert (north["note"], len(NORTH)) == (None, north["members"])
    assert both["members"] == len(NORTH) + len(SOUTH)
    assert len(SOUTH) < FEW
    assert f"only {len(SOUTH)} devices" in south["note"]
    whole, *_ = estimates(everything)
    assert (whole["n"], whole["tag"], whole["note"]) == (450, None, None)
    assert both["rate"] == whole["rate"] == pytest.approx(north["rate"] + south["rate"])
    assert [row["tag"] for row in everything.get("/api/tags")["items"]] == ["Süd 2", "north", EVERYWHERE]
    found = everything.get(f"/api/devices?tag={quote('Süd 2')}")["items"]
    assert [row["tags"] for row in found] == [["Süd 2", EVERYWHERE]] * len(SOUTH)
    for tag, exposed in (("north", 0), ("Süd 2", 1), (EVERYWHERE, 1)):
        assert everything.get(f"/api/exposed?tag={quote(tag)}")["total"] == exposed
    printed = everything.command("estimates", "--tags")
    assert printed.stdout.count("climate of Süd 2 ") == printed.stdout.count(f"climate of {EVERYWHERE} ") == 4
    assert "tag Süd 2: only 6 devices" in printed.stderr
    _moves(field, everything)


def _moves(field: Field, gateway: GatewayProcess) -> None:
    """A device that gets a tag brings its past along, without a restart."""
    (before,) = estimates(gateway, "?tag=north")
    field.fleet.tag([15], add=["north"])
    gateway.wait_for(lambda: estimates(gateway, "?tag=north")[0]["n"] == before["n"] + 30)


def test_wrong_tags_are_named(field: Field) -> None:
    field.fleet.tag([1], add=["Dachgeschoß", "attic"])
    gateway = field.new_gateway().start()
    for words, said in (
        (("--tag", "cellar"), "tag: no device has 'cellar'; the tags are: Dachgeschoß, attic"),
        (("--tag", "Dachgeschoss"), "tag: no device has 'Dachgeschoss'; similar tags are: Dachgeschoß"),
        (("--tag", "attic", "--no-devices"), "devices: no cannot be combined with tag or tags"),
        (("--tag", "attic", "--tags"), "tags: yes cannot be combined with tag"),
    ):
        done = gateway.command("estimates", *words)
        assert done.returncode == 2
        assert said in done.stderr
    for path in ("estimates", "devices", "exposed"):
        for tag in ("", "cellar", "a/b", "\x00"):
            with pytest.raises(HTTPError) as caught:
                gateway.get(f"/api/{path}?tag={quote(tag)}")
            assert caught.value.code == 404
            assert json.load(caught.value)["error"] == f"tag: no device has {tag!r}; the tags are: Dachgeschoß, attic"
    field.fleet.tag([1], remove=["attic", "Dachgeschoß"])
    gateway.wait_for(lambda: gateway.get("/api/tags")["items"] == [])
    refused = gateway.command("devices", "--tag", "attic")
    assert (refused.returncode, "nor any other tag; add tags with `peel fleet tag`" in refused.stderr) == (2, True)


def test_tags_from_the_command_line(field: Field) -> None:
    folder = str(field.fleet.folder)

    def fleet(*words: str) -> Any:
        return CliRunner().invoke(fleet_commands, list(words))

    def listed(*words: str) -> list[Any]:
        items: list[Any] = json.loads(fleet("list", folder, "--json", *words).stdout)["items"]
        return [(int(row["device"], 16), row["tags"]) for row in items if row["tags"]]

    added = fleet("add", folder, "--tag", "roof", "--tag", "Gewächshaus 2", "--no-bundles", "--json")
    assert json.loads(added.stdout)["items"][0]["tags"] == ["Gewächshaus 2", "roof"]
    assert fleet("tag", folder, "1", "2", "--add", "cellar", "--add", "北棟").exit_code == 0
    assert fleet("tag", folder, "1", "--remove", "cellar", "--add", "roof").exit_code == 0
    assert listed() == [(1, ["roof", "北棟"]), (2, ["cellar", "北棟"]), (21, ["Gewächshaus 2", "roof"])]
    assert listed("--tag", "roof") == [(1, ["roof", "北棟"]), (21, ["Gewächshaus 2", "roof"])]
    assert listed("--tag", "Gewa\u0308chshaus 2") == [(21, ["Gewächshaus 2", "roof"])]
    assert "roof, 北棟" in fleet("list", folder, "--tag", "北棟").output
    for words, code, said in (
        (("list", folder, "--tag", "rof"), 2, "no device has 'rof'; similar tags are: roof"),
        (("tag", folder, "1"), 2, "nothing to change: give --add TAG or --remove TAG"),
        (("tag", folder, "1", "--add", "a/b"), 3, "tag 'a/b': must not"),
        (("tag", folder, "1", "--remove", "cellar"), 3, "none of these devices has it. Their tags are: roof, 北棟"),
        (("add", folder, "--tag", "x", "--tag", "x"), 3, "tag 'x': given twice"),
    ):
        refused = fleet(*words)
        assert (refused.exit_code, said in refused.output) == (code, True), refused.output
