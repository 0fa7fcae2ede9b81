"""The Prolog and the Epilog on a captured tree: what is written, left, and put back after any end."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from site_node import COMPACT, DROP, INTERVAL, POOL, SORT, SiteNode, job

from pagelens.errors import UsageError
from pagelens.site import restore
from pagelens.site.budget import Budget
from pagelens.site.config import read_config
from pagelens.site.epilog import run_epilog
from pagelens.site.job_options import read_options
from pagelens.site.node_check import CheckRequest, measure_node
from pagelens.site.prolog import run_prolog
from pagelens.site.record import Record

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def node(tmp_path: Path) -> SiteNode:
    return SiteNode(tmp_path)


def prolog(node: SiteNode, environment: dict[str, str]) -> Record:
    return run_prolog(read_config(node.config), environment)


def epilog(node: SiteNode, environment: dict[str, str]) -> Record:
    return run_epilog(read_config(node.config), environment)


def test_memory_is_dropped_compacted_and_sorted(node: SiteNode) -> None:
    record = prolog(node, job(1))
    assert (node.get(DROP), node.get(COMPACT), node.get(SORT)) == ("3", "1", "0")
    assert record.left == []
    assert node.get(INTERVAL) == "0 sec"


def test_a_user_turns_the_sort_off_and_nothing_else(node: SiteNode) -> None:
    prolog(node, job(1, zonesort="off"))
    assert (node.get(DROP), node.get(COMPACT), node.get(SORT)) == ("3", "1", "")


def test_an_interval_is_set_after_the_sort_and_cleared_in_the_epilog(node: SiteNode) -> None:
    prolog(node, job(1, zonesort="180"))
    assert (node.get(SORT), node.get(INTERVAL)) == ("0", "180")
    epilog(node, job(1, zonesort="180"))
    assert node.get(INTERVAL) == "0"


def test_an_interval_is_no_shorter_than_the_site_grants(node: SiteNode) -> None:
    prolog(node, job(1, zonesort="1"))
    assert node.get(INTERVAL) == "10"


def test_a_pool_is_filled_for_the_job_and_put_back(node: SiteNode) -> None:
    prolog(node, job(1, pages="2m"))
    assert node.get(f"{POOL}/nr_hugepages") == str(7 + int(0.7 * 4096))
    epilog(node, job(1, pages="2m"))
    assert node.get(f"{POOL}/nr_hugepages") == "7"


def test_nothing_is_touched_while_another_job_runs(node: SiteNode) -> None:
    prolog(node, job(1))
    for name in (DROP, COMPACT, SORT):
        node.set(name, "untouched")
    record = prolog(node, job(2, zonesort="60", pages="2m"))
    assert {node.get(name) for name in (DROP, COMPACT, SORT)} == {"untouched"}
    assert (node.get(INTERVAL), node.get(f"{POOL}/nr_hugepages")) == ("0 sec", "7")
    assert record.left == ["all: job 1 runs here, too"]


def test_a_node_is_not_measured_while_another_job_runs(node: SiteNode) -> None:
    prolog(node, job(1))
    prolog(node, job(2))
    epilog(node, job(2))
    request = CheckRequest("n0", node.folder / "spool", node.state, job="2", root=node.root)
    assert measure_node(request) == "not now: job 1 runs here, too, and a check would disturb it"


def test_a_second_job_ends_the_sorts_of_the_first(node: SiteNode) -> None:
    prolog(node, job(1, zonesort="60"))
    prolog(node, job(2))
    assert node.get(INTERVAL) == "0"


def test_a_pool_stays_while_another_job_may_use_it(node: SiteNode) -> None:
    prolog(node, job(1, pages="2m"))
    prolog(node, job(2))
    epilog(node, job(1))
    assert node.get(f"{POOL}/nr_hugepages") != "7"
    epilog(node, job(2))
    assert node.get(f"{POOL}/nr_hugepages") == "7"


def test_a_job_whose_epilog_never_came_is_forgotten_after_a_while(node: SiteNode) -> None:
    prolog(node, job(1))
    node.set("proc/uptime", "173801.0 1.0")  # forget_after_s = 172800
    node.set(DROP, "untouched")
    prolog(node, job(2))
    assert node.get(DROP) == "3"


def test_a_job_with_processes_is_never_forgotten(node: SiteNode) -> None:
    prolog(node, job(1))
    node.set("proc/uptime", "173801.0 1.0")
    node.set("proc/77/cmdline", "slurmstepd: [1.batch]")
    assert prolog(node, job(2)).left == ["all: job 1 runs here, too"]


def test_a_reboot_forgets_jobs_and_settings(node: SiteNode) -> None:
    prolog(node, job(1, pages="2m"))
    node.reboot("99999999-2222-3333-4444-555555555555")
    record = prolog(node, job(2))
    assert record.left == []
    assert node.get(f"{POOL}/nr_hugepages") == "7"


def test_a_step_that_does_not_end_leaves_time_for_the_next(node: SiteNode) -> None:
    node.blocked(COMPACT)
    node.config.write_text(node.config.read_text() + "[prolog]\nbudget_s = 4.0\n")
    record = prolog(node, job(1))
    assert record.left == ["compact: did not end in time"]
    assert node.get(SORT) == "0"


def test_without_a_module_the_rest_is_done(tmp_path: Path) -> None:
    node = SiteNode(tmp_path, module=False)
    record = prolog(node, job(1, zonesort="60"))
    assert record.done == ["drop caches", "compact"]
    assert record.left == ["sort: no module zonesort_module, and no memory-side cache that is known of"]


def test_a_state_that_cannot_be_written_leaves_what_would_have_to_be_put_back(node: SiteNode) -> None:
    node.state.write_text("a file where the folder should be")
    record = prolog(node, job(1, pages="2m", zonesort="60"))
    assert (node.get(SORT), node.get(f"{POOL}/nr_hugepages"), node.get(INTERVAL)) == ("0", "7", "0 sec")
    assert any("could not be noted" in left for left in record.left)


def killed_at(node: SiteNode, stage: int) -> int:
    """The status of a child that ends before a step of a job's Prolog and Epilog; 0 if it got through."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = stage

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **named)

        return call

    restore.save_state, Budget.attempt = counted(restore.save_state), counted(Budget.attempt)  # type: ignore
    for part in (prolog, epilog):
        part(node, job(1, pages="2m", zonesort="60"))
    os._exit(0)


