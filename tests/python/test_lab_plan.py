"""Plans on a real kernel with two nodes: page by page, planned objects lie where they were to."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from machine_roles import FLAT_MODE
from plan_programs import MIB, plan_of, planned, planned_variable, returns
from run_library import PROGRAMS, build

from pagelens.errors import UsageError
from pagelens.host.system import System
from pagelens.lab.guest import Guest
from pagelens.lab.initramfs import Initramfs
from pagelens.lab.planned_program import add_planned, plan_for_guest
from pagelens.place.plan import NO_LIMIT, Plan, read_plan, write_plan
from pagelens.run.memory_tiers import NO_TIERS, Tiers, find_tiers

FAST, SLOW = 1, 0
FAST_BYTES = 64 * MIB
NAMES = ("mesh", "zeroed", "new", "aligned", "grown")
FUNCTIONS = ("take_mesh", "take_zeroed", "take_new", "take_aligned", "grow")
SHARES = (1.0, 0.5, 0.25, 1.0, 1.0)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(PROGRAMS / "planned.cpp", tmp_path_factory.mktemp("planned") / "planned", compiler="g++")


def whole_plan(program: Path) -> Plan:
    blocks = [
        planned(name, returns(program, function)[0], share=share)
        for name, function, share in zip(NAMES, FUNCTIONS, SHARES, strict=True)
    ]
    rows = planned("rows", *returns(program, "take_row"))
    mapped = planned("mapped", *returns(program, "take_mapped"), share=0.5)
    return plan_of(
        program, *blocks, rows, mapped, planned_variable("table", f"{program.name}!table", share=0.5)
    )


@pytest.fixture(scope="module", params=["6.1", pytest.param("6.12", marks=pytest.mark.long)])
def guest(program: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Guest, list[str]]]:
    root = Initramfs()
    words = add_planned(
        root, "/app/planned", program, whole_plan(program), Tiers((FAST,), (), None), "/report"
    )
    # move_pages() of Linux 6.1 does not see pages that NUMA balancing watches (gup_can_follow_protnone()).
    unwatched = "numa_balancing=disable"
    with Guest(request.param, 512 * MIB + FAST_BYTES, root, append=unwatched, fast=FAST_BYTES) as running:
        yield running, words


def placed(line: str) -> list[tuple[int, int]]:
    """Runs of pages: how many, and on which node."""
    runs: list[tuple[int, int]] = []
    for count, node in re.findall(r"(\d+) x \S+ on (-?\d+)", line):
        if runs and runs[-1][1] == int(node):
            runs[-1] = (runs[-1][0] + int(count), int(node))
        else:
            runs.append((int(count), int(node)))
    return runs


def test_each_page_lies_on_the_planned_node(guest: tuple[Guest, list[str]]) -> None:
    running, words = guest
    printed = running.run(*words, *NAMES, "table", "other", "rows", "fork", "threads").checked()
    said = dict(line.split(": ", 1) for line in printed.splitlines())
    for name, share in zip(NAMES, SHARES, strict=True):
        runs = placed(said[name])
        pages = sum(count for count, _ in runs)
        fast = round(share * pages)
        assert runs == [(fast, FAST), (pages - fast, SLOW)][: 1 + (share < 1)], (name, said[name])
    (first, node), (_, other) = placed(said["table"])
    assert first == pytest.approx(64, abs=1.5)
    assert (node, other) == (FAST, SLOW)
    assert placed(said["other"]) == [(256, SLOW)]
    assert said["rows"] == "100 of 100 fast, 0 wrong"
    assert placed(said["child"]) == [(256, FAST)]
    report = json.loads(running.get("/report"))
    assert report["said"] == []
    objects = {one["name"]: one for one in report["plan"]["objects"]}
    for name, share in zip(NAMES, SHARES, strict=True):
        one = objects[name]
        assert one["to_be_fast"]["slow_bytes"] == one["others"]["fast_bytes"] == 0
        touched = one["to_be_fast"]["fast_bytes"] + one["others"]["slow_bytes"]
        assert one["to_be_fast"]["fast_bytes"] == pytest.approx(share * touched, abs=4096)
    assert objects["rows"]["to_be_fast"]["fast_bytes"] > 0
    assert objects["rows"]["to_be_fast"]["slow_bytes"] == 0


def test_each_page_of_a_mapping_lies_on_the_planned_node(guest: tuple[Guest, list[str]]) -> None:
    running, words = guest
    said = dict(line.split(": ", 1) for line in running.run(*words, "mapped").checked().splitlines())
    for name in ("mapped", "mapped-filled", "mapped-cut"):
        assert placed(said[name]) == [(128, FAST), (128, SLOW)], name
    assert placed(said["mapped-first"]) == [(64, FAST)]
    assert placed(said["mapped-last"]) == [(64, SLOW)]
    assert placed(said["mapped-grown"]) == [(256, FAST), (256, SLOW)]
    assert placed(said["mapped-shrunk"]) == placed(said["mapped-moved"]) == [(128, FAST)]
    assert placed(said["mapped-over"]) == [(256, SLOW)]
    assert said["mapped-wrong"] == "0"
    (mapped,) = (one for one in json.loads(running.get("/report"))["plan"]["objects"] if one["mappings"])
    assert mapped["to_be_fast"]["slow_bytes"] == mapped["others"]["fast_bytes"] == 0


def test_pages_lie_on_nodes_by_the_planned_policy(guest: tuple[Guest, list[str]], program: Path) -> None:
    """Page by page: in turn by the number of the page, or all on the node that is named."""
    running, words = guest
    sites = {name: returns(program, function)[0] for name, function in zip(NAMES, FUNCTIONS, strict=True)}
    objects = [
        planned("mesh", sites["mesh"], policy="interleave", nodes=(0, 1)),
        planned("zeroed", sites["zeroed"], policy="bind", nodes=(1,)),
        planned("new", sites["new"], policy="prefer", nodes=(1,)),
        planned("mapped", *returns(program, "take_mapped"), policy="interleave", nodes=(1, 0)),
    ]
    plan = plan_of(program, *objects, capacity=NO_LIMIT)
    running.put("/lab/nodes-plan", plan_for_guest("/app/planned", program, plan, NO_TIERS))
    again = [word.replace("/lab/plan", "/lab/nodes-plan") for word in words]
    printed = running.run(*again, "mesh", "zeroed", "new", "mapped", "other").checked()
    said = dict(line.split(": ", 1) for line in printed.splitlines())
    for name in ("mesh", "mapped"):
        runs = placed(said[name])
        assert {count for count, _ in runs} == {1}, said[name]  # another node with every page
        assert len(runs) == 256
        assert {node for _, node in runs[::2]} != {node for _, node in runs[1::2]}
    assert placed(said["zeroed"]) == placed(said["new"]) == [(256, 1)]
    assert placed(said["other"]) == [(256, SLOW)]
    report = json.loads(running.get("/report"))
    assert report["said"] == []
    on_node = {one["name"]: one["bytes_on_node"] for one in report["plan"]["objects"]}
    assert on_node["mesh"] == {"0": MIB // 2, "1": MIB // 2}
    assert on_node["zeroed"] == on_node["new"] == {"1": MIB}


def test_without_the_plan_all_is_slow(guest: tuple[Guest, list[str]]) -> None:
    running, words = guest
    said = running.run(words[-1], "mesh", "table").checked().splitlines()
    assert [placed(line) for line in said] == [[(256, SLOW)], [(128, SLOW)]]


def test_what_is_not_planned_lies_on_the_slow_node_that_is_named(
    guest: tuple[Guest, list[str]], program: Path
) -> None:
    """The node with the processors is taken for the fast one here, as it is beside memory on CXL."""
    running, words = guest
    tiers = Tiers((SLOW,), (FAST,), None)  # the other way round
    running.put("/lab/other-plan", plan_for_guest("/app/planned", program, whole_plan(program), tiers))
    again = [word.replace("/lab/plan", "/lab/other-plan") for word in words]
    said = running.run(*again, "mesh", "zeroed", "other").checked().splitlines()
    assert [placed(line) for line in said] == [[(256, SLOW)], [(128, SLOW), (128, FAST)], [(256, FAST)]]


def test_when_the_fast_node_is_full_the_slow_one_gives_its_pages(guest: tuple[Guest, list[str]]) -> None:
    """The capacity says there is room, but others have it."""
    running, words = guest
    free = int(running.shell("grep MemFree /sys/devices/system/node/node1/meminfo").output.split()[3]) << 10
    fill = f"mkdir -p /full && mount -t tmpfs -o mpol=prefer:{FAST},size={free + 8 * MIB} full /full"
    running.shell(f"{fill} && dd if=/dev/zero of=/full/x bs=64k 2>/dev/null; true")
    try:
        said = running.run(*words, "mesh", "steps").checked().splitlines()
        runs = placed(said[0])
        assert sum(count for count, node in runs if node == SLOW) > 128
        report = json.loads(running.get("/report"))
        (mesh,) = (one for one in report["plan"]["objects"] if one["name"] == "mesh")
        assert mesh["to_be_fast"]["slow_bytes"] > 128 << 12  # and the report says so
    finally:
        running.shell("umount /full")


def test_the_kernel_says_which_node_is_fast(guest: tuple[Guest, list[str]], tmp_path: Path) -> None:
    """The firmware describes it (HMAT), and the guest's /sys is read like that of any machine."""
    running, _ = guest
    names = ("cpulist", "meminfo", "access0/initiators/read_bandwidth", "access0/initiators/read_latency")
    for node in (SLOW, FAST):
        for name in names:
            path = f"sys/devices/system/node/node{node}/{name}"
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(running.get(f"/{path}"))
    found = find_tiers(System(tmp_path))
    assert found is not None
    assert (found.fast, found.slow) == ((FAST,), ())
    assert found.fast_bytes == pytest.approx(FAST_BYTES, rel=0.1)


