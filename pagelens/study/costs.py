"""What the points of a study have cost: a line for each, in a file for each process that simulates."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


class CostLog:
    """DIR/workers/HOST-PID-TIME.jsonl; costs are no part of the results, which would then never be equal."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / "workers"
        self._path = self._folder / f"{os.uname().nodename}-{os.getpid()}-{time.time_ns()}.jsonl"

    @contextmanager
    def of_point(self, key: str) -> Iterator[None]:
        """Note the processor time that this process takes within, unless it fails."""
        began = time.process_time()
        yield
        line = json.dumps({"point": key, "processor_s": round(time.process_time() - began, 6)})
        with suppress(OSError):  # a cost that is missing changes an estimate and nothing else
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(line + "\n")


def read_costs(directory: Path) -> dict[str, float]:
    """Return processor seconds by the key of the point; lines cut short by a kill are left out."""
    found = {}
    for path in sorted((directory / "workers").glob("*.jsonl")):
        for line in path.read_text(errors="replace").splitlines():
            with suppress(ValueError, KeyError, TypeError):
                record = json.loads(line)
                found[str(record["point"])] = float(record["processor_s"])
    return found


@dataclass(frozen=True)
class Status:
    """How far a study is."""

    points: int
    complete: int
    mean_processor_s: float | None  # the mean of the points that are done; None if none is

    @property
    def left_processor_s(self) -> float | None:
        """Return what the missing points will take, at the mean of those that are done."""
        if self.mean_processor_s is None:
            return None
        return self.mean_processor_s * (self.points - self.complete)
