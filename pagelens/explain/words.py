"""Words that the terminal and the report share."""

import math
from collections.abc import Sequence

from pagelens.accesses.job import RESIDENT
from pagelens.address.units import HUGE_PAGE_BYTES
from pagelens.explain.model import (
    Distribution,
    JobRecord,
    MachineRecord,
    NumaRecord,
    ProgramRecord,
    RemedyGain,
)
from pagelens.explain.verdict import MATTERS
from pagelens.statistics import CONFIDENCE
from pagelens.units import format_binary_size, format_count, format_share, format_size

RESOURCES_IN_WORDS = {
    "issue": "issue of instructions",
    "page faults": "page faults",
    "latency": "waiting for lines and translations",
    "page walks": "page walkers",
    "caches": "the paths between caches",
    "fast memory": "the fast memory",
    "DDR": "DDR",
    "links": "links between NUMA nodes",
}

_WAITS_MUCH = 0.05  # of the time
_MOST_SLOW = 4  # objects that are named for their lines in slow memory
_ALIKE = 0.1  # ranks whose counts lie nearer to their median are called alike

_RARE = 0.05  # share of the nodes beyond the 95th percentile, which an explanation calls slow
NODES_FOR_RARE = math.ceil(math.log(1 - CONFIDENCE) / math.log(1 - _RARE))  # 59 surely have one of these


def few_nodes_note(nodes: int) -> str:
    """Say how likely so few nodes hide the slow ones; empty for NODES_FOR_RARE, which hardly miss them."""
    if nodes >= NODES_FOR_RARE:
        return ""
    unseen: float = (1 - _RARE) ** nodes
    simulated = simulated_nodes(nodes)
    return (
        f"Rare slow nodes may be missing: if one node in twenty is slow, {simulated} can be fast with a "
        f"chance of {format_share(unseen)}."
    )


def simulated_nodes(nodes: int) -> str:
    """Return words for all nodes that were simulated."""
    return {1: "the one simulated node", 2: "both simulated nodes"}.get(nodes, f"all {nodes} simulated nodes")


def stopped_note(distributions: Sequence[Distribution], nodes: int) -> str:
    """Say which policies have fewer nodes than the baseline; empty if none has."""
    stopped: dict[int, list[str]] = {}
    for d in distributions:
        if d.nodes < nodes:
            stopped.setdefault(d.nodes, []).append(f"'{d.policy}'")
    parts = [f"{n} under {', '.join(names)}" for n, names in sorted(stopped.items())]
    return f"Fewer nodes were enough for some policies: {'; '.join(parts)}." if parts else ""


def unpriced_lines_note(numa: NumaRecord) -> str:
    """Say how many lines cores take from each other at no cost; empty if there are none."""
    if not numa.taken_at_no_cost:
        return ""
    return (
        f"{format_count(numa.taken_at_no_cost)} of these lines are taken between cores of one NUMA node. "
        "They cost nothing in the model, because the machine file does not state how long that takes "
        "(cores.line_latency)."
    )


def slow_tier_note(numa: NumaRecord) -> str:
    """Say which objects' lines lie in slow memory; empty on machines of one tier."""
    if numa.slow_share is None:
        return ""
    objects = [o for o in numa.objects if o.slow_share]
    of_each = ", ".join(f"{o.name} {format_share(o.slow_share or 0)}" for o in objects[:_MOST_SLOW])
    return (
        f"Slow memory (NUMA nodes of a lower tier) has {format_share(numa.slow_share)} of the lines under "
        f"'{numa.policy}' (counted){'; of single objects: ' if of_each else ''}{of_each}."
    )


def moved_pages_note(numa: NumaRecord) -> str:
    """Say how many pages the kernel moves while the program runs; empty if it moves none of itself."""
    if numa.pages_moved is None:
        return ""
    to = "to other NUMA nodes"
    then = ""
    if numa.pages_demoted is not None:
        if not numa.hint_faults:
            return f"Under '{numa.policy}', no scan of Linux finds a page of slow memory in use (counted)."
        to = "from slow memory to the NUMA nodes whose cores use them"
        then = (
            f" in the whole run, and moves {numa.pages_demoted:,.0f} pages to slow memory. Slow memory then "
            f"has {format_share(numa.slow_share or 0)} of the lines"
        )
    return (
        f"Under '{numa.policy}', Linux moves {numa.pages_moved:,.0f} pages {to}, after "
        f"{numa.hint_faults:,.0f} hinting faults{then} (counted)."
    )


def large_page_note(d: Distribution) -> str:
    """Say where a policy's large pages fell back on small ones; empty if they did not."""
    if d.page_bytes < HUGE_PAGE_BYTES:  # the kernel's own
        return ""
    size = format_binary_size(d.page_bytes)
    wanted = d.large_pages_mean + d.large_pages_missing_mean
    if wanted == 0:
        return (
            f"'{d.policy}': no part of the memory is large enough for {size} pages; "
            "all of it is on small pages."
        )
    missing = format_share(d.large_pages_missing_mean / wanted)
    if d.large_pages_missing_mean == 0:
        return ""
    return f"'{d.policy}': {missing} of the {size} pages wanted were not available; small pages replace them."


