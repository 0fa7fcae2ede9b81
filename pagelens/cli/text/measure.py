"""Prints a measurement in at most 80 columns."""

import textwrap
from collections.abc import Iterator, Sequence

import numpy as np

from pagelens.measure import FEWEST_CORRELATED, SIGNIFICANT, Measured, Prediction, Result
from pagelens.report import terminal_width
from pagelens.statistics import CONSTANT
from pagelens.units import format_share

_BLOCKS = "▁▂▃▄▅▆▇█"
_BINS = 11
_MOST_ROWS = 24  # a page size; sweeps with more are drawn as a line
_LABEL = 19
_FEW, _EQUAL = "few trials", "none predicted"


def render(measured: Measured, notes: Sequence[str]) -> str:
    """Return the measurement as plain text. `notes` concern the machine and the run as a whole."""
    sections = [_head(measured), *_tables(measured), _remarks(measured, notes)]
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines) + "\n"


def _head(m: Measured) -> Iterator[str]:
    count = max(len(m.of_page(page)) for page in m.pages)
    trials = "1 trial" if count == 1 else f"{count} trials, each on a page map of its own"
    better = "more is better" if m.plan.rate else "less is better"
    yield from _wrapped(f"{m.plan.title}; {trials}. {m.plan.unit} ({better}): {m.plan.counted}.")


def _tables(m: Measured) -> Iterator[Iterator[str]]:
    for page in m.pages:
        rows = [result for result in m.results if result.page is page]
        few = len(rows) <= _MOST_ROWS or not m.plan.along
        yield _table(page.title, rows) if few else _sweep(page.title, rows, m.plan.along)


def _table(title: str, rows: Sequence[Result]) -> Iterator[str]:
    yield (
        f"{title:<{_LABEL}} {'median':>8} {'95% interval':>15} {'p5':>7} {'p95':>7} {'map':>5}  "
        f"{'distribution':<{_BINS}}"
    )
    for r in rows:
        s = r.summary.spread
        interval = f"{_figure(s.median_low)}-{_figure(s.median_high)}"
        yield (
            f"{_label(r):<{_LABEL}} {_figure(s.median):>8} {interval:>15} {_figure(s.p5):>7} "
            f"{_figure(s.p95):>7} {_map_share(r):>5}  {_histogram(r.values)}"
            + (f" {r.summary.modes} modes" if r.summary.modes > 1 else "")
        ).rstrip()


def _sweep(title: str, rows: Sequence[Result], along: str) -> Iterator[str]:
    """Yield a line for each series, with the medians over the label that is swept."""
    yield f"{title}: medians over the sweep"
    series: dict[str, list[Result]] = {}
    for r in rows:
        name = ", ".join(str(value) for key, value in r.point.labels.items() if key != along)
        series.setdefault(name or along, []).append(r)
    for name, of_series in series.items():
        medians = np.array([r.summary.spread.median for r in of_series])
        low, high = (of_series[int(index)] for index in (medians.argmin(), medians.argmax()))
        yield f"  {name:<8} {_line(medians, terminal_width() - 12)}"
        yield (
            f"           {_figure(medians.min())} at {along} {low.point.labels[along]} to "
            f"{_figure(medians.max())} at {along} {high.point.labels[along]}"
        )


def _remarks(m: Measured, notes: Sequence[str]) -> Iterator[str]:
    yield from _wrapped(
        "map: share of the variance that goes with the page map: how much better a map's two visits agree "
        f"than those of different maps; * where chance makes as much in less than {SIGNIFICANT:.0%} of cases."
    )
    visits = [visit for trial in m.trials for visit in trial.visits]
    disturbed = sum(visit.attempts > 1 or visit.load.disturbed for visit in visits)
    stayed = sum(visit.load.disturbed for visit in visits)
    if disturbed:
        yield from _wrapped(
            f"Others' work on the machine disturbed {disturbed} of {len(visits)} visits. When repeated, "
            f"{disturbed - stayed} of them were undisturbed; of the other {stayed}, the try that was least "
            "disturbed counts."
        )
    new = {page: [t.new_share for t in m.of_page(page) if t.new_share is not None] for page in m.pages}
    shares = [f"{format_share(float(np.mean(of)))} ({page.name})" for page, of in new.items() if of]
    if shares:
        yield from _wrapped(f"Frames that neither of the two trials before had: {', '.join(shares)}.")
    large = [t.large_share for t in m.trials if t.page.name == "thp" and t.large_share is not None]
    if large:
        share = format_share(float(np.mean(large)))
        yield f"{share} of what was to be in transparent large pages was."
    for r in m.results:
        for outlier in r.outliers[:3]:
            why = outlier.cause or "nothing else noted was unusual"
            yield from _wrapped(
                f"Outlier: {_label(r)} on {r.page.name} pages, trial {outlier.trial}: "
                f"{_figure(outlier.value)} ({why})."
            )
    yield from _predictions(m)
    for note in notes:
        yield from _wrapped(note)


def _predictions(m: Measured) -> Iterator[str]:
    shown = [(r, r.prediction) for r in m.results if r.prediction is not None]
    if not shown or m.machine is None:
        return
    yield ""
    yield from _wrapped(f"Predicted (modelled, {m.machine.title}) beside measured, trial by trial:")
    yield f"{'':<{_LABEL}} {'predicted':>9} {'p5-p95':>15} {'measured':>9} {'r':>6} {'of ranks':>8}"
    for r, p in shown[:_MOST_ROWS]:
        low, median, high = np.quantile(p.values, [0.05, 0.5, 0.95])
        together = _together(r, p)
        yield (
            f"{_label(r):<{_LABEL}} {_figure(median):>9} {f'{_figure(low)}-{_figure(high)}':>15} "
            f"{_figure(r.summary.spread.median):>9} {together:>15}"
        )
    if any(_together(r, p) == _EQUAL for r, p in shown):
        yield f"{_EQUAL}: the model sees no difference between these maps."
    if any(_together(r, p) == _FEW for r, p in shown):
        yield f"{_FEW}: {FEWEST_CORRELATED} make a correlation."


def _together(r: Result, p: Prediction) -> str:
    if len(r.values) < FEWEST_CORRELATED:
        return _FEW
    if p.pearson is None or p.spearman is None:
        return _EQUAL if np.ptp(p.values) <= CONSTANT * max(p.values) else "all alike"
    return f"{p.pearson:>6.2f} {p.spearman:>8.2f}"


def _label(r: Result) -> str:
    text = " ".join(str(value) for value in r.point.labels.values())
    return text if len(text) <= _LABEL else text[: _LABEL - 1] + "…"


def _map_share(r: Result) -> str:
    share = r.summary.map_share
    return "" if share is None else f"{100 * share.share:.0f}%" + ("*" if share.significant else " ")


def _histogram(values: Sequence[float]) -> str:
    counts, _ = np.histogram(values, bins=_BINS)
    most = counts.max()
    return "".join(" " if not c else _BLOCKS[round((c / most) * 7)] for c in counts.tolist())


def _line(values: np.ndarray[tuple[int], np.dtype[np.float64]], width: int) -> str:
    """Return a line of heights from the least to the largest value.

    Neighbours are averaged if there are more values than columns.
    """
    if values.size > width:
        values = np.array([part.mean() for part in np.array_split(values, width)])
    low, high = values.min(), values.max()
    span = high - low or 1.0
    return "".join(_BLOCKS[round((v - low) / span * 7)] for v in values.tolist())


def _figure(value: float) -> str:
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 1 else 4
    return f"{value:.{digits}f}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, terminal_width())
