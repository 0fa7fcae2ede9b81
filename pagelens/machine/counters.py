"""Maps what a machine file models to the processor's own counters, by libpfm4's names."""

from typing import Annotated

from pydantic import Field

from pagelens.values.quantities import Sourced, Table

Event = Annotated[str, Field(pattern=r"^[a-z0-9_]+\*?::[A-Z0-9_]+(:[A-Z0-9_]+)*$", max_length=120)]


class HardwareCounters(Table):
    """Events that are added up for each counter; `*` at the end of a unit's name stands for its numbers."""

    l2_fills: Sourced[list[Event]] | None = Field(default=None, description="lines that L2s fetch")
    sf_evictions: Sourced[list[Event]] | None = Field(
        default=None, description="lines that snoop filters evict, and with them the L2s that hold them"
    )
    mcdram_misses: Sourced[list[Event]] | None = Field(
        default=None, description="accesses that miss a memory-side cache of MCDRAM"
    )
    dram_reads: Sourced[list[Event]] | None = Field(default=None, description="lines read from DRAM")

    def stated(self) -> dict[str, list[str]]:
        """Return the events of each counter."""
        found = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: list(events.value) for name, events in found.items() if events is not None}
