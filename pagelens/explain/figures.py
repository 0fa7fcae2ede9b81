"""The report's figures, each with its caption, as SVG text that can stand inside HTML.

Equal explanations give equal bytes.
"""

import numpy as np

from pagelens.explain import plots
from pagelens.explain.cause_words import mean_in_words
from pagelens.explain.model import Explanation
from pagelens.report.drawing import Drawing, drawing
from pagelens.statistics import pearson


def draw_all(e: Explanation) -> dict[str, Drawing]:
    """Return every figure that the explanation has data for, by its key."""
    drawings = [_distribution(e)]
    if e.machine.served_by == "memory-side cache":
        drawings.append(_misses(e))
    if e.attributions:
        drawings.append(_attribution(e))
    if any(o.accesses > 0 for o in e.objects if o.policy == e.baseline):
        drawings.append(_objects(e))
    if e.slot_maps:
        drawings.append(_slots(e))
    if e.remedies:
        drawings.append(_remedies(e))
    if e.assumptions and e.remedies:
        drawings.append(_assumptions(e))
    return {each.key: each for each in drawings}


def _distribution(e: Explanation) -> Drawing:
    return drawing(
        "distribution",
        "Run time over the nodes, by policy",
        f"Each dot is one of {e.sample.nodes} nodes, and the shape is their density. The bar goes from the "
        "5th to the 95th percentile, and the white mark is the median. Time is modelled, relative to the "
        f"best run of all ({e.best.policy}, node {e.best.node}). Dashed lines, where they fit, are 10% and "
        "20% slower."
        f"{_off_scale(e)}",
        lambda: plots.distribution(e),
    )


def _misses(e: Explanation) -> Drawing:
    together = pearson(
        np.concatenate([d.misses for d in e.distributions]),
        np.concatenate([d.times_s for d in e.distributions]),
    )
    texts = [] if together is None else [f"all policies together {together:.2f}"]
    for d in e.distributions:
        r = next(c.pearson for c in d.correlations if c.counter == "msc_misses")
        texts += [] if r is None else [f"{d.policy} {r:.2f}"]
    correlation = f" Correlation of misses with time (Pearson's r): {', '.join(texts)}." if texts else ""
    return drawing(
        "misses",
        "Misses against performance",
        "Each dot is one node under one policy. Misses are counted on modelled frames. Performance is the "
        f"best modelled time over the node's time.{_left_out(e)}{correlation}",
        lambda: plots.misses(e),
    )


def _attribution(e: Explanation) -> Drawing:
    return drawing(
        "attribution",
        "What the time is made of, by mechanism",
        f"Modelled, {mean_in_words(e)}. Each part is what removing its mechanism saves, "
        "averaged over all orders of removal (its Shapley value). So the parts add up to the time (black "
        "mark). A hatched part is negative and is subtracted on the right." + _off_scale(e),
        lambda: plots.attribution(e),
    )


def _off_scale(e: Explanation) -> str:
    return " An arrow points to what lies beyond the scale." if e.off_scale() else ""


def _left_out(e: Explanation) -> str:
    names = ", ".join(d.policy for d in e.distributions if d.policy in e.off_scale())
    return f" Left out, because it lies far beyond: {names}." if names else ""


def _objects(e: Explanation) -> Drawing:
    return drawing(
        "objects",
        f"Lines per object at the {e.machine.served_by}",
        f"Under '{e.baseline}': counted on modelled frames, mean over the nodes. "
        "The figure beside each bar is the share of the object's lines that missed."
        if e.machine.served_by == "memory-side cache"
        else f"Under '{e.baseline}': counted, mean over the nodes.",
        lambda: plots.objects(e),
    )


def _slots(e: Explanation) -> Drawing:
    return drawing(
        "slots",
        "How the job fills the slots of the cache",
        f"This is node {e.slot_maps[0].node}, the median of '{e.baseline}'. Each cell is a run of "
        "neighbouring slots (left to right, then down). Its colour is the mean number of the job's pages in "
        "a slot; 1 everywhere is a full cache without conflicts. The share above each map is that of the "
        "job's pages in conflict, counted on modelled frames.",
        lambda: plots.slots(e),
    )


def _remedies(e: Explanation) -> Drawing:
    return drawing(
        "remedies",
        "What each remedy gains",
        f"Modelled time under '{e.baseline}' over the time with the remedy, on the same nodes. Filled marks "
        "are medians with their 95% bootstrap intervals, open marks are 95th percentiles.",
        lambda: plots.remedies(e),
    )


def _assumptions(e: Explanation) -> Drawing:
    return drawing(
        "assumptions",
        "What assumed values of the machine change",
        "Each bar shows the gain of the advised remedy, or of the best one if none is advised, from one end "
        "of a value's range to the other. Where the machine file states no range, it is a third to three "
        "times the value. All other values stay as they are. The solid line is the gain without any "
        "change, the dashed line a gain of 2%. An orange bar changes the conclusion.",
        lambda: plots.assumptions(e),
    )
