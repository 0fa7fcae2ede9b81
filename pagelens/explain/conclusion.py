"""Puts the answer into words: how much placement costs, why, and what to do."""

from collections.abc import Iterator, Sequence

from pagelens.explain.model import (
    Assumption,
    AttributionRecord,
    BoundsRecord,
    CollisionRecord,
    Conclusion,
    Distribution,
    Explanation,
    MachineRecord,
    ProgramRecord,
    RemedyGain,
    TimedRecord,
)
from pagelens.explain.timed import beside, far_off
from pagelens.explain.verdict import COVERED, MATTERS
from pagelens.explain.words import RESOURCES_IN_WORDS, few_nodes_note
from pagelens.replay.mechanisms import CONFLICTS, MECHANISMS
from pagelens.units import format_share, format_time

# A cause is named as the only cause if it has this share of the loss.
_MOST = 0.9
# A pair of objects is named if it makes up this share of the evictions.
_NAMED = 0.15
# If a smaller share of the run's lines was simulated, whole parts of the run may be missing.
_FEW_LINES = 0.05
_COMPULSORY = "compulsory misses (the first fetch of each line)"


def conclude(
    program: ProgramRecord,
    machine: MachineRecord,
    baseline: str,
    bounds: BoundsRecord,
    distributions: Sequence[Distribution],
    attributions: Sequence[AttributionRecord],
    collisions: Sequence[CollisionRecord],
    remedies: Sequence[RemedyGain],
    assumptions: Sequence[Assumption],
    timed: TimedRecord | None = None,
    simulated: float = 1.0,
) -> Conclusion:
    """Return the sentences in the order in which a reader needs them.

    `simulated` is the share of the run's lines that was simulated.
    """
    base = next(d for d in distributions if d.policy == baseline)
    where = machine.title.split("(")[0].split(",")[0].strip().removesuffix(" node")
    assumed = [of.name for of in machine.inputs if of.origin == "assumed"]
    if (most := _largest_effect(base, distributions, remedies)) <= MATTERS:
        return Conclusion(
            placement_matters=False,
            sentences=[
                *far_off(timed, program.share_seen, assumed),
                *_coverage(program, simulated),
                _no_effect(where, most, remedies),
                *(bounded := _bounded(bounds)),
                *([] if _any_unsure(remedies) else [_elsewhere(base)]),
                *_where_it_lies(machine),
                *_unknown(remedies, base.nodes),
                *_harm(remedies),
                *([] if bounded else _rare(base.nodes)),
                *_assumed(assumptions, remedies),
                *beside(timed, program.share_seen),
            ],
        )
    sentences = [*far_off(timed, program.share_seen, assumed), *_coverage(program, simulated)]
    sentences += [
        *_size(where, base, distributions),
        *_why_fresh_is_slower(base, distributions, attributions),
    ]
    sentences += _where_it_lies(machine)
    cause = next((a for a in attributions if a.policy == baseline and a.nodes == "mean"), None)
    if cause is not None:
        sentences += _causes(machine, cause, [c for c in collisions if c.policy == baseline])
    order = other_order(remedies)
    sentences += [advice(remedies), *([order] if order else [])]
    sentences += [*_unknown(remedies, base.nodes), *_harm(remedies), *_rare(base.nodes)]
    sentences += [*_assumed(assumptions, remedies), *beside(timed, program.share_seen)]
    return Conclusion(placement_matters=True, sentences=sentences)


def _no_effect(where: str, most: float, remedies: Sequence[RemedyGain]) -> str:
    """Say that nothing was found to change the time by more than the factor `most`."""
    history = f"the node's history changes its time by at most {100 * (most - 1):.1f}%"
    if _any_unsure(remedies):
        return (
            f"No effect of page placement was found for this program on {_node(where)}: {history}. Whether "
            "a remedy helps stays open."
        )
    return (
        f"Page placement does not matter for this program on {_node(where)}: {history}, and no remedy "
        "saves more than that."
    )


