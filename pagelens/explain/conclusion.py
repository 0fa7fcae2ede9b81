"""Puts the answer into words: how much placement costs, why, and what to do."""

from collections.abc import Iterator, Sequence

from pagelens.explain.assumption_words import assumed_in_words
from pagelens.explain.cause_words import (
    causes_in_words,
    page_faults_in_words,
    shared_in_words,
    why_fresh_is_slower,
)
from pagelens.explain.distributions import AS_FAST
from pagelens.explain.model import (
    Assumption,
    AttributionRecord,
    BoundsRecord,
    CollisionRecord,
    Conclusion,
    Distribution,
    Explanation,
    MachineRecord,
    NumaRecord,
    ProgramRecord,
    RemedyGain,
    ResourceRecord,
    TimedRecord,
)
from pagelens.explain.remedy_words import (
    advice,
    any_unsure,
    harm_in_words,
    initialise_in_parallel,
    other_order,
    unknown_in_words,
)
from pagelens.explain.timed import beside, far_off
from pagelens.explain.verdict import COVERED, MATTERS
from pagelens.explain.words import (
    RESOURCES_IN_WORDS,
    as_long,
    bound_in_words,
    few_nodes_note,
    is_one,
    other_instructions,
    overlap_note,
    percent,
    simulated_nodes,
    times,
    waits_in_words,
)
from pagelens.units import format_share, format_time

# The kernel takes 0.6 to 1.3 ms to start a program (measured, docs/decisions/kernel-time.md). A run that is
# shorter than ten starts varies more by its start than by a change that is shorter than one start.
_START_S = 1e-3
_SHORT_S = 10 * _START_S
LONGER_RUN = (
    f"The kernel alone takes about {format_time(_START_S)} to start a process (measured). Explain a longer "
    "run."
)
# If a smaller share of the run's lines was simulated, whole parts of the run may be missing.
_FEW_LINES = 0.05


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
    by_stretches: float = 0.0,
    numa: NumaRecord | None = None,
) -> Conclusion:
    """Return the sentences in the order in which a reader needs them.

    `simulated` is the share of the run's lines that was simulated, and `by_stretches` the error of the time
    by the choice of them, as a share. Few lines are a warning before the answer if this error is as large
    as a difference that matters, and otherwise a note below. `numa` is the record of the baseline.
    """
    base = next(d for d in distributions if d.policy == baseline)
    shared = numa.shared if numa is not None else []
    few = _few_lines(simulated)
    warned, noted = (few, []) if by_stretches > MATTERS - 1 else ([], few)
    where = _node(machine.title.split("(")[0].split(",")[0].strip().removesuffix(" node"), program)
    assumed = [of.name for of in machine.inputs if of.origin == "assumed"]
    binding, binding_costs = bound_in_words(program.job, remedies)
    first, second = (binding, []) if binding_costs else ([], binding)
    first += [*far_off(timed, program.share_seen, assumed), *_coverage(program), *warned]
    second += other_instructions(program, machine)
    cause = next((a for a in attributions if a.policy == baseline and a.nodes == "mean"), None)
    most = _largest_effect(base, distributions, remedies)
    if _too_short(base, most, program):
        return Conclusion(
            placement_matters=False,
            sentences=[
                *first,
                _short_in_words(base, most),
                *second,
                *page_faults_in_words(base),
                *waits_in_words(program),
                *beside(timed, program.share_seen),
            ],
        )
    if most <= MATTERS:
        return Conclusion(
            placement_matters=False,
            sentences=[
                *first,
                _no_effect(
                    where,
                    most,
                    remedies,
                    0 if (bounded := _bounded(bounds, machine, program)) else base.nodes,
                ),
                *second,
                *bounded,
                *_out_of_reach(base, distributions, remedies),
                *([] if bounded else _rare(base.nodes)),
                *_cores_in_words(base),
                *_elsewhere(base, any_unsure(remedies)),
                *waits_in_words(program),
                *(shared_in_words(cause, shared) if cause is not None else []),
                *_where_it_lies(machine),
                *unknown_in_words(remedies, base.nodes, by_stretches),
                *harm_in_words(remedies),
                *assumed_in_words(assumptions, remedies),
                *noted,
                *beside(timed, program.share_seen),
            ],
        )
    answer, *spread = _size(where, base, distributions)
    causes = [_limit_alone(base)]
    if cause is not None:
        causes = causes_in_words(machine, cause, [c for c in collisions if c.policy == baseline])
        causes += shared_in_words(cause, shared)
    # Whoever reads only the first lines has how much, how sure that is, what to do, and why.
    best, *others = advice(remedies)
    others += initialise_in_parallel(remedies, numa)
    sentences = [*first, answer, *second, *spread, *_rare(base.nodes), best, *causes, *others]
    sentences += [
        *_one_numa_node(machine, base, distributions),
        *why_fresh_is_slower(base, distributions, attributions),
    ]
    sentences += _where_it_lies(machine)
    sentences += [*page_faults_in_words(base), *waits_in_words(program)]
    sentences += _out_of_reach(base, distributions, remedies, answer)
    order = other_order(remedies)
    sentences += [order] if order else []
    sentences += [*unknown_in_words(remedies, base.nodes, by_stretches), *harm_in_words(remedies)]
    sentences += [*assumed_in_words(assumptions, remedies), *noted, *beside(timed, program.share_seen)]
    return Conclusion(placement_matters=True, sentences=sentences)


