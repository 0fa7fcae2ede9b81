"""How a job's memory compares with that of other jobs of the same program."""

from pathlib import Path
from typing import Any

from fleet_history import NOW, check, fleet
from test_job_page import sample

from pagelens.site.budget import Budget
from pagelens.site.check import Check, ProgramMemory
from pagelens.site.collect import collect
from pagelens.site.config import HistorySection, SiteConfig
from pagelens.site.decision import Rule
from pagelens.site.epilog import _beside_fleet
from pagelens.site.history import open_history
from pagelens.site.program_memory import beside_others, leave, left_by, programs_of

NODES = {"n1": 0.2, "n2": 0.4, "n3": 0.6}


def after(job: int, node: str = "n1", **programs: float) -> Check:
    """A check after a job whose programs had these conflict shares."""
    found = [ProgramMemory(name=name, resident=1 << 30, conflict_share=s) for name, s in programs.items()]
    return check(node, uptime=1000.0 * job, job=f"{job}").model_copy(update={"programs": found})


def own(name: str, share: float | None) -> ProgramMemory:
    return ProgramMemory(name=name, resident=1, conflict_share=share)


def test_a_program_is_compared_with_other_jobs_of_its_own_in_the_history(tmp_path: Path) -> None:
    with open_history(tmp_path / "h", write=True) as history:
        collect(history, [after(1, app=0.1), after(2, app=0.3, other=0.9), after(3, app=0.2)], Rule(), NOW)
        collect(history, fleet(3, 4), Rule(), NOW)
        jobs = [own("app", 0.6), own("other", 0.5), own("app2", None)]
        (line,) = beside_others(history, "n1", "9", jobs, NOW)
        assert line == (
            "In 3 other jobs of app on nodes of this kind, 10% to 30% of the pages shared a slot, and 20% in "
            "the median; in this job, 60% did."
        )
        assert beside_others(history, "n1", "2", [own("app", 0.6)], NOW) == []  # two others are too few
        assert beside_others(history, "n1", "9", [own("app", 0.6)], NOW + 100 * 86_400) == []
        assert beside_others(history, "nobody", "9", [own("app", 0.6)], NOW) == []


def test_the_history_is_read_once_for_all_programs_of_a_job(tmp_path: Path) -> None:
    """It may hold a million checks, and the node waits for the Epilog."""
    with open_history(tmp_path / "h", write=True) as history:
        collect(history, [after(job, app=0.1, b=job / 10) for job in (1, 2, 3, 4)], Rule(), NOW)
        asked: list[str] = []
        history.set_trace_callback(asked.append)
        lines = beside_others(history, "n1", "9", [own("b", 0.6), own("app", 0.6), own("c", 0.6)], NOW)
    assert sum("$.programs" in each for each in asked) == 1
    assert [line.split(" on ")[0] for line in lines] == ["In 4 other jobs of b", "In 4 other jobs of app"]
    assert "10% to 40%" in lines[0]


def test_a_job_on_several_nodes_counts_once_with_their_mean(tmp_path: Path) -> None:
    with open_history(tmp_path / "h", write=True) as history:
        collect(history, [after(1, node, app=share) for node, share in NODES.items()], Rule(), NOW)
        assert beside_others(history, "n1", "9", [own("app", 0.6)], NOW) == []  # one job, however many nodes
        collect(history, [after(2, app=0.1), after(3, app=0.9)], Rule(), NOW)
        (line,) = beside_others(history, "n1", "9", [own("app", 0.6)], NOW)
    assert "In 3 other jobs of app on nodes of this kind, 10% to 90%" in line
    assert "and 40% in the median" in line


def test_a_check_takes_what_the_epilog_of_its_job_left(tmp_path: Path) -> None:
    samples: list[dict[str, Any]] = [
        sample(0),
        sample(1, conflict_share=0.7),
        sample(2, program="sh", resident=5, on_large_pages=0),
    ]
    programs = programs_of([*samples, sample(3, program="\n")])
    assert [(one.name, one.resident, one.conflict_share) for one in programs] == [
        ("app", 200 << 20, 0.6),
        ("sh", 5, 0.5),
    ]
    leave(tmp_path, "7", programs)
    assert left_by(tmp_path, "7") == programs
    assert left_by(tmp_path, "8") == left_by(tmp_path / "none", "7") == []
    (tmp_path / "last-job.json").write_text('{"job": "7", "programs": [{}]}')
    assert left_by(tmp_path, "7") == []
    whole = after(1, app=0.25)
    assert Check.model_validate_json(whole.to_json()).programs == whole.programs


def test_a_history_that_takes_longer_than_the_epilog_may_is_left_out(tmp_path: Path) -> None:
    database = tmp_path / "h"
    with open_history(database, write=True) as history:
        collect(history, fleet(60, 4), Rule(), NOW)
    config = SiteConfig(history=HistorySection(database=str(database)))
    with_time, without = (_beside_fleet(config, "nid00001", "9", [], Budget(s)) for s in (1000.0, 0.0))
    assert with_time.startswith("Node nid00001 last reached")
    assert without == ""
