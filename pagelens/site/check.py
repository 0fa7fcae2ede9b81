"""One check of a node: the measurement after a job, as one JSON object.

Whatever a node sends may be cut short or forged, so a record is validated before anything uses it.
"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

VERSION = 1
MOST_PROGRAMS = 8  # of a job that a record names
MOST_BYTES = 64 << 10  # of a record; a real one has 1 kB
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"

_DETAILS = (
    "kernels",
    "free_blocks",
    "unusable",
    "huge_2m",
    "huge_1g",
    "turnover",
    "snoop_filter",
    "notes",
)

Text = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Share = Annotated[float, Field(ge=0, le=1)]
Whole = Annotated[int, Field(ge=0, le=1 << 60)]
Rate = Annotated[float, Field(gt=0, le=1e15, allow_inf_nan=False)]


class ProgramMemory(BaseModel):
    """The memory of one program of the job before the check, over its processes on the node."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]*$")]
    resident: Whole
    conflict_share: Share | None = None  # the share of its pages that conflict in the memory-side cache
    large_share: Share | None = None  # the share of its memory on pages of 2 MiB or more


class Check(BaseModel):
    """The record of a check. Later versions may add fields, which are ignored here."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    version: int = Field(ge=1, le=1000)
    id: str = Field(pattern=r"^[0-9a-f]{32}$", description="drawn on the node; one record has it")
    node: str = Field(pattern=f"^{NAME}$", description="the node's name in the scheduler")
    board: Text = Field("", description="the board's own number; empty where the firmware states none")
    boot: str = Field(pattern=r"^[0-9a-f-]{1,36}$", description="the kernel's boot_id")
    hardware: Text = Field("", description="the hardware, which nodes of a kind have in common")
    mode: Text = Field("", description="how the memory is set up, such as 'cache'")
    time: float = Field(
        ge=0, le=1e11, allow_inf_nan=False, description="seconds since 1970, the node's clock"
    )
    uptime: float = Field(ge=0, le=1e10, allow_inf_nan=False, description="seconds since the boot")
    job: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_.+-]*$")] = ""
    kernels: dict[Annotated[str, Field(max_length=16)], Rate] = Field(
        default_factory=dict, max_length=8, description="bytes a second of STREAM's kernels"
    )
    disturbed: bool = Field(False, description="other work ran meanwhile")
    free_blocks: list[Whole] = Field(
        default_factory=list, max_length=32, description="the free blocks of all zones, by order"
    )
    unusable: Share | None = Field(None, description="the share of the free memory in blocks below 2 MiB")
    huge_2m: Whole | None = Field(None, description="pages of 2 MiB that could be had now")
    huge_1g: Whole | None = Field(None, description="pages of 1 GiB that could be had now")
    turnover: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        None, description="how many times over memory has been handed out since the boot"
    )
    snoop_filter: Share | None = Field(
        None, description="share of what the L2s hold, beyond the snoop filter's ways"
    )
    programs: list[ProgramMemory] = Field(
        default_factory=list,
        max_length=MOST_PROGRAMS,
        description="the programs of the job before, if it had a report",
    )
    notes: list[Text] = Field(default_factory=list, max_length=8)

    @property
    def figure(self) -> float | None:
        """The bandwidth that nodes are compared by: the triad's, in bytes a second."""
        return self.kernels.get("triad")

    def to_json(self) -> str:
        """Return the record as one line."""
        return json.dumps(self.model_dump(exclude_defaults=True), separators=(",", ":"))

    def details(self) -> str:
        """Return the part that the history keeps as JSON."""
        kept = {name: value for name in _DETAILS if (value := getattr(self, name)) not in (None, [], {})}
        if self.programs:
            kept["programs"] = [one.model_dump(exclude_none=True) for one in self.programs]
        return json.dumps(kept, separators=(",", ":"))


def parse_check(raw: bytes | str | Mapping[str, Any]) -> Check | str:
    """Return a record, or the reason why the text is none."""
    try:
        if isinstance(raw, Mapping):
            return Check.model_validate(raw)
        if len(raw) > MOST_BYTES:
            return f"longer than {MOST_BYTES} bytes"
        return Check.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "record"
        return re.sub(r"\s+", " ", f"{where}: {first['msg']}")[:200]
    except ValueError as error:  # no UTF-8
        return str(error)[:200]
