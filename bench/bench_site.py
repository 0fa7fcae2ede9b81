"""Collecting a site's checks: 10,000 nodes, round after round, into one history.

The yardstick is reading and validating the same records. `--checks 300` makes the three million checks of a
year with a check a day; the default has a tenth of them.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from figures import figure

from pagelens.site.check import parse_check
from pagelens.site.collect import collect_lines
from pagelens.site.decision import Rule
from pagelens.site.fleet_model.synthetic import Fleet, synthetic_checks
from pagelens.site.history import open_history

NODES, ROUND = 10_000, 10  # checks of each node that are collected at once
END = 1_790_000_000.0  # the moment of the last check


def write_rounds(folder: Path, checks: int) -> list[Path]:
    """The records as lines, a file for each round."""
    paths = [folder / f"{at}.jsonl" for at in range(checks // ROUND)]
    files = [path.open("w") for path in paths]
    fleet = Fleet(nodes=NODES, checks=checks, bad_share=0.02, end=END)
    for number, check in enumerate(synthetic_checks(fleet, np.random.default_rng(1))):
        files[number % checks // ROUND].write(check.to_json() + "\n")
    for file in files:
        file.close()
    return paths


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checks", type=int, default=30, help="of each node, a multiple of 10")
    checks = parser.parse_args().checks
    with tempfile.TemporaryDirectory() as name:
        folder, seconds, new = Path(name), [], 0
        paths = write_rounds(folder, checks)
        with open_history(folder / "history.sqlite", write=True) as history:
            for path in paths:
                with path.open("rb") as lines:
                    begin = time.process_time()
                    new += collect_lines(history, lines, Rule(), END).new
                    seconds.append(time.process_time() - begin)
            (kept,) = history.execute("SELECT count(*) FROM checks").fetchone()
        begin = time.process_time()
        for line in paths[-1].read_bytes().splitlines():
            parse_check(line)
        alone = time.process_time() - begin
        size = (folder / "history.sqlite").stat().st_size
    of = f"{NODES * ROUND:,} checks, {kept:,} in the history"
    figure(
        f"site: collecting {of}", seconds[-1], "s", "", f"{alone:.1f} s to validate; first {seconds[0]:.1f} s"
    )
    figure("site: checks lost", checks * NODES - new, "checks", "<= 0", f"{size / kept:.0f} B a check")


if __name__ == "__main__":
    main()
