"""`pagelens explain` as a user meets it: what it prints, what it writes, and how it refuses."""

import contextlib
import errno
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from machine_roles import CACHE_MODE
from small_program import MACHINE, SWEEPS

from pagelens.api import Ensemble
from pagelens.cli.commands import explain as explain_module
from pagelens.cli.source import Source
from pagelens.errors import Failure, Interrupted
from pagelens.output_directory import LOCK, claim_directory

Run = Callable[..., subprocess.CompletedProcess[str]]

DECLARED = (
    "--workload",
    "stream-triad",
    "--size",
    "48MiB",
    "--nodes",
    "3",
    "--policies",
    "aged,contiguous,random",
)


@pytest.fixture
def explain(tmp_path: Path, in_process: Run) -> Run:
    """The command on the small machine."""
    (tmp_path / "small.toml").write_text(MACHINE)
    return lambda *arguments: in_process("explain", "--machine", "small.toml", *arguments)


def test_a_declared_workload_is_explained_end_to_end(explain: Run, tmp_path: Path) -> None:
    done = explain(*DECLARED)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no bar where there is no terminal
    assert done.stdout.startswith("Page placement matters for this program on a Small node")
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 80
    results = tmp_path / "pagelens-out" / "stream-triad-48MiB"
    assert done.stdout.endswith(f"Report: pagelens-out/{results.name}/report.html\n")
    data = json.loads((results / "explanation.json").read_text())
    assert data["schema_version"] == 5
    assert data["program"]["phase"] == "triad"
    assert data["sample"]["command"].startswith("pagelens explain --machine small.toml --workload")
    assert pl.read_parquet(results / "placements.parquet")["node"].n_unique() == 3
    assert "<svg" in (results / "report.html").read_text()


def test_json_is_all_that_is_printed_and_quiet_prints_nothing(explain: Run, tmp_path: Path) -> None:
    printed = explain(*DECLARED, "--json")
    quiet = explain(*DECLARED, "--quiet", "--output", "elsewhere")
    written = (tmp_path / "elsewhere" / "explanation.json").read_text()
    first, second = json.loads(printed.stdout), json.loads(written)
    assert (quiet.stdout, quiet.stderr) == ("", "")
    del first["sample"]["command"], second["sample"]["command"]
    assert first == second  # the same seed, run again elsewhere


