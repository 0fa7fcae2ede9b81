"""Writes the files of an explanation: the report, the data, and the tables it was made from."""

from pathlib import Path

from pagelens.ensemble.result import TABLES, Ensemble
from pagelens.explain.model import Explanation
from pagelens.files import write_table, write_whole


def write_outputs(explanation: Explanation, ensemble: Ensemble, directory: Path) -> Path:
    """Write report.html, explanation.json and a Parquet file for each table. Return the report's path.

    Each file is whole or as it was before. Raises Failure where they cannot be written.
    """
    from pagelens.explain.html import render_html  # takes a second: only who needs the report waits for it

    for name in TABLES:
        write_table(directory / f"{name}.parquet", ensemble.tables[name])
    data = explanation.model_dump_json(indent=1)
    write_whole(directory / "explanation.json", lambda path: path.write_text(data + "\n"))
    report = directory / "report.html"
    html = render_html(explanation)
    write_whole(report, lambda path: path.write_text(html))
    return report
