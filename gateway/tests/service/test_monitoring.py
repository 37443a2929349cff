# SPDX-License-Identifier: MIT
"""Metrics, alerts and dashboard: checked by promtool, and compared with a running gateway."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from field import Field
from prometheus_client.parser import text_string_to_metric_families

from peel_tools.boards.build_tools import MissingToolError

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCS = Path(__file__).parents[3] / "docs"
RULES = DEPLOY / "prometheus-rules.yml"
DASHBOARD = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))

ALERT = 'name = "warm"\nprofile = "climate"\nfigure = "temperature"\nabove = 0\nwindow = "1h"'


def promtool(*arguments: str, text: str = "") -> str:
    """Run promtool and return its output; a complaint fails the test."""
    if shutil.which("promtool") is None:
        raise MissingToolError("promtool is not installed; on Debian: apt-get install prometheus")
    done = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def queries(node: Any) -> set[str]:
    """Every expression of the dashboard, its variables filled in as Grafana would."""
    if isinstance(node, list):
        return set().union(*map(queries, node)) if node else set()
    if not isinstance(node, dict):
        return set()
    own = {node["expr"]} if "expr" in node else set()
    return own | queries(list(node.values()))


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory, start_field: Any) -> str:
    """The metrics of a gateway that has accepted reports, exposed a device and published estimates."""
    field: Field = start_field(tmp_path_factory.mktemp("monitoring"))
    field.fleet.tag([1, 2], add=['roof "2"'])
    field.write_alerts(ALERT)
    gateway = field.new_gateway(publish_seconds=0.3).start()
    field.publish(field.reports(300))
    field.publish(field.reports(1, devices=[20], odds=(5, 1)))
    high = 'peel_estimate_high{name="temperature",profile="climate",tag='
    gateway.wait_for(lambda: f'{high}""' in gateway.fetch("/metrics"))
    gateway.wait_for(lambda: f'{high}"roof \\"2\\""' in gateway.fetch("/metrics"))
    gateway.wait_for(lambda: 'peel_alert_active{alert="warm"}' in gateway.fetch("/metrics"))
    gateway.wait_for(lambda: "peel_exposed_devices 1.0" in gateway.fetch("/metrics"))
    return gateway.fetch("/metrics")


def test_prometheus_has_nothing_to_complain_of(metrics: str) -> None:
    assert promtool("check", "metrics", text=metrics) == ""


def test_the_alerts_are_valid_and_fire_when_they_should() -> None:
    promtool("check", "rules", str(RULES))
    promtool("test", "rules", str(DEPLOY / "prometheus-rules.test.yml"))


def test_the_rules_of_alerts_on_estimates_are_valid_and_fire(tmp_path: Path) -> None:
    other = ALERT.replace("warm", "odd").replace('"temperature"', """'its {{ $value }} "x"'""")
    (tmp_path / "gateway.toml").write_text(f"[[alert]]\n{ALERT}\n[[alert]]\n{other}\n", encoding="utf-8")
    made = subprocess.run(
        [sys.executable, "-m", "peel_tools", "gateway", "alert-rules"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    rules = tmp_path / "alerts.yml"
    rules.write_text(made.stdout, encoding="utf-8")
    assert "4 rules found" in promtool("check", "rules", str(rules))
    summaries = {
        "warm": "temperature of climate is above 0 (1h)",
        "odd": 'its {{ $value }} "x" of climate is above 0 (1h)',
    }
    series = [
        {"series": f'peel_alert_active{{alert="{name}", instance="a", job="peel"}}', "values": "0 0 1 1 _ _ _ _"}
        for name in summaries
    ]
    fired = [
        {
            "eval_time": "3m",
            "alertname": name,
            "exp_alerts": [
                {
                    "exp_labels": {"severity": "warning", "alert": name, "job": "peel"},
                    "exp_annotations": {"summary": text},
                }
            ],
        }
        for name, text in summaries.items()
    ]
    quiet = [{"eval_time": "1m", "alertname": name, "exp_alerts": []} for name in summaries]
    test = tmp_path / "test.yml"
    test.write_text(
        json.dumps(
            {
                "rule_files": ["alerts.yml"],
                "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": fired + quiet}],
            }
        )
    )  # JSON is YAML
    promtool("test", "rules", str(test))


def test_the_sample_of_the_documents_is_a_configuration(tmp_path: Path) -> None:
    documents = "\n".join(path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md")))
    (sample,) = [text for text in re.findall(r"```yaml\n(.*?)```", documents, flags=re.S) if "scrape_configs" in text]
    token = tmp_path / "http.token"
    token.write_text("a token of some length")
    shutil.copy(RULES, tmp_path)
    config = tmp_path / "prometheus.yml"
    config.write_text(sample.replace("/etc/peel/http.token", str(token)))
    said = promtool("check", "config", str(config))
    assert "1 rule files found" in said and str(token) in config.read_text()
    (job,) = re.findall(r"job_name: (\w+)", sample)
    (watched,) = re.findall(r'up\{job=~"([^"]+)"\}', RULES.read_text(encoding="utf-8"))
    assert re.fullmatch(watched, job), "the alert for a gateway that is down watches this job"


def test_the_dashboard_asks_what_prometheus_understands(tmp_path: Path) -> None:
    asked = queries(DASHBOARD)
    assert len(asked) > 10
    rules = tmp_path / "rules.yml"
    records = [{"record": f"dashboard:{place}", "expr": query} for place, query in enumerate(sorted(asked))]
    rules.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": records}]}))  # JSON is YAML
    promtool("check", "rules", str(rules))
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(cells)) == len(cells)


def test_alerts_and_dashboard_name_metrics_that_there_are(metrics: str) -> None:
    families = {family.name: family for family in text_string_to_metric_families(metrics)}
    known = {sample.name for family in families.values() for sample in family.samples}
    labels = {label for family in families.values() for sample in family.samples for label in sample.labels}
    mentioned = RULES.read_text(encoding="utf-8") + json.dumps(DASHBOARD)
    asked = set(re.findall(r"\bpeel_[a-z_]+", mentioned))
    assert asked <= known, asked - known
    added_by_prometheus = {"instance", "job"}
    used = set(re.findall(r"by \(([a-z, ]+)\)", mentioned))
    assert {name.strip() for names in used for name in names.split(",")} <= labels | added_by_prometheus
    for name, value in re.findall(r"\b(state|verdict|cause|result)=\\?\"([\w ]+)", mentioned):
        assert f'{name}="{value}"' in metrics
