"""An ensemble that grows in rounds, until its judge has seen enough."""

import math
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from typing import Protocol

from pagelens.ensemble.pieces import Piece, leading_nodes
from pagelens.ensemble.result import Ensemble, Tables, baseline_of
from pagelens.ensemble.run import Progress, run_pieces
from pagelens.ensemble.shards import ShardStore
from pagelens.ensemble.simulate import NodeSimulation
from pagelens.errors import Interrupted

ROUNDS = (4, 8, 16, 32)  # numbers of nodes after which policies that are settled stop
LOOK_S = 2.0  # seconds between two looks at a round that is under way


class Judge(Protocol):
    """Decides how many nodes an ensemble needs."""

    def first_nodes(self, bounds: Ensemble) -> int:
        """Return the nodes of the first round. The Ensemble has no node yet, only the bounds of the time."""

    def unsettled(self, found: Ensemble) -> Collection[str]:
        """Return the policies that need more nodes."""

    def left_behind(self, found: Ensemble) -> Collection[str]:
        """Return the policies that need as many nodes as the baseline after all."""

    def alike(self, found: Ensemble) -> bool:
        """Say whether one node under the baseline stands for all in what costs the time."""


class GrowingEnsemble:
    """The pieces of an ensemble that exist, and those that are simulated next."""

    def __init__(
        self,
        of_piece: NodeSimulation,
        store: ShardStore,
        ensemble: Callable[[Mapping[str, int], Tables], Ensemble],  # of the nodes of each policy, with rows
        attributed: int,
        executor: Executor | None = None,
        progress: Progress | None = None,
        look: Callable[[Ensemble], None] | None = None,
    ) -> None:
        self._of_piece, self._store, self._ensemble = of_piece, store, ensemble
        self._executor, self._progress, self._look = executor, progress, look
        self._attributed = attributed if of_piece.simulation.attribution_replays else 0
        self._numbers = {name: number for number, name in enumerate(of_piece.policies)}
        self._baseline = baseline_of(of_piece.policies)
        self._looked = -math.inf  # the first node is shown at once

    def grow(self, nodes: int, judge: Judge | None) -> Ensemble:
        """Grow to `nodes` nodes under each policy, or to as few as the judge wants.

        Raises Interrupted, whose `partial` is the Ensemble of what is complete, or None without a node under
        the baseline.
        """
        bounds = self._ensemble(dict.fromkeys(self._numbers, 0), Tables.of())
        if self._look is not None:
            self._look(bounds)
        if judge is None:
            return self._run(dict.fromkeys(self._numbers, nodes), min(self._attributed, nodes))
        counts, found = self._judged(nodes, judge, bounds)
        attributed = min(self._attributed, counts[self._baseline])
        return self._run(counts, min(attributed, 1) if judge.alike(found) else attributed)

    def _judged(self, nodes: int, judge: Judge, bounds: Ensemble) -> tuple[dict[str, int], Ensemble]:
        """Return how many nodes each policy needs, and these nodes."""
        counts = dict.fromkeys(self._numbers, 0)
        wanted: Collection[str] = self._numbers
        first = min(nodes, judge.first_nodes(bounds))
        for count in (first, *(count for count in ROUNDS if first < count < nodes), nodes):
            counts |= dict.fromkeys(wanted, count)
            found = self._run(counts)
            wanted = judge.unsettled(found)
            if not wanted:
                break
        if behind := judge.left_behind(found):
            counts |= dict.fromkeys(behind, counts[self._baseline])
            found = self._run(counts)
        return counts, found

    def _pieces(self, counts: Mapping[str, int], attributed: int = 0) -> list[Piece]:
        runs = [
            Piece(False, node, self._numbers[name]) for name, count in counts.items() for node in range(count)
        ]
        return runs + [Piece(True, node, self._numbers[self._baseline]) for node in range(attributed)]

    def _run(self, counts: Mapping[str, int], attributed: int = 0) -> Ensemble:
        def report(done: float, total: int) -> None:
            if self._progress is not None:
                self._progress(done, total)
            if self._look is None or time.monotonic() - self._looked <= LOOK_S:
                return
            if (found := self._complete(counts, attributed)) is not None:
                self._look(found)
                self._looked = time.monotonic()

        pieces = self._pieces(counts, attributed)
        try:
            rows = run_pieces(pieces, self._of_piece.rows, self._store, self._executor, report)
        except Interrupted as error:
            error.partial = self._complete(counts, attributed)
            raise
        return self._ensemble(counts, rows)

    def _complete(self, counts: Mapping[str, int], attributed: int) -> Ensemble | None:
        """Return the ensemble of the nodes that are done under each policy, without a gap.

        Return None if no node is done under the baseline.
        """
        complete = self._store.complete
        done = {
            name: min(count, leading_nodes(complete, self._numbers[name])) for name, count in counts.items()
        }
        most = done[self._baseline]
        if not most:
            return None
        done = {name: min(count, most) for name, count in done.items()}
        kept = [piece for piece in sorted(self._pieces(done, attributed)) if piece in complete]
        return self._ensemble(done, Tables.concatenate(map(self._store.read, kept)))