def test_a_program_is_traced_and_then_explained_again_from_its_trace(
    explain: Run, compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    program = compile_c(SWEEPS)
    options = ("--nodes", "2", "--policies", "aged,contiguous", "--output", "out")
    traced = explain(*options, "--", program)
    assert traced.returncode == 0, traced.stderr
    assert traced.stdout.startswith("sum ")  # the program's own output comes first
    data = json.loads((tmp_path / "out" / "explanation.json").read_text())
    assert data["program"]["source"] == "trace"
    assert data["program"]["ranks"] == 4
    assert data["program"]["share_seen"] == 1
    assert "main" in data["objects"][0]["name"]
    again = explain(*options, f"out/{program.name}.trace", "--json")
    assert json.loads(again.stdout)["distributions"] == data["distributions"]


def test_through_a_wrapper_script_the_process_with_the_most_accesses_is_explained(
    explain: Run, compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    program = compile_c("""
        #include <stdlib.h>
        int main(void) {
            enum { n = 1 << 19 };
            volatile double* field = malloc(n * sizeof *field);
            for (int sweep = 0; sweep < 8; ++sweep)
                for (int i = 0; i < n; ++i) field[i] = i + sweep;
            return 0;
        }
    """)
    script = tmp_path / "wrapper"
    script.write_text(f"#!/bin/sh\necho begin\n{program}\ntrue\n")
    script.chmod(0o755)
    options = ("--nodes", "1", "--policies", "contiguous", "--output", "out")
    followed = explain(*options, "--", script)
    assert followed.returncode == 0, followed.stderr
    assert followed.stdout.startswith("begin\n")
    assert f"out/wrapper.trace is the trace of {program.name}, which made the most" in followed.stderr
    data = json.loads((tmp_path / "out" / "explanation.json").read_text())
    assert data["program"]["name"] == program.name
    assert data["program"]["footprint_bytes"] > 4 << 20
    done = explain(*options, "--follow-exec", "--json", "--", script)
    assert f"the one with the most accesses is explained: {program.name} (out/wrapper." in done.stderr
    assert done.stderr.startswith("begin\n")  # standard output is all JSON
    assert json.loads(done.stdout)["program"] == data["program"]


def test_forks_that_run_side_by_side_are_one_report(
    explain: Run, compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    program = compile_c("""
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            enum { n = 1 << 18 };
            int line[2];
            if (pipe(line) != 0) return 1;
            for (int child = 0; child < 2 && fork() != 0; ++child) continue;
            volatile double* field = malloc(n * sizeof *field);
            for (int i = 0; i < n; ++i) field[i] = i;
            close(line[1]);  // nobody ends before all have come here
            char byte;
            if (read(line[0], &byte, 1) != 0) return 1;
            while (wait(0) > 0) continue;
            return 0;
        }
    """)
    options = ("--nodes", "1", "--policies", "contiguous", "--output", "out")
    done = explain(*options, "--", program)
    assert done.returncode == 0, done.stderr
    assert "3 processes of" in done.stderr
    assert len(list((tmp_path / "out").glob("*.process-[012].trace"))) == 3
    found = json.loads((tmp_path / "out" / "explanation.json").read_text())["program"]
    assert (found["ranks"], found["job"]["traced_ranks"]) == (3, 3)
    alone = explain(*options, "--ranks", "1", "--json", "--", program)  # asks for copies of one process
    assert json.loads(alone.stdout)["program"]["job"] is None


def test_a_shell_that_becomes_the_program_beside_a_trace_that_is_none(
    explain: Run, compile_c: Callable[[str], Path]
) -> None:
    """exec keeps the process id: the program's trace is the second of its process."""
    program = compile_c("""
        #include <stdlib.h>
        int main(void) {
            enum { n = 1 << 19 };
            volatile char* field = malloc(n);
            for (int i = 0; i < 8 * n; ++i) field[i % n] = 1;
            return 0;
        }
    """)
    options = ("--nodes", "1", "--policies", "contiguous", "--output", "out", "--follow-exec")
    done = explain(*options, "--", "/bin/sh", "-c", f"echo > out/sh.1.trace; exec {program}")
    assert done.returncode == 0, done.stderr
    assert re.search(rf"is explained: {program.name} \(out/sh\.\d+-2\.trace\)\n", done.stderr)


@pytest.mark.parametrize("options", [(), ("--follow-exec",)])
def test_a_region_that_is_never_begun_is_no_reason_for_a_verdict(
    explain: Run, options: tuple[str, ...]
) -> None:
    done = explain(*options, "--region", "nowhere", "--", "/bin/true")
    assert (done.returncode, done.stdout) == (1, "")
    assert "--region nowhere: the program never began it" in done.stderr
    assert done.stderr.endswith("there is nothing to explain\n")


def test_a_program_that_the_engine_cannot_run_gets_no_verdict(
    explain: Run, compile_c: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had died before it began, and what it did until then was explained."""
    monkeypatch.setenv("PAGELENS_ENGINE", "qemu")
    program = compile_c('int main(void) { __asm__ volatile("vpxorq %zmm0, %zmm0, %zmm0"); return 0; }')
    done = explain("--", program)
    assert (done.returncode, done.stdout) == (1, "")
    assert "has the AVX-512 instruction 'vpxorq zmm0, zmm0, zmm0' in main" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("or compile it with -march=x86-64-v3")


def test_a_trace_without_accesses_is_no_reason_for_a_verdict(
    explain: Run, pagelens_command: Path, compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    options = ["--region", "nowhere", "-o", tmp_path / "empty.trace"]
    empty = [pagelens_command, "trace", *options, "--", "/bin/true"]
    subprocess.run(empty, check=True, capture_output=True)
    done = explain("empty.trace")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "empty.trace: it holds no accesses to explain; trace the program again" in done.stderr
    assert not (tmp_path / "pagelens-out").exists()

    killed = explain("--", compile_c("#include <signal.h>\nint main(void) { raise(SIGKILL); }"))
    assert (killed.returncode, killed.stdout) == (1, "")
    said = killed.stderr.splitlines()
    assert "was killed by SIGKILL" in said[0]
    assert "holds what had been written by then, not the last" in said[0]
    assert "it holds no accesses" in said[1]
    assert len(said) == 2


def test_tracing_shows_its_progress_on_a_terminal(
    pagelens_command: Path, compile_c: Callable[[str], Path], tmp_path: Path
) -> None:
    program = compile_c("#include <unistd.h>\nint main(void) { usleep(1500000); return 0; }")
    (tmp_path / "small.toml").write_text(MACHINE)
    screen, terminal = os.openpty()
    command = [pagelens_command, "explain", "--machine", "small.toml", "--nodes", "1", "--policies", "random"]
    with os.fdopen(screen, "rb", buffering=0) as shown:
        subprocess.run(
            [*command, "--", program], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=terminal, check=True
        )
        os.close(terminal)
        text = b""
        with contextlib.suppress(OSError):  # what a terminal without writers says at its end
            while part := shown.read(4096):
                text += part
    assert b"tracing: 1 s" in text or b"tracing: 0 s" in text
    after = text[text.rindex(b"tracing:") :]  # the bar of the nodes
    assert b"placements" in after
    # What the bounds say, before any node:
    assert b"Page placement adds" in after or b"Page placement cannot" in after


def test_of_two_runs_into_one_directory_the_second_says_so(explain: Run, tmp_path: Path) -> None:
    with claim_directory(tmp_path / "out"):
        refused = explain(*DECLARED, "--output", "out")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert f"--output: process {os.getpid()} is writing to out;" in refused.stderr
    assert explain(*DECLARED, "--output", "out", "--quiet").returncode == 0
    assert explain(*DECLARED, "--output", "out", "--quiet").returncode == 0


def test_a_lock_goes_with_the_process_that_was_killed(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pagelens.output_directory import claim_directory\n"
        "with claim_directory(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    out = tmp_path / "out"
    words = [sys.executable, "-c", code, out]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Failure, match=f"process {holder.pid} is writing"), claim_directory(out):
            pass
        holder.kill()
    with claim_directory(out):
        assert (out / LOCK).read_text() == f"{os.getpid()}\n"


def test_a_lock_is_taken_anew_where_the_directory_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that wrote nothing takes its directory away: before our lock is opened, or before it is held."""
    out = tmp_path / "made" / "out"
    mkdir, flock, moments = Path.mkdir, fcntl.flock, ["opened", "held"]

    def make_and_lose(path: Path, *arguments: Any, **settings: Any) -> None:
        mkdir(path, *arguments, **settings)
        if path == out and "opened" in moments:
            moments.remove("opened")
            out.rmdir()

    def lose_and_lock(lock: Any, operation: int) -> None:
        if moments == ["held"]:
            moments.clear()
            (out / LOCK).unlink()
            out.rmdir()
        flock(lock, operation)

    monkeypatch.setattr(Path, "mkdir", make_and_lose)
    monkeypatch.setattr(fcntl, "flock", lose_and_lock)
    with claim_directory(out):
        assert moments == []
        assert (out / LOCK).read_text() == f"{os.getpid()}\n"
        with pytest.raises(Failure, match="is writing"), claim_directory(out):
            pass
    assert os.listdir(tmp_path) == []  # what was made goes, the parent too


def test_a_file_system_without_locks_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with claim_directory(tmp_path / "out") as directory:
        (directory / "file").touch()
    assert sorted(os.listdir(directory)) == [LOCK, "file"]


def test_help_has_examples(explain: Run) -> None:
    text = " ".join(explain("--help").stdout.split())
    assert "pagelens explain -- ./app args" in text
    assert "pagelens explain --workload stream-triad --size 17.6GB" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to explain"),
        (("--workload", "stream-triad"), "--size: is missing"),
        (("--workload", "stream-triad", "--size", "17.6"), "'17.6' has no unit"),
        (("--workload", "stream-trad", "--size", "1GB"), "stream-triad"),
        (("--workload", "cg", "--size", "1GB", "--policies", "agd"), "did you mean aged"),
        (("--workload", "cg", "--size", "1GB", "--full-size", "2GB"), "--full-size: cannot stand beside"),
        (("--workload", "cg", "--size", "1GB", "app.trace"), "a program or trace: cannot stand beside"),
        (("app.trace", "--size", "1GB"), "--size: cannot stand beside"),
        (
            ("--workload", "stream-triad", "--size", "1GB"),
            "--size: 1 GB is more than the 403 MB of small; name at most 384 MiB, or a machine with more",
        ),
        (
            (*DECLARED, "--ranks", "5"),
            "5 x one thread is more than the 4 cores of small; name 1 to 4",
        ),
        (("--workload", "cg", "--size", "1GB", "--nodes", "0"), "greater than or equal to 1, not 0"),
        ((*DECLARED, "--phase", "tried"), "--phase: 'tried' is unknown; stream-triad has triad"),
        (("./no-such-program",), "no-such-program"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(
    explain: Run, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = explain(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("pagelens: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def test_an_unknown_machine_names_the_nearest(explain: Run) -> None:
    done = explain("--machine", "cori-knl", *DECLARED)
    assert done.returncode == 2
    assert CACHE_MODE in done.stderr
    assert done.stderr.count("\n") == 1


def test_several_machines_are_answered_in_one_table(explain: Run, in_process: Run, tmp_path: Path) -> None:
    faster = MACHINE.replace('name = "small"', 'name = "faster"').replace('"9 GB/s"', '"18 GB/s"')
    (tmp_path / "faster.toml").write_text(faster)
    done = in_process("explain", "--machine", "small.toml,faster.toml", *DECLARED)
    assert (done.returncode, done.stderr) == (0, "")
    said = " ".join(done.stdout.split("\n\n")[0].split())
    ratio = re.match(
        r"On faster, a median node takes (0\.\d\d)x as long as on small \(95% interval 0\.", said
    )
    assert ratio is not None
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line}
    assert rows["small"][1] == rows["faster"][1] == "1"
    assert f"{ratio[1]}x" in rows["faster"]
    results = tmp_path / "pagelens-out" / "stream-triad-48MiB"
    for name in ("small", "faster"):
        assert json.loads((results / name / "explanation.json").read_text())["machine"]["name"] == name
    one = in_process("explain", "--machine", "faster.toml", *DECLARED).stdout
    hint = "pagelens explain --workload stream-triad --size 48MiB --machine faster.toml,NAME"
    assert hint in " ".join(one.split("\n\n")[0].replace("\\\n", "").split())
    for words, why in (
        (("--machine", "small.toml,small.toml"), "give different names"),
        (("--machine", "small.toml,faster.toml", "--json"), "--json: is for one machine"),
    ):
        assert why in in_process("explain", *words, *DECLARED).stderr


def test_a_machine_that_fails_or_an_interrupt_leaves_what_the_others_found(
    in_process: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("first", "small", "third", "fourth")
    for name in names:
        text = MACHINE.replace('name = "small"', f'name = "{name}"')
        (tmp_path / f"{name}.toml").write_text(text.replace("384 MiB", "32 MiB") if name == "small" else text)
    words = ("explain", "--machine", ",".join(f"{name}.toml" for name in names), *DECLARED)
    done = in_process(*words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("pagelens: small: --size: ")
    said = " ".join(done.stdout.split("\n\n")[0].split())
    assert said.startswith("On third, a median node takes 1.00x as long as on first ")
    assert said.endswith("Not simulated: small.")

    def interrupted(source: Source, *_: Any, **settings: Any) -> Ensemble:
        if settings["output"].name == "third":
            raise Interrupted("stopped early")
        return simulate(source, *_, **settings)

    simulate = explain_module.simulate
    monkeypatch.setattr(explain_module, "simulate", interrupted)
    done = in_process(*words)
    assert done.returncode == 130
    assert [line.split(":")[1] for line in done.stderr.splitlines()] == [" small", " third"]
    assert "Not simulated: small, third, fourth." in " ".join(done.stdout.split("\n\n")[0].split())


def test_an_unreadable_trace_is_one_line_and_status_1(explain: Run, tmp_path: Path) -> None:
    (tmp_path / "app.trace").write_bytes(b"not a trace")
    for name in ("app.trace", "missing.trace"):
        done = explain(name)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert name in done.stderr


def test_an_output_whose_name_is_no_text_is_one_line_and_status_2(explain: Run) -> None:
    done = explain(*DECLARED, "--output", "out\udcff")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--output 'out\\udcff': is no text in UTF-8; name another folder" in done.stderr


def test_an_output_in_the_way_is_one_line_and_status_1(explain: Run, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    done = explain(*DECLARED, "--output", "taken")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "--output" in done.stderr
    assert (tmp_path / "taken").read_text() == "a file"


@pytest.mark.parametrize("machines", ["small.toml", "small.toml,other.toml"])
def test_a_full_disk_takes_nothing_from_the_terminal(
    in_process: Run, tmp_path: Path, full_disk: Callable[[int], None], machines: str
) -> None:
    (tmp_path / "small.toml").write_text(MACHINE)
    (tmp_path / "other.toml").write_text(MACHINE.replace('name = "small"', 'name = "other"'))
    full_disk(100_000)  # all but the report fit
    done = in_process("explain", "--machine", machines, *DECLARED)
    assert (done.returncode, done.stderr.count("\n")) == (1, machines.count(",") + 1)
    assert "report.html (File too large); free some space" in done.stderr
    assert done.stdout.startswith("Page placement matters" if "," not in machines else "On other, a median")
    assert "Not simulated" not in done.stdout


def test_ctrl_c_gives_the_answer_so_far_and_the_same_command_goes_on(
    pagelens_command: Path, tmp_path: Path
) -> None:
    (tmp_path / "small.toml").write_text(MACHINE)
    many = [*DECLARED, "--nodes", "400", "--output", "out"]
    process = subprocess.Popen(
        [pagelens_command, "explain", "--machine", "small.toml", *many],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while process.poll() is None and len(list((tmp_path / "out").glob("nodes/*/[0-9]*"))) < 12:
        time.sleep(0.05)  # until each of the three policies surely has a node
    os.kill(process.pid, signal.SIGINT)
    answer, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    nodes = re.search(r"(\d+) nodes\. Times are modelled", answer)
    assert nodes is not None
    assert 1 <= int(nodes[1]) < 400
    assert "of 1200 placements complete" in errors
    assert errors.count("\n") == 1
    kept = list((tmp_path / "out").glob("nodes/*/[0-9]*"))
    assert len(kept) >= 3
    assert not list((tmp_path / "out").rglob("*.partial"))
    assert all((piece / "placements.parquet").exists() for piece in kept)


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_workers_that_a_program_waits_for_are_a_job(
    explain: Run, built: Callable[..., Path], way: str
) -> None:
    """The program itself made half as many accesses as all workers, but none while they ran."""
    done = explain("--machine", "small.toml", "--nodes", "2", "--", built("workers"), way, "2")
    assert done.returncode == 0, done.stderr
    assert "2 processes of workers_gcc ran side by side" in done.stderr
    assert "the process that started them did little meanwhile, and is left out" in done.stderr


def test_the_order_of_machines_decides_nothing_of_a_program_that_forks(
    in_process: Run, built: Callable[..., Path], tmp_path: Path
) -> None:
    """On one of them, its processes have no cores of their own: the busiest alone is explained on both."""
    program = built("workers")
    narrow = MACHINE.replace('name = "small"', 'name = "narrow"')
    (tmp_path / "small.toml").write_text(MACHINE)
    (tmp_path / "narrow.toml").write_text(narrow.replace("count = { value = 4", "count = { value = 2"))
    for order in ("small.toml,narrow.toml", "narrow.toml,small.toml"):
        done = in_process("explain", "--nodes", "2", "--machine", order, "--", program, "fork", "3")
        assert done.returncode == 0, done.stderr
        assert "more than the 2 cores of narrow; the busiest one is explained alone" in done.stderr
        for name in ("small", "narrow"):
            stated = tmp_path / "pagelens-out" / program.name / name / "explanation.json"
            assert json.loads(stated.read_text())["program"]["job"] is None
