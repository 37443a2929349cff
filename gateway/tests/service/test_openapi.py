# SPDX-License-Identifier: MIT
"""/api/openapi.json matches the routes and the answers of a running gateway."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from field import Field, MakeField
from jsonschema import Draft202012Validator

from peel_tools.servers.gateway import GatewayProcess

TOKEN = "0123456789abcdef-token"
STREAM = "/api/events"
PROFILES = {
    "sky": (
        'width = 48\n[[attribute]]\nkind = "category"\nname = "sky"\ncategories = ["sun", "rain", "fog", "snow"]\n',
        [0],
    ),
    "place": ('[[attribute]]\nkind = "hashed"\nname = "place"\ndomain = 300\n', [0]),
    "air": (
        '[[attribute]]\nkind = "ladder"\nname = "co2"\nunit = "ppm"\nlow = 400\nhigh = 2000\nrungs = [800, 1200]\n'
        '[[attribute]]\nkind = "above"\nname = "co2"\nunit = "ppm"\nthresholds = [1000]\n',
        [32768, -32768, -32768],
    ),
}
"""Profiles of other kinds of attributes, with a device's readings."""
NOT_DESCRIBED = {"/metrics", "/healthz", "/login", "/logout"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, start_field: MakeField) -> GatewayProcess:
    """A gateway with something to list on every path: an exposure, a forgery, a pardon, a revocation, a status, two tags."""
    field = start_field(tmp_path_factory.mktemp("openapi"))
    field.fleet.tag(range(1, 15), add=["north"])
    field.fleet.tag(range(15, 21), add=["south"])
    field.fleet.revoke([18], reason="stolen", who="ada")
    spoken = [report for name, of in PROFILES.items() for report in field.reports_of(name, *of, count=50)]
    gateway = field.new_gateway().start()
    field.publish(spoken)
    forged = [(topic, bytes([*payload[:-1], payload[-1] ^ 1])) for topic, payload in field.reports(1, devices=[1])]
    status = (field.topic(1).replace("/report", "/status"), json.dumps({"state": "online", "left": 7}).encode())
    field.publish([*field.reports(100, devices=range(1, 18)), *forged, status])
    field.publish(field.reports(2, devices=[19, 20], odds=(9, 3)))
    gateway.wait_for(lambda: _settled(gateway))
    assert gateway.stop() == 0
    pardon = gateway.command("pardon", "13", "--reason", "wrong bundle", "--who", "ada")
    assert pardon.returncode == 0, pardon.stderr
    return gateway.start()


def _settled(gateway: GatewayProcess) -> bool:
    totals = gateway.summary()["totals"]
    said = gateway.get("/api/devices/1")["claims"]
    return bool(totals["accepted"] == 250 and totals["verdicts"]["rule"] == 2 and said)


@pytest.fixture(scope="module")
def document(gateway: GatewayProcess) -> Any:
    return gateway.get("/api/openapi.json")


def operations(document: Any) -> Iterator[tuple[str, Any]]:
    for path, methods in document["paths"].items():
        assert set(methods) == {"get"}
        yield path, methods["get"]


