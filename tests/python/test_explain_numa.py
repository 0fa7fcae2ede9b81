"""What `explain` says of NUMA nodes: who uses whose memory, in the JSON, on the terminal and on the page."""

import re

import pytest
from machine_roles import CXL_NODE
from small_machine import initialised_by_one_thread, two_nodes

import pagelens as pl
from pagelens.accesses.declared import Array, DeclaredWorkload, Loops, Sweep
from pagelens.accesses.declared.loops import read, write
from pagelens.accesses.workload import Workload
from pagelens.cli.text.explain import render_terminal
from pagelens.errors import UsageError
from pagelens.explain.html import render_html
from pagelens.machine import Machine, load_machine

MIB = 1 << 20


@pytest.fixture(scope="module")
def machine() -> Machine:
    return two_nodes().with_values({"numa.write_bandwidths": ["105 90 GB/s"]})


@pytest.fixture(scope="module")
def explained(machine: Machine) -> pl.Explanation:
    """Threads read an array that one thread initialised, and one that all did."""
    arrays = dict.fromkeys(("serial", "own"), 12 * MIB)
    loops = Loops(
        tuple(Array(name, size) for name, size in arrays.items()),
        (
            *initialised_by_one_thread(),
            Sweep("initialise", 4.0, write("own"), first_touch=True),
            Sweep("warm-up", 1.0, read("serial", "own")),
            Sweep("loop", 1.0, read("serial", "own")),
        ),
        {},
    )
    workload = DeclaredWorkload("reader", loops, machine.cores.count.value)
    ensemble = pl.simulate(
        workload,
        machine,
        ["aged", "touch", "interleave:serial"],
        nodes=1,
        history="boot; run",
        progress=False,
    )
    return pl.explain(ensemble)


def test_records_say_who_uses_whose_memory(explained: pl.Explanation) -> None:
    """Half of one array's lines are remote. Node 0 has three quarters of all."""
    assert explained.numa is not None
    aged, touch, over = explained.numa
    assert (aged.policy, touch.policy, over.policy) == ("aged", "touch", "interleave:serial")
    assert aged.remote_share == pytest.approx(0.25, abs=0.01)
    assert touch.remote_share == pytest.approx(0, abs=0.01)
    assert over.remote_share == pytest.approx(0.25, abs=0.01)
    most = aged.objects[0]
    assert (most.name, most.remote_share) == ("serial", pytest.approx(0.5, abs=0.01))
    assert most.share == pytest.approx(1, abs=0.01)
    busy = {part.name: part.busy_s for part in aged.parts}
    assert [part.busy_s for part in aged.parts] == sorted(busy.values(), reverse=True)
    bytes_read = 24 * MIB
    assert busy["memory of node 0"] == pytest.approx(0.75 * bytes_read / 105e9, rel=0.02)
    assert busy["memory of node 1"] == pytest.approx(0.25 * bytes_read / 105e9, rel=0.02)
    assert busy["node 0 to 1"] == pytest.approx(0.25 * bytes_read / 34.3e9, rel=0.02)


def test_the_terminal_and_the_page_have_them(explained: pl.Explanation) -> None:
    text, page = render_terminal(explained, False), render_html(explained)
    said = " ".join(text.split())
    assert "NUMA nodes under 'aged': 25% of the lines of memory are remote" in said
    assert re.search(r"serial 50% 100%", said)
    assert re.search(r"node 0 to 1 \d", said)
    assert "Which NUMA node has the data?" in page
    assert re.search(r"<code>serial</code></td><td>50%</td><td>100%", page)
    assert '<td class="text">node 0 to 1</td>' in page
    assert "Which NUMA node" not in render_html(explained.model_copy(update={"numa": None}))


def test_matrices_are_tried_as_other_assumed_values(explained: pl.Explanation) -> None:
    """A third of all rates makes remote memory matter more, and [ddr] has no word beside the matrix."""
    names = {each.name: each for each in explained.assumptions}
    assert not {"ddr.bandwidth", "ddr.latency"} & names.keys()
    rates = names["numa.bandwidths"]
    assert (rates.value, rates.tried_from, rates.tried_to) == (
        "34.3 to 105 GB/s", "11 to 35 GB/s", "100 to 320 GB/s",
    )  # fmt: skip
    assert names["numa.write_bandwidths"].value == "90 to 105 GB/s"
    assert not rates.simulated
    assert rates.gain_from == pytest.approx(rates.gain_as_it_is)  # memory decides in both
    assert rates.gain_to < 0.8 * rates.gain_as_it_is  # three times as fast, other parts do


def test_a_job_that_does_not_fit_is_refused_before_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_at(*given: object) -> None:
        raise AssertionError("the program was compiled")

    monkeypatch.setattr(Workload, "compile", looked_at)
    with pytest.raises(UsageError, match=rf"--size: 1 TB is more than the 947 GB of {CXL_NODE}"):
        pl.simulate(
            pl.workload("stream-triad", size="1000GB"),
            load_machine(CXL_NODE),
            nodes=1,
            progress=False,
        )