def _elsewhere(base: Distribution) -> str:
    """Say what limits a program whose speed does not depend on placement."""
    limit = max(base.resources, key=lambda r: r.bound_s)
    share, name = _percent(limit.bound_s / base.mean_s), RESOURCES_IN_WORDS[limit.name]
    return f"To make it faster, look elsewhere: {share} of its time is limited by {name}."


def _any_unsure(remedies: Sequence[RemedyGain]) -> bool:
    return any(remedy.verdict == "unsure" for remedy in remedies)


def _bounded(bounds: BoundsRecord) -> list[str]:
    """Say why no placement can matter, if the program's traffic shows that."""
    if bounds.most_s > MATTERS * bounds.least_s:
        return []
    more = 100 * (bounds.most_s / bounds.least_s - 1)
    return [
        f"No placement can: even if every line that leaves L1 came from the worst place in memory, the "
        f"program would take at most {more:.1f}% longer."
    ]


def _largest_effect(
    base: Distribution, distributions: Sequence[Distribution], remedies: Sequence[RemedyGain]
) -> float:
    """Return the largest effect that a user can meet or choose.

    It is one of the baseline's own spread, a fresh node, and the remedies. Only differences beyond their
    confidence interval count.
    """
    effects = [1.001, base.p95_s / base.p5_s]  # no model is exact to a tenth of a percent
    fresh = [d.gain_median for d in distributions if d.policy == "contiguous" and _differs(d)]
    effects += [max(gain, 1 / gain) for gain in fresh]
    for remedy in remedies:
        if remedy.verdict in ("gains", "none"):
            effects += [remedy.gain_median, remedy.gain_p95]
    return max(effects)


def _differs(of: Distribution) -> bool:
    """Return whether its median surely differs from the baseline's."""
    return not of.gain_median_low <= 1 <= of.gain_median_high


def _is_open(of: Distribution) -> bool:
    """Return whether its median may be the baseline's, or differ from it by 2% or more."""
    return not _differs(of) and not 1 / MATTERS <= of.gain_median_low <= of.gain_median_high <= MATTERS


def _size(where: str, base: Distribution, distributions: Sequence[Distribution]) -> Iterator[str]:
    """Say that placement matters, how much slower the program is than it could be, and on how many nodes."""
    matters = f"Page placement matters for this program on {_node(where)}"
    fresh = next((d for d in distributions if d.policy == "contiguous"), None)
    if base.policy == "aged" and fresh is not None and _is_open(fresh):
        yield (
            f"{matters}. The simulation is too small to tell how much longer it takes on a median node that "
            "has run other jobs before ('aged') than in contiguous physical memory: "
            f"{_times(fresh.gain_median)} as long (95% interval {fresh.gain_median_low:.2f}-"
            f"{fresh.gain_median_high:.2f})."
        )
    elif base.policy == "aged" and fresh is not None:
        ratio = fresh.gain_median if _differs(fresh) else 1.0
        alike = base.slower_20_percent < 0.005 and base.p95_s / base.p5_s <= MATTERS
        yield (
            f"{matters}, but not because of earlier jobs: after them ('aged') it runs about as fast as in "
            "contiguous physical memory."
            if _is_one(ratio) and alike
            else f"{matters}: on a median node that has run other jobs before ('aged'), it "
            f"{_as_long(ratio)} in contiguous physical memory."
        )
    else:
        fastest = min(distributions, key=lambda d: d.median_s)
        if len(distributions) == 1:
            yield f"{matters}. It was simulated under '{base.policy}' only."
        elif fastest is base:
            yield f"{matters}. It runs fastest under '{base.policy}'."
        else:
            as_long = _as_long(fastest.gain_median if _differs(fastest) else 1.0)
            yield f"{matters}: under '{base.policy}' it {as_long} under '{fastest.policy}'."
    if base.slower_20_percent >= 0.005:
        worst = base.worst_s / base.median_s * base.median_slowdown
        share = _percent(base.slower_20_percent)
        yield (
            f"{share} of the nodes are more than 20% slower than the best run, and the worst takes "
            f"{_times(worst)} as long as that run."
        )
    elif base.p95_s / base.p5_s > MATTERS:
        tail = _times(base.p95_s / base.p5_s)
        yield f"Slow nodes (95th percentile) take {tail} as long as fast nodes (5th percentile)."
    else:
        yield "The nodes are about equally fast."


