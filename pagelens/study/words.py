"""What a study has found, in words."""

from collections.abc import Sequence

import polars as pl

from pagelens.study.effects import Effect, answers
from pagelens.study.result import StudyResult
from pagelens.units import format_share, format_time

MATTERS = 1.02  # means that lie nearer are equal, as are times in an explanation


def answer_in_words(found: StudyResult) -> str:
    """Return what the study is about."""
    others = found.table["policy"].n_unique() > 1
    return {
        "gain": f"gain of the best policy over '{found.baseline}'" if others else "gain",
        "time": f"median time under '{found.baseline}'",
        "spread": f"slowest over fastest node under '{found.baseline}'",
    }[found.file.asked]


def shown_answer(found: StudyResult, value: float) -> str:
    """Return the figure as "1.23x", or as "4.5 ms" where the study is about times."""
    return format_time(value) if found.file.asked == "time" else f"{value:.3g}x"


def sentences(found: StudyResult, effects: Sequence[Effect]) -> list[str]:
    """Return the answer: its range, the input that decides it, and those that do not matter."""
    by_point = answers(found)
    if not by_point.height:
        return ["No point has been simulated yet."]
    low, high = (
        shown_answer(found, float(value))
        for value in (by_point["answer"].to_numpy().min(), by_point["answer"].to_numpy().max())
    )
    said = f"The {answer_in_words(found)} is {low} at every point."
    if low != high:
        said = f"The {answer_in_words(found)} lies between {low} and {high}."
    return [said, *_decides(found, effects), *_best(found)]


def _decides(found: StudyResult, effects: Sequence[Effect]) -> list[str]:
    moving = [each for each in effects if each.high > MATTERS * each.low]
    said = []
    if moving:
        first = moving[0]
        said.append(
            f"{first.name} decides it most: on average it is {shown_answer(found, first.low)} at "
            f"{first.levels[first.means.index(first.low)]} and {shown_answer(found, first.high)} at "
            f"{first.levels[first.means.index(first.high)]}, which explains {format_share(first.share)} of "
            "the variance over the points."
        )
    still = [each.name for each in effects if each not in moving]
    if still and effects:
        said.append(
            f"On average, {_listed(still)} {'changes' if len(still) == 1 else 'change'} it by less than 2%."
        )
    if effects and found.missing and found.file.sample is None:
        said.append(
            "Points of the grid are missing, so an input can stand here for what others change; this may "
            "differ when all are done."
        )
    left = 1 - sum(each.share for each in effects)
    if moving and left > 0.1 and found.file.sample is None and not found.missing:
        said.append(f"{format_share(left)} of the variance is due to several inputs together.")
    return said


def _best(found: StudyResult) -> list[str]:
    """Say which policy gains most, and at how many points."""
    others = found.table.filter(pl.col("policy") != found.baseline)
    if not others.height:
        return []
    best = others.sort("gain", descending=True).unique("point", keep="first", maintain_order=True)
    counts = (
        best.filter(pl.col("gain") > MATTERS).group_by("policy").len().sort("len", "policy", descending=True)
    )
    if not counts.height:
        return [f"No policy gains 2% over '{found.baseline}' at any point."]
    won = _listed([f"'{name}' at {count}" for name, count in counts.iter_rows()])
    return [f"The policy that gains most is {won} of the {best.height} points."]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
