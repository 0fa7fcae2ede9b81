"""Says which remedies help, which harm, and of which the model cannot tell."""

from collections.abc import Sequence

from pagelens.explain.model import NumaRecord, RemedyGain
from pagelens.explain.remedies import MOST_OBJECTS
from pagelens.explain.verdict import MATTERS, surely_costs, surely_gains
from pagelens.explain.words import few_nodes_note, times
from pagelens.frames import policies
from pagelens.replay.numa import LEAST_FAR_SHARE


def advice(remedies: Sequence[RemedyGain]) -> list[str]:
    """Return the remedy that gains most in the median, and behind it the best one that needs no root."""
    useful = [r for r in remedies if r.verdict == "gains"]
    if not useful:
        return ["No simulated remedy surely makes the program 2% faster."]
    first = useful[0]
    need = "needs root" if first.root else "needs no root"
    best = f"The best remedy is '{first.policy}' ({_short(first.title)}), which {need}. {_gain(first)}"
    own = next((r for r in useful if not r.root), None)
    if not first.root or own is None:
        return [f"{best} {_how(first)}"]
    second = f"The best remedy without root is '{own.policy}' ({_short(own.title)}). {_gain(own)}"
    return [best, f"{second} {_how(own)}"]


def _how(remedy: RemedyGain) -> str:
    """Say how to apply a remedy: by one command, if that is enough."""
    known = policies[remedy.policy].remedy if remedy.policy in policies else None
    if known is not None and known.command and not remedy.root:
        return f"To apply it, run `{known.command}`."
    return "docs/remedies.md says how to apply it."


def initialise_in_parallel(remedies: Sequence[RemedyGain], numa: NumaRecord | None) -> list[str]:
    """Name the code that has to change for the best remedy by first touch, as far as it is known."""
    useful = (r.policy for r in remedies if r.verdict == "gains" and r.policy.partition(":")[0] == "touch")
    if numa is None or (policy := next(useful, None)) is None:
        return []
    named = policy.partition(":")[2]
    objects = [of for of in numa.objects if (of.name == named if named else of.share >= LEAST_FAR_SHARE)]
    known = [of for of in objects[:MOST_OBJECTS] if of.first_written_by is not None]
    each = [f"`{of.name}`, which {of.first_written_by} writes first" for of in known]
    if not each:
        return []
    return [f"For '{policy}', let the threads that use an object initialise it: {'; '.join(each)}."]


def other_order(remedies: Sequence[RemedyGain]) -> str:
    """Say if the best remedy on the slow nodes differs from the best in the median, and gains there.

    Otherwise say nothing. Remedies of which nothing is claimed do not count.
    """
    remedies = [remedy for remedy in remedies if remedy.verdict != "bounds disagree"]
    if not remedies:
        return ""
    first = remedies[0]
    slow = max(remedies, key=lambda r: r.gain_p95)
    worst = max(remedies, key=lambda r: r.gain_worst)
    parts = []
    if slow.gain_p95 > MATTERS * max(first.gain_p95, 1):
        parts.append(
            f"on the slow nodes (95th percentile) '{slow.policy}' gains more than '{first.policy}': "
            f"{times(slow.gain_p95)} against {times(first.gain_p95)}"
        )
    if worst.gain_worst > MATTERS * max(first.gain_worst, 1):
        parts.append(
            f"for the worst node '{worst.policy}' gains more than '{first.policy}': "
            f"{times(worst.gain_worst)} against {times(first.gain_worst)}"
        )
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def harm_in_words(remedies: Sequence[RemedyGain]) -> list[str]:
    """Name the policies that make the program slower."""
    slower = [r for r in remedies if r.verdict == "costs"]
    if not slower:
        return []
    which = ", ".join(f"'{r.policy}' ({_cost(r)})" for r in slower)
    sentences = [f"With these remedies the program would take longer: {which}."]
    if any(r.policy.partition(":")[0] == "touch" for r in slower):
        sentences.append(
            "Under 'touch', the loop that initialises still runs as traced: a thread alone then writes to "
            "other nodes, which a parallel loop does not. --phase explains a marked region without it."
        )
    return sentences


