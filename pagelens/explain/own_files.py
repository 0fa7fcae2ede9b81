"""Tells what a program's own files cost its memory, and what other ways of reading and writing give back.

The same nodes are simulated with these files in the page cache, without them as direct I/O leaves it, and
with them dropped before the program's memory is allocated.
"""

from collections.abc import Iterator

import polars as pl

from pagelens.ensemble import Ensemble
from pagelens.units import format_share, format_size

_SHARES = {
    "conflict_share": "Conflict share of its pages",
    "missing": "Large pages it lacks",
    "remote": "Share of its memory accesses that go to another NUMA node",
}
NOTHING = 0.005  # of the time: less than this is no difference
_NO_SHARE = 0.001


def own_files_in_words(
    with_files: Ensemble, direct: Ensemble, dropped: Ensemble | None, buffered_bytes: int
) -> Iterator[str]:
    """Yield some sentences.

    All ensembles have the same nodes. `direct` is what direct I/O would leave, and `dropped` has the files
    dropped (fadvise, or /proc/sys/vm/drop_caches); None: that is not known.
    """
    first = _baseline(with_files)
    others = {"direct I/O": first.join(_baseline(direct), on="node", suffix="_other")}
    if dropped is not None:
        others["the files dropped before"] = first.join(_baseline(dropped), on="node", suffix="_other")
    both = others["direct I/O"]
    if not both.height:
        return
    yield (
        f"Its own files fill {format_size(buffered_bytes)} of the page cache before its memory is allocated "
        f"(modelled, {both.height} nodes)."
    )
    for way, of in others.items():
        ratio = float(of.select((pl.col("time_s") / pl.col("time_s_other")).median()).item())
        if abs(ratio - 1) < NOTHING:
            yield f"With {way}, it would be no faster and no slower."
        else:
            yield (
                f"That makes it {abs(ratio - 1):.1%} {'slower' if ratio > 1 else 'faster'} in the median "
                f"than with {way}."
            )
    for name, words in _SHARES.items():
        before = float(both[name].median() or 0)  # type: ignore[arg-type]
        after = {way: float(of[f"{name}_other"].median() or 0) for way, of in others.items()}  # type: ignore[arg-type]
        if any(abs(before - each) > _NO_SHARE for each in after.values()):
            told = ", and ".join(f"{format_share(each)} with {way}" for way, each in after.items())
            yield f"{words}: {format_share(before)}, {told}."


def _baseline(ensemble: Ensemble) -> pl.DataFrame:
    """Return the baseline's values by node."""
    of = ensemble.tables.placements.filter(pl.col("policy") == ensemble.baseline)
    wanted = (pl.col("large_pages") + pl.col("large_pages_missing")).max()
    lacking = pl.when(wanted > 0).then(pl.col("large_pages_missing").max() / wanted).otherwise(0.0)
    values = of.group_by("node").agg(pl.col("time_s").sum(), pl.col("conflict_share").max(), missing=lacking)
    moved = pl.col("reads") + pl.col("writes")
    elsewhere = pl.when(pl.col("from") != pl.col("to")).then(moved).otherwise(0.0)
    remote = (
        ensemble.tables.numa.filter(pl.col("policy") == ensemble.baseline)
        .group_by("node")
        .agg(remote=elsewhere.sum() / moved.sum())
    )
    return values.join(remote, on="node", how="left").with_columns(pl.col("remote").fill_null(0.0))