def closed(schema: Any) -> Any:
    """The same with no field beside those described, so that a new field must be described too."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    shut = {"additionalProperties": False} if "properties" in schema else {}
    return shut | {key: closed(value) for key, value in schema.items()}


def objections(document: Any, response: Any, answer: Any) -> list[str]:
    """Return the differences between an answer and its schema."""
    while "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
    (schema,) = (content["schema"] for content in response["content"].values())
    whole = closed({"components": document["components"], **schema})
    Draft202012Validator.check_schema(whole)
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(whole).iter_errors(answer)]


def refusal(gateway: GatewayProcess, path: str) -> tuple[int, Any]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        gateway.fetch(path)
    return caught.value.code, json.load(caught.value)


def test_every_route_is_described_and_nothing_else(gateway: GatewayProcess, document: Any) -> None:
    listed = {row["path"].replace(":int}", "}"): row["what"] for row in gateway.get("/api")["items"]}
    described = {path: operation["summary"] for path, operation in operations(document)}
    assert set(listed) - set(described) == NOT_DESCRIBED
    assert described == {path: what for path, what in listed.items() if path not in NOT_DESCRIBED}
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len(names) == len(set(names))


def test_every_reference_leads_somewhere_and_every_component_is_used(document: Any) -> None:
    components = {
        f"#/components/{kind}/{name}" for kind in ("schemas", "responses") for name in document["components"][kind]
    }
    assert set(_references(document)) == components


def _references(node: Any) -> Iterator[str]:
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if key == "$ref":
            yield value
        else:
            yield from _references(value)


@pytest.mark.parametrize(
    "question",
    [
        "/api",
        "/api/openapi.json",
        "/api/summary",
        "/api/estimates",
        "/api/estimates?devices=no",
        "/api/estimates?tags=yes&bucket=600",
        "/api/estimates?until=1000",
        "/api/change?window=1h",
        "/api/change?since=1000&before_since=0&tag=north",
        "/api/exposures",
        "/api/exposures?limit=1",
        "/api/quarantine",
        "/api/exposed",
        "/api/layers",
        "/api/audit",
        "/api/devices",
        "/api/devices?limit=1",
        "/api/tags",
        "/api/profiles",
        "/api/plan?profile=climate",
        "/api/plan?profile=climate&accuracy=0.03",
        "/api/estimates?profile=sky",
        "/api/estimates?profile=place",
        "/api/plan?profile=sky",
        "/api/plan?profile=place",
    ],
)
def test_answers_are_as_described(gateway: GatewayProcess, document: Any, question: str) -> None:
    answer = gateway.get(question)
    assert answer.get("items") != []
    path = question.partition("?")[0]
    assert objections(document, document["paths"][path]["get"]["responses"]["200"], answer) == []


@pytest.mark.parametrize("listing", ["exposures", "quarantine"])
def test_every_piece_is_as_described(gateway: GatewayProcess, document: Any, listing: str) -> None:
    response = document["paths"]["/api/exposures/{id}"]["get"]["responses"]["200"]
    for row in gateway.get(f"/api/{listing}")["items"]:
        assert objections(document, response, gateway.get(f"/api/exposures/{row['id']}")) == []


def test_every_device_is_as_described(gateway: GatewayProcess, document: Any) -> None:
    response = document["paths"]["/api/devices/{device}"]["get"]["responses"]["200"]
    devices = [gateway.get(f"/api/devices/{row['device']}") for row in gateway.get("/api/devices")["items"]]
    assert [objections(document, response, device) for device in devices] == [[]] * len(devices)
    assert any(device["against"] for device in devices)
    assert any(device["audit"] for device in devices)
    assert any(device["claims"] for device in devices)


def test_the_fixture_has_both_kinds_of_decision(gateway: GatewayProcess) -> None:
    audit = gateway.get("/api/audit")
    assert ([row["action"] for row in audit["items"]], [row["action"] for row in audit["fleet"]]) == (
        ["pardon"],
        ["revoke"],
    )


def test_events_are_the_stream_that_is_described(gateway: GatewayProcess, document: Any) -> None:
    with urllib.request.urlopen(gateway.url + STREAM, timeout=20) as stream:
        media = stream.headers.get_content_type()
    assert list(document["paths"][STREAM]["get"]["responses"]["200"]["content"]) == [media]


def test_the_parameters_are_those_that_the_routes_take(gateway: GatewayProcess, document: Any) -> None:
    for path, operation in operations(document):
        names = [each["name"] for each in operation["parameters"] if each["in"] == "query"]
        assert ("400" in operation["responses"]) == bool(names)
        if names:
            code, answer = refusal(gateway, f"{path}?nonsense=1")
            assert (code, answer["error"].partition("known ones are: ")[2].split(", ")) == (400, names)


def wrong_values(schema: Any) -> Iterator[str]:
    """Values that a schema does not allow, where it forbids any."""
    if "enum" in schema:
        yield "perhaps"
    if "pattern" in schema or schema["type"] == "array":
        yield "%27"
        yield ""
    if "maxLength" in schema:
        yield "1" * (schema["maxLength"] + 1)
    if schema["type"] in ("integer", "number"):
        yield "many"
        yield str(schema["minimum"] - 1)
        yield str(schema["maximum"] + 1)


def test_what_the_description_forbids_is_refused_as_described(gateway: GatewayProcess, document: Any) -> None:
    tried = 0
    for path, operation in operations(document):
        for parameter in operation["parameters"]:
            for value in wrong_values(parameter["schema"]) if parameter["in"] == "query" else ():
                code, answer = refusal(gateway, f"{path}?{parameter['name']}={value}")
                assert code == 400, (path, parameter["name"], value)
                assert objections(document, operation["responses"]["400"], answer) == []
                assert answer["error"].startswith(f"{parameter['name']}: ")
                tried += 1
    assert tried > 80


def test_the_limits_that_are_described_are_those_that_hold(gateway: GatewayProcess, document: Any) -> None:
    for path, operation in operations(document):
        for parameter in operation["parameters"]:
            if parameter["name"] == "limit":
                for end in ("minimum", "maximum", "default"):
                    gateway.get(f"{path}?limit={parameter['schema'][end]}")


@pytest.mark.parametrize("path", ["/api/devices/99", "/api/devices/nobody", "/api/exposures/999999"])
def test_what_is_not_there_is_refused_as_described(gateway: GatewayProcess, document: Any, path: str) -> None:
    template = "/api/devices/{device}" if "devices" in path else "/api/exposures/{id}"
    code, answer = refusal(gateway, path)
    assert objections(document, document["paths"][template]["get"]["responses"][str(code)], answer) == []


def schemathesis(gateway: GatewayProcess, folder: Path, document: Any, *options: str) -> None:
    """Let schemathesis try what a description allows and what it forbids, the same each time.

    The event stream is left out, because its answer does not end. A well-formed question may be unanswerable (422).
    """
    (folder / "openapi.json").write_text(json.dumps(document))
    (folder / "schemathesis.toml").write_text(
        "[checks.positive_data_acceptance]\nexpected-statuses = [200, 401, 404, 422]\n"
        "[checks.negative_data_rejection]\nexpected-statuses = [400, 401, 404, 414, 422]\n"
    )
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml", "run", "openapi.json"]
    command += ["--url", gateway.url, "--exclude-path", STREAM, "--generation-deterministic", "--continue-on-failure"]
    command += ["--no-color", "--warnings", "off", *options]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_no_question_is_answered_otherwise_than_described(
    gateway: GatewayProcess, document: Any, tmp_path: Path
) -> None:
    schemathesis(gateway, tmp_path, document, "--phases", "coverage,fuzzing", "--max-examples", "3")


def test_no_question_about_this_fleet_is_answered_otherwise_than_described(
    gateway: GatewayProcess, document: Any, tmp_path: Path
) -> None:
    """Random names exist in no fleet. Most questions with the names of this fleet have an answer."""
    known = {
        "profile": ["climate", *PROFILES],
        "tag": ["north", "south"],
        "name": ["temperature", "sun", "7", "co2 > 800"],
        "device": [row["device"] for row in gateway.get("/api/devices")["items"]],
        "id": [row["id"] for listing in ("exposures", "quarantine") for row in gateway.get(f"/api/{listing}")["items"]],
        "bucket": [600, 3600],
    }
    narrowed = copy.deepcopy(document)
    for _, operation in operations(narrowed):
        for parameter in operation["parameters"]:
            if parameter["name"] in known:
                parameter["schema"] = {"enum": known[parameter["name"]]}
    schemathesis(gateway, tmp_path, narrowed, "--phases", "fuzzing", "--mode", "positive", "--max-examples", "10")


def test_with_a_token_strangers_get_what_is_described(tmp_path: Path, field: Field, document: Any) -> None:
    secret = tmp_path / "token"
    secret.write_text(TOKEN)
    secret.chmod(0o600)
    gateway = field.new_gateway(http_token_file=secret).start(until="started")
    gateway.wait_for(lambda: gateway.ask("/login") is not None)
    assert gateway.get("/api/openapi.json", TOKEN) == document
    for path, operation in operations(document):
        code, answer = refusal(gateway, path.format(id=1, device=1))
        assert code == 401
        assert objections(document, operation["responses"]["401"], answer) == []
    few = ("--phases", "fuzzing", "--max-examples", "2")
    schemathesis(gateway, tmp_path, document, *few)
    schemathesis(gateway, tmp_path, document, *few, "--header", f"Authorization: Bearer {TOKEN}")
