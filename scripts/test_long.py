"""The long tests: fuzzing, C++ stress tests, pytest's tests marked `long`; writes a table of the results."""

import argparse
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from results import commit, write_table

ROOT = Path(__file__).parent.parent


@dataclass
class Result:
    """One row of the table."""

    name: str
    passed: bool
    detail: str
    seconds: float


def run(name: str, command: list[str], detail: str) -> Result:
    """Runs a command, shows its output, and takes its detail from what the pattern `detail` finds there."""
    print(f"== {name}: {' '.join(command)}", flush=True)
    start = time.monotonic()
    output: list[str] = []
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            output.append(line)
    found = re.findall(detail, "".join(output))
    return Result(name, process.returncode == 0, found[-1] if found else "", time.monotonic() - start)


def fuzz(fuzzer: Path, runs: int) -> Result:
    """Runs one libFuzzer target; its findings go to build/, its seeds come from tests/fuzz/corpus/."""
    corpus = ROOT / "build" / "fuzz" / "corpus" / fuzzer.name
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = ROOT / "tests" / "fuzz" / "corpus" / fuzzer.name
    command = [str(fuzzer), f"-runs={runs}", "-timeout=20", "-print_final_stats=1", "-verbosity=1"]
    command += [f"-artifact_prefix={corpus.parent}/{fuzzer.name}-crash-", str(corpus)]
    command += [str(seeds)] if seeds.is_dir() else []
    result = run(fuzzer.name, command, r"stat::number_of_executed_units:\s*(\d+)")
    executed = int(result.detail or 0)
    result.passed &= executed >= runs
    result.detail = f"{executed:,} executions"
    return result


def python_tests(report: Path) -> list[Result]:
    """Pytest's tests marked `long`, each a row; `report` is a scratch file."""
    name = "Python tests marked long"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-m", "long", "-v", f"--junitxml={report}"]
    whole = run(name, command, r"(\d+ passed.*?) in ")
    if not report.is_file():
        return [whole]
    results = []
    for case in ElementTree.parse(report).iter("testcase"):
        passed = not list(case.iter("failure")) and not list(case.iter("error"))
        test = case.get("name", "").removeprefix("test_").replace("_", " ")
        detail = f"`{case.get('classname', '').rpartition('.')[2]}.py`"
        if case.find("skipped") is not None:
            detail += ", skipped"
        results.append(Result(test, passed, detail, float(case.get("time", 0))))
    return results if all(r.passed for r in results) == whole.passed else [*results, whole]


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--build", type=Path, required=True, help="build folder with the fuzz targets and tests"
    )
    parser.add_argument("--runs", type=int, required=True, help="executions of each fuzz target")
    parser.add_argument("--output", type=Path, required=True, help="Markdown file to write")
    arguments = parser.parse_args()

    tested = commit()
    fuzzers = sorted(p for p in (arguments.build / "tests/fuzz").glob("fuzz_*") if p.is_file())
    results = [fuzz(p, arguments.runs) for p in fuzzers]
    stress = [str(arguments.build / "tests/cpp/pagelens_tests"), "--no-skip"]
    results.append(run("C++ tests, long ones included", stress, r"test cases: +(\d+)"))
    results[-1].detail += " cases"
    results += python_tests(arguments.build / "long.xml")

    write_table(
        arguments.output,
        "Long tests",
        f"Written by `make test-long` at commit {tested}. The fuzz targets and the C++ tests run under\n"
        "AddressSanitizer and UndefinedBehaviorSanitizer (clang).",
        ("test", "result", "detail", ">seconds"),
        (
            (row.name, "passed" if row.passed else "FAILED", row.detail, f"{row.seconds:.0f}")
            for row in results
        ),
    )
    print(f"test-long: wrote {arguments.output}")
    if not all(row.passed for row in results):
        sys.exit(1)


if __name__ == "__main__":
    main()