def is_too_short(e: Explanation) -> bool:
    """Return whether placement does not matter because the run is too short."""
    base = e.distribution(e.baseline)
    return _too_short(base, _largest_effect(base, e.distributions, e.remedies), e.program)


def _too_short(base: Distribution, most: float, program: ProgramRecord) -> bool:
    """Return whether a whole run is shorter than a start, or so short that placement changes less than one.

    `most` is the largest factor on its time.
    """
    whole = program.source == "trace" and program.phase is None and (program.share_seen or 0) >= COVERED
    changes = most > MATTERS and base.median_s < _SHORT_S and (most - 1) * base.median_s < _START_S
    return whole and (base.median_s < _START_S or changes)


def _short_in_words(base: Distribution, most: float) -> str:
    return (
        f"This run is too short for page placement to matter: it takes {format_time(base.median_s)}, and "
        f"placement changes at most {format_time((most - 1) * base.median_s)} of it (modelled). "
        f"{LONGER_RUN}"
    )


def _no_effect(where: str, most: float, remedies: Sequence[RemedyGain], nodes: int = 0) -> str:
    """Say that nothing was found to change the time by more than the factor `most`.

    If this rests on so many simulated nodes alone, and they are few, say so.
    """
    history = f"the node's history changes its time by at most {100 * (most - 1):.1f}% (modelled)"
    as_far = f", as far as {simulated_nodes(nodes)} shows" if nodes == 1 else ""
    if nodes > 1 and few_nodes_note(nodes):
        as_far = f", as far as {simulated_nodes(nodes)} show"
    if any_unsure(remedies):
        return (
            f"No effect of page placement was found for this program on {where}: {history}. Whether "
            "a remedy helps stays open."
        )
    claimless = [f"'{remedy.policy}'" for remedy in remedies if remedy.verdict == "bounds disagree"]
    apart = f"apart from {', '.join(claimless)}, " if claimless else ""
    gains = (
        f", and {apart}no remedy saves more than that."
        if remedies or nodes == 0
        else ". No remedy was simulated."
    )
    return f"Page placement does not matter for this program on {where}{as_far}: {history}{gains}"


def _elsewhere(base: Distribution, unsure: bool) -> list[str]:
    """Say what limits a program whose speed does not depend on placement, unless that is `unsure`.

    Cores wait and compute beside page faults. So where these limit most phases, their own time is said alone.
    """
    faults = page_faults_in_words(base)
    if unsure:
        return faults
    if faults and _most_limiting(base).name == "page faults":
        return ["To make it faster, look elsewhere.", *faults]
    return [f"To make it faster, look elsewhere: {_limit(base)}.", *faults]


def _limit_alone(base: Distribution) -> str:
    """Say what limits a program of which no mechanism was removed, for example since the run was stopped."""
    return f"Which mechanism costs the time is not known yet, but {_limit(base)}."


def _limit(base: Distribution) -> str:
    limit = _most_limiting(base)
    return (
        f"{percent(limit.bound_s / base.mean_s)} of its time is limited by {RESOURCES_IN_WORDS[limit.name]}"
    )


def _most_limiting(base: Distribution) -> ResourceRecord:
    return max(base.resources, key=lambda r: r.bound_s)


def _bounded(bounds: BoundsRecord, machine: MachineRecord, program: ProgramRecord) -> list[str]:
    """Say why no placement can matter, if the program's traffic shows that."""
    if bounds.most_s > MATTERS * bounds.least_s:
        return []
    more = 100 * (bounds.most_s / bounds.least_s - 1)
    taken = _of_numa_nodes(machine) and bool(overlap_note(program))
    others = ", and every line that threads take from each other from the farthest NUMA node" if taken else ""
    return [
        f"No placement can: even if every line that leaves L1 came from the worst place in memory{others}, "
        f"the program would take at most {more:.1f}% longer."
    ]


