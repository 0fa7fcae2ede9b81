"""The fleet's figures in Prometheus' text format, for the textfile collector of node_exporter.

The names follow Prometheus' naming practice: base units in the name, no time stamps of the client's, and
shares from 0 to 1. Other text than names, states and modes is left out, so the number of series is bounded by
the number of nodes.
"""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from pagelens.files import write_whole
from pagelens.site.decision import State
from pagelens.site.status import FleetStatus


def monitoring_file(name: str) -> str:
    """Return the alert rules, alerts.yml, or Grafana's dashboard, dashboard.json."""
    return files("pagelens.site.monitoring").joinpath(name).read_text()


def write_metrics(fleet: FleetStatus, final: Path) -> None:
    """Write the file aside and renames it, so that the collector never reads half of it. Raises Failure."""
    write_whole(final, lambda path: path.write_text(metrics_text(fleet)))


def metrics_text(fleet: FleetStatus) -> str:
    """Return all series. Those of a node are labelled with its name and memory mode."""
    return "".join(f"{line}\n" for line in _lines(fleet))


def _lines(fleet: FleetStatus) -> Iterator[str]:
    yield from _head("pagelens_nodes", "Nodes of the site by state.")
    for state, count in fleet.counts.items():
        yield f'pagelens_nodes{{state="{state}"}} {count}'
    yield from _head(
        "pagelens_slow_nodes_cost_ratio",
        "Nodes' worth of work that slow nodes lose where jobs wait for memory alone (modelled).",
    )
    yield f"pagelens_slow_nodes_cost_ratio {_number(fleet.node_hours_a_day / 24)}"
    yield from _head("pagelens_history_read_timestamp_seconds", "When the history was read.")
    yield f"pagelens_history_read_timestamp_seconds {_number(fleet.at)}"
    nodes = sorted(fleet.nodes, key=lambda each: each.node)
    labels = [_labels(each.node, each.mode) for each in nodes]
    slow = [each.state is State.slow for each in nodes]
    unknown = [each.state is State.unknown for each in nodes]
    rate = "bandwidth_bytes_per_second"
    series = (
        ("slow", "Whether a node is slow.", slow),
        ("unknown", "Whether a node cannot be judged.", unknown),
        (rate, "STREAM triad of the last check.", [each.figure for each in nodes]),
        (f"peers_{rate}", "Median of the node's kind.", [each.peers for each in nodes]),
        ("evidence", "Sum of the evidence that a node is slow.", [each.evidence for each in nodes]),
        ("check_timestamp_seconds", "When a node was checked last.", [each.at for each in nodes]),
        ("boot_timestamp_seconds", "When a node booted.", [each.booted for each in nodes]),
    )
    for part, text, values in series:
        name = f"pagelens_node_{part}"
        yield from _head(name, text)
        for label, value in zip(labels, values, strict=True):
            if value is not None:
                yield f"{name}{label} {_number(float(value))}"


def _head(name: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} gauge"


def _labels(node: str, mode: str) -> str:
    escaped = mode.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{{node="{node}",mode="{escaped}"}}'


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) else repr(value)
