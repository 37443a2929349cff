# SPDX-License-Identifier: MIT
"""The API of a running gateway: answers, access control, refusals."""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
from math import ceil
from pathlib import Path

import pytest
from field import HEALTHY, Field, MakeField, locked_store

from peel_gateway.model.verdict import LAYERS, Verdict
from peel_tools.servers.gateway import GatewayProcess

TOKEN = "0123456789abcdef-token"


@pytest.fixture
def gateway(field: Field) -> GatewayProcess:
    """A gateway that has seen 200 good reports, a forged one, and one tossed with another budget."""
    gateway = field.new_gateway().start()
    forged = [(topic, bytes([*payload[:-1], payload[-1] ^ 1])) for topic, payload in field.reports(1, devices=[1])]
    field.publish(field.reports(200, devices=range(1, 20)) + forged)
    field.wait_accepted(gateway, 200)
    field.publish(field.reports(1, devices=[20], odds=(9, 3)))
    gateway.wait_for(lambda: gateway.summary()["totals"]["verdicts"]["rule"] == 1)
    return gateway


def refusal(gateway: GatewayProcess, path: str, token: str | None = None) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        gateway.fetch(path, token)
    return caught.value.code, json.load(caught.value)["error"]


def test_summary_estimates_devices_and_profiles(field: Field, gateway: GatewayProcess) -> None:
    summary = gateway.summary()
    assert summary["fleet"] == "field"
    assert summary["totals"]["poisoning_ratio"] == pytest.approx(2 / 202)
    (estimates,) = gateway.get("/api/estimates")["items"]
    assert estimates["n"] == 200
    temperature, soil = estimates["estimates"]
    assert (temperature["name"], temperature["unit"], soil["name"]) == ("temperature", "degC", "soil")
    assert temperature["n"] + soil["n"] == 200
    assert -10 <= temperature["low"] <= temperature["high"] <= 50
    assert (estimates["devices"], estimates["share_cap"]) == (19, 1.0)
    assert (temperature["over"], temperature["over_devices"]["over"]) == ("reports", "devices")
    assert 0 < temperature["influence_share"] < 1
    assert temperature["influence"] == pytest.approx(60 * 2.2 * temperature["influence_share"], rel=1e-3)
    assert temperature["influence_device"] in [f"{device:08x}" for device in range(1, 20)]
    assert temperature["over_devices"]["influence_share"] == pytest.approx(1 / temperature["devices"])
    (quick,) = gateway.get("/api/estimates?devices=no")["items"]
    for key in ("n", "value", "low", "high", "unclipped", "n_effective", "edge", "plain", "before_withdrawal"):
        assert quick["estimates"][0][key] == temperature[key]
    assert quick["devices"] is quick["estimates"][0]["over_devices"] is quick["estimates"][0]["influence"] is None
    (one,) = gateway.get("/api/estimates?name=soil")["items"]
    assert ([row["name"] for row in one["estimates"]], one["figures"]) == (["soil"], 2)
    assert gateway.get("/api/estimates?profile=climate&bucket=600")["items"][0]["seconds"] == 600
    assert gateway.get("/api/estimates?until=1000")["items"][0]["n"] == 0

    first = gateway.get("/api/devices?limit=12")
    rest = gateway.get(f"/api/devices?limit=12&after={first['next']}")
    rows = first["items"] + rest["items"]
    assert [row["device"] for row in rows] == [f"{device:08x}" for device in range(1, 21)]
    assert rest["next"] is None
    assert sum(row["reports"].get("accepted", 0) for row in rows) == 200
    assert [row["left"] for row in rows] == [10**9 - row["last_number"] for row in rows]
    assert [row["device"] for row in gateway.get("/api/devices?state=exposed")["items"]] == ["00000014"]
    for part, found in (
        ("0000001", [1, *range(16, 21)]),
        ("14", [20]),
        ("nobody", []),
        ("00000014", [20]),
        ("000000014", []),
    ):
        rows = gateway.get(f"/api/devices?find={part}")["items"]
        assert [row["device"] for row in rows] == [f"{device:08x}" for device in found]
    (profile,) = gateway.get("/api/profiles")["items"]
    assert (profile["name"], profile["id"], profile["devices"]) == ("climate", f"{field.profile.id:08x}", 20)