def _largest_effect(
    base: Distribution, distributions: Sequence[Distribution], remedies: Sequence[RemedyGain]
) -> float:
    """Return the largest effect that a user can meet or choose.

    It is one of what placement makes of the baseline's spread, a fresh node, and the remedies. Only
    differences beyond their confidence interval count.
    """
    effects = [1.001, base.spread_of_placement]  # no model is exact to a tenth of a percent
    fresh = [d.gain_median for d in distributions if d.policy == "contiguous" and d.surely_differs]
    effects += [max(gain, 1 / gain) for gain in fresh]
    for remedy in remedies:
        if remedy.verdict in ("gains", "none"):
            effects += [remedy.gain_median, remedy.gain_p95]
    return max(effects)


def differs(of: Distribution) -> bool:
    """Return whether its median surely differs from the baseline's."""
    return not of.gain_median_low <= 1 <= of.gain_median_high


def _about_as_fast(of: Distribution) -> bool:
    """Return whether its median differs from the baseline's by less than 2%, or perhaps not at all."""
    return not of.surely_differs or 1 / MATTERS <= of.gain_median <= MATTERS


def _is_open(of: Distribution) -> bool:
    """Return whether its median may be the baseline's, or differ from it by 2% or more."""
    return not of.surely_differs and not 1 / MATTERS <= of.gain_median_low <= of.gain_median_high <= MATTERS


def _size(where: str, base: Distribution, distributions: Sequence[Distribution]) -> Iterator[str]:
    """Say that placement matters, how much slower the program is than it could be, and on how many nodes."""
    matters = f"Page placement matters for this program on {where}"
    fresh = next((d for d in distributions if d.policy == "contiguous"), None)
    if base.policy == "aged" and fresh is not None and _is_open(fresh):
        here = "on a median node that has run other jobs before ('aged')"
        yield f"{matters}. {_too_small(here, 'in contiguous physical memory', fresh)}"
    elif base.policy == "aged" and fresh is not None:
        ratio = fresh.gain_median if fresh.surely_differs else 1.0
        fastest = min(distributions, key=lambda d: d.median_s)
        alike = base.slower_20_percent < 0.005 and base.spread_of_placement <= MATTERS
        if _about_as_fast(fresh) and alike:
            yield (
                f"{matters}, but not because of earlier jobs: after them ('aged') it runs about as fast as "
                "in contiguous physical memory (modelled)."
            )
        else:
            other = "in contiguous physical memory"
            if _about_as_fast(fresh) and fastest.surely_differs and fastest.gain_median > MATTERS:
                ratio, other = fastest.gain_median, f"under '{fastest.policy}'"
            good = alike and ratio <= 1 / MATTERS and fastest.gain_median <= MATTERS
            yield (
                f"{matters}{', but the usual one is as good as any simulated' if good else ''}: on a median "
                f"node that has run other jobs before ('aged'), it {as_long(ratio)} {other} (modelled)."
            )
    else:
        fastest = min(distributions, key=lambda d: d.median_s)
        under = f"'{base.policy}'" + (" (on a node that has run other jobs)" if base.policy == "aged" else "")
        if len(distributions) == 1:
            yield f"{matters}. It was simulated under {under} only."
        elif fastest is base:
            yield f"{matters}. It runs fastest under {under}."
        elif _is_open(fastest):
            there = f"under '{fastest.policy}'"
            yield f"{matters}. {_too_small(f'under {under}', there, fastest)}"
        elif is_one(ratio := fastest.gain_median if fastest.surely_differs else 1.0):
            yield (
                f"{matters}, although its median time under {under} is about that under "
                f"'{fastest.policy}' (modelled)."
            )
        else:
            yield f"{matters}: under {under} it {as_long(ratio)} under '{fastest.policy}' (modelled)."
    if base.slower_20_percent >= 0.005:
        worst = base.worst_s / base.median_s * base.median_slowdown
        share = percent(base.slower_20_percent)
        best = min(distributions, key=lambda d: d.best_s)
        elsewhere = best.best_s * (1 + AS_FAST) < base.best_s
        faster = f", which is under '{best.policy}'" if elsewhere else ""
        yield (
            f"{share} of the nodes are more than 20% slower than the best run{faster}, and the worst takes "
            f"{times(worst)} as long as that run."
        )
    elif base.spread > MATTERS:
        yield from _cores_in_words(base) or [f"{_slow_and_fast(base)}."]
    else:
        few = few_nodes_note(base.nodes) and base.nodes > 1
        yield f"{f'The {base.nodes} simulated' if few else 'The'} nodes are about equally fast."


