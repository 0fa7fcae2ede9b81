"""Writes the page: score, table of claims and figures, in one HTML file that needs nothing else."""

from pagelens.report.page import page_template
from pagelens.reproduce.claim import score, tally
from pagelens.reproduce.overview import overview
from pagelens.reproduce.result import Reproduction, verdict


def render_page(found: Reproduction) -> str:
    """Return the page's text. Equal findings give equal text."""
    template = page_template("pagelens.reproduce", "page.html.j2", {"verdict": verdict})
    return template.render(
        found=found,
        words=found.score.in_words,
        tally=[(study, tally(findings.rows)) for study, findings in found.studies],
        all_claims=overview(found.rows),
        failed=[
            (study, row) for study, findings in found.studies for row in findings.rows if row.holds is False
        ],
        studies=[(study, findings, score(findings.rows).in_words) for study, findings in found.studies],
    )
