"""`pagelens audit`: what is read of captured and damaged trees, and what is found in it."""

import json
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_roles import CACHE_MODE
from machine_trees import NAMES, TREES, audit_text, audited, damaged_trees, lay_out, read_tree

from pagelens.audit import Audit, Severity, find
from pagelens.audit.effect import random_conflict_share
from pagelens.audit.fragmentation import fragmentation_index, unusable_index
from pagelens.audit.read import read_audit
from pagelens.cli.commands.audit import FailOn, status
from pagelens.cli.text.audit import render
from pagelens.host.file_pages import CachedFile
from pagelens.host.frame_map import FrameMap, Use, read_frame_map, uses
from pagelens.machine import load_machine
from pagelens.machine.detect import System

AUDITED = tuple(name for name in NAMES if (TREES / f"{name}.audit.json").exists())
SORT = "sys/kernel/zone_sort_free_pages"
MODULE = "sys/module/zonesort_module/parameters"


def audit_of(name: str, root: Path, **changes: str | None) -> Audit:
    """Audits a tree with some files changed or taken out; "/" is written "__" in their names."""
    files = read_tree(name)
    for path, content in changes.items():
        files.pop(path.replace("__", "/"), None)
        if content is not None:
            files[path.replace("__", "/")] = content.encode()
    return audited(lay_out(files, root))


def codes(audit: Audit) -> list[tuple[str, str]]:
    return [(finding.severity, finding.code) for finding in find(audit)]


@pytest.mark.parametrize("name", AUDITED)
def test_a_captured_tree_gives_its_audit(name: str, tmp_path: Path) -> None:
    audit = audited(lay_out(read_tree(name), tmp_path))
    assert audit_text(audit) == (TREES / f"{name}.audit.json").read_text()
    assert max(map(len, render(audit, find(audit)).splitlines())) <= 80


def test_six_machines_and_more_are_told_apart() -> None:
    goldens = {name: json.loads((TREES / f"{name}.audit.json").read_text()) for name in AUDITED}
    found = {name: {f["code"] for f in golden["findings"]} for name, golden in goldens.items()}
    assert len(found) >= 6
    assert len({frozenset(of_tree) for of_tree in found.values()}) == len(found)
    assert found["guest-genoa"] >= {"guest", "whole-memory"}
    assert found["two-socket-8160"] >= {"snoop-filter", "swap", "large-page-fallbacks", "compaction-fails"}
    assert found["knl-flat"] >= {"fast-tier", "unused-pool", "numa-balancing"}
    assert found["genoa-cxl"] >= {"slow-tier", "strict-overcommit"}
    assert found["max-9480-cache"] >= {"free-lists", "no-large-pages"}
    assert {f["severity"] for f in goldens["milan-cpuid"]["findings"] if f["code"] == "fragmented"} == {"bad"}
    assert goldens["knl-cache"]["findings"][0]["code"] == "free-lists"


def test_what_random_frames_do_to_a_job() -> None:
    for share, expected in ((0.25, 0.19), (0.5, 0.35), (1, 0.60)):  # of the cache; memory is six times it
        assert random_conflict_share(share, 1, 6) == pytest.approx(expected, abs=0.005)
    assert random_conflict_share(1, 2, 1) == 0  # memory that the cache holds all of


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("bad", "free-lists")),
        ({"proc__vmstat": "pgalloc_normal 12000000"}, ("note", "free-lists")),  # half of memory
        ({"proc__vmstat": "pgalloc_normal 25000000"}, ("bad", "free-lists")),  # 1.01 of it
        ({"proc__vmstat": None}, ("warning", "free-lists")),
        ({"sys__module__page_alloc__parameters__shuffle": "Y"}, ("warning", "free-lists")),
        ({f"{SORT}/sort_interval".replace("/", "__"): "0 sec"}, ("note", "zonesort")),
        ({f"{SORT}/sort_interval".replace("/", "__"): "600 sec"}, ("good", "zonesort")),
        ({"proc__cmdline": "quiet numa=fake=6U"}, ("warning", "numa-fake")),  # the tree has one node yet
    ],
)
def test_the_free_lists_before_a_cache(
    changes: dict[str, str | None], expected: tuple[str, str], tmp_path: Path
) -> None:
    found = [pair for pair in codes(audit_of("knl-cache", tmp_path, **changes)) if pair[1] in
             ("free-lists", "zonesort", "numa-fake")]  # fmt: skip
    assert found == [expected]


