"""The files of an explanation: the report, the data, and the tables it was made from."""

import os
from collections.abc import Callable
from pathlib import Path

from pagelens.ensemble.result import TABLES, Ensemble
from pagelens.errors import Failure
from pagelens.explain.model import Explanation


def make_directory(path: Path) -> Path:
    """Creates the output directory; Failure if that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(
            f"--output: cannot create {path} ({error.strerror}); name a writable directory"
        ) from error
    return path


def write_outputs(explanation: Explanation, ensemble: Ensemble, directory: Path) -> Path:
    """Writes report.html, explanation.json and a Parquet file a table; returns the report's path.

    Each file is whole or as it was before. Raises Failure where they cannot be written.
    """
    from pagelens.explain.html import render_html  # takes a second: only who needs the report waits for it

    for name in TABLES:
        _write(directory / f"{name}.parquet", ensemble.tables[name].write_parquet)
    data = explanation.model_dump_json(indent=1)
    _write(directory / "explanation.json", lambda path: path.write_text(data + "\n"))
    report = directory / "report.html"
    html = render_html(explanation)
    _write(report, lambda path: path.write_text(html))
    return report


def _write(final: Path, write: Callable[[Path], object]) -> None:
    partial = final.with_name(f"{final.name}.partial")
    try:
        write(partial)
        os.replace(partial, final)
    except OSError as error:
        partial.unlink(missing_ok=True)
        reason = error.strerror or error
        raise Failure(
            f"--output: cannot write {final} ({reason}); free some space or name another"
        ) from error
