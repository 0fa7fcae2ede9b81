"""Renders the report as one HTML file that needs neither a network nor scripts."""

import re

from markupsafe import Markup, escape

from pagelens.explain.cause_words import attributed_in_words, interaction_in_words
from pagelens.explain.figures import draw_all
from pagelens.explain.job_cost import job_cost_in_words
from pagelens.explain.model import Explanation
from pagelens.explain.remedy_words import other_order
from pagelens.explain.words import (
    RESOURCES_IN_WORDS,
    job_in_words,
    large_page_note,
    moved_pages_note,
    overlap_note,
    shares_in_words,
    slow_tier_note,
    stopped_note,
    unpriced_lines_note,
)
from pagelens.report.page import page_template
from pagelens.statistics import BOOTSTRAP_RESAMPLES
from pagelens.units import format_count, format_share, format_size, format_time

MOST_OBJECTS = 25  # rows of the table of objects

_COUNTERS = {
    "msc_misses": "misses of the memory-side cache",
    "ddr_reads": "lines read from DDR",
    "ddr_writes": "lines written to DDR",
    "l2_misses": "misses of the L2 caches",
    "l2_write_backs": "write-backs of the L2 caches",
    "conflict_share": "conflict share of the pages",
    "l3_misses": "misses of the L3 caches",
    "sf_evictions": "evictions by the snoop filter",
    "walks": "page walks",
    "row_conflicts": "row conflicts in DRAM",
}


def render_html(e: Explanation) -> str:
    """Return the report's text. Equal explanations give equal text."""
    template = page_template(
        "pagelens.explain",
        "report.html.j2",
        {
            "code": _code,
            "count": format_count,
            "counter": lambda name: _COUNTERS.get(name, name),
            "job": job_in_words,
            "percent": format_share,
            "ratio": lambda value: f"{value:.2f}",
            "seconds": format_time,
            "shares": lambda records, name: shares_in_words([getattr(of, name) for of in records]),
            "size": format_size,
            "moved_pages_note": moved_pages_note,
            "slow_tier_note": slow_tier_note,
            "unpriced_lines_note": unpriced_lines_note,
        },
    )
    return template.render(
        e=e,
        unit=e.best.time_s,
        drawings=draw_all(e),
        objects=[o for o in e.objects if o.policy == e.baseline and o.accesses > 0][:MOST_OBJECTS],
        collisions=[c for c in e.collisions if c.policy == e.baseline],
        resources={
            name: words
            for name, words in RESOURCES_IN_WORDS.items()
            if any(d.resource(name).busy_s for d in e.distributions)
        },
        job_cost_in_words=job_cost_in_words,
        overlap_note=overlap_note,
        stopped=stopped_note(e.distributions, e.sample.nodes),
        large_page_notes=[note for d in e.distributions if (note := large_page_note(d))],
        interaction=" ".join(
            f"Under '{a.policy}', {words[:1].lower()}{words[1:]}"
            for a in e.attributions
            if a.nodes == "mean" and a.policy == e.baseline and (words := interaction_in_words(a))
        ),
        attributed=attributed_in_words(e),
        shared=any(a.has_shared_caches for a in e.attributions),
        other_order=other_order(e.remedies),
        resamples=BOOTSTRAP_RESAMPLES,
    )


def _code(sentence: str) -> Markup:
    """Return escaped text, in which text between backquotes becomes code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(sentence))))