def _too_small(here: str, there: str, other: Distribution) -> str:
    """Say that it is open whether the baseline, `here`, takes longer than the `other` policy, `there`."""
    return (
        f"The simulation is too small to tell whether it takes longer {here} than {there}: "
        f"{times(other.gain_median)} as long (modelled, 95% interval {other.gain_median_low:.2f}-"
        f"{other.gain_median_high:.2f})."
    )


def _out_of_reach(
    base: Distribution, distributions: Sequence[Distribution], remedies: Sequence[RemedyGain], said: str = ""
) -> list[str]:
    """Name the fastest policy that nobody can choose, if no remedy gains as much.

    What was `said` before may have named it already.
    """
    gained = [remedy.gain_median for remedy in remedies if remedy.verdict == "gains"]
    chosen = {base.policy, *(remedy.policy for remedy in remedies)}
    others = [d for d in distributions if d.policy not in chosen and d.surely_differs]
    fastest = max(others, key=lambda d: d.gain_median, default=base)
    named = f"'{fastest.policy}'" in said or f"in {fastest.policy} physical memory" in said
    if named or fastest.gain_median <= MATTERS * max([1.0, *gained]):
        return []
    return [
        f"Under '{fastest.policy}' ({fastest.title}), which nobody can choose, the program runs "
        f"{times(fastest.gain_median)} as fast as under '{base.policy}' (modelled), and no simulated remedy "
        "gains as much."
    ]


def _cores_in_words(base: Distribution) -> list[str]:
    """Say that nodes differ mostly in the frequency of their cores, which no placement changes."""
    of_cores = base.spread / base.spread_of_placement
    if base.spread <= MATTERS or of_cores <= base.spread_of_placement:
        return []
    return [
        f"{_slow_and_fast(base)}, mostly because the frequencies of their cores differ, which no placement "
        f"changes: with equal frequencies they would take {times(base.spread_of_placement)} as long "
        "(modelled)."
    ]


def _slow_and_fast(base: Distribution) -> str:
    return f"Slow nodes (95th percentile) take {times(base.spread)} as long as fast nodes (5th percentile)"


def _of_numa_nodes(machine: MachineRecord) -> bool:
    """Return whether the machine file describes NUMA nodes."""
    return any(stated.name.startswith("numa.") for stated in machine.inputs)


def _one_numa_node(
    machine: MachineRecord, base: Distribution, distributions: Sequence[Distribution]
) -> list[str]:
    """Say what contiguous memory, with which the program was compared, means on several NUMA nodes."""
    fresh = next((d for d in distributions if d.policy == "contiguous"), None)
    compared = base.policy == "aged" and fresh is not None and not _about_as_fast(fresh)
    if not compared or not _of_numa_nodes(machine):
        return []
    return [
        "Contiguous memory begins on one NUMA node and goes on to the next when that is full, so the cores "
        "of other nodes fetch their data from there."
    ]


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


def _few_lines(simulated: float) -> list[str]:
    if simulated >= _FEW_LINES:
        return []
    share = f"Only {format_share(simulated)}".replace("Only <", "Less than ")
    return [f"{share} of the run's lines were simulated, in stretches: what happens seldom may be missing."]


def _coverage(program: ProgramRecord) -> list[str]:
    """Say how much of the run the results are about, if that is not all of it."""
    sentences = []
    if program.share_seen is not None and program.share_seen < COVERED:
        sentences.append(
            f"Only {percent(program.share_seen)} of the run was traced: what follows is about that part. "
            f"{program.cut_by}".rstrip()
        )
    if program.share_of_zero_page > 1 - COVERED:
        sentences.append(
            f"{percent(program.share_of_zero_page)} of the lines that the program reads are of memory that "
            "it has not written. The kernel shows one page of zeros for all of it, which stays in L1: these "
            "lines are not simulated."
        )
    return sentences


def _node(machine: str, program: ProgramRecord) -> str:
    """Return a machine's name as a node: "an AMD EPYC node", "a node with two EPYC 9654".

    Add how many copies of a traced program it runs, since the user asked for one.
    """
    copies = ""
    if program.source == "trace" and program.job is None and program.ranks > 1:
        copies = f" that runs {program.ranks} copies of it"
    if machine.startswith("Two "):
        return f"a node with two {machine.removeprefix('Two ')}{copies}"
    return f"{'an' if machine.startswith(tuple('AEIOaeio')) else 'a'} {machine} node{copies}"
