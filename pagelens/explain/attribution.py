"""What a placement costs, by mechanism: exact Shapley values on the stated time model.

The misses of the memory-side cache split by comparison with two twins that are fed the same stream: an
infinite cache (compulsory misses: the first use of each line) and a fully associative one of the same size
with random replacement (docs/decisions/ideal-twin.md). Capacity is what this ideal twin misses beyond the
compulsory, conflicts what the machine misses beyond that twin; each carries the write-backs of its own
dirty victims (Hill, Smith: Evaluating Associativity in CPU Caches, IEEE Trans. Comput. 38 (1989),
1612-1630). A third mechanism is that dirty victims cost at all.

v(S) is the modelled time when only the mechanisms of S are in play, and a mechanism's part is its average
step over all orders of adding it (Shapley: A value for n-person games, 1953): the parts add up to v(all) -
v(none) exactly. A part can be negative: placed without any conflict, a direct-mapped cache keeps more of a
long loop than its ideal twin.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import factorial

import numpy as np
from numpy.typing import NDArray

from pagelens.explain.mechanisms import CAPACITY, CONFLICTS, WRITE_BACKS

Floats = NDArray[np.float64]
Columns = Mapping[str, Floats]

MEMORY_SIDE = (CAPACITY, CONFLICTS, WRITE_BACKS)  # mechanisms of a memory-side cache
_MISSES = ("msc_misses", "msc_read_misses", "ddr_reads")  # columns that count misses in the time model


@dataclass(frozen=True)
class Attribution:
    """Seconds, one entry a row (a node); `parts` sum to `time - unburdened` up to rounding."""

    time: Floats
    unburdened: Floats  # with every mechanism removed: compulsory misses only
    parts: Mapping[str, Floats]
    alone: Mapping[str, Floats]  # time saved by removing this mechanism and no other

    @property
    def interaction(self) -> Floats:
        """What removing all saves beyond the sum of removing each alone."""
        return np.asarray(self.time - self.unburdened - sum(self.alone.values()), dtype=np.float64)


def shapley(players: tuple[str, ...], value: Callable[[frozenset[str]], Floats]) -> dict[str, Floats]:
    """Shapley values of `value`, a function of the set of players present; each set is valued once."""
    n = len(players)
    sets = [frozenset(chosen) for size in range(n + 1) for chosen in combinations(players, size)]
    values = {chosen: value(chosen) for chosen in sets}
    parts = {}
    for player in players:
        others = [chosen for chosen in sets if player not in chosen]
        steps = [
            factorial(len(chosen)) * factorial(n - len(chosen) - 1) / factorial(n)
            * (values[chosen | {player}] - values[chosen])
            for chosen in others
        ]  # fmt: skip
        parts[player] = np.asarray(sum(steps), dtype=np.float64)
    return parts


def remaining(
    present: frozenset[str], machine: Columns, ideal: Columns, infinite: Columns
) -> dict[str, Floats]:
    """Counters when only the mechanisms `present` are in play.

    `machine`, `ideal` and `infinite` hold the time model's columns for the machine itself and its twins. No
    count falls below the compulsory one, which conflicts alone could do where the fully associative twin is
    the worse cache.
    """
    counts = dict(machine)
    conflicts, capacity = float(CONFLICTS in present), float(CAPACITY in present)
    for name in (*_MISSES, "ddr_writes"):
        least = infinite[name]
        counts[name] = np.maximum(
            least + capacity * (ideal[name] - least) + conflicts * (machine[name] - ideal[name]), least
        )
    if WRITE_BACKS not in present:
        counts["ddr_writes"] = np.zeros_like(counts["ddr_writes"])
    return counts


def attribute(mechanisms: tuple[str, ...], time: Callable[[frozenset[str]], Floats]) -> Attribution:
    """Attribution of each row; `time` gives seconds, row by row, when only some mechanisms are in play."""
    everything = frozenset(mechanisms)
    total = time(everything)
    return Attribution(
        time=total,
        unburdened=time(frozenset()),
        parts=shapley(mechanisms, time),
        alone={name: total - time(everything - {name}) for name in mechanisms},
    )


def attribute_memory_side(
    machine: Columns, ideal: Columns, infinite: Columns, time: Callable[[Columns], Floats]
) -> Attribution:
    """The same for a memory-side cache; `time` gives seconds from columns (sums over phases included)."""
    return attribute(MEMORY_SIDE, lambda present: time(remaining(present, machine, ideal, infinite)))
