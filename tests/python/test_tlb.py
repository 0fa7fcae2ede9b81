"""TLBs that come with pagelens: how far each reaches, what walks read, traces through them, bad files."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from machine_roles import TLB_OF_DIRECTORIES, TLB_OF_MANY_WAYS, TLB_OF_THREE_SIZES, TLB_WITHOUT_HUGE_L2

from pagelens import _core
from pagelens.accesses.trace import TraceWorkload, open_trace
from pagelens.accesses.tracer import TraceRequest, trace_program
from pagelens.errors import UsageError
from pagelens.machine.tlb import PAGE_SIZES
from pagelens.machine.tlb_files import TlbFile, list_tlbs, load_tlb, parse_tlb
from pagelens.replay.tlb_of_trace import replay_trace

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SMALL, LARGE, HUGE = 4 * KIB, 2 * MIB, GIB

# Entries by page size of the first and second level: McCalpin, What good are Large Pages, 2012.
SEED = {
    TLB_OF_THREE_SIZES: ({SMALL: 48, LARGE: 48, HUGE: 48}, {SMALL: 512, LARGE: 128, HUGE: 16}),
    TLB_OF_MANY_WAYS: ({SMALL: 32, LARGE: 32, HUGE: 32}, {SMALL: 1024, LARGE: 1024, HUGE: 1024}),
    "westmere": ({SMALL: 64, LARGE: 32}, {SMALL: 512}),
    TLB_WITHOUT_HUGE_L2: ({SMALL: 64, LARGE: 32, HUGE: 4}, {SMALL: 512}),
    TLB_OF_DIRECTORIES: ({SMALL: 64, LARGE: 8}, {LARGE: 64}),
}


def later_sweep(tlb: TlbFile, page: int, pages: int) -> _core.TlbCounters:
    """Counters of a second sweep over so many pages."""
    core, addresses = tlb.core(), np.arange(pages, dtype=np.uint64) * page
    core.translate(addresses, PAGE_SIZES[page])
    return core.translate(addresses, PAGE_SIZES[page])


@pytest.mark.parametrize("name", SEED)
def test_knees_at_entries_times_page_size(name: str) -> None:
    tlb = load_tlb(name)
    first, second = SEED[name]
    for page, entries in first.items():
        assert not any(later_sweep(tlb, page, entries).dtlb_misses)
        assert any(later_sweep(tlb, page, entries + 1).dtlb_misses)
    for page, entries in first.items():
        reach = max(entries, second.get(page, 0))
        assert not any(later_sweep(tlb, page, reach).walks_completed)
        assert any(later_sweep(tlb, page, reach + 1).walks_completed)


def test_xeon_phi_walks_one_step_out_to_128_mib() -> None:
    tlb = load_tlb(TLB_OF_DIRECTORIES)
    draw = np.random.Generator(np.random.Philox(1))

    def loads_a_walk(footprint: int) -> float:
        core, addresses = tlb.core(), draw.integers(footprint, size=200_000, dtype=np.uint64)
        core.translate(np.arange(0, footprint, LARGE, dtype=np.uint64), PAGE_SIZES[SMALL])
        counters = core.translate(addresses, PAGE_SIZES[SMALL])
        return sum(counters.walker_loads) / sum(counters.walks_completed)

    assert loads_a_walk(128 * MIB) == 1
    assert 1.4 < loads_a_walk(256 * MIB) < 1.6  # half of the page directory's entries are held
    assert not any(later_sweep(tlb, SMALL, 64).walks_completed)


def test_every_page_size_of_every_file_can_be_used_and_its_twin_never_misses() -> None:
    for name in list_tlbs():
        tlb = load_tlb(name)
        assert tlb.name == name
        assert SMALL in tlb.page_sizes
        assert LARGE in tlb.page_sizes
        for page in tlb.page_sizes:
            ideal = tlb.core(ideal=True)
            counters = ideal.translate(np.arange(5000, dtype=np.uint64) * page, PAGE_SIZES[page])
            assert counters.lookups == 5000
            assert not any(counters.dtlb_misses)


def test_what_walks_read_lies_in_the_frames_given() -> None:
    addresses = np.arange(1000, dtype=np.uint64) * SMALL
    tables, frames = _core.PageTables(), np.arange(7, 60, 3, dtype=np.uint32)
    used = tables.map(addresses, PAGE_SIZES[SMALL], frames)
    assert used == 5  # PML4, PDPT, page directory, two page tables
    counters, entries, translations = (
        load_tlb("skylake-sp").core().translate(addresses, np.zeros(1000, np.uint8), tables)
    )
    assert set(entries // 4096) == set(frames[:used])
    assert len(entries) == len(translations) == sum(counters.walker_loads)
    assert list(np.unique(translations)) == list(range(1000))
    of_first_page = entries[translations == 0]
    assert list(of_first_page) == [frames[level] * 4096 for level in range(4)]
    with pytest.raises(ValueError, match="more tables than frames"):
        _core.PageTables().map(addresses, PAGE_SIZES[SMALL], frames[:4])


def test_bad_batches_are_refused() -> None:
    core = load_tlb("skylake-sp").core()
    addresses = np.zeros(2, np.uint64)
    with pytest.raises(ValueError, match="as many page sizes"):
        core.translate(addresses, np.zeros(3, np.uint8))
    with pytest.raises(ValueError, match="no first level for pages of that size"):
        core.translate(addresses, np.full(2, 3, np.uint8))
    with pytest.raises(ValueError, match="more than 48 bits"):
        core.translate(addresses + np.uint64(1 << 48), PAGE_SIZES[SMALL])
    with pytest.raises(ValueError, match="without page tables"):
        core.translate(addresses, np.zeros(2, np.uint8), _core.PageTables())


@pytest.fixture(scope="module")
def copy_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("tlb") / "copy"
    source = Path(__file__).parents[1] / "programs" / "copy.c"
    flags = ["-O2", "-fno-tree-loop-distribute-patterns", "-fno-tree-vectorize"]
    subprocess.run(["gcc", *flags, source, "-o", program], check=True)
    return program


def traced(program: Path, any_tlb: bool) -> TraceWorkload:
    trace = program.with_suffix(f".{any_tlb}.trace")
    trace_program(TraceRequest([str(program), "8", "2"], str(trace), any_tlb=any_tlb))
    return open_trace(trace)


def test_a_traced_copy_through_tlbs(copy_program: Path) -> None:
    """Two arrays of 8 MiB; one is filled, then copied to the other twice: five sweeps, with either filter."""
    default, any_tlb = traced(copy_program, False), traced(copy_program, True)
    assert default.trace.page_filter == (16, 4)
    assert any_tlb.trace.page_filter == (1, 4)

    def walks(workload: TraceWorkload, name: str, page: int) -> int:
        replayed = replay_trace(workload, load_tlb(name).core(), page)
        assert [phase for phase, _ in replayed] == workload.phases
        assert {thread for _, thread in replayed} == {0}
        return sum(sum(counters.walks_completed) for counters in replayed.values())

    sweeps, around = 5 * 2048, 700  # pages: more than a second level has entries; what a program has besides
    for workload, name in ((default, "skylake-sp"), (any_tlb, "skylake-sp"), (any_tlb, TLB_OF_THREE_SIZES)):
        assert sweeps <= walks(workload, name, SMALL) < sweeps + around
    assert walks(any_tlb, "westmere", LARGE) < around  # of large pages all are held
    for name, page in ((TLB_OF_THREE_SIZES, SMALL), ("skylake-sp", LARGE), ("knl", SMALL)):
        with pytest.raises(UsageError, match=r"page filter of 16 sets x 4 ways hides .* with --any-tlb"):
            replay_trace(default, load_tlb(name).core(), page)
    with pytest.raises(UsageError, match=r"1073741824 B is none of this TLB's; use one of 4 KiB, 2 MiB"):
        replay_trace(default, load_tlb(TLB_OF_DIRECTORIES).core(), HUGE)


HUGE_PAGES = 'pages = { value = ["1 GiB"]'
WALKERS = "walkers = { value = 2, source"


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("value = 1536,", "value = 1500,", ":24: 'tlb.3': entries / ways must be a power of two"),
        (HUGE_PAGES, 'pages = { value = ["1 GB"]', "'1 GB' is no size of a page; write"),
        (HUGE_PAGES, "pages = { value = [1]", "1 is no size of a page; write"),
        (HUGE_PAGES, "pages = { value = []", "'tlb.2.pages.value' (is []): List should have at least 1 item"),
        (HUGE_PAGES, 'pages = { value = ["2 MiB"]', "tlb.1 and tlb.2 both hold 2 MiB pages at level 1"),
        (HUGE_PAGES, 'pages = { value = ["1 GiB", "1 GiB"]', "a page size is named twice"),
        (HUGE_PAGES, f'pieces_of = {{ value = ["4 KiB"], assumed = "x" }}\n{HUGE_PAGES}', "only level 1 has"),
        ("[[tlb]]", '[[tlb]]\npage_directory = { value = true, assumed = "x" }', "belongs to level 2"),
        ("level = { value = 2,", "level = { value = 3,", ":25: 'tlb.3.level.value' (is 3): Input should be"),
        ('value = "folded"', 'value = "hashed"', "'tlb.3.index.value' (is 'hashed'): Input should be"),
        ("pde_cache_ways", "pde_cache_way", "unknown key 'page_walk.pde_cache_way'; did you mean pde_cache_"),
        ("pml4e_cache_entries = {", "# {", "pml4e_cache_entries and pml4e_cache_ways belong together"),
        (WALKERS, "# {", "'page_walk.walkers' is missing"),
        (WALKERS, "walkers = { value = 2, guessed", "unknown key 'page_walk.walkers.guessed'"),
        (WALKERS, 'walkers = { value = "two", source', "(is 'two'): Input should be a valid integer"),
    ],
)
def test_errors_name_file_line_and_field(old: str, new: str, named: str) -> None:
    text = list_tlbs()["skylake-sp"].read_text()
    assert old in text
    with pytest.raises(UsageError) as error:
        parse_tlb(text.replace(old, new, 1).encode(), "my-tlb.toml")
    assert str(error.value).startswith("my-tlb.toml:")
    assert named in str(error.value)
    assert "\n" not in str(error.value)


def test_a_second_level_of_page_directory_entries_is_the_only_cache_of_them() -> None:
    text = list_tlbs()[TLB_OF_DIRECTORIES].read_text()
    added = (
        'pde_cache_entries = { value = 32, assumed = "x" }\npde_cache_ways = { value = 8, assumed = "x" }\n'
    )
    with pytest.raises(UsageError, match="page-directory-entry cache; there is no other"):
        parse_tlb((text + added).encode(), "my-tlb.toml")


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(UsageError, match="'skylake' is unknown; did you mean skylake-sp"):
        load_tlb("skylake")
