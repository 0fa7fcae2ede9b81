"""Tells what a program's own files cost its memory, on the same nodes with and without buffered transfers."""

from collections.abc import Iterator

import polars as pl

from pagelens.ensemble import Ensemble
from pagelens.units import format_share, format_size

_SHARES = {"conflict_share": "Conflict share of its pages", "missing": "Large pages it lacks"}
NOTHING = 0.005  # of the time: less than this is no difference


def own_files_in_words(with_files: Ensemble, without: Ensemble, buffered_bytes: int) -> Iterator[str]:
    """Yield one or two sentences.

    Both ensembles have the same nodes. `without` is what direct I/O would leave.
    """
    first, second = (_baseline(each) for each in (with_files, without))
    both = first.join(second, on="node", suffix="_without")
    if not both.height:
        return
    ratio = float(both.select((pl.col("time_s") / pl.col("time_s_without")).median()).item())
    yield (
        f"Its own files fill {format_size(buffered_bytes)} of the page cache before its memory is allocated "
        f"(modelled, {both.height} nodes)."
    )
    if abs(ratio - 1) < NOTHING:
        yield "That does not change its speed; direct I/O would give nothing back."
    else:
        yield (
            f"That makes it {abs(ratio - 1):.1%} {'slower' if ratio > 1 else 'faster'} in the median than "
            "with direct I/O."
        )
    for name, words in (
        ("conflict_share", "Conflict share of its pages"),
        ("missing", "Large pages it lacks"),
    ):
        before, after = (float(both[column].median() or 0) for column in (name, f"{name}_without"))  # type: ignore[arg-type]
        if abs(before - after) > 0.001:
            yield f"{words}: {format_share(before)}, and {format_share(after)} with direct I/O."


def _baseline(ensemble: Ensemble) -> pl.DataFrame:
    """Return the baseline's values by node."""
    of = ensemble.tables.placements.filter(pl.col("policy") == ensemble.baseline)
    wanted = (pl.col("large_pages") + pl.col("large_pages_missing")).max()
    lacking = pl.when(wanted > 0).then(pl.col("large_pages_missing").max() / wanted).otherwise(0.0)
    return of.group_by("node").agg(pl.col("time_s").sum(), pl.col("conflict_share").max(), missing=lacking)
