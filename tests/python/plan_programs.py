"""Plans for programs that tests have built."""

import re
import subprocess
from itertools import pairwise
from pathlib import Path

from pagelens.accesses.elf_file import ElfFile
from pagelens.place.plan import Plan, PlannedModule, PlannedObject

MIB = 1 << 20


def returns(program: Path, function: str, callee: str = "") -> list[str]:
    """Frames of all calls, to functions whose name contains `callee`, that `function` makes."""
    listed = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", program], capture_output=True, text=True, check=True
    ).stdout
    body = re.search(rf"^([0-9a-f]+) <{re.escape(function)}>:\n(.*?)\n\n", listed + "\n\n", re.M | re.S)
    assert body is not None
    start, lines = int(body[1], 16), body[2].splitlines()
    found = []
    for line, after in pairwise(lines):
        if re.search(rf"\bcall\b.*{re.escape(callee)}", line):
            found.append(f"{program.name}!{function}+{int(after.split(':')[0], 16) - start:#x}")
    return found


def plan_of(
    program: Path, *objects: PlannedObject, capacity: int = 64 * MIB, build_id: str | None = None
) -> Plan:
    """Makes a plan of one program, by default of the program as it is."""
    elf = ElfFile(program)
    module = PlannedModule(name=program.name, build_id=elf.build_id.hex() if build_id is None else build_id)
    elf.close()
    return Plan.model_construct(
        format=1,
        program=program.name,
        machine="test",
        capacity=capacity,
        modules=[module],
        objects=list(objects),
    )


def planned(
    name: str,
    *site: str,
    share: float = 1.0,
    tier: str = "fast",
    size: int = MIB,
    shares: dict[str, float] | None = None,
    policy: str | None = None,
    nodes: tuple[int, ...] = (),
) -> PlannedObject:
    """An object at a site, with a policy of tier "nodes"."""
    return PlannedObject.model_construct(
        name=name, site=list(site), variable=None, bytes=size, tier="nodes" if policy else tier, share=share,
        shares=shares or {}, phases=[], policy=policy, nodes=list(nodes),
    )  # fmt: skip


def planned_variable(
    name: str, variable: str, share: float = 1.0, shares: dict[str, float] | None = None
) -> PlannedObject:
    """A variable."""
    return PlannedObject.model_construct(
        name=name, site=None, variable=variable, bytes=MIB, tier="fast", share=share,
        shares=shares or {}, phases=[],
    )  # fmt: skip
