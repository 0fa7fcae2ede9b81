"""One node of an ensemble: its history once, then every policy from the same state."""

from pagelens import _core
from pagelens.ensemble import memory_side, whole_node
from pagelens.ensemble.result import Tables
from pagelens.ensemble.setup import Setup
from pagelens.errors import Failure, UsageError
from pagelens.frames import Node, Policy


def simulate(setup: Setup, node: int, cancel: _core.CancelFlag) -> Tables:
    """The rows of one node; depends on nothing but the setup and the node."""
    state = Node(
        setup.machine,
        setup.seed,
        node,
        history=setup.history,
        scale=setup.scale,
        job_bytes=setup.job_bytes,
    )
    return Tables.concatenate(_place(setup, policy, state, cancel) for policy in setup.policies.values())


def _place(setup: Setup, policy: Policy, state: Node, cancel: _core.CancelFlag) -> Tables:
    rows_of = memory_side.rows if setup.machine.memory_side_cache is not None else whole_node.rows
    try:
        return rows_of(setup, policy, state, cancel)
    except UsageError as error:
        raise UsageError(f"policy '{policy.name}', node {state.node}: {error}") from None
    except MemoryError:
        raise Failure(
            f"policy '{policy.name}', node {state.node}: this computer's memory does not suffice to "
            f"simulate --ranks {setup.ranks}; name fewer, or run on fewer cores, as with taskset -c 0"
        ) from None
