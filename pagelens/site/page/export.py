"""`pagelens site export`: writes the page to a folder that any web server, or a browser alone, can show."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from pagelens.files import write_whole
from pagelens.site.decision import Rule
from pagelens.site.page.data import fleet_data, node_data, script
from pagelens.site.page.server import FILES, page_file
from pagelens.site.status import node_status


def export_page(
    connection: sqlite3.Connection,
    rule: Rule,
    title: str,
    folder: Path,
    progress: Callable[[int, int], None] = lambda done, total: None,
    now: float | None = None,
) -> int:
    """Write the page's files, the fleet, and a file for each node. Return the number of nodes."""
    fleet, data = fleet_data(connection, rule, title, now)
    nodes = folder / "node"
    nodes.mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(fleet.nodes):
        one = node_status(connection, rule, each.node, now, each)
        _write(nodes / f"{each.node}.js", script("node", node_data(one)))
        progress(number + 1, len(fleet.nodes))
    for name in FILES:
        _write(folder / name, page_file(name).decode())
    _write(folder / "fleet.js", script("fleet", data))
    return len(fleet.nodes)


def _write(final: Path, text: str) -> None:
    write_whole(final, lambda path: path.write_text(text, encoding="utf-8"))
