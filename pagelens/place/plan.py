"""The plan of a placement: a TOML file that `pagelens place` writes and `pagelens run --plan` reads.

docs/plan-format.md describes it. A site is the tracer's call site as text (tracer/call_sites.hpp): the return
addresses of the program's own frames, innermost first. Their form stays valid under another load address and,
as far as symbols allow, after another compilation.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

import tomlkit
from pydantic import Field, field_validator, model_validator

from pagelens.accesses.region_names import region_bytes
from pagelens.accesses.site_groups import MOST_FRAMES
from pagelens.errors import UsageError
from pagelens.files import write_whole
from pagelens.machine.detect.detected_value import size_text
from pagelens.values.quantities import Bytes, Table
from pagelens.values.toml_file import parse_toml, read_bytes

NO_LIMIT = 1 << 62  # bytes
MOST_NODE = 1023  # CONFIG_NODES_SHIFT is at most 10
MOST_REGIONS = 255  # regions in which objects of a plan have shares: preload/plan_map.c
MOST_NAME = 255  # bytes of a region's name that count: hooks/pagelens.h
MOST_BYTES = 64 << 20  # of a plan: 10,000 sites of 16 long C++ names are 20 MB
_KIND = "--plan"
_EXAMPLE = "docs/plan-format.md"
_FRAME = re.compile(r"(?P<module>[^!]+?)(?:!(?P<symbol>.+))?\+0x(?P<offset>[0-9a-f]{1,16})")

_ADDRESSED = re.compile(r"(.+)@0x([0-9a-f]{1,16})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Frame:
    """A return address: in a function or, without a symbol, as an address of its file."""

    module: str  # name of the file
    symbol: str | None  # the function that made the call, as the file's symbol table names it
    offset: int  # bytes from the function's first, or from the file's address 0

    def __str__(self) -> str:
        """Return text such as `hydro!_ZN4Mesh8allocateEv+0x1c`, or `hydro+0x1169`."""
        place = self.module if self.symbol is None else f"{self.module}!{self.symbol}"
        return f"{place}+{self.offset:#x}"


def parse_frame(text: str) -> Frame:
    """Return the frame that a text means. Raises ValueError."""
    match = _FRAME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r:.80} is no frame; write module!symbol+0xOFFSET or module+0xADDRESS")
    return Frame(match["module"], match["symbol"], int(match["offset"], 16))


@dataclass(frozen=True, slots=True)
class StaticVariable:
    """A variable of static storage by its symbol."""

    module: str  # name of the file
    symbol: str  # as in the file's symbol table
    address: int | None = None  # its address in the file, if several symbols have that name

    def __str__(self) -> str:
        """Return text such as `hydro!table`, or `hydro!table@0x4060`."""
        place = f"{self.module}!{self.symbol}"
        return place if self.address is None else f"{place}@{self.address:#x}"


def parse_variable(text: str) -> StaticVariable:
    """Return the variable that a text means. Raises ValueError."""
    module, mark, symbol = text.partition("!")
    if not (module and mark and symbol):
        raise ValueError(f"{text!r:.80} is no variable; write module!symbol or module!symbol@0xADDRESS")
    match = _ADDRESSED.fullmatch(symbol)
    return StaticVariable(module, match[1], int(match[2], 16)) if match else StaticVariable(module, symbol)


class PlannedModule(Table):
    """A file that has call sites or variables of the plan."""

    name: str = Field(min_length=1, description="the name of the file, without its folder")
    build_id: str = Field(pattern=r"^([0-9a-f]{2})*$", description="GNU build id in hex; empty without one")

    @field_validator("name")
    @classmethod
    def _parts_from_symbols(cls, name: str) -> str:
        if "!" in name:
            raise ValueError("should have no '!', which parts a file from a symbol; rename the file")
        return name


class PlannedObject(Table):
    """The blocks of a call site, or a variable, and where they should lie."""

    name: str = Field(min_length=1, description="a name for people")
    site: list[str] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_FRAMES,
        description="return addresses of the program's own frames, innermost first: "
        "module!symbol+0xOFFSET, or module+0xADDRESS without a symbol",
    )
    variable: str | None = Field(
        default=None,
        description="instead of a site, a variable of static storage: module!symbol, or "
        "module!symbol@0xADDRESS where the file has several of that name",
    )
    bytes: Bytes = Field(description="at the peak, of one process; decides between sites that are one")
    tier: Literal["fast", "slow", "nodes"]
    policy: Literal["interleave", "weighted", "bind", "prefer"] | None = Field(
        default=None,
        description="with tier nodes, how its pages are taken from `nodes`: in turn, in turn by the "
        "kernel's weights, from these only, or from these first",
    )
    nodes: list[Annotated[int, Field(ge=0, le=MOST_NODE)]] = Field(
        default=[], description="with tier nodes, the kernel's numbers of the NUMA nodes"
    )
    share: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="the share of each block's pages, the first ones, that lie in that tier; 0 only "
        "beside `shares`",
    )
    shares: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(
        default={},
        description="the same in marked regions, by name; `share` is of others, and until one begins",
    )
    phases: list[str] = Field(default=[], description="the phases in which it is used; information only")

    @field_validator("site")
    @classmethod
    def _are_frames(cls, site: list[str] | None) -> list[str] | None:
        for frame in site or []:
            parse_frame(frame)
        return site

    @field_validator("variable")
    @classmethod
    def _is_variable(cls, variable: str | None) -> str | None:
        if variable is not None:
            parse_variable(variable)
        return variable

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.site is None) == (self.variable is None):
            raise ValueError("state exactly one of site and variable")
        if self.tier != "fast" and (self.share != 1 or self.shares):
            raise ValueError(f"share is of the fast tier: with tier {self.tier} leave it out, and shares")
        if (self.tier == "nodes") != (self.policy is not None and bool(self.nodes)):
            raise ValueError("policy and nodes belong to tier = 'nodes', which needs both")
        if len(set(self.nodes)) < len(self.nodes):
            raise ValueError("nodes should name each node once")
        if not max([self.share, *self.shares.values()]):
            raise ValueError(
                "share (is 0) should be greater than 0 here or in shares; tier = 'slow' keeps it out"
            )
        if long := next((name for name in self.shares if len(region_bytes(name)) > MOST_NAME), None):
            raise ValueError(f"region '{long:.20}...' has more than {MOST_NAME} bytes; no marker says more")
        return self

    @property
    def frames(self) -> list[Frame]:
        """The frames of the site, innermost first. A variable has none."""
        return [parse_frame(text) for text in self.site or []]


class Plan(Table):
    """The plan: which objects of a program lie in fast memory, or on which NUMA nodes, and where threads run.

    If any object is of the fast tier, all others lie in slow memory. Otherwise they lie where the kernel puts
    them.
    """

    format: Literal[1]
    program: str = Field(min_length=1, description="name of the executable")
    machine: str = Field(description="the machine that it was made for; information only")
    capacity: Bytes = Field(
        default=NO_LIMIT,
        description="the fast memory for one process; no more is used at a time. It may be left out of a "
        "plan without fast objects",
    )
    threads: Literal["close", "spread"] | None = Field(
        default=None,
        description="how the threads of OpenMP are bound: one node after the other is filled, or all evenly",
    )
    modules: list[PlannedModule] = Field(default=[], description="files that call sites and variables lie in")
    objects: list[PlannedObject] = Field(default=[])

    @model_validator(mode="after")
    def _once_and_known(self) -> Self:
        names = Counter(module.name for module in self.modules)
        if twice := next((name for name, count in names.items() if count > 1), None):
            raise ValueError(f"module '{twice}' is listed twice; leave one out")
        seen: set[tuple[str, ...]] = set()
        for planned in self.objects:
            key = tuple(planned.site) if planned.site else (planned.variable or "",)
            if key in seen:
                raise ValueError(f"'{planned.name}' is planned twice; leave one out")
            seen.add(key)
            used = {text.partition("!")[0] if "!" in text else parse_frame(text).module for text in key}
            if unknown := used - names.keys():
                raise ValueError(
                    f"'{planned.name}' lies in '{min(unknown)}', which [[modules]] does not list"
                )
        if self.capacity == NO_LIMIT and any(planned.tier == "fast" for planned in self.objects):
            raise ValueError('capacity should say how much fast memory there is; state it, as "1GiB"')
        if len(self.regions) > MOST_REGIONS:
            raise ValueError(
                f"objects have shares of {len(self.regions)} regions; state those of at most {MOST_REGIONS}"
            )
        return self

    @property
    def nodes(self) -> list[int]:
        """The NUMA nodes that objects of the plan name."""
        return sorted({node for planned in self.objects for node in planned.nodes})

    @property
    def regions(self) -> list[str]:
        """The marked regions in which an object has a share of its own, in the order of the plan."""
        return list(dict.fromkeys(region for planned in self.objects for region in planned.shares))


def read_plan(path: str | Path) -> Plan:
    """Return the plan in a file. Raises UsageError, with the line of the fault."""
    raw = read_bytes(Path(path), _KIND, MOST_BYTES)
    return parse_toml(Plan, raw, f"{_KIND} {path}", _EXAMPLE, MOST_BYTES)


def write_plan(plan: Plan, path: str | Path) -> None:
    """Write a plan, whole or not at all. Raises Failure."""
    final, text = Path(path), plan_text(plan)
    write_whole(final, lambda partial: partial.write_text(text))


def plan_text(plan: Plan) -> str:
    """Return the text of a plan's file. Raises UsageError for a plan that could not be read again."""
    document = tomlkit.document()
    document.add(tomlkit.comment("Written by pagelens; pagelens run --plan reads it."))
    document["format"], document["program"], document["machine"] = plan.format, plan.program, plan.machine
    if plan.capacity != NO_LIMIT:
        document["capacity"] = _size(plan.capacity)
    if plan.threads is not None:
        document["threads"] = plan.threads
    parts = [tomlkit.dumps(document)]
    # Tables are written one by one, because a document of 10,000 tables takes tomlkit minutes.
    parts += [_table("modules", module.model_dump()) for module in plan.modules]
    for planned in plan.objects:
        stated = planned.model_dump(exclude_none=True, exclude_defaults=True)
        parts.append(_table("objects", stated | {"bytes": _size(planned.bytes), "share": planned.share}))
    text = "\n".join(parts)
    if len(text.encode()) > MOST_BYTES:
        raise UsageError(
            f"plan: {len(plan.objects)} objects make more than {MOST_BYTES >> 20} MiB; plan fewer"
        )
    return text


def _table(name: str, values: dict[str, object]) -> str:
    array, table = tomlkit.aot(), tomlkit.table()
    order = [*PlannedObject.model_fields, "build_id"]
    for key in sorted(values, key=order.index):
        value = values[key]
        if isinstance(value, dict):
            table[key] = tomlkit.inline_table()
            table[key].update(value)
        else:
            table[key] = value
    array.append(table)
    return tomlkit.dumps({name: array})


def _size(size: int) -> str:
    return size_text(size).replace(" ", "")