def test_what_is_missing_to_a_narrow_interval(gateway: GatewayProcess) -> None:
    (item,) = gateway.get("/api/estimates")["items"]
    assert item["rate"] == 19 * 1_000_000, "what the active devices may send, since their quota is all that is planned"
    row = item["estimates"][0]
    unclipped, (low, high) = row["unclipped"], row["range"]
    half = (unclipped["high"] - unclipped["low"]) / 2 / (high - low)
    assert row["half_width"] == pytest.approx(half)
    assert row["reports_missing"] == ceil(row["n"] * ((half / 0.05) ** 2 - 1)) > 0
    assert row["seconds_missing"] == pytest.approx(row["reports_missing"] / (item["rate"] * row["n"] / item["n"]))
    (nothing,) = gateway.get("/api/estimates?until=1000")["items"]
    assert nothing["estimates"][0]["half_width"] is nothing["estimates"][0]["seconds_missing"] is None


def test_the_store_says_its_size(gateway: GatewayProcess) -> None:
    store = gateway.summary()["store"]
    assert store["bytes"] >= gateway.store_path.stat().st_size > 0
    assert store["bucket_seconds"] == 300
    assert store["first_received"] == min(
        row["first_received"] for row in gateway.get("/api/devices")["items"] if row["first_received"]
    )


def test_exposures_and_quarantine_are_kept_apart(field: Field, gateway: GatewayProcess) -> None:
    (exposed,) = gateway.get("/api/exposures")["items"]
    assert (exposed["verdict"], exposed["device"], exposed["blamed"]) == ("rule", "00000014", True)
    assert exposed["evidence"]
    assert len(exposed["raw"]) == 2 * field.profile.frame_bytes
    (held,) = gateway.get("/api/quarantine?verdict=seal&device=1")["items"]
    assert (held["verdict"], held["blamed"]) == ("seal", False)
    assert gateway.get("/api/quarantine?device=2")["items"] == []
    assert gateway.get(f"/api/quarantine?before={held['id']}")["items"] == []


def test_evidence_in_words_bytes_and_a_picture(field: Field, gateway: GatewayProcess) -> None:
    exposed = gateway.get("/api/exposed")
    (item,) = exposed["items"]
    assert (exposed["total"], item["device"], item["verdict"], item["layer"]) == (1, "00000014", "rule", "rule")
    assert item["sentence"] == (
        "It randomized its report with odds of 9:3 (epsilon 1.1); its profile requires 8:3 (epsilon 0.981)."
    )
    assert gateway.get("/api/exposed?profile=climate")["total"] == 1
    assert gateway.get("/api/exposed?since=3000000000") == {"items": [], "total": 0}

    piece = gateway.get(f"/api/exposures/{item['exposure']}")
    (listed,) = gateway.get("/api/exposures")["items"]
    assert "".join(part["hex"] for part in piece["bytes"]) == listed["raw"]
    assert {part["field"]: part["value"] for part in piece["bytes"]}["device"] == "00000014"
    picture = piece["picture"]
    assert len(picture["vector"]) == picture["width"] == 48
    assert picture["labels"] == ["temperature", "soil"]
    assert picture["residual"] < picture["limit"]
    assert picture["vector"][picture["place"]] * picture["sign"] == pytest.approx(1 - 1 / 48, abs=1e-3)
    assert picture["assigned"] == picture["place"] == piece["evidence"]["expected"]

    device = gateway.get("/api/devices/14")
    assert (device["device"], device["state"], device["audit"]) == ("00000014", "exposed", [])
    assert [(row["id"], row["sentence"]) for row in device["against"]] == [(item["exposure"], item["sentence"])]
    assert gateway.get("/api/devices/00000001")["against"] == []
    for nobody in ("/api/devices/99", "/api/devices/nobody"):
        assert refusal(gateway, nobody)[0] == 404

    (forged,) = gateway.get("/api/quarantine")["items"]
    held = gateway.get(f"/api/exposures/{forged['id']}")
    assert (held["sentence"], held["picture"], held["blamed"]) == (held["meaning"], None, False)
    assert refusal(gateway, "/api/exposures/999999")[0] == 404


