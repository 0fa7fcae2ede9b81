"""Makes the points of a study ready to be simulated, and refuses what cannot be before anything runs."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pagelens.accesses import Workload
from pagelens.api import Declared, choose_phase, fill_node, trace, workload
from pagelens.ensemble import Scaled, check_applicable, check_fits, ensemble_key
from pagelens.ensemble.shards import key_of
from pagelens.errors import UsageError
from pagelens.frames import DEFAULT_HISTORY, Policy, Step, find_policy, parse_history
from pagelens.machine import Machine, load_machine
from pagelens.spelling import nearest
from pagelens.study.design import Values, design
from pagelens.study.inputs import Value
from pagelens.study.rows import ROWS
from pagelens.study.study_file import OF_A_POINT, Stated

# Rooms whose code decides a point's rows, besides those of its ensemble.
OWN_CODE = ("api", "explain", "statistics", "study", "units")


@dataclass(frozen=True)
class Point:
    """One simulation of a study. Points with equal keys have equal rows."""

    number: int
    values: Values
    workload: Workload
    scaled: Scaled
    history: tuple[Step, ...]
    key: str


class Points:
    """The points of a study, or a range of them. Machines and programs are read once for all of them.

    Raises UsageError, with the place in the file, for what cannot be simulated.
    """

    def __init__(self, stated: Stated, only: range | None = None) -> None:
        self.stated = stated
        self.policies = self._policies()
        self._machines: dict[tuple[Value, ...], Machine] = {}
        self._traces: dict[Value, Workload] = {}
        self._declared: dict[tuple[Declared, int, int], Workload] = {}
        self._check_names()
        found = design(stated)
        self.count = len(found)
        wanted = range(self.count) if only is None else range(only.start, min(only.stop, self.count))
        self.all = [self._point(number, found[number]) for number in wanted]

    def _policies(self) -> Mapping[str, Policy]:
        with self._blaming("policies"):
            found = [find_policy(name, "policies") for name in self.stated.file.policies]
            return {policy.name: policy for policy in found}

    def _check_names(self) -> None:
        inputs = self.stated.file.inputs
        for name in inputs:
            if "." not in name and name not in OF_A_POINT:
                raise self.stated.refused(
                    name,
                    f"there is no such input; did you mean {nearest(name, OF_A_POINT)}? A value of the "
                    "machine file has its section before it, as ddr.bandwidth",
                )
        if ("workload" in inputs) == ("trace" in inputs):
            raise self.stated.refused(
                "trace" if "trace" in inputs else "inputs", "state one of workload and trace"
            )
        if ("workload" in inputs) != ("size" in inputs):
            raise self.stated.refused(
                "size" if "size" in inputs else "workload", "a workload needs a size, and a trace has its own"
            )
        if "machine" not in inputs:
            raise self.stated.refused("inputs", "state a machine; `pagelens machines` lists them")

    @contextmanager
    def _blaming(self, default: str, value: Value | None = None) -> Iterator[None]:
        """Give an error within its place in the file: the input that it is about, else `default`."""
        try:
            yield
        except UsageError as error:
            text = str(error)
            about = re.match(r"(?:--)?([\w.]+): ", text)
            name = about[1] if about else ""
            if name in self.stated.file.inputs or name == "policies":
                raise self.stated.refused(name, text[about.end() if about else 0 :]) from None
            told = text[about.end() :] if about and name == default else text
            shown = "" if value is None or str(value) in told else f"{value!r}: "
            raise self.stated.refused(default, shown + told) from None

    def _point(self, number: int, values: Values) -> Point:
        machine = self._machine(values)
        source, copies = self._program(values, machine)
        scaled = Scaled(machine, copies)
        with self._blaming("machine", values["machine"]):
            machine.require_linux_pages("study")
            check_fits(source, machine, copies)
            check_applicable(source, machine, self.policies)
        phase = self.stated.file.phase
        with self._blaming("phase"):
            choose_phase(phase, source)
        history = self._history(values)
        key = key_of(
            {
                "ensemble": ensemble_key(
                    source, scaled, self.policies, self.stated.file.seed, history, OWN_CODE
                ),
                "nodes": self.stated.file.nodes,
                "precision": self.stated.file.precision,
                "phase": phase,
                "columns": list(ROWS),
            }
        )
        return Point(number, values, source, scaled, history, key)

    def _machine(self, values: Values) -> Machine:
        name = values["machine"]
        changed = {key: value for key, value in values.items() if "." in key}
        known = (name, *changed.values())
        if known not in self._machines:
            with self._blaming("machine", name):
                text = str(name)
                found = load_machine(self.stated.folder / text if text.endswith(".toml") else text)
            if changed:
                found = self._with_values(found, changed)
            self._machines[known] = found
        return self._machines[known]

    def _with_values(self, machine: Machine, changed: Values) -> Machine:
        try:
            return machine.with_values(changed)
        except UsageError as error:
            # What does not fit together names all values first, and then those that it is about.
            reason = str(error).removeprefix(f"{', '.join(changed)}: ")
            about = min(changed, key=lambda key: reason.find(key) if key in reason else len(reason))
            reason = reason.removeprefix(f"{about}: ")
            raise self.stated.refused(about, f"{changed[about]!r} on {machine.name}: {reason}") from None

    def _program(self, values: Values, machine: Machine) -> tuple[Workload, int]:
        ranks = values.get("ranks")
        if ranks is not None and not isinstance(ranks, int):
            raise self.stated.refused("ranks", f"{ranks!r} is not a whole number")
        if "trace" in values:
            path = Path(self.stated.folder / str(values["trace"]))
            with self._blaming("trace", values["trace"]):
                if not path.is_file():
                    raise UsageError(f"trace: there is no file {path}")
                if values["trace"] not in self._traces:
                    self._traces[values["trace"]] = trace(path)
                return fill_node(self._traces[values["trace"]], machine, ranks)
        size = values["size"]
        with self._blaming("workload", values["workload"]):
            if not isinstance(size, str):
                raise UsageError(f"size: {size!r} has no unit; write a text such as '8GB'")
            stated = workload(str(values["workload"]), size)
            # Points that share loops share what is compiled of them.
            known = (stated, ranks or 1, machine.cores.count.value)
            if known not in self._declared:
                self._declared[known] = fill_node(stated, machine, ranks)[0]
            return self._declared[known], ranks or 1

    def _history(self, values: Values) -> tuple[Step, ...]:
        text = str(values.get("history", DEFAULT_HISTORY))
        if "age" in values:
            age = values["age"]
            if not isinstance(age, int) or age < 0:
                raise self.stated.refused("age", f"{age!r} is not a number of jobs, from 0 on")
            if "history" not in values:
                text = "boot; age(jobs={age}); run"
            elif "{age}" not in text:
                raise self.stated.refused(
                    "age", "has no effect on this history; write it there, as in 'boot; age(jobs={age}); run'"
                )
            text = text.replace("{age}", str(age))
        with self._blaming("history"):
            return parse_history(text, "history")