def _why_fresh_is_slower(
    base: Distribution, distributions: Sequence[Distribution], attributions: Sequence[AttributionRecord]
) -> Iterator[str]:
    """Say what costs more on contiguous frames if an aged node is faster, because nobody expects that."""
    fresh = next((d for d in distributions if d.policy == "contiguous"), None)
    if fresh is None or fresh is base or not _differs(fresh) or fresh.gain_median >= 1 / MATTERS:
        return
    parts = [
        {part.mechanism: part.seconds for part in of.parts}
        for policy in (base.policy, fresh.policy)
        for of in attributions
        if (of.policy, of.nodes) == (policy, "mean")
    ]
    if len(parts) == 2:
        more = {name: seconds - parts[0].get(name, 0.0) for name, seconds in parts[1].items()}
        mechanism = max(more, key=more.__getitem__)
        if more[mechanism] > 0:
            yield f"What costs more on contiguous frames is mostly {MECHANISMS[mechanism].loss}."
        return
    slower = max(fresh.resources, key=lambda r: r.busy_s - base.resource(r.name).busy_s)
    yield (
        f"On contiguous frames, more time goes to {RESOURCES_IN_WORDS[slower.name]}: "
        f"{format_time(slower.busy_s)} instead of {format_time(base.resource(slower.name).busy_s)}."
    )


def _causes(
    machine: MachineRecord, cause: AttributionRecord, collisions: Sequence[CollisionRecord]
) -> list[str]:
    loss = cause.time_s - cause.unburdened_s
    cached = machine.served_by == "memory-side cache"
    if loss <= (MATTERS - 1) * cause.time_s:
        if cached and cause.has_shared_caches:
            return [f"Beyond {_COMPULSORY}, caches and TLB cost the program less than 2% of its time."]
        if cached:
            return [
                "The memory-side cache costs the program less than 2% of its time. Other parts of the "
                "machine, such as the TLB, make the difference."
            ]
        return [f"Beyond {_COMPULSORY}, caches, TLB and memory cost the program less than 2% of its time."]
    # Parts that give time back make the others add up to more than the loss. Shares are therefore of all
    # costs.
    burden = sum(max(0.0, part.seconds) for part in cause.parts)
    parts = {MECHANISMS[part.mechanism].loss: part.seconds / burden for part in cause.parts}
    costs = sorted(((share, name) for name, share in parts.items() if share >= 0.005), reverse=True)
    if costs[0][0] >= _MOST and min(parts.values()) >= 0:
        costs = costs[:1]
    first, *others = costs
    causes = [f"{_percent(first[0])} is due to {first[1]}"]
    causes += [f"{_percent(share)} to {name}" for share, name in others]
    said = [
        f"The program loses {_percent(loss / cause.time_s)} of its time beyond {_COMPULSORY}.",
        f"Of the lost time, {', '.join(causes)}.",
    ]
    said += [
        f"In return, {_percent(-share)} is saved by {name}: the ideal twin is slower."
        for name, share in parts.items()
        if share <= -0.005
    ]
    if collisions and collisions[0].share >= _NAMED and cause.part(CONFLICTS).seconds > 0:
        top = collisions[0]
        victim = "itself" if top.name == top.victim else f"`{top.victim}`"
        said.append(f"In {_percent(top.share)} of the evictions, `{top.name}` evicts {victim}.")
    return said


def advice(remedies: Sequence[RemedyGain]) -> str:
    """Return the remedy that gains most in the median, and the best one that needs no root."""
    useful = [r for r in remedies if r.verdict == "gains"]
    if not useful:
        return "No simulated remedy surely makes the program 2% faster."
    first = useful[0]
    need = "needs root" if first.root else "needs no root"
    text = f"The best remedy is '{first.policy}' ({first.title}), which {need}. {_gain(first)}"
    own = next((r for r in useful if not r.root), None)
    if first.root and own is not None:
        text += f" The best remedy without root is '{own.policy}' ({own.title}). {_gain(own)}"
    return f"{text} docs/remedies.md has the commands."


