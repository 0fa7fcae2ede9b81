"""Explanations of ensembles, as a notebook shows them."""

import re
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from pagelens.ensemble import Ensemble
from pagelens.explain import Explanation as ExplanationData
from pagelens.explain import TimedRecord, Tried
from pagelens.explain import explain as explain_ensemble

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = ("distribution", "misses", "attribution", "objects", "slots", "remedies")


class Explanation(ExplanationData):
    """What costs the slow nodes of an ensemble their time, and what remedies gain.

    `conclusion.sentences` is the answer in words, `remedies` lists the policies that one can choose, best
    first, `distributions` has the times of each policy in seconds, by node. docs/explain-json.md describes
    every field.
    """

    def plot(self, figure: str = "distribution") -> "Figure":
        """Return a figure of the report as a matplotlib Figure: one of FIGURES, by default "distribution".

        Raises UsageError for an unknown figure.
        """
        from pagelens.errors import UsageError
        from pagelens.explain import plots  # matplotlib takes a second

        if figure not in FIGURES:
            raise UsageError(f"figure: '{figure}' is unknown; name one of {', '.join(FIGURES)}")
        drawn: Figure = getattr(plots, figure)(self)
        return drawn

    def _repr_html_(self) -> str:
        """Return the report's first part for notebooks: the conclusion, and how times are distributed."""
        from pagelens.explain.figures import draw_all

        drawing = draw_all(self)["distribution"]
        sentences = "".join(f"<p>{_code(sentence)}</p>" for sentence in self.conclusion.sentences)
        title = f"{escape(self.program.name)} on {escape(self.machine.title)}"
        return (
            f"<h3>{title}</h3>{sentences}<figure>{drawing.svg}"
            f"<figcaption>{escape(drawing.caption)}</figcaption></figure>"
        )

    def __repr__(self) -> str:
        return "\n".join(self.conclusion.sentences)

    __str__ = __repr__


def explain(
    ensemble: Ensemble, command: str = "", timed: TimedRecord | None = None, tried: Tried | None = None
) -> Explanation:
    """Explain an ensemble: statistics over its nodes, what each mechanism costs, what each remedy gains.

    Times are modelled seconds. Gains are ratios of times on the same nodes. The other policies are compared
    with 'aged', or with the first one if 'aged' was not simulated. Reports show `command` as the way to
    repeat the run. The conclusion takes into account `timed`, the measured times of `explain --timed`, and
    `tried`, what `try_assumed` found with other values of what the machine file assumes.

    >>> w, m = workload("stream-triad", size="300MB"), machine("cori-knl-cache")
    >>> e = simulate(w, m, policies=["aged", "2m"], nodes=2, progress=False)
    >>> [remedy.policy for remedy in explain(e).remedies]
    ['2m']
    """
    return Explanation.model_construct(**dict(explain_ensemble(ensemble, command, timed, tried)))


def _code(sentence: str) -> Markup:
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(sentence))))