def test_the_layers_are_explained(shared_gateway: GatewayProcess) -> None:
    layers = shared_gateway.get("/api/layers")["items"]
    assert [layer["layer"] for layer in layers] == [layer.label for layer in LAYERS]
    listed = {row["verdict"]: row["sentence"] for layer in layers for row in layer["verdicts"]}
    assert listed == {verdict.label: verdict.sentence for verdict in Verdict if verdict.layer}


def test_a_plan_begins_with_the_profile_and_the_fleet(field: Field, shared_gateway: GatewayProcess) -> None:
    own = shared_gateway.get("/api/plan?profile=climate")
    (profile,) = shared_gateway.get("/api/profiles")["items"]
    assert own["task"] | {"found": [], "assumed": []} == own["task"]
    assert (own["task"]["devices"], own["task"]["questions"]) == (profile["devices"], 2)
    assert own["task"]["epsilon"] == pytest.approx(field.profile.epsilon, abs=1e-4)
    assert own["task"]["interval_s"] == pytest.approx(field.profile.interval_s)

    asked = shared_gateway.get("/api/plan?profile=climate&devices=200&every=3600&epsilon=1&accuracy=0.03")
    hour, day, week = asked["accuracy"]["half_width"].values()
    assert (hour / day, day / week) == (pytest.approx(24**0.5, rel=0.01), pytest.approx(7**0.5, rel=0.01))
    assert [row["half_width"] for row in asked["accuracy"]["until"]] == [0.1, 0.05, 0.03, 0.02, 0.01]
    assert asked["privacy"]["day"] == {"reports": 24, "epsilon": 24, "epsilon_at_delta": 24}
    assert asked["privacy"]["year"]["epsilon_at_delta"] < asked["privacy"]["year"]["epsilon"] == 8760
    assert asked["insider"] == {"liar_moves": 0.005, "insider_moves_at_first": 0.011, "ratio": {"cap": 2.2}}
    assert asked["advice"] == []

    found = shared_gateway.get("/api/plan?profile=climate&every=3600&epsilon=1&accuracy=0.03&within=604800")["task"]
    (row,) = [row for row in asked["accuracy"]["until"] if row["half_width"] == 0.03]
    assert (found["found"], found["devices"]) == (["devices"], ceil(row["reports"] / (7 * 24)))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/api/plan", "profile: must be given"),
        ("/api/plan?profile=weather", "profile: 'weather' is not in this fleet; the profiles are: climate"),
        ("/api/plan?profile=climate&devices=0", "devices: must be a whole number from 1 to"),
        ("/api/plan?profile=climate&every=often", "every: must be a number from 0.001 to 3.1536e+09, not 'often'"),
        ("/api/plan?profile=climate&epsilon=nan", "epsilon: must be a number from"),
        (
            "/api/plan?profile=climate&epsilon_per_day=1e9&every=900&accuracy=0.05",
            "this interval and budget give 1.04e+07",
        ),
        ("/api/plan?profile=climate&epsilon=1&epsilon_per_day=2&every=3", "Give two of them"),
        ("/api/plan?profile=climate&battery=9", "battery: unknown parameter"),
        ("/api/estimates?profile=weather", "profile: 'weather' is not in this fleet; the profiles are: climate"),
        ("/api/estimates?bucket=7", "bucket: must be a multiple of 300 s"),
        ("/api/estimates?bucket=-1", "bucket: must be a whole number"),
        ("/api/estimates?since=yesterday", "since: 'yesterday' is neither"),
        ("/api/estimates?since=nan", "since: 'nan' is neither"),
        ("/api/estimates?since=20&until=10", "since: must be before until"),
        ("/api/estimates?attribute=x", "attribute: unknown parameter"),
        ("/api/estimates?name=rain", "name: no attribute or category is called 'rain'"),
        ("/api/estimates?top=0", "top: must be a whole number from 1 to 65535"),
        ("/api/estimates?devices=1", "devices: must be one of yes, no, not '1'"),
        ("/api/exposures?limit=0", "limit: must be a whole number from 1 to 1000"),
        ("/api/exposures?limit=99999999999999999999999", "limit: must be"),
        ("/api/exposures?limit=%D9%A1", "limit: must be"),
        ("/api/exposures?verdict=guilty", "verdict: unknown verdict 'guilty'"),
        ("/api/exposures?verdict=seal", "verdict: seal is listed under quarantine"),
        ("/api/quarantine?verdict=rule", "verdict: rule is listed under exposures"),
        ("/api/exposures?device=xyz", "device: device 'xyz': must be a hexadecimal"),
        ("/api/exposures?limit=1&limit=2", "limit: given more than once"),
        (
            "/api/devices?state=odd",
            "state: must be one of revoked, exposed, exhausted, stopped, sensor failing, new, silent, active",
        ),
        ("/api/devices?after=0", "after: device '0'"),
    ],
)
def test_bad_parameters_are_named(shared_gateway: GatewayProcess, path: str, said: str) -> None:
    code, error = refusal(shared_gateway, path)
    assert code in (400, 422)
    assert said in error


