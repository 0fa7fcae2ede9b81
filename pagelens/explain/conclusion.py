"""The answer in words, first: how much placement costs, why, and what to do."""

from collections.abc import Sequence

from pagelens.explain.model import (
    AttributionRecord,
    CollisionRecord,
    Conclusion,
    Distribution,
    MachineRecord,
    Remedy,
)

# A spread or gain below this is smaller than what a run shows by itself; see `Conclusion.placement_matters`.
MATTERS = 1.02
# A cause is named as the one cause when it carries this share of the loss.
_MOST = 0.9


def conclude(
    machine: MachineRecord,
    baseline: str,
    distributions: Sequence[Distribution],
    attributions: Sequence[AttributionRecord],
    collisions: Sequence[CollisionRecord],
    remedies: Sequence[Remedy],
) -> Conclusion:
    """Sentences in the order a reader needs them."""
    base = next(d for d in distributions if d.policy == baseline)
    where = machine.title.split("(")[0].split(",")[0].strip().removesuffix(" node")
    medians = [d.median_s for d in distributions]
    spread = max(d.p95_s / d.p5_s for d in distributions)
    gain = max((max(r.gain_median, r.gain_p95) for r in remedies), default=1.0)
    if max(medians) / min(medians) <= MATTERS and spread <= MATTERS and gain <= MATTERS:
        return Conclusion(
            placement_matters=False,
            sentences=[
                f"Page placement does not matter for this program on a {where} node: over all policies and "
                f"nodes its time varies by {100 * (max(max(medians) / min(medians), spread) - 1):.1f}%.",
                "Nothing is to be gained by huge pages, sorting or rebooting; look elsewhere.",
            ],
        )
    sentences = [_size(where, base, distributions)]
    cause = next((a for a in attributions if a.policy == baseline and a.nodes == "mean"), None)
    if cause is not None:
        sentences += _causes(cause, [c for c in collisions if c.policy == baseline])
    sentences.append(_advice(remedies))
    return Conclusion(placement_matters=True, sentences=sentences)


def _size(where: str, base: Distribution, distributions: Sequence[Distribution]) -> str:
    fresh = next((d for d in distributions if d.policy == "contiguous"), None)
    if base.policy == "aged" and fresh is not None:
        text = (
            f"On an aged {where} node this program runs {_slower(base.median_s / fresh.median_s)} a fresh one"
        )
    else:
        fastest = min(distributions, key=lambda d: d.median_s)
        text = (
            f"On a {where} node under '{base.policy}' frames this program runs "
            f"{_slower(base.median_s / fastest.median_s)} under '{fastest.policy}'"
        )
    spread = base.p95_s / base.p5_s
    nodes = f"; its slow nodes (95th percentile) take {_times(spread)} the time of its fast ones (5th)"
    return text + (nodes if spread > MATTERS else "; all such nodes are alike") + "."


def _causes(cause: AttributionRecord, collisions: Sequence[CollisionRecord]) -> list[str]:
    loss = cause.time_s - cause.unburdened_s
    if loss <= (MATTERS - 1) * cause.time_s:
        return ["The memory-side cache costs it less than 2% of its time; what differs lies before it."]
    parts = {
        "conflicts in the memory-side cache": cause.conflicts_s / loss,
        "its capacity": cause.capacity_s / loss,
        "write-backs of dirty lines": cause.write_backs_s / loss,
    }
    costs = sorted(((share, name) for name, share in parts.items() if share >= 0.005), reverse=True)
    text = f"Of the {100 * loss / cause.time_s:.0f}% of its time lost to misses, "
    if costs[0][0] >= _MOST and min(parts.values()) >= 0:
        text += f"{100 * costs[0][0]:.0f}% are {costs[0][1]}"
    else:
        text += ", ".join(f"{100 * share:.0f}% are {name}" for share, name in costs)
    gains = [f"{name} give back {-100 * share:.0f}%" for name, share in parts.items() if share <= -0.005]
    text += "".join(f"; {gain} (against a fully associative cache)" for gain in gains)
    if collisions and cause.conflicts_s > 0:
        top = collisions[0]
        other = "itself" if top.name == top.victim else f"`{top.victim}`"
        most = "mostly" if top.share >= 0.5 else "first of all"
        text += f"; {most} `{top.name}` against {other} ({100 * top.share:.0f}% of the evictions)"
    return [text + "."]


def _advice(remedies: Sequence[Remedy]) -> str:
    useful = [r for r in remedies if max(r.gain_median, r.gain_p95) > MATTERS]
    if not useful:
        return "None of the remedies simulated gains 2%."
    first = useful[0]
    text = f"Best: {_gain(first)}" + (" (needs root)" if first.root else ", and needs no root")
    own = next((r for r in useful if not r.root), None)
    if first.root and own is not None:
        text += f"; without root: {_gain(own)}"
    return text + "."


def _gain(remedy: Remedy) -> str:
    """What a remedy wins, by the median unless only the tail gains."""
    if remedy.gain_median > MATTERS:
        return f"'{remedy.policy}' ({remedy.title}) wins {_times(remedy.gain_median)}"
    return f"'{remedy.policy}' ({remedy.title}) wins {_times(remedy.gain_p95)} on the slow nodes"


def _slower(ratio: float) -> str:
    if abs(ratio - 1) < 0.005:
        return "as fast as on"
    if ratio < 1:
        return f"{_times(1 / ratio)} faster than on"
    return f"{_times(ratio)} slower than on"


def _times(ratio: float) -> str:
    """ "2.1x", with a digit more near 1."""
    return f"{ratio:.2f}x" if ratio < 1.995 else f"{ratio:.1f}x"
