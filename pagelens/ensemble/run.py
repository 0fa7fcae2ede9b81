"""Runs the pieces of an ensemble on an executor and keeps each as it completes."""

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait

from pagelens import _core
from pagelens.ensemble.pieces import Piece
from pagelens.ensemble.result import Tables
from pagelens.ensemble.shards import ShardStore
from pagelens.errors import Interrupted
from pagelens.interrupts import ctrl_c_sets

Progress = Callable[[float, int], None]  # pieces done, with the parts of those under way; pieces in all
LOOK_S = 0.2  # seconds between two looks at the pieces under way
_NEARLY_ALL = 0.99


def node_threads() -> ThreadPoolExecutor:
    """Return a thread for each core. A thread keeps the memory of its simulated caches for its next piece."""
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="pagelens-node")


def run_pieces(
    pieces: Iterable[Piece],
    simulate: Callable[[Piece, _core.CancelFlag], Tables],
    store: ShardStore,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Tables:
    """Return the rows of all `pieces` in their order. Pieces that `store` holds are read, not simulated.

    `simulate(piece, cancel)` must depend on nothing but its piece. Then the result and its files are the same
    with every executor. The executor's workers are threads, because the simulation releases the interpreter's
    lock. Without an executor, `node_threads` run. On Ctrl-C `cancel` is set, upon which `simulate` may
    raise. Every piece completed by then is kept in the store. `progress` is called a few times a second.
    """
    wanted = sorted(set(pieces))
    missing = [piece for piece in wanted if piece not in store.complete]
    done = len(wanted) - len(missing)
    report = progress or (lambda _done, _total: None)
    report(done, len(wanted))
    if missing:
        cancel = _core.CancelFlag()
        pool = executor or node_threads()
        futures: dict[Future[Tables], Piece] = {}
        try:
            with ctrl_c_sets(cancel):
                flags = {piece: cancel.piece() for piece in missing}
                for piece in missing:
                    futures[pool.submit(simulate, piece, flags[piece])] = piece
                running = set(futures)
                while running and not cancel:
                    finished, running = wait(running, LOOK_S, return_when=FIRST_COMPLETED)
                    for future in sorted(finished, key=futures.__getitem__):
                        store.write(futures[future], future.result())
                        done += 1
                        report(done, len(wanted))
                    if under_way := sum(_share(futures[each], flags) for each in running):
                        report(done + under_way, len(wanted))
        except (KeyboardInterrupt, _core.Cancelled):
            pass  # how many are complete tells it apart from the end
        finally:
            cancel.set()
            for future in futures:
                future.cancel()
            if executor is None:
                pool.shutdown(wait=True, cancel_futures=True)
    if done < len(wanted):
        raise Interrupted(
            f"stopped with {done} of {len(wanted)} placements complete, kept in {store.directory}; "
            "the same command again does the rest"
        )
    return Tables.concatenate(store.read(piece) for piece in wanted)


def _share(piece: Piece, flags: Mapping[Piece, _core.CancelFlag]) -> float:
    """Return which share of a piece is done, always less than all of it until its rows are kept.

    An attribution is many replays, of which this says nothing.
    """
    return 0.0 if piece.attributed else min(flags[piece].share, _NEARLY_ALL)
