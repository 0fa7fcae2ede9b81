"""What `pagelens run` costs a program with many small blocks: user time, in alternating pairs."""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

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


def ratios(command: list[str]) -> tuple[float, float, float]:
    """Times with the library over times without: of the least ones, which others disturbed least; of the
    pairs, their median, and half their middle half.
    """
    plain = dict(os.environ)
    loaded = Preload(pages=Pages.TRANSPARENT).environment(plain)
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
        for name, command in commands.items():
            least, median, spread = ratios(command)
            note = f"of {PAIRS}; median of the pairs {median:.3f}, half their middle half {spread:.3f}"
            print(
                json.dumps(
                    {
                        "name": f"run: {name}, least user time with the library over without",
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