def unknown_in_words(remedies: Sequence[RemedyGain], nodes: int, by_stretches: float) -> list[str]:
    """Name the policies of which the model cannot tell whether they help, and say what would tell.

    `by_stretches` is the error of the time by the choice of lines that were simulated, as a share. No number
    of nodes makes up for it.
    """
    sentences = []
    if unsure := [r for r in remedies if _may_help(r)]:
        which = ", ".join(
            f"'{r.policy}' {times(r.gain_median)} ({r.gain_median_low:.2f}-{r.gain_median_high:.2f})"
            for r in unsure
        )
        sentences.append(
            f"The simulation is too small to tell whether these remedies help: {which}; 95% intervals are in "
            "parentheses."
        )
        if by_stretches > MATTERS - 1:
            sentences.append(
                "More nodes would not tell, because only stretches of the run were simulated. A shorter run, "
                "or a short part of one (trace --region, or --skip and --accesses), is simulated whole."
            )
        elif few_nodes_note(nodes):
            sentences.append("Simulating more nodes (--nodes) may tell.")
    return sentences + [_bounds(r) for r in remedies if r.verdict == "bounds disagree"]


def _bounds(remedy: RemedyGain) -> str:
    """Say by which bound of the time a remedy gains, and by which it costs, where it decides the verdict."""
    gains, on = (remedy.gain_median, remedy.gain_serial), ""
    if not (
        surely_gains(remedy.gain_median, remedy.gain_median_low)
        or surely_costs(remedy.gain_median, remedy.gain_median_high)
    ):
        gains, on = (remedy.gain_p95, remedy.gain_p95_serial), " on the slow nodes (95th percentile)"
    return (
        f"Nothing is claimed for '{remedy.policy}': with it the program runs {times(gains[0])} as fast{on} "
        f"if all resources work at the same time, and {times(gains[1])} as fast if they take turns."
    )


def has_effect(remedy: RemedyGain) -> bool:
    """Return whether a remedy has a visible gain or cost.

    An offset has none, for example, if frames come in the order of first touch.
    """
    return {times(remedy.gain_median), times(remedy.gain_p95)} != {times(1)}


def any_unsure(remedies: Sequence[RemedyGain]) -> bool:
    """Return whether there is a remedy of which the model cannot tell whether it helps."""
    return any(map(_may_help, remedies))


def _may_help(remedy: RemedyGain) -> bool:
    """Return whether it is open that a remedy gains 2%. What may only cost something is no help."""
    gains = (remedy.gain_median_high, remedy.gain_p95)
    return remedy.verdict == "unsure" and any(gain > MATTERS for gain in gains)


def _short(title: str) -> str:
    """Return a title without a reference in parentheses, as it stands in parentheses itself."""
    return title.partition(" (")[0]


def _gain(remedy: RemedyGain) -> str:
    """Say what a remedy gains at the median, and on the slow nodes if that differs.

    If only the slow nodes surely gain, they come first.
    """
    if not surely_gains(remedy.gain_median, remedy.gain_median_low):
        return (
            f"With it the program runs {times(remedy.gain_p95)} as fast on the slow nodes (95th percentile; "
            f"95% interval {remedy.gain_p95_low:.2f}-{remedy.gain_p95_high:.2f}), and on the median node "
            f"{times(remedy.gain_median)} ({remedy.gain_median_low:.2f}-{remedy.gain_median_high:.2f})."
        )
    text = f"With it the program runs {times(remedy.gain_median)} as fast"
    if f"{remedy.gain_median_low:.2f}" != f"{remedy.gain_median_high:.2f}":
        text += f" (95% interval {remedy.gain_median_low:.2f}-{remedy.gain_median_high:.2f})"
    if remedy.gain_p95 > max(MATTERS * remedy.gain_median, MATTERS):
        text += f", and {times(remedy.gain_p95)} on the slow nodes"
    elif MATTERS * remedy.gain_p95 < remedy.gain_median:
        text += f", but only {times(remedy.gain_p95)} on the slow nodes (95th percentile)"
    return f"{text}."


def _cost(remedy: RemedyGain) -> str:
    """Say how much longer the program takes with a remedy, and what slow nodes gain nevertheless."""
    text = f"{times(1 / remedy.gain_median)} as long"
    if surely_gains(remedy.gain_p95, remedy.gain_p95_low):
        text += f", but {times(remedy.gain_p95)} as fast on the slow nodes"
    return text