def other_order(remedies: Sequence[RemedyGain]) -> str:
    """Say if the best remedy on the slow nodes differs from the best in the median, and gains there.

    Otherwise say nothing.
    """
    if not remedies:
        return ""
    first = remedies[0]
    slow = max(remedies, key=lambda r: r.gain_p95)
    worst = max(remedies, key=lambda r: r.gain_worst)
    parts = []
    if slow.gain_p95 > MATTERS * max(first.gain_p95, 1):
        parts.append(
            f"on the slow nodes (95th percentile) '{slow.policy}' gains more than '{first.policy}': "
            f"{_times(slow.gain_p95)} against {_times(first.gain_p95)}"
        )
    if worst.gain_worst > MATTERS * max(first.gain_worst, 1):
        parts.append(
            f"for the worst node '{worst.policy}' gains more than '{first.policy}': "
            f"{_times(worst.gain_worst)} against {_times(first.gain_worst)}"
        )
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def attributed_in_words(e: Explanation) -> str:
    """Say of how many nodes the attributions are.

    Each costs replays if caches are simulated without something.
    """
    of_nodes = {a.of_nodes for a in e.attributions if a.policy == e.baseline}
    if of_nodes == {1}:
        return "one node"
    return "the nodes" if of_nodes <= {e.sample.nodes} else f"{min(of_nodes)} nodes"


def interaction_in_words(a: AttributionRecord) -> str:
    """Say what the interaction of an attribution means; empty if it is less than 2% of the time."""
    if abs(a.interaction_s) <= (MATTERS - 1) * a.time_s:
        return ""
    share = _percent(abs(a.interaction_s) / a.time_s)
    if a.interaction_s > 0:
        return (
            f"All of these changes together save {share} of the time more than the sum of each alone: "
            "a saving shows only if nothing else takes the time instead."
        )
    return (
        f"All of these changes together save {share} of the time less than the sum of each alone: "
        "several changes would save the same time, and it counts only once."
    )


def _where_it_lies(machine: MachineRecord) -> list[str]:
    """Say which memory the times are of, on a machine with two memories."""
    match machine.served_by:
        case "fast memory":
            return ["The whole job fits into the fast memory, and lies there."]
        case "DDR" if any(stated.name.startswith("fast_memory.") for stated in machine.inputs):
            return ["The job does not fit into the fast memory, so all of it lies in DDR."]
        case _:
            return []


def _rare(nodes: int) -> list[str]:
    """Say how likely slow nodes are missing, if nodes are few."""
    return [note] if (note := few_nodes_note(nodes)) else []


def _harm(remedies: Sequence[RemedyGain]) -> list[str]:
    """Name the policies that make the program slower."""
    slower = [r for r in remedies if r.verdict == "costs"]
    if not slower:
        return []
    which = ", ".join(f"'{r.policy}' ({_times(1 / r.gain_median)} as long)" for r in slower)
    return [f"With these remedies the program would take longer: {which}."]


def _unknown(remedies: Sequence[RemedyGain], nodes: int) -> list[str]:
    """Name the policies of which the model cannot tell whether they help."""
    sentences = []
    if unsure := [r for r in remedies if r.verdict == "unsure"]:
        which = ", ".join(
            f"'{r.policy}' {_times(r.gain_median)} ({r.gain_median_low:.2f}-{r.gain_median_high:.2f})"
            for r in unsure
        )
        sentences.append(
            f"The simulation is too small to tell whether these remedies help: {which}; 95% intervals are in "
            "parentheses."
        )
        if few_nodes_note(nodes):
            sentences.append("Simulating more nodes (--nodes) may tell.")
    sentences += [
        f"Nothing is claimed for '{r.policy}': with it the program runs {_times(r.gain_median)} as fast if "
        f"all resources work at the same time, and {_times(r.gain_serial)} as fast if they take turns."
        for r in remedies
        if r.verdict == "bounds disagree"
    ]
    return sentences


