"""Compares two traces by what they counted, in total and by object. No machine and no placement matters."""

from collections.abc import Iterator
from typing import Literal

from pagelens.accesses.trace import TraceWorkload
from pagelens.diff.model import Difference, Row, Setting, Table
from pagelens.diff.rows import counted_row, object_rows
from pagelens.units import format_share


def diff_traces(a: TraceWorkload, b: TraceWorkload, names: tuple[str, str], threshold: float) -> Difference:
    """Compare trace B with trace A."""
    whole = Table(
        name="whole",
        title="The whole trace",
        unit="count",
        counted=True,
        rows=list(_whole(a, b, threshold)),
    )
    objects = [
        _objects(a, b, "objects", "Lines fetched by object", "lines"),
        _objects(a, b, "stored", "Lines stored by object", "stored"),
        _objects(a, b, "sizes", "Peak bytes of objects", "bytes"),
    ]
    return Difference(
        kind="traces",
        a=names[0],
        b=names[1],
        sentences=list(_sentences(whole)),
        threshold=threshold,
        settings=list(_settings(a, b)),
        tables=[table for table in (whole, *objects) if table.rows],
    )


def _whole(a: TraceWorkload, b: TraceWorkload, threshold: float) -> Iterator[Row]:
    """Yield the totals. Only those that slow a program down on every machine get a verdict."""
    yield counted_row("instructions", sum(a.survey.instructions), sum(b.survey.instructions), threshold, True)
    summaries = [of.trace.summary for of in (a, b)]
    accesses = [float(summary.accesses) if summary is not None else None for summary in summaries]
    yield counted_row("accesses", accesses[0], accesses[1])
    yield counted_row("lines fetched", a.survey.lines_fetched, b.survey.lines_fetched, threshold, True)
    yield counted_row("lines stored", a.survey.lines_stored, b.survey.lines_stored, threshold, True)
    yield counted_row("bytes resident at most", a.footprint_bytes, b.footprint_bytes)
    yield counted_row("bytes of files read", a.shared_bytes, b.shared_bytes)


def _objects(
    a: TraceWorkload, b: TraceWorkload, name: str, title: str, column: Literal["lines", "stored", "bytes"]
) -> Table:
    of_a, of_b = ({found.name: float(getattr(found, column)) for found in of.objects} for of in (a, b))
    unit: Literal["lines", "bytes"] = "bytes" if column == "bytes" else "lines"
    return Table(name=name, title=title, unit=unit, counted=True, rows=object_rows(of_a, of_b))


def _sentences(whole: Table) -> Iterator[str]:
    worse = [_in_words(row) for row in whole.rows if row.worse]
    better = [_in_words(row) for row in whole.rows if row.better]
    if worse:
        yield f"B does more than A: {', '.join(worse)}."
    if better:
        yield f"B does less than A: {', '.join(better)}."
    if not (worse or better):
        exactly = all(row.verdict == "same" for row in whole.rows)
        yield "B does exactly as much as A." if exactly else "B does as much as A, within the threshold."


def _in_words(row: Row) -> str:
    return f"{row.name} {row.ratio:.2f}x" if row.ratio else row.name


def _settings(a: TraceWorkload, b: TraceWorkload) -> Iterator[Setting]:
    for name, x, y in (
        ("program", a.name, b.name),
        ("arguments", " ".join(a.trace.arguments), " ".join(b.trace.arguments)),
        ("threads", a.threads, b.threads),
        ("share traced", _share(a.share_seen), _share(b.share_seen)),
        ("phases", ", ".join(a.phases), ", ".join(b.phases)),
        ("traced by", a.trace.producer, b.trace.producer),
    ):
        if x != y:
            yield Setting(name=name, a=str(x), b=str(y))


def _share(share: float | None) -> str:
    return "not known" if share is None else format_share(share)