def test_what_lies_on_the_wrong_node(tmp_path: Path) -> None:
    node, pool = "sys__devices__system__node__node", "hugepages__hugepages-2048kB__nr_hugepages"
    memory = "Node {0} MemTotal: 99000000 kB\nNode {0} MemFree: {1} kB\n"
    nodes = {f"{node}{n}__meminfo": memory.format(n, free) for n, free in ((0, 9_000_000), (1, 90_000_000))}
    pools = {f"{node}{n}__{pool}": pages for n, pages in ((0, "2"), (1, "4094"))}
    audit = audit_of("two-socket-8160", tmp_path / "uneven", **nodes, **pools)
    found = {finding.code: finding for finding in find(audit)}
    assert found["uneven-free"].seen == "NUMA node 0 has 9% of its memory free, and node 1 91%."
    assert found["pool-on-one-node"].seen == "100% of the pool of 2 MiB pages lie on NUMA node 1."
    assert len(found["pool-on-one-node"].remedy) == 2
    assert "echo 2048 >" in found["pool-on-one-node"].remedy[0]
    cached = [
        CachedFile("my file", 1 << 30, 1 << 30, {0: 1 << 29, 1: 1 << 29}),
        CachedFile("x", 9, 8, {1: 8}),
    ]
    (file,) = (each for each in find(replace(audit, files=tuple(cached))) if each.code == "file-on-one-node")
    assert file.seen == "100% of the cached pages of x lie on NUMA node 1."
    even = {f"{node}{n}__{pool}": "2048" for n in (0, 1)}
    nodes = {f"{node}{n}__meminfo": memory.format(n, 50_000_000) for n in (0, 1)}
    calm = codes(audit_of("two-socket-8160", tmp_path / "even", **nodes, **even))
    assert not {"uneven-free", "pool-on-one-node", "file-on-one-node"} & {code for _, code in calm}


def test_slower_memory_that_nothing_is_moved_to(tmp_path: Path) -> None:
    enabled = "sys__kernel__mm__numa__demotion_enabled"
    for number, (said, expected) in enumerate((("false", True), ("true", False), (None, False))):
        found = codes(audit_of("genoa-cxl", tmp_path / str(number), **{enabled: said}))
        assert (("note", "no-demotion") in found) is expected


def test_our_module_and_intels(tmp_path: Path) -> None:
    on_demand = {f"{SORT}/sort_interval".replace("/", "__"): "0 sec"}
    intel = audit_of("knl-cache", tmp_path / "intel", **on_demand)
    assert ("note", "intel-zonesort") in codes(intel)
    assert (intel.kernel.zonesort.kind, intel.kernel.zonesort.interval_s) == ("intel", 0)
    stats = {"sys__kernel__debug__zonesort__stats": "sorts 0\nlast_node 0\nlast_ns 0\n"}
    ours = {**on_demand, f"{MODULE}/evacuate".replace("/", "__"): "Y"}
    fresh = audit_of("knl-cache", tmp_path / "fresh", **ours, **stats)
    assert (fresh.kernel.zonesort.kind, fresh.kernel.zonesort.last_ns) == ("pagelens", None)
    assert ("warning", "zonesort") in codes(fresh)
    stats = {
        "sys__kernel__debug__zonesort__stats": "sorts 7\nlast_node 0\nlast_ns 81000000\nblocks_stuck 3\n"
    }
    sorted_ = audit_of("knl-cache", tmp_path / "sorted", **ours, **stats)
    assert ("note", "zonesort") in codes(sorted_)
    assert asdict(sorted_.kernel.zonesort) == {
        "loaded": True, "kind": "pagelens", "interval_s": 0, "sorts": 7, "last_node": 0, "last_ns": 81000000,
        "blocks_stuck": 3,
    }  # fmt: skip
    assert "7 sorts, the last of node 0 in 81 ms" in " ".join(render(sorted_, find(sorted_)).split())