def _assumed(assumptions: Sequence[Assumption], remedies: Sequence[RemedyGain]) -> list[str]:
    """Name the assumed values of the machine that could change the conclusion."""
    sentences = []
    for of in assumptions:
        turns = [f"{side} that {what}" for side, what in (("below", of.below), ("above", of.above)) if what]
        if turns:
            sentences.append(
                f"{of.name} = {of.value} is assumed: this conclusion holds from {of.holds_from} to "
                f"{of.holds_to}, and {'; '.join(turns)}."
            )
    stays = _stays(remedies)
    if assumptions and stays and not sentences:
        names = ", ".join(of.name for of in assumptions)
        stated = [of.range_is_stated for of in assumptions]
        within = "from a third to three times its value"
        if any(stated):
            within = "within its stated range" + ("" if all(stated) else f", or {within} if none is stated")
        sentences.append(
            f"If any one value that the machine file assumes is varied {within}, {stays}. "
            f"{'These values are' if len(assumptions) > 1 else 'This value is'} assumed: {names}."
        )
    return sentences


def _stays(remedies: Sequence[RemedyGain]) -> str:
    """Say what no assumed value turns; nothing where no remedy was judged."""
    advised = next((r.policy for r in remedies if r.verdict == "gains"), None)
    if advised is not None:
        return f"'{advised}' still gains more than 2%"
    judged = {r.verdict for r in remedies}
    if "none" not in judged:
        return ""
    return (
        "still no remedy gains more than 2%"
        if judged == {"none"}
        else "the other remedies still gain no more than 2%"
    )


def _coverage(program: ProgramRecord, simulated: float) -> list[str]:
    """Say how much of the run the results cover, if that is not all of it."""
    sentences = []
    if program.share_seen is not None and program.share_seen < COVERED:
        sentences.append(
            f"Only {_percent(program.share_seen)} of the run was traced (--accesses sets how much): what "
            "follows is about that part."
        )
    if simulated < _FEW_LINES:
        sentences.append(
            f"Only {format_share(simulated)} of the run's lines were simulated, in stretches: what happens "
            "seldom may be missing."
        )
    if program.share_of_zero_page > 1 - COVERED:
        sentences.append(
            f"{_percent(program.share_of_zero_page)} of the lines that the program reads are of memory that "
            "it has not written. The kernel shows one page of zeros for all of it, which stays in L1: these "
            "lines are not simulated."
        )
    return sentences


def _node(machine: str) -> str:
    """Return a machine's name as a node: "an AMD EPYC node", "a node with two EPYC 9654"."""
    if machine.startswith("Two "):
        return f"a node with two {machine.removeprefix('Two ')}"
    return f"{'an' if machine.startswith(tuple('AEIOaeio')) else 'a'} {machine} node"


def has_effect(remedy: RemedyGain) -> bool:
    """Return whether a remedy has a visible gain or cost.

    An offset has none, for example, if frames come in the order of first touch.
    """
    return {_times(remedy.gain_median), _times(remedy.gain_p95)} != {_times(1)}


def _gain(remedy: RemedyGain) -> str:
    """Say what a remedy gains at the median, and on the slow nodes if that differs."""
    text = f"With it the program runs {_times(remedy.gain_median)} as fast"
    if f"{remedy.gain_median_low:.2f}" != f"{remedy.gain_median_high:.2f}":
        text += f" (95% interval {remedy.gain_median_low:.2f}-{remedy.gain_median_high:.2f})"
    if remedy.gain_p95 > max(MATTERS * remedy.gain_median, MATTERS):
        text += f", and {_times(remedy.gain_p95)} as fast on the slow nodes"
    elif MATTERS * remedy.gain_p95 < remedy.gain_median:
        text += f", but only {_times(remedy.gain_p95)} as fast on the slow nodes (95th percentile)"
    return f"{text}."


def _as_long(ratio: float) -> str:
    return "runs about as fast as" if _is_one(ratio) else f"takes {_times(ratio)} as long as"


def _is_one(ratio: float) -> bool:
    return abs(ratio - 1) < 0.005


def _times(ratio: float) -> str:
    """Return text such as "2.1x", with one more digit near 1."""
    return f"{ratio:.2f}x" if ratio < 1.995 else f"{ratio:.1f}x"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"
