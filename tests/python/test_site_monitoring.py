"""What Prometheus and Grafana read: held to promtool, which is theirs."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from fleet_history import NOW, check, fleet

from pagelens.site.collect import collect
from pagelens.site.decision import Rule
from pagelens.site.history import open_history
from pagelens.site.monitoring import metrics_text, monitoring_file, write_metrics
from pagelens.site.status import fleet_status

UNPACKED = Path(__file__).parents[2] / "build" / "debian" / "usr" / "bin" / "promtool"
PROMTOOL = str(UNPACKED) if UNPACKED.exists() else shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="needs promtool (scripts/setup unpack prometheus)"
)


@pytest.fixture(scope="module")
def status(tmp_path_factory):
    with open_history(tmp_path_factory.mktemp("site") / "h", write=True) as history:
        collect(history, [*fleet(40, 20, bad=0.2), check(mode='odd "mode"\\')], Rule(), NOW)
        return fleet_status(history, Rule(), now=NOW)


def promtool(*words: str, text: str = "") -> None:
    done = subprocess.run([PROMTOOL, *words], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_metrics_are_as_prometheus_wants_them(status):
    promtool("check", "metrics", text=metrics_text(status))


def test_metrics_say_what_the_status_says(status, tmp_path):
    write_metrics(status, tmp_path / "pagelens.prom")
    text = (tmp_path / "pagelens.prom").read_text()
    assert list(tmp_path.iterdir()) == [tmp_path / "pagelens.prom"]
    assert f'pagelens_nodes{{state="slow"}} {status.counts["slow"]}\n' in text
    slow = {each.node for each in status.nodes if each.state == "slow"}
    assert slow
    assert set(re.findall(r'pagelens_node_slow\{node="([^"]+)",[^}]*\} 1\n', text)) == slow


RULES_TEST = """
rule_files: [alerts.yml]
evaluation_interval: 5m
tests:
  - interval: 1m
    input_series:
      - {series: 'pagelens_nodes{state="slow"}', values: '1+0x2000'}
      - {series: 'pagelens_nodes{state="ok"}', values: '9+0x2000'}
      - {series: 'pagelens_nodes{state="unknown"}', values: '0+0x2000'}
      - {series: 'pagelens_node_slow{node="n1",mode="cache"}', values: '1+0x2000'}
      - {series: 'pagelens_node_slow{node="n2",mode="cache"}', values: '1+0x600 0+0x1400'}
      - {series: 'pagelens_node_check_timestamp_seconds{node="n1"}', values: '0+60x1000 60000+0x1000'}
      - {series: 'pagelens_history_read_timestamp_seconds', values: '0+60x1500 90000+0x500'}
    alert_rule_test: ALERTS
"""
ALERTS = (  # hours, alert, labels of those that fire
    (0.5, "PagelensNodesSlow", None),
    (2, "PagelensNodesSlow", {"severity": "info", "state": "slow"}),
    (2, "PagelensManyNodesSlow", {"severity": "warning", "state": "slow"}),
    (20, "PagelensNodeStaysSlow", None),
    (26, "PagelensNodeStaysSlow", {"severity": "warning", "node": "n1", "mode": "cache"}),
    (20, "PagelensChecksMissing", None),
    (26, "PagelensChecksMissing", {"severity": "warning"}),
    (25, "PagelensHistoryNotRead", None),
    (27, "PagelensHistoryNotRead", {"severity": "warning"}),
)


@needs_promtool
def test_alerts_fire_when_they_should_and_not_before(tmp_path):
    # Annotations are promtool's business; they are left out, so that their words may change.
    rules = re.sub(r"        annotations:\n(?:          .*\n)+", "", monitoring_file("alerts.yml"))
    (tmp_path / "alerts.yml").write_text(rules)
    wanted = [
        {
            "eval_time": f"{int(60 * hours)}m",
            "alertname": alert,
            "exp_alerts": [] if labels is None else [{"exp_labels": labels}],
        }
        for hours, alert, labels in ALERTS
    ]
    (tmp_path / "test.yml").write_text(RULES_TEST.replace("ALERTS", json.dumps(wanted)))
    (tmp_path / "whole.yml").write_text(monitoring_file("alerts.yml"))
    promtool("check", "rules", str(tmp_path / "whole.yml"))
    promtool("test", "rules", str(tmp_path / "test.yml"))


@needs_promtool
def test_the_dashboards_queries_are_right_and_of_metrics_that_there_are(status, tmp_path):
    dashboard = json.loads(monitoring_file("dashboard.json"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    plain = [query.replace("$mode", ".*") for query in queries]
    rules = [{"record": f"q{number}", "expr": query} for number, query in enumerate(plain)]
    (tmp_path / "queries.yml").write_text(json.dumps({"groups": [{"name": "q", "rules": rules}]}))
    promtool("check", "rules", str(tmp_path / "queries.yml"))
    known = set(re.findall(r"^# TYPE (\S+)", metrics_text(status), re.M))
    named = {name for query in queries for name in re.findall(r"pagelens_\w+", query)}
    assert named
    assert named <= known
