"""What `pagelens run` costs a program with many small blocks: user time, in alternating pairs."""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from pagelens.accesses.elf_file import ElfFile
from pagelens.place.plan import Plan, PlannedModule, PlannedObject
from pagelens.run.memory_tiers import Tiers
from pagelens.run.plan_file import handed_plan
from pagelens.run.plan_sites import locate_plan
from pagelens.run.preload import Pages, Preload

PAIRS = 15

# A C++ program as they are: maps and strings that grow, are looked up, and go.
MAPS = r"""
#include <cstdio>
#include <map>
#include <string>
int main() {
    std::size_t found = 0;
    for (int round = 0; round < 6; ++round) {
        std::map<std::string, std::string> words;
        for (unsigned i = 0; i < 150000; ++i) {
            const unsigned x = i * 2654435761u;
            words["a key that is not short " + std::to_string(x)] = std::string(20 + x % 60, 'x');
        }
        for (unsigned i = 0; i < 150000; ++i)
            found += words.count("a key that is not short " + std::to_string(i * 2654435761u));
    }
    std::printf("%zu\n", found);
}
"""


def user_seconds(command: list[str], environment: dict[str, str]) -> float:
    """User processor time of a program that ends well."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def foreign_plan(program: Path, folder: Path) -> Path:
    """Writes what the library is handed of a plan that none of the program's blocks are in."""
    elf = ElfFile(program)
    module = PlannedModule(name=program.name, build_id=elf.build_id.hex())
    elf.close()
    elsewhere = f"{program.name}+0x1"  # no call returns there
    planned = PlannedObject.model_validate(
        {"name": "none", "site": [elsewhere], "bytes": "1MiB", "tier": "fast"}
    )
    plan = Plan.model_validate(
        {"format": 1, "program": program.name, "machine": "", "capacity": "1MiB", "modules": [module],
         "objects": [planned]}
    )  # fmt: skip
    located = locate_plan(plan, {program.name: program})
    handed = folder / f"{program.name}.plan"
    handed.write_bytes(handed_plan(plan, located, Tiers((0,), (), None)))
    return handed


def ratios(command: list[str], settings: Preload) -> tuple[float, float, float]:
    """Times with the library over times without: of the least ones, which others disturbed least; of the
    pairs, their median, and half their middle half.
    """
    plain = dict(os.environ)
    loaded = settings.environment(plain)
    loaded.pop("GLIBC_TUNABLES", None)  # huge pages in the heap would gain more than the library costs
    times: dict[bool, list[float]] = {True: [], False: []}
    for pair in range(PAIRS):
        for with_library in (pair % 2 == 0, pair % 2 == 1):
            times[with_library].append(user_seconds(command, loaded if with_library else plain))
    pairs = [a / b for a, b in zip(times[True], times[False], strict=True)]
    low, median, high = statistics.quantiles(pairs, n=4)
    return min(times[True]) / min(times[False]), median, (high - low) / 2


def main() -> None:
    """Prints the figures."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "maps.cpp"), Path(folder, "maps")
        source.write_text(MAPS)
        subprocess.run(["g++", "-O2", "-o", program, source], check=True)
        script = "d = {}\nfor i in range(400000): d[str(i)] = [i, str(i * 7)]\nprint(len(sorted(d)))"
        commands = {
            "maps of strings in C++": [str(program)],
            "Python, malloc for all objects": [sys.executable, "-c", script],
        }
        os.environ["PYTHONMALLOC"] = "malloc"
        rows = [(name, command, planned) for planned in (False, True) for name, command in commands.items()]
        for name, command, planned in rows:
            plan = foreign_plan(Path(command[0]).resolve(), Path(folder)) if planned else None
            settings = Preload(plan=plan) if plan else Preload(pages=Pages.TRANSPARENT)
            least, median, spread = ratios(command, settings)
            option = " --plan of other objects" if planned else ""
            note = f"of {PAIRS}; median of the pairs {median:.3f}, half their middle half {spread:.3f}"
            print(
                json.dumps(
                    {
                        "name": f"run{option}: {name}, least user time with the library over without",
                        "value": round(least, 4),
                        "unit": "x",
                        "required": "<= 1.02",
                        "note": note,
                    }
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