SWEEPS = """
    #include <stdlib.h>
    #include "HOOKS/pagelens.h"
    enum { COUNT = 8 << 17, PASSES = 3 };
    static double table[COUNT];
    __attribute__((noinline)) double *take_a(void) { double *volatile a = malloc(8 * COUNT); return a; }
    __attribute__((noinline)) double *take_b(void) { double *volatile b = malloc(8 * COUNT); return b; }
    int main(void) {
        volatile double *arrays[] = {take_a(), take_b(), table};
        for (int i = 0; i < COUNT; ++i) arrays[0][i] = arrays[1][i] = arrays[2][i] = i;
        pagelens_region_begin("sweeps");
        for (int pass = 0; pass < PASSES; ++pass)
            for (int array = 0; array < 3; ++array)
                for (int i = 0; i < COUNT; ++i) (void)arrays[array][i];
        pagelens_region_end("sweeps");
        return 0;
    }
"""


@pytest.mark.long
def test_the_traffic_of_each_node_is_what_the_plan_says(
    pagelens: Callable[..., subprocess.CompletedProcess[str]],
    compile_c: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    hooks = Path(__file__).parents[2] / "hooks"
    program = compile_c(SWEEPS.replace("HOOKS", str(hooks)))
    a = planned("a", *returns(program, "take_a"), share=0.75)
    table = planned_variable("table", f"{program.name}!table", share=0.5)
    write_plan(plan_of(program, a, table), tmp_path / "plan.toml")
    words = ("--memory", "512MiB", "--cache", "0B", "--numa", "80GB/s:150ns,400GB/s:100ns")
    done = pagelens("lab", "run", *words, "--plan", "plan.toml", "--json", "--", program)
    assert done.returncode == 0, done.stderr
    (step,) = json.loads(done.stdout)["steps"]
    (sweeps,) = step["run"]["regions"]
    slow, fast = (node["reads"] for node in sweeps["nodes"])
    array = 3 * (8 * MIB // 64)
    assert fast == pytest.approx((0.75 + 0.5) * array, rel=0.02)
    assert slow == pytest.approx((0.25 + 0.5 + 1) * array, rel=0.02)
    objects = step["run"]["plan"]["objects"]
    assert [one["to_be_fast"]["fast_bytes"] / (8 * MIB) for one in objects] == pytest.approx(
        [0.75, 0.5], rel=0.01
    )
    assert [one["to_be_fast"]["slow_bytes"] for one in objects] == [0, 0]


USES = """
    #include <stdlib.h>
    #include "HOOKS/pagelens.h"
    enum { COUNT = 4 << 17 };
    __attribute__((noinline)) double *often(void) { double *volatile a = malloc(8 * COUNT); return a; }
    __attribute__((noinline)) double *seldom(void) { double *volatile b = malloc(8 * COUNT); return b; }
    static double table[COUNT];
    int main(void) {
        volatile double *a = often(), *b = seldom();
        for (int i = 0; i < COUNT; ++i) a[i] = b[i] = table[i] = i;
        pagelens_region_begin("uses");
        for (int pass = 0; pass < 6; ++pass) {
            for (int i = 0; i < COUNT; ++i) (void)a[i];
            if (pass % 2) for (int i = 0; i < COUNT; ++i) (void)b[i];
            if (pass % 3 == 0) for (int i = 0; i < COUNT; ++i) (void)((volatile double *)table)[i];
        }
        pagelens_region_end("uses");
        return 0;
    }
"""


@pytest.mark.long  # the test of plans with moves shows the same of each region
def test_the_fast_nodes_share_of_the_lines_is_what_place_predicts(
    pagelens: Callable[..., subprocess.CompletedProcess[str]],
    compile_c: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    """The program gets a plan, and the plan is tried on a kernel with two nodes."""
    program = compile_c(USES.replace("HOOKS", str(Path(__file__).parents[2] / "hooks")))
    placed_by = ("place", "--machine", FLAT_MODE, "--capacity", "50%", "-o", "out", "--json", "--")
    predicted = pagelens(*placed_by, program)
    assert predicted.returncode == 0, predicted.stderr
    phases = [each for each in json.loads(predicted.stdout)["phases"] if each["phase"].startswith("uses")]
    share = sum(each["lines"] * each["fast_lines"] for each in phases) / sum(each["lines"] for each in phases)
    assert 0.2 < share < 0.9
    words = ("--memory", "512MiB", "--cache", "0B", "--numa", "80GB/s:150ns,400GB/s:100ns")
    done = pagelens("lab", "run", *words, "--plan", "out/plan.toml", "--json", "--", program)
    assert done.returncode == 0, done.stderr
    (region,) = json.loads(done.stdout)["steps"][0]["run"]["regions"]
    slow, fast = (node["reads"] + node["writes"] for node in region["nodes"])
    assert fast / (fast + slow) == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize(
    "slow",  # where memory comes from without a word, or named
    [pytest.param((), id="unnamed"), pytest.param((SLOW,), id="named", marks=pytest.mark.long)],
)
def test_objects_change_places_between_regions_page_by_page(
    slow: tuple[int, ...], guest: tuple[Guest, list[str]], program: Path
) -> None:
    running, words = guest
    first, second = {"first": 1.0, "second": 0.0}, {"first": 0.0, "second": 1.0}
    plan = plan_of(
        program,
        planned("mesh", *returns(program, "take_mesh"), share=0.25, shares=first),
        planned("zeroed", *returns(program, "take_zeroed"), share=0.0, shares=second),
        planned("mapped", *returns(program, "take_mapped"), share=0.5, shares=second),
        planned_variable("table", f"{program.name}!table", share=0.0, shares=second),
        capacity=3 * MIB,
    )
    tiers = Tiers((FAST,), slow, None)
    running.put("/lab/moving-plan", plan_for_guest("/app/planned", program, plan, tiers))
    again = [word.replace("/lab/plan", "/lab/moving-plan") for word in words]
    said = dict(line.split(": ", 1) for line in running.run(*again, "regions").checked().splitlines())
    for number in (1, 2):
        assert placed(said[f"first{number}-mesh"]) == [(256, FAST)]
        assert placed(said[f"second{number}-mesh"]) == [(256, SLOW)]
        for name in ("zeroed", "mapped", "table"):
            (_, inside), *rest = placed(said[f"first{number}-{name}"])
            assert (inside, rest) == (SLOW, [])
            (_, inside), *rest = placed(said[f"second{number}-{name}"])
            assert inside == FAST
            assert sum(count for count, _ in rest) <= 1  # that table shares with a neighbour
    assert placed(said["before-mesh"]) == placed(said["within-mesh"]) == [(64, FAST), (192, SLOW)]
    assert placed(said["before-mapped"]) == [(128, FAST), (128, SLOW)]
    assert placed(said["outside-mesh"]) == [(256, SLOW)]
    assert placed(said["outside-mapped"]) == [(256, FAST)]
    assert placed(said["first-born"]) == [(256, FAST)]
    assert placed(said["second-born"]) == [(256, SLOW)]
    assert said["regions"] == "0 wrong, grown"
    moves = json.loads(running.get("/report"))["plan"]["moves"]
    assert (moves["changes"], moves["skipped"], moves["stayed_bytes"]) == (8, 0, 0)
    assert moves["moved_bytes"] > 2 * 2 * 3 * MIB
    assert moves["seconds"] > 0


IN_TURN = """
    #include <stdlib.h>
    #include "HOOKS/pagelens.h"
    enum { COUNT = 4 << 17, PASSES = 6 };
    __attribute__((noinline)) double *one(void) { double *volatile a = malloc(8 * COUNT); return a; }
    __attribute__((noinline)) double *two(void) { double *volatile b = malloc(8 * COUNT); return b; }
    static void sweep(const char *region, volatile double *array) {
        pagelens_region_begin(region);
        for (int pass = 0; pass < PASSES; ++pass)
            for (int i = 0; i < COUNT; ++i) (void)array[i];
        pagelens_region_end(region);
    }
    int main(void) {
        volatile double *a = one(), *b = two();
        for (int i = 0; i < COUNT; ++i) a[i] = b[i] = i;
        for (int round = 0; round < 2; ++round) {
            sweep("of one", a);
            sweep("of two", b);
        }
        return 0;
    }
"""


def test_with_moves_the_fast_nodes_share_in_each_region_is_what_place_predicts(
    pagelens: Callable[..., subprocess.CompletedProcess[str]],
    compile_c: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    program = compile_c(IN_TURN.replace("HOOKS", str(Path(__file__).parents[2] / "hooks")))
    placed_by = ("place", "--machine", FLAT_MODE, "--capacity", "50%", "--moves", "-o", "out", "--json")
    predicted = pagelens(*placed_by, "--", program)
    assert predicted.returncode == 0, predicted.stderr
    report = json.loads(predicted.stdout)
    rows = {row["policy"]: row for row in report["policies"]}
    assert rows["moving-optimum"]["time_s"] <= rows["moving-regions"]["time_s"] < rows["optimum"]["time_s"]
    assert any("the plan moves objects between marked regions" in note for note in report["notes"])
    plan = read_plan(tmp_path / "out" / "plan.toml")
    objects = {known.name.split(" ")[0]: known for known in plan.objects}
    words = ("--memory", "512MiB", "--cache", "0B", "--numa", "80GB/s:150ns,400GB/s:100ns")
    done = pagelens("lab", "run", *words, "--plan", "out/plan.toml", "--json", "--", program)
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["steps"][0]["run"]
    for region in run["regions"]:
        (name,) = (name for name in ("one", "two") if region["name"].endswith(f"of {name}"))
        slow, fast = (node["reads"] + node["writes"] for node in region["nodes"])
        planned_share = objects[name].shares.get(f"of {name}", objects[name].share)
        assert planned_share > 0.5
        assert fast / (fast + slow) == pytest.approx(planned_share, abs=0.02)
    assert run["plan"]["moves"]["stayed_bytes"] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--numa", "2", "--plan", "plan.toml"], "--plan: no node is the fastest; state speeds"),
        (
            ["--numa", "2", "--plan", "plan.toml", "--fast-node", "2"],
            "--fast-node 2: the guest has nodes 0 to 1",
        ),
        (
            ["--numa", "2", "--plan", "plan.toml", "--fast-node", "1", "--slow-node", "1"],
            "--slow-node 1: is the fast node, too",
        ),
        (["--fast-node", "0"], "--fast-node 0: belongs to --plan, which is not given"),
        (["--plan", "gone.toml"], "--plan: cannot read 'gone.toml'"),
    ],
)
def test_bad_input_of_the_command_is_one_line(
    in_process: Callable[..., subprocess.CompletedProcess[str]],
    program: Path,
    tmp_path: Path,
    words: list[str],
    message: str,
) -> None:
    write_plan(whole_plan(program), tmp_path / "plan.toml")
    done = in_process("lab", "run", "--cache", "0B", *words, "--", "/bin/true")
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_fast_node_beside_a_cache_in_front_of_memory_is_refused() -> None:
    with pytest.raises(UsageError, match="fast node: a multiple of 2 MiB, and no memory-side cache"):
        Guest(memory=512 * MIB, fast=FAST_BYTES, described_cache=64 * MIB)
