"""Other values of what a machine file assumes, simulated again."""

import os
from pathlib import Path

from pagelens.api.ensembles import WHOLE_RUN, simulate
from pagelens.ensemble import Ensemble, Scaled
from pagelens.explain import Tried
from pagelens.explain import explain as explain_ensemble
from pagelens.machine import range_ends
from pagelens.progress import progress_bar
from pagelens.replay import is_of_time_model


def try_assumed(
    ensemble: Ensemble, output: str | os.PathLike[str] | None = None, progress: bool = True
) -> Tried:
    """Simulate an ensemble again with both ends of the range of each assumed value; for `explain`.

    These are the values whose range the machine file states, one at a time, of those that decide how many
    lines a program moves. Others only turn counts into seconds; `explain` tries them without a simulation.
    The result has the gain of each policy in the median, by value and by the factor on it.

    Nodes are kept in `output`, or for as long as this process lives. Raises UsageError where the machine
    cannot have an end of a range, and Interrupted on Ctrl-C.

    >>> w, m = workload("stream-triad", size="300MB"), machine("cori-knl-cache")
    >>> try_assumed(simulate(w, m, policies=["aged"], nodes=1, progress=False), progress=False)
    {'firmware.low_memory': {0.6666666666666666: {'aged': 1.0}}}
    """
    wanted = [
        (each, end, written)
        for each, end, written in range_ends(ensemble.machine)
        if not is_of_time_model(each.key)
    ]
    tried: dict[str, dict[float, dict[str, float]]] = {}
    with progress_bar(not progress, "assumed values") as bar:
        for done, (each, end, written) in enumerate(wanted):
            bar(done, len(wanted))
            machine = ensemble.machine.with_values({each.name: written})
            found = simulate(
                ensemble.workload,
                Scaled(machine, ensemble.ranks, ensemble.scaled or 1.0),
                list(ensemble.policies.values()),
                ensemble.nodes,
                history=ensemble.history,
                seed=ensemble.seed,
                output=Path(output) / "assumed" if output is not None else None,
                phase=ensemble.phase or WHOLE_RUN,
                progress=False,
            )
            gains = {of.policy: of.gain_median for of in explain_ensemble(found).distributions}
            tried.setdefault(each.name, {})[end / each.value.value] = gains
    return tried