def test_a_cache_that_only_hwloc_tells_of(tmp_path: Path) -> None:
    xml = """<topology><object type="Machine">
      <object type="MemCache" nodeset="0x00000001" cache_size="17179869184" cache_linesize="64"
       cache_associativity="1"><object type="NUMANode" nodeset="0x00000001" subtype="DRAM"/></object>
      </object></topology>"""
    (node,) = audit_of("knl-cache", tmp_path, **{"hwloc.xml": xml}).nodes
    assert node.kind == "DRAM"
    assert node.side_cache is not None
    assert (node.side_cache.size, node.side_cache.direct_mapped, node.side_cache.line) == (16 << 30, True, 64)


def test_memory_without_processors_that_is_as_fast_is_no_slow_tier(tmp_path: Path) -> None:
    rate = "sys__devices__system__node__node1__access0__initiators__read_bandwidth"
    for bandwidth, slow in (("459000", True), ("460000", False)):  # node 0 has 460000 MB/s
        found = codes(audit_of("genoa-cxl", tmp_path / bandwidth, **{rate: bandwidth}))
        assert (("warning", "slow-tier") in found) == slow


def test_large_pages_that_could_be_had(tmp_path: Path) -> None:
    audit = audit_of("two-socket-8160", tmp_path)
    large, gigantic = audit.huge_pages
    counts = [zone.free_blocks for zone in audit.zones]
    assert large.more_now == sum(c[9] + 2 * c[10] for c in counts)
    blocks = 5 + 880 + 44201 + 44411  # movable ones
    available = audit.usage.free + audit.usage.droppable  # type: ignore[operator]
    assert large.more_at_most == min(blocks - 512, available >> 21)
    assert gigantic.more_now == sum(c[10] // 256 for c in counts)
    assert not gigantic.more_now_exact
    assert gigantic.more_at_most == min((blocks - 512) // 512, available >> 30)


def test_page_blocks_bound_what_compaction_can_make(tmp_path: Path) -> None:
    types = "Number of blocks type Unmovable Movable CMA\nNode 0, zone Normal 40000 1000 24\n"
    changes = {
        "proc__pagetypeinfo": types,
        "proc__buddyinfo": "Node 0, zone Normal 5000 400 3 0 0 0 0 0 0 0 0",
    }
    large, _ = audit_of("two-socket-8160", tmp_path, **changes).huge_pages
    assert (large.more_now, large.more_at_most) == (0, 1024 - 512)  # the pool has 512 of them


@pytest.mark.parametrize(
    ("counts", "unusable", "fragmentation"),
    [
        ([0] * 11, 1.0, 0.0),  # no free memory: all of it unusable, and a request fails for lack of memory
        ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5], 0.0, None),
        ([512, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0], 0.5, None),
        ([1024, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1.0, 0.998),
        ([0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0], 1.0, -0.5),
    ],
)
def test_the_kernels_indices(counts: list[int], unusable: float, fragmentation: float | None) -> None:
    assert unusable_index(counts, 9) == unusable
    assert fragmentation_index(counts, 9) == fragmentation


@given(st.lists(st.integers(0, 1 << 40), min_size=11, max_size=11))
def test_indices_are_the_kernels_formulas(counts: list[int]) -> None:
    """mm/vmstat.c in its own words: counted block by block, divided as u64."""
    free = suitable = blocks = 0
    for order, count in enumerate(counts):
        blocks += count
        free += count << order
        if order >= 9:
            suitable += count << (order - 9)
    kernel = 1000 if free == 0 else (free - (suitable << 9)) * 1000 // free
    assert unusable_index(counts, 9) == kernel / 1000
    if suitable:
        assert fragmentation_index(counts, 9) is None
    elif blocks:
        kernel = 1000 - (1000 + free * 1000 // 512) // blocks
        assert fragmentation_index(counts, 9) == kernel / 1000


FREE, LRU, ANON, DIRTY, TAIL, HEAD, HUGE, NOPAGE, MMAP = (
    1 << bit for bit in (10, 5, 12, 4, 16, 15, 17, 20, 11)
)


def test_what_flags_say_of_a_frame() -> None:
    flags = [FREE, LRU, LRU | DIRTY, LRU | MMAP, LRU | ANON, 0, NOPAGE, HUGE | HEAD, HUGE | TAIL]
    flags += [LRU | DIRTY | HEAD, TAIL, TAIL, LRU, HEAD, TAIL]  # parts are what their head is
    expected = [Use.free, Use.droppable, Use.movable, Use.movable, Use.movable, Use.pinned, Use.hole]
    expected += [Use.pinned] * 2 + [Use.movable] * 3 + [Use.droppable, Use.pinned, Use.pinned]
    assert uses(np.array(flags, dtype=np.uint64)).tolist() == expected


def frame_map_tree(root: Path, flags: list[int], spans: list[tuple[int, int]]) -> System:
    zones = "".join(
        f"Node {node}, zone   Normal\n  pages free 1\n        spanned  {end - begin}\n        present  1\n"
        f"  start_pfn:           {begin}\n"
        for node, (begin, end) in enumerate(spans)
    )
    raw = np.array(flags, dtype="<u8").tobytes()
    return lay_out({"proc/kpageflags": raw, "proc/zoneinfo": zones.encode()}, root)


def test_whole_pages_of_a_frame_map(tmp_path: Path) -> None:
    flags = [FREE] * 512 + [LRU] * 512 + [FREE] * 511 + [0] + [FREE] * 512 + [FREE] * 100
    system = frame_map_tree(tmp_path, flags, [(0, 1300), (1300, 2148)])
    frames = read_frame_map(system)
    assert frames is not None
    assert frames.pages(2 << 20, Use.free).tolist() == [0, 1536]
    assert frames.pages(2 << 20, Use.droppable).tolist() == [0, 512, 1536]
    assert frames.pages(4096, Use.free).size == 512 + 511 + 612
    assert frames.node_of(np.array([0, 1299, 1300, 5000])).tolist() == [0, 0, 1, -1]


def test_without_flags_or_zones_there_is_no_frame_map(tmp_path: Path) -> None:
    system = frame_map_tree(tmp_path, [FREE] * 10, [(0, 10)])
    (tmp_path / "proc/kpageflags").unlink()
    assert read_frame_map(system) is None
    system = frame_map_tree(tmp_path, [FREE] * 10, [])
    assert read_frame_map(system) is None
    short = read_frame_map(frame_map_tree(tmp_path, [FREE] * 10, [(0, 4096)]))
    assert short is not None
    assert np.bincount(short.use).tolist() == [10, 0, 0, 0, 4086]  # what the file lacks are holes


def test_gigantic_pages_are_counted_in_a_frame_map() -> None:
    use = np.zeros(3 << 18, dtype=np.uint8)
    use[5] = Use.movable
    use[2 << 18] = Use.pinned
    frames = FrameMap(read_spans_of(3 << 18), use)
    assert frames.pages(1 << 30, Use.free).tolist() == [1 << 18]
    assert frames.pages(1 << 30, Use.movable).tolist() == [0, 1 << 18]


def read_spans_of(frames: int) -> tuple:  # type: ignore[type-arg]
    from pagelens.host.frame_map import Span

    return (Span(0, "Normal", 0, frames),)


@pytest.mark.parametrize(
    ("severities", "expected"),
    [([], (0, 0, 0)), (["note", "good"], (0, 0, 0)), (["warning"], (3, 0, 0)), (["bad", "note"], (3, 3, 0))],
)
def test_the_exit_status(severities: list[str], expected: tuple[int, ...], tmp_path: Path) -> None:
    any_finding = find(audit_of("knl-cache", tmp_path))[0]
    findings = tuple(type(any_finding)(Severity(s), "x", "", "") for s in severities)
    assert (
        tuple(status(findings, fail_on) for fail_on in (FailOn.warning, FailOn.bad, FailOn.never)) == expected
    )


def test_a_machine_that_is_named_is_taken_for_it(tmp_path: Path) -> None:
    system = lay_out(read_tree("guest-genoa"), tmp_path)
    audit = read_audit(system, load_machine(CACHE_MODE), None)
    assert audit.cache is not None
    assert audit.cache.size == 16 << 30
    assert any(code == "free-lists" for _, code in codes(audit))


@settings(max_examples=30)
@given(damaged_trees(AUDITED, most=8))
def test_a_damaged_tree_is_audited_all_the_same(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        audit = audited(lay_out(files, Path(folder)))
        json.loads(audit_text(audit))
        assert render(audit, find(audit)).endswith("\n")


def test_of_nothing_all_is_unknown(tmp_path: Path) -> None:
    audit = audited(System(tmp_path))
    assert find(audit) == ()
    assert (audit.zones, audit.huge_pages, audit.kernel.version, audit.usage.total) == ((), (), None, None)
    assert "Free memory by order: unknown" in render(audit, ())
