"""Attributes the cost of a placement to mechanisms, by exact Shapley values on the stated time model.

v(S) is the modelled time with only the mechanisms of S. A mechanism's part is its average step over all
orders of adding it (Shapley: A value for n-person games, 1953), so the parts add up to v(all) - v(none)
exactly. A part can be negative: on a placement without any conflict, a direct-mapped cache keeps more of a
long loop than its ideal twin.

The capacity of caches cannot be removed while conflicts remain, because conflicts are a part of it. Such a
mechanism is no player. Its part is what removing it after all others saves.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from math import factorial

import numpy as np
from numpy.typing import NDArray

from pagelens.replay.mechanisms import subsets

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Attribution:
    """Seconds, with one entry for each row (a node). `parts` sum to `time - unburdened` up to rounding."""

    time: Floats
    unburdened: Floats  # the times with every mechanism removed
    parts: Mapping[str, Floats]
    alone: Mapping[str, Floats]  # time saved by removing this mechanism and no other; of players only

    @property
    def interaction(self) -> Floats:
        """What removing all players saves beyond the sum of removing each alone."""
        of_players = sum((self.parts[name] for name in self.alone), np.zeros_like(self.time))
        return np.asarray(of_players - sum(self.alone.values()), dtype=np.float64)


def shapley(players: tuple[str, ...], value: Callable[[frozenset[str]], Floats]) -> dict[str, Floats]:
    """Return the Shapley values of `value`, a function of the set of players. Each set is valued once."""
    n = len(players)
    sets = [frozenset(chosen) for chosen in subsets(players)]
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


def attribute(without: Mapping[Set[str], Floats]) -> Attribution:
    """Return the attribution of each row, from its seconds without each set of the mechanisms.

    Players are the mechanisms that are removed alone somewhere, and every set of them must be there. At most
    one other mechanism may be removed, from what is left without any player. It is the last.
    """
    players = tuple(name for removed in without if len(removed) == 1 for name in removed)
    everything = frozenset(players)

    def time(present: frozenset[str]) -> Floats:
        return without[everything - present]

    total, parts = time(everything), shapley(players, time)
    unburdened = time(frozenset())
    for removed, seconds in without.items():
        for last in removed - everything:
            parts[last] = unburdened - seconds
            unburdened = seconds
    return Attribution(
        time=total,
        unburdened=unburdened,
        parts=parts,
        alone={name: total - time(everything - {name}) for name in players},
    )
