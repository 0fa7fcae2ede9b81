"""The code that writes an object's pages first, under every engine."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from small_machine import two_nodes

import pagelens as pl
from pagelens import _core
from pagelens.accesses.job import JobWorkload
from pagelens.accesses.trace import TraceWorkload, open_trace
from pagelens.accesses.tracer import TraceRequest, trace_program
from pagelens.accesses.workload import Workload
from pagelens.address.units import FRAME_BYTES
from pagelens.cli.text.explain import render_terminal
from pagelens.explain.html import render_html
from pagelens.explain.remedy_words import initialise_in_parallel

ENGINES = [
    "qemu",
    pytest.param(
        "dynamorio",
        marks=pytest.mark.skipif(
            not (Path(_core.__file__).parent / "lib/libdynamorio.so").exists(),
            reason="no DynamoRIO; run make engine",
        ),
    ),
]
ELEMENTS = 1 << 19  # of each array of two_writers
SOURCE = Path(__file__).parent.parent / "programs/two_writers.c"


def traced(folder: Path, program: Path, engine: str, *arguments: str) -> TraceWorkload:
    path = folder / f"{engine}.trace"
    trace_program(TraceRequest([str(program), *arguments], str(path), accesses=0, engine=engine))
    return open_trace(path)


def writers(workload: Workload) -> dict[str, dict[str, int]]:
    """Return the pages that each place writes first, of each array. malloc() writes a few of them."""
    return {
        workload.objects[index].name: {place: pages for place, pages in places.items() if pages > 8}
        for index, places in workload.first_writers.items()
        if workload.objects[index].bytes > 1 << 20
    }


def line_of(text: str) -> int:
    return 1 + next(number for number, line in enumerate(SOURCE.read_text().splitlines()) if text in line)


@pytest.mark.parametrize("engine", ENGINES)
def test_each_array_has_the_line_that_initialises_it(
    tmp_path: Path, built: Callable[..., Path], engine: str
) -> None:
    """What the pages are written for again later does not count."""
    found = writers(traced(tmp_path, built("two_writers"), engine))
    whole, half = line_of("take(ELEMENTS * sizeof(long))"), line_of("take(ELEMENTS * sizeof(double))")
    take = f"take (two_writers.c:{line_of('malloc')})"
    assert {name: list(places) for name, places in found.items()} == {
        f"{take} from main (two_writers.c:{whole})": [f"count_up (two_writers.c:{line_of('first */')})"],
        f"{take} from main (two_writers.c:{half})": [f"halve (two_writers.c:{line_of('second */')})"],
    }
    pages = ELEMENTS * 8 // FRAME_BYTES
    assert [sum(places.values()) for places in found.values()] == pytest.approx([pages, pages], abs=1)


@pytest.mark.parametrize("engine", ENGINES)
def test_memset_is_named_by_its_caller(tmp_path: Path, built: Callable[..., Path], engine: str) -> None:
    """It may write with string instructions, and past the caches."""
    (places,) = writers(traced(tmp_path, built("serial_touch"), engine)).values()
    (place,) = places
    assert place.startswith("main (serial_touch.c:")
    assert places[place] == pytest.approx((16 << 20) // FRAME_BYTES, abs=1)


def test_without_debug_information_it_is_a_function_and_an_offset(tmp_path: Path) -> None:
    program = tmp_path / "plain"
    subprocess.run(["gcc", "-O1", "-o", program, SOURCE], check=True)
    found = writers(traced(tmp_path, program, "qemu"))
    places = [next(iter(each)) for each in found.values()]
    assert [place.partition("+")[0] for place in places] == ["count_up", "halve"]
    assert all("+0x" in place and place.endswith(" (plain)") for place in places)


def test_a_job_adds_up_what_its_ranks_write(tmp_path: Path, built: Callable[..., Path]) -> None:
    trace = traced(tmp_path, built("two_writers"), "qemu")
    alone = writers(trace)
    assert writers(JobWorkload([trace, trace])) == {
        name: {place: 2 * pages for place, pages in places.items()} for name, places in alone.items()
    }


def test_explain_names_the_loop_to_make_parallel(
    tmp_path: Path, built: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record, both reports and the conclusion name it."""
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    trace = traced(tmp_path, built("serial_triad", "-fopenmp"), "qemu", "5")
    policies = ["aged", "touch"]
    ensemble = pl.simulate(
        trace, two_nodes(), policies, nodes=1, history="boot; run", ranks=1, progress=False
    )
    explained = pl.explain(ensemble)
    assert explained.numa is not None
    first = explained.numa[0].objects[0]
    written = str(first.first_written_by)
    assert re.fullmatch(r"main \(serial_triad.c:\d+\)", written)
    terminal, report = " ".join(render_terminal(explained).split()), render_html(explained)
    assert f"first written by {written}" in terminal
    assert f'<td class="name"><code>{written}</code></td>' in report
    remedies = [remedy.model_copy(update={"verdict": "gains"}) for remedy in explained.remedies]
    (advised,) = initialise_in_parallel(remedies, explained.numa[0])
    assert f"`{first.name}`, which {written} writes first" in advised
    of_one = [remedies[0].model_copy(update={"policy": f"touch:{first.name}"})]
    assert initialise_in_parallel(of_one, explained.numa[0]) == [
        f"For 'touch:{first.name}', let the threads that use an object initialise it: `{first.name}`, which "
        f"{written} writes first."
    ]
    assert initialise_in_parallel([], explained.numa[0]) == []