def test_after_a_kill_at_any_point_the_next_job_finds_the_node_as_it_was(tmp_path: Path) -> None:
    stage = 1
    while status := killed_at(node := SiteNode(tmp_path / str(stage)), stage):
        assert status == -signal.SIGKILL
        epilog(node, job(1))  # slurmd runs it even where the Prolog was killed
        prolog(node, job(2))
        assert (node.get(f"{POOL}/nr_hugepages"), node.get(INTERVAL).split()[0]) == ("7", "0")
        assert json.loads((node.state / "node.json").read_text())["restore"] == {}
        stage += 1
    assert stage > 10


def test_the_commands_exit_with_0_whatever_happens(tmp_path: Path, pagelens: Run) -> None:
    for part in ("prolog", "epilog"):
        done = pagelens("site", part, "--config", tmp_path / "none.toml")
        assert done.returncode == 0
        assert done.stderr.count("\n") == 1


def test_a_configuration_that_others_can_change_is_refused(node: SiteNode) -> None:
    node.config.chmod(0o666)
    with pytest.raises(UsageError, match="others than root can change it"):
        read_config(node.config)
    if os.geteuid() == 0:
        node.config.chmod(0o644)
        os.chown(node.config, 1, 1)
        with pytest.raises(UsageError, match="others than root can change it"):
            read_config(node.config)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(["zonesort", "pages", "report", "x"]), st.text(max_size=12)))
def test_forged_variables_choose_among_what_the_options_offer(values: dict[str, str]) -> None:
    options = read_options(job(1, **values))
    assert options is not None
    assert 0 <= options.interval_s <= 86400
    assert options.pool_page_bytes in (0, 2 << 20, 1 << 30)
    assert options.report is None or str(options.report).isprintable()
    assert (options.job, options.uid) == ("1", 1000)
