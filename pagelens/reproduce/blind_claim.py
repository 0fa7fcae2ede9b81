"""The file in which somebody states claims of a paper without code, and the digest of each claim."""

import hashlib
import json
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pagelens.reproduce.claim import NEAR
from pagelens.values.quantities import Bytes, Positive, PositiveFloat, Table

Quantity = Literal["time", "bandwidth", "speedup", "spread", "row-conflict"]


class Published(Table):
    """The published figure. It is absent until somebody has looked."""

    figure: PositiveFloat
    text: str = ""
    within: Annotated[float, Field(gt=0, lt=1)] = NEAR


class Claim(Table):
    """One figure of the paper, and the simulation that answers it."""

    claim: str
    where: str  # a table, figure or page of the document
    machine: str  # a name, or a machine file beside this file
    quantity: Quantity
    workload: str | None = None  # declared loops, with `size`
    size: Bytes | None = None
    trace: str | None = None  # or a trace file beside this file
    ranks: Positive = 1
    history: str = "boot; run"
    policy: str | None = None  # needed unless the quantity is of the DRAM alone
    over: str | None = None  # for `speedup`: the policy that `policy` is compared with
    over_machine: str | None = None  # for `speedup`: the machine that `machine` is compared with
    nodes: Positive = 16
    why: str = ""  # how the paper's set-up became this one
    published: Published | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        runs = (self.trace, self.workload, self.size, self.policy)
        if self.quantity == "row-conflict":
            if any(part is not None for part in (*runs, self.over, self.over_machine)):
                raise ValueError(
                    "row-conflict is of the machine's DRAM alone: state no program and no policy"
                )
            return self
        if (self.trace is None) == (self.workload is None):
            raise ValueError("state one of workload and trace")
        if (self.workload is None) != (self.size is None):
            raise ValueError("a workload needs its size, and a trace has its own")
        if self.policy is None:
            raise ValueError("state the `policy` that gives the program its frames")
        compared = self.over is not None or self.over_machine is not None
        if (self.quantity == "speedup") != compared:
            raise ValueError(
                "a speedup is over another policy or machine: state `over` or `over_machine` for it alone"
            )
        return self

    @property
    def digest(self) -> str:
        """A hash of everything that decides the obtained figure."""
        stated = self.model_dump(mode="json", exclude={"published", "claim", "where", "why"})
        if self.over_machine is None:  # files are older than this key
            del stated["over_machine"]
        return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()[:16]


class Paper(Table):
    """A file of blind claims."""

    version: Literal[1] = Field(alias="schema")
    source: str  # author, title, where and when it was published
    claims: Annotated[tuple[Claim, ...], Field(alias="claim", min_length=1, strict=False)]
