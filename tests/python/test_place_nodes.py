"""`place` on NUMA nodes: the best way of each object, and seconds that a simulation of it has too."""

from itertools import product

import pytest
from machine_roles import SNOOP_FILTER
from small_machine import initialised_by_one_thread, two_nodes

from pagelens.accesses.declared import Array, DeclaredWorkload, Loops, Sweep
from pagelens.accesses.declared.loops import read, write
from pagelens.cli.text.place_nodes import render_nodes
from pagelens.errors import UsageError
from pagelens.frames import Node, find_policy, parse_history
from pagelens.machine import Machine, load_machine
from pagelens.place import OnNodes, place_on_nodes
from pagelens.place.numa_nodes import FIRST_TOUCH, Seconds, ways_of
from pagelens.replay import Simulation

MIB = 1 << 20


@pytest.fixture(scope="module")
def machine() -> Machine:
    return two_nodes()


@pytest.fixture(scope="module")
def workload(machine: Machine) -> DeclaredWorkload:
    """Threads read one array that one thread initialised, and two that all did."""
    sizes = {"serial": 6 * MIB, "own": 6 * MIB, "small": 2 * MIB}
    loops = Loops(
        tuple(Array(name, size) for name, size in sizes.items()),
        (
            *initialised_by_one_thread(),
            Sweep("initialise", 4.0, write("own", "small"), first_touch=True),
            *[Sweep("loop", 1.0, read(*sizes))] * 3,
        ),
        {},
    )
    return DeclaredWorkload("reader", loops, machine.cores.count.value)


@pytest.fixture(scope="module")
def placed(machine: Machine, workload: DeclaredWorkload) -> OnNodes:
    return place_on_nodes(workload, machine, 1)


@pytest.fixture(scope="module")
def simulation(machine: Machine, workload: DeclaredWorkload) -> Simulation:
    return Simulation(workload, machine, 1)


def run_of(simulation: Simulation, policy: str):
    node = Node(simulation.machine, 0, 0, history=parse_history("boot; run"))
    return simulation.run(simulation.place(find_policy(policy), node))


def test_the_object_that_one_thread_touched_is_spread(placed: OnNodes) -> None:
    ways = {row.name: row for row in placed.report.objects}
    assert (ways["serial"].policy, ways["serial"].nodes) == ("interleave", [0, 1])
    assert ways["own"].policy == ways["small"].policy == FIRST_TOUCH
    assert placed.plan is None  # there is no program to run
    assert placed.report.placed_s < 0.95 * placed.report.first_touch_s
    said = " ".join(render_nodes(placed.report).split())
    assert f"{placed.report.first_touch_s / placed.report.placed_s:.2f} times as fast" in said


def test_seconds_are_those_of_a_simulation(placed: OnNodes, simulation: Simulation) -> None:
    first, over = (run_of(simulation, name) for name in ("aged", "interleave:serial"))
    assert placed.report.first_touch_s == pytest.approx(first.times.time_s.sum(), rel=0.01)
    seconds = Seconds(simulation.machine, first, simulation.cores_used)
    serial = [known.name for known in simulation.workload.objects].index("serial")
    spread = next(way for way in ways_of(simulation.machine) if way.policy == "interleave")
    loop = 1
    assert seconds.of_phases({serial: spread})[loop] == pytest.approx(over.times.time_s[loop], rel=0.01)
    assert over.times.time_s[loop] < 0.9 * first.times.time_s[loop]


def test_cores_wait_for_far_lines_where_few_are_in_flight(workload: DeclaredWorkload) -> None:
    machine = two_nodes().with_values({"cores.outstanding_lines": 2})
    simulation = Simulation(workload, machine, 1)
    first, over = (run_of(simulation, name) for name in ("aged", "interleave:serial"))
    loop = 1
    assert over.times.time_s[loop] == over.times.resources["latency"][loop]
    seconds = Seconds(machine, first, simulation.cores_used)
    serial = [known.name for known in workload.objects].index("serial")
    spread = next(way for way in ways_of(machine) if way.policy == "interleave")
    assert seconds.of_phases({serial: spread})[loop] == pytest.approx(over.times.time_s[loop], rel=0.01)


def test_no_other_set_of_ways_is_faster(placed: OnNodes, simulation: Simulation) -> None:
    machine = simulation.machine
    seconds = Seconds(machine, run_of(simulation, "aged"), simulation.cores_used)
    numbers = {known.name: number for number, known in enumerate(simulation.workload.objects)}
    objects = [numbers[row.name] for row in placed.report.objects]
    every = product(ways_of(machine), repeat=len(objects))
    least = min(seconds.of(dict(zip(objects, ways, strict=True))) for ways in every)
    assert placed.report.placed_s == pytest.approx(least, rel=1e-4)


def test_objects_do_not_exceed_the_memory_of_a_node(machine: Machine, workload: DeclaredWorkload) -> None:
    """With little memory on node 0, nothing is put there that was not there before."""
    assert machine.numa is not None
    small = machine.numa.sizes.model_copy(update={"value": (8 * MIB, 1 << 30)})
    numa = machine.numa.model_copy(update={"sizes": small})
    tight = place_on_nodes(workload, machine.model_copy(update={"numa": numa}), 1)
    on_first = sum(row.bytes for row in tight.report.objects if row.nodes == [0])
    assert on_first <= 8 * MIB


def test_objects_that_gain_nothing_elsewhere_stay_with_first_touch(machine: Machine) -> None:
    """What each thread initialises for itself lies as well by first touch as on any node."""
    loops = Loops(
        (Array("own", 6 * MIB), Array("other", 2 * MIB)),
        (
            Sweep("initialise", 4.0, write("own", "other"), first_touch=True),
            Sweep("compute", 4000.0, read("own", "other")),
        ),
        {},
    )
    placed = place_on_nodes(DeclaredWorkload("busy", loops, machine.cores.count.value), machine, 1)
    assert {row.policy for row in placed.report.objects} == {FIRST_TOUCH}


def test_a_machine_of_one_node_has_nothing_to_choose(workload: DeclaredWorkload) -> None:
    with pytest.raises(UsageError, match="has one NUMA node; name one with several"):
        place_on_nodes(workload, load_machine(SNOOP_FILTER), 1)
