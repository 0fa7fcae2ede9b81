"""Says what costs a program its time, from the attributions."""

from collections.abc import Iterator, Sequence

from pagelens.explain.model import (
    AttributionRecord,
    CollisionRecord,
    Distribution,
    Explanation,
    MachineRecord,
    SharedObject,
)
from pagelens.explain.verdict import MATTERS
from pagelens.explain.words import RESOURCES_IN_WORDS, percent, whole_percents
from pagelens.replay.mechanisms import CONFLICTS, MECHANISMS, NUMA_SHARED
from pagelens.units import format_time

# A cause is named as the only cause if it has this share of the loss.
_MOST = 0.9
# So many causes are named at most, so that the remedy stands in the first lines. A table has all of them.
_CAUSES = 3
# A part that gives time back is named if it gives this share of the loss.
_RETURNED = 0.05
# A pair of objects is named if it makes up this share of the evictions.
_NAMED = 0.15
_COMPULSORY = "compulsory misses (the first fetch of each line)"


def why_fresh_is_slower(
    base: Distribution, distributions: Sequence[Distribution], attributions: Sequence[AttributionRecord]
) -> Iterator[str]:
    """Say what costs more on contiguous frames if an aged node is faster, because nobody expects that."""
    fresh = next((d for d in distributions if d.policy == "contiguous"), None)
    if fresh is None or fresh is base or not fresh.surely_differs or fresh.gain_median >= 1 / MATTERS:
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


def causes_in_words(
    machine: MachineRecord, cause: AttributionRecord, collisions: Sequence[CollisionRecord]
) -> list[str]:
    """Say how much of its time the program loses, and to what."""
    loss = cause.time_s - cause.unburdened_s
    cached = machine.served_by == "memory-side cache"
    if loss <= (MATTERS - 1) * cause.time_s:
        if cached and cause.has_shared_caches:
            return [f"Beyond {_COMPULSORY}, caches and TLB cost the program less than 2% of its time."]
        if cached:
            return [
                "The memory-side cache costs the program less than 2% of its time. Other parts of the "
                "machine, such as L2 and the TLB, make the difference."
            ]
        return [f"Beyond {_COMPULSORY}, caches, TLB and memory cost the program less than 2% of its time."]
    # Parts that give time back make the others add up to more than the loss. Shares are therefore of all
    # costs.
    burden = sum(max(0.0, part.seconds) for part in cause.parts)
    parts = {MECHANISMS[part.mechanism].loss: part.seconds / burden for part in cause.parts}
    costs = sorted(((share, name) for name, share in parts.items() if share >= 0.005), reverse=True)
    if costs[0][0] >= _MOST and min(parts.values()) >= 0:
        costs = costs[:1]
    named = costs[:_CAUSES]
    rest = sum(share for share, _ in costs[_CAUSES:])
    each = whole_percents([share for share, _ in named] + [rest])
    shares = [f"{each[0]}% is due to {named[0][1]}"]
    others = [*(name for _, name in named[1:]), "other causes"]
    shares += [f"{share}% to {name}" for share, name in zip(each[1:], others, strict=True) if share > 0]
    said = [
        f"The program loses {percent(loss / cause.time_s)} of its time beyond {_COMPULSORY}.",
        f"Of the lost time, {', '.join(shares)}.",
    ]
    part = min(cause.parts, key=lambda part: part.seconds)
    if (saved := -part.seconds / burden) >= _RETURNED:
        mechanism = MECHANISMS[part.mechanism]
        without = mechanism.without or "a machine without it"
        said.append(
            f"In return, {percent(saved)} as much time is saved by {mechanism.loss}: with {without}, the "
            "program would take longer."
        )
    if collisions and collisions[0].share >= _NAMED and cause.part(CONFLICTS).seconds > 0:
        top = collisions[0]
        victim = "itself" if top.name == top.victim else f"`{top.victim}`"
        said.append(f"In {percent(top.share)} of the evictions, `{top.name}` evicts {victim}.")
    return said


def shared_in_words(cause: AttributionRecord, shared: Sequence[SharedObject]) -> list[str]:
    """Name the object whose lines threads take from each other most, and the remedy, if that costs much."""
    cost = sum(part.seconds for part in cause.parts if part.mechanism == NUMA_SHARED)
    loss = cause.time_s - cause.unburdened_s
    if not shared or loss <= (MATTERS - 1) * cause.time_s or cost < _NAMED * loss:
        return []
    return [
        f"Of the lines that threads take from each other, {percent(shared[0].share)} are of "
        f"`{shared[0].name}`. If threads write different data in one line there, put these data into lines "
        "of their own (alignas(64))."
    ]


def page_faults_in_words(base: Distribution) -> list[str]:
    """Say what the first touches of pages cost, if the machine file has their price and it matters."""
    faults = base.resource("page faults")
    share = faults.busy_s / base.mean_s
    if share <= MATTERS - 1:
        return []
    beside = ", but something else takes longer meanwhile" if 2 * faults.bound_s < faults.busy_s else ""
    return [
        f"Page faults take {percent(share)} of its time{beside}: the kernel maps each page when the program "
        "first touches it, and clears it if it is new."
    ]


def attributed_in_words(e: Explanation) -> str:
    """Say of how many nodes the attributions are.

    Each costs replays if caches are simulated without something.
    """
    of_nodes = {a.of_nodes for a in e.attributions if a.policy == e.baseline}
    if of_nodes == {1}:
        return "one node"
    return "the nodes" if of_nodes <= {e.sample.nodes} else f"{min(of_nodes)} nodes"


def mean_in_words(e: Explanation) -> str:
    """Say over how many nodes the parts of an attribution are means."""
    nodes = attributed_in_words(e)
    return nodes if nodes == "one node" else f"mean over {nodes}"


def interaction_in_words(a: AttributionRecord) -> str:
    """Say what the interaction of an attribution means; empty if it is less than 2% of the time."""
    if abs(a.interaction_s) <= (MATTERS - 1) * a.time_s:
        return ""
    share = percent(abs(a.interaction_s) / a.time_s)
    if a.interaction_s > 0:
        return (
            f"All changes together save {share} of the time more than the sum of what each saves alone: "
            "after one change alone, the program still waits for something else."
        )
    return (
        f"All changes together save {share} of the time less than the sum of what each saves alone: "
        "several changes would save the same time, and it counts only once."
    )