def job_in_words(job: JobRecord) -> list[str]:
    """Say how the ranks of a job are taken to run, and how much they differ."""
    uneven = [
        of for of in job.spreads if of.most > (1 + _ALIKE) * of.median or of.least < (1 - _ALIKE) * of.median
    ]
    sentences = list(job.statements)
    if uneven:
        each = "; ".join(f"{of.name} {_spread(of.name, [of.least, of.median, of.most])}" for of in uneven)
        sentences.append(f"The traced ranks differ (least, median, most; counted): {each}.")
    return sentences


def bound_in_words(job: JobRecord | None, remedies: Sequence[RemedyGain]) -> tuple[list[str], bool]:
    """Compare the launcher's binding of the ranks with the model's, and return whether it costs time."""
    if job is None:
        return [], False
    costs = job.crowding > 1
    close = next((of for of in remedies if of.policy == "close"), None)
    if close is None or not any("`close`" in note for note in job.binding):
        return job.binding, costs
    cost = f"Under `close`, the job {as_long(1 / close.gain_median)} spread over all nodes (modelled)."
    return [*job.binding, cost], costs or close.gain_median < 1 / MATTERS


def other_instructions(program: ProgramRecord, *machines: MachineRecord) -> list[str]:
    """Say which machines do not execute the instructions that the trace has, in one paragraph for all."""
    others = [machine for machine in machines if machine.instruction_set != program.instruction_set]
    if program.instruction_set is None or not others:
        return []
    names, last = ", ".join(machine.name for machine in others[:-1]), others[-1].name
    execute = f"{names} and {last} execute" if names else f"{last} executes"
    return [
        f"The trace is of {program.instruction_set}, and {execute} {others[0].instruction_set}. "
        "The program is assumed to need as many instructions there, with vectors as long."
    ]


def waits_in_words(program: ProgramRecord) -> list[str]:
    """Say how long ranks or threads wait for each other, if they wait long."""
    job, working = program.job, program.working_threads
    if working is not None and working <= (1 - _WAITS_MUCH) * program.threads:
        return [
            f"On average, {working:.2g} of its {program.threads} threads work at a time, and the others wait "
            "for them (modelled)."
        ]
    if job is None or not job.waits:
        return []
    longest = max(job.waits, key=lambda of: of.share)
    if longest.share < _WAITS_MUCH:
        return []
    mean = sum(of.share for of in job.waits) / job.traced_ranks
    return [
        f"On average, ranks wait for each other for {format_share(mean)} of the time (modelled). "
        f"Rank {longest.rank} waits longest ({format_share(longest.share)}), "
        f"above all for rank {longest.longest_for} ({format_share(longest.share_for)})."
    ]


def _spread(name: str, counts: Sequence[float]) -> str:
    write = format_size if name == RESIDENT else format_count
    return ", ".join(write(round(count)) for count in counts)


def overlap_note(program: ProgramRecord) -> str:
    """Say which lines threads can take from each other on several NUMA nodes; empty for one thread."""
    processes = program.job.traced_ranks if program.job is not None else 1
    if program.source != "trace" or program.threads <= processes:
        return ""
    return (
        "Threads take lines from each other only where they did so while they were traced: a thread that was "
        "done before another one began shares nothing with it here."
    )


def as_long(ratio: float) -> str:
    """Return what follows the subject: "takes 1.20x as long as", or "runs 1.20x as fast as"."""
    if is_one(ratio):
        return "runs about as fast as"
    return f"takes {times(ratio)} as long as" if ratio > 1 else f"runs {times(1 / ratio)} as fast as"


def is_one(ratio: float) -> bool:
    """Return whether a ratio is 1 in all digits that a report shows."""
    return abs(ratio - 1) < 0.005


def times(ratio: float) -> str:
    """Return text such as "2.1x", with one more digit near 1."""
    return f"{ratio:.2f}x" if ratio < 1.995 else f"{ratio:.1f}x"


def percent(share: float) -> str:
    """Return text such as "12%"."""
    return f"{100 * share:.0f}%"


def shares_in_words(shares: Sequence[float]) -> list[str]:
    """Return parts of a whole as text such as "54%", which add up to the rounded sum; or "<1%"."""
    whole = whole_percents(shares)
    return [
        f"{number}%" if number or not share else "<1%" for number, share in zip(whole, shares, strict=True)
    ]


def whole_percents(shares: Sequence[float]) -> list[int]:
    """Return shares as whole per cent that add up to the rounded sum: the nearest to the next one go up."""
    whole = [int(100 * share) for share in shares]
    missing = round(100 * sum(shares)) - sum(whole)
    by_remainder = sorted(range(len(shares)), key=lambda each: whole[each] - 100 * shares[each])
    for each in by_remainder[:missing]:
        whole[each] += 1
    return whole