def test_contradictions_are_told_from_malformed_parameters(shared_gateway: GatewayProcess) -> None:
    malformed = ("since=yesterday", "bucket=x", "nonsense=1", "top=0", f"name={'x' * 101}", "since=1&since=2")
    contradictions = ("since=20&until=10", "since=2026-02-30", "bucket=7", "profile=weather", "tags=yes&devices=no")
    for question, code in [*((each, 400) for each in malformed), *((each, 422) for each in contradictions)]:
        assert refusal(shared_gateway, f"/api/estimates?{question}")[0] == code, question


def test_unknown_paths_and_methods(shared_gateway: GatewayProcess) -> None:
    assert refusal(shared_gateway, "/api/secrets")[0] == 404
    for path, allowed in (("/api/summary", "GET, HEAD"), ("/login", "GET, HEAD, POST"), ("/logout", "POST")):
        request = urllib.request.Request(shared_gateway.url + path, method="PUT", data=b"{}")
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=10)
        assert (caught.value.code, caught.value.headers["allow"]) == (405, allowed)


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost", 200),
        ("127.0.0.1:80", 200),
        ("[::1]", 200),
        ("[::1]:8420", 200),
        ("evil.example", 421),
        ("localhost.evil.example:8420", 421),
        ("127.0.0.1.evil.example", 421),
        ("10.0.0.1", 421),
        ("", 421),
    ],
)
def test_a_foreign_host_name_is_refused(shared_gateway: GatewayProcess, host: str, code: int) -> None:
    """A page on evil.example that resolves its own name to 127.0.0.1 must not read the API."""
    request = urllib.request.Request(shared_gateway.url + "/api/profiles", headers={"Host": host})
    try:
        answered: int = urllib.request.urlopen(request, timeout=10).status
    except urllib.error.HTTPError as refused:
        answered = refused.code
    assert answered == code


def test_metrics(field: Field, gateway: GatewayProcess) -> None:
    text = gateway.fetch("/metrics")
    values = {name: float(value) for name, value in re.findall(r"^(\S+) (\S+)$", text, re.MULTILINE)}
    assert values['peel_reports_total{verdict="accepted"}'] == 200
    assert values['peel_reports_total{verdict="seal"}'] == 1
    assert values['peel_reports_total{verdict="rule"}'] == 1
    assert values["peel_messages_total"] == 202
    assert values["peel_batch_messages_sum"] == 202
    assert values["peel_ack_seconds_count"] == values["peel_batch_seconds_count"] > 0
    assert values["peel_broker_connected"] == 1
    assert values["peel_devices"] == 20
    assert values["peel_exposed_devices"] == 1
    assert values["peel_poisoning_ratio"] == pytest.approx(2 / 202)
    assert values["peel_lag_seconds"] == 0
    field.broker.stop()
    gateway.wait_for(lambda: "peel_broker_connected 0.0" in gateway.fetch("/metrics"))


