"""Runs studies one after the other, and writes the page, the data and the figures after each of them."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from pagelens import _core
from pagelens.errors import Interrupted
from pagelens.files import write_whole
from pagelens.interrupts import ctrl_c_sets
from pagelens.report.drawing import Drawing
from pagelens.reproduce.context import Progress, Scale, StudyContext
from pagelens.reproduce.result import Reproduction
from pagelens.reproduce.study import Study

PAGE, DATA, FIGURES = "reproduce.html", "reproduce.json", "figures"

Begin = Callable[[str], Progress]  # from a study's name to the reporter of its parts


def run_studies(
    studies: Sequence[Study], scale: Scale, seed: int, directory: Path, begin: Begin, command: str
) -> Reproduction:
    """Run the studies, and write into `directory` after each.

    Raises Interrupted on Ctrl-C; the studies that are complete are then kept.
    """
    found = Reproduction(scale, seed, command, missing=tuple(study.name for study in studies))
    cancel = _core.CancelFlag()
    with ctrl_c_sets(cancel):
        for study in studies:
            context = StudyContext(scale, seed, directory / study.name, begin(study.name), cancel)
            try:
                findings = study.run(context)
            except (Interrupted, _core.Cancelled):
                raise _interrupted(found, directory) from None
            found = found.with_findings(study, findings)
            _write(found, directory)
            if cancel and found.missing:
                raise _interrupted(found, directory)
    return found


def _interrupted(found: Reproduction, directory: Path) -> Interrupted:
    done, wanted = len(found.studies), len(found.studies) + len(found.missing)
    kept = f"; their page is {directory / PAGE}" if done else ""
    return Interrupted(f"stopped with {done} of {wanted} studies complete{kept}")


def _write(found: Reproduction, directory: Path) -> None:
    """Write the page and the data of all studies, and the figures of the last one."""
    # Importing these takes a moment.
    from pagelens.reproduce.overview import KEY, overview
    from pagelens.reproduce.page import render_page

    data = json.dumps(found.to_json(), indent=1) + "\n"
    write_whole(directory / DATA, lambda path: path.write_text(data))
    page = render_page(found)
    write_whole(directory / PAGE, lambda path: path.write_text(page))
    figures = directory / FIGURES
    figures.mkdir(exist_ok=True)
    _write_figure(figures / f"{KEY}.svg", overview(found.rows))
    for figure in found.studies[-1][1].figures:
        _write_figure(figures / f"{figure.key}.svg", figure)


def _write_figure(final: Path, figure: Drawing) -> None:
    write_whole(final, lambda path: path.write_text(figure.svg))
