"""The report of a study: one page that needs nothing else."""

from pathlib import Path

from pagelens.files import write_whole
from pagelens.report.drawing import Drawing, drawing
from pagelens.report.page import page_template
from pagelens.study import plots
from pagelens.study.effects import Effect, effects_of
from pagelens.study.indices import indices_of
from pagelens.study.result import TABLE, StudyResult
from pagelens.study.words import answer_in_words, sentences, shown_answer
from pagelens.units import format_share, format_time

PAGE = "study.html"
MOST_ROWS = 200  # of the table on the page; the file has all


def write_report(found: StudyResult, command: str) -> Path:
    """Write study.html beside the points, and return its path. Raises Failure."""
    page = render_page(found, command)
    path = found.directory / PAGE
    write_whole(path, lambda partial: partial.write_text(page))
    return path


def render_page(found: StudyResult, command: str) -> str:
    """Return the page's text; equal results give equal text."""
    decided = effects_of(found)
    template = page_template(
        "pagelens.study",
        "report.html.j2",
        {"seconds": format_time, "percent": format_share, "ratio": lambda value: f"{value:.2f}"},
    )
    return template.render(
        found=found,
        sentences=sentences(found, decided),
        drawings=draw(found, decided),
        effects=decided,
        indices=indices_of(found),
        answer=answer_in_words(found),
        shown=lambda value: shown_answer(found, value),
        rows=[_as_stated(found, row) for row in found.table.head(MOST_ROWS).iter_rows(named=True)],
        most_rows=MOST_ROWS,
        command=command,
    )


def _as_stated(found: StudyResult, row: dict[str, object]) -> dict[str, object]:
    stated = found.values[int(str(row["point"]))]
    return row | {"stated": [stated[name] for name in found.varied]}


def draw(found: StudyResult, decided: list[Effect]) -> list[Drawing]:
    """Draw the figures that the study has data for."""
    if not decided:
        return []
    drawings = [
        drawing(
            "tornado",
            "Which input decides the answer",
            f"Each bar goes from the least to the largest mean of the {answer_in_words(found)} over the "
            "values of one input, which stand at its ends. The line is the mean over all points. Modelled.",
            lambda: plots.tornado(found, decided),
        )
    ]
    names = [effect.name for effect in decided]
    if found.file.sample is not None:
        drawings.append(
            drawing(
                "inputs",
                "The answer over each input",
                f"Each dot is a point of the sample: the {answer_in_words(found)}. Modelled.",
                lambda: plots.scatters(found, names),
            )
        )
        return drawings
    if len(names) == 2:
        rows, columns = found.varied
        drawings.append(
            drawing(
                "heat-map",
                f"{rows} against {columns}",
                f"Each cell is a point: the {answer_in_words(found)}. Modelled.",
                lambda: plots.heat_map(found, rows, columns),
            )
        )
    across = _across(found, names)
    others = [name for name in found.varied if name != across]
    drawings.append(
        drawing(
            "times",
            f"Times over {across}",
            "Lines are medians over the nodes, modelled, and the bands are their 95% intervals."
            f"{_left_out(found, others)}",
            lambda: plots.small_multiples(found, across, others),
        )
    )
    return drawings


def _across(found: StudyResult, names: list[str]) -> str:
    """Return the input along the axis: if some are numbers, the one of them that decides most."""
    return next((name for name in names if found.table[name].dtype.is_numeric()), names[0])


def _left_out(found: StudyResult, others: list[str]) -> str:
    panels = found.table.select(others).n_unique() if others else 1
    if panels <= plots.MOST_PANELS:
        return ""
    return f" {plots.MOST_PANELS} of {panels} panels are shown; {TABLE} has all points."