def test_health_follows_the_broker(field: Field) -> None:
    gateway = field.new_gateway(health_broker_seconds=1).start()
    assert gateway.get("/healthz") == HEALTHY
    field.broker.stop()
    gateway.wait_for(lambda: gateway.summary()["health"])
    with pytest.raises(urllib.error.HTTPError) as caught:
        gateway.get("/healthz")
    assert caught.value.code == 503
    assert json.load(caught.value)["causes"][0].startswith("broker: failing for")
    field.broker.start()
    gateway.wait_for(lambda: not gateway.summary()["health"])


def test_health_follows_the_lag(field: Field) -> None:
    gateway = field.new_gateway(
        health_lag_seconds=1, batch_seconds=0, store_lock_seconds=0.1, health_store_seconds=3600
    ).start()
    with locked_store(gateway):
        field.publish(field.reports(10))
        gateway.wait_for(lambda: gateway.summary()["health"])
        with pytest.raises(urllib.error.HTTPError) as caught:
            gateway.get("/healthz")
        told = json.load(caught.value)
        assert told["lag_seconds"] > 1
        assert told["causes"][0].startswith("lag: the oldest message has waited for")
    gateway.wait_for(lambda: not gateway.summary()["health"])


def test_events_follow_the_batches(field: Field) -> None:
    gateway = field.new_gateway(http_streams=1).start()
    seen: list[int] = []
    opened = threading.Event()

    def listen() -> None:
        with urllib.request.urlopen(gateway.url + "/api/events", timeout=20) as stream:
            for line in stream:
                if line.startswith(b"data: "):
                    seen.append(json.loads(line[6:])["totals"]["accepted"])
                    opened.set()

    listener = threading.Thread(target=listen)
    listener.start()
    assert opened.wait(60)
    code, error = refusal(gateway, "/api/events")
    assert (code, "http.streams" in error) == (503, True)
    field.publish(field.reports(30))
    gateway.wait_for(lambda: 30 in seen)
    assert gateway.stop() == 0
    listener.join(60)
    assert not listener.is_alive()
    assert seen[0] == 0


def test_a_token_is_needed_once_it_is_set(field: Field, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    token_file.chmod(0o600)
    gateway = field.new_gateway(http_host="0.0.0.0", http_token_file=token_file, health_broker_seconds=0)
    gateway.start(until="started")
    gateway.wait_for(lambda: _answers(gateway))
    for path in ("/api/summary", "/api/events", "/metrics", "/api/nothing"):
        for wrong in (None, "", "0123456789abcdef-tokem", TOKEN + "x", TOKEN[:-1]):
            assert refusal(gateway, path, wrong)[0] == 401
    assert gateway.get("/api/summary", TOKEN)["fleet"] == "field"
    gateway.wait_for(lambda: gateway.get("/api/summary", TOKEN)["broker"]["connected"])
    assert gateway.get("/healthz") == {"status": "ok"}
    assert gateway.get("/healthz", TOKEN) == HEALTHY
    gateway.stop()
    assert TOKEN not in gateway.log_path.read_text()


def _answers(gateway: GatewayProcess) -> bool:
    try:
        gateway.fetch("/healthz")
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def test_a_short_token_is_refused(field: Field) -> None:
    gateway = field.new_gateway(http_token="short")
    gateway.start(until="started")
    assert gateway.wait_end() == 5


def test_http_can_be_off(field: Field) -> None:
    gateway = field.new_gateway(http_port=0)
    gateway.start(until="started")
    gateway.wait_for(lambda: gateway.connections() == 2)
    assert gateway.stop() == 0


@pytest.fixture(scope="module")
def shared_gateway(tmp_path_factory: pytest.TempPathFactory, start_field: MakeField) -> GatewayProcess:
    """One gateway for tests that only ask."""
    return start_field(tmp_path_factory.mktemp("shared")).new_gateway().start()
