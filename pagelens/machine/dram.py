"""The section [dram] of a machine: the bank and row that an address selects, and the timings of commands.

The names of timings are those of the JEDEC standards. docs/dram.md describes the model.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from pagelens import _core
from pagelens.address.units import LINE_BYTES
from pagelens.errors import UsageError
from pagelens.units import format_time, parse_time
from pagelens.values.quantities import Bytes, Positive, Seconds, Sourced, Table, Unit

COUNTERS: tuple[str, ...] = tuple(_core.dram_counter_names())  # of each bank
WRITE = np.uint64(_core.DRAM_WRITE)  # in a request, beside the address
MAP_FIELDS = ("column", "bank", "bank_group", "rank", "channel", "row")
NO_LESS_THAN = {  # what a timing cannot be shorter than
    "tRAS": "tRCD", "tRC": "tRAS", "tRRD_L": "tRRD_S", "tCCD_L": "tCCD_S", "tCCD_L_WR": "tCCD_S",
    "tWTR_L": "tWTR_S",
}  # fmt: skip
TIMINGS = (
    "CL", "CWL", "tRCD", "tRP", "tRAS", "tRC", "tRRD_S", "tRRD_L", "tFAW", "tCCD_S", "tCCD_L", "tCCD_L_WR",
    "tWTR_S", "tWTR_L", "tRTW", "tRTRS", "tRTP", "tWR", "tRFC", "tREFI",
)  # fmt: skip
MOST_PICOSECONDS = 10**9  # of a timing

Requests = NDArray[np.uint64]


@dataclass(frozen=True)
class DramTime:
    """A number of clocks, or a time that the controller rounds up to whole ones."""

    clocks: int = 0
    seconds: float = 0.0

    def picoseconds(self, clock_ps: int) -> int:
        """Return the time as whole clocks of that length."""
        picoseconds = round(self.seconds * 1e12)
        return (self.clocks or math.ceil(picoseconds / clock_ps)) * clock_ps

    def __str__(self) -> str:
        return f"{self.clocks} tCK" if self.clocks else format_time(self.seconds, 6)


def _time(text: Any) -> DramTime:
    if isinstance(text, str) and (clocks := re.fullmatch(r"\s*([1-9][0-9]{0,5})\s*tCK\s*", text)):
        return DramTime(clocks=int(clocks[1]))
    if not isinstance(text, str) or "tCK" in text:
        raise ValueError(f'{text!r} is no DRAM timing; write a string such as "17 tCK" or "7.8 us"')
    try:
        return DramTime(seconds=parse_time(text))
    except UsageError as error:
        raise ValueError(str(error)) from None


def _masks(texts: Any) -> tuple[int, ...]:
    """Return the masks of a list such as ["3-5", "13^17"]: bits 3, 4 and 5, and the parity of 13 and 17."""
    if not isinstance(texts, list):
        raise ValueError('write a list of address bits, lowest first, such as ["14^18", "15^19"] or ["3-12"]')
    masks = []
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f'{text!r} is no address bit; write a string such as "14^18" or "3-12"')
        if bits := re.fullmatch(r"\s*(\d{1,2})\s*-\s*(\d{1,2})\s*", text):
            first, last = int(bits[1]), int(bits[2])
            if first > last:
                raise ValueError(f"'{text}' ends before it begins; write the lower bit first")
            masks += [1 << bit for bit in range(first, last + 1)]
        elif re.fullmatch(r"\s*\d{1,2}\s*(\^\s*\d{1,2}\s*)*", text):
            summed = [int(bit) for bit in text.split("^")]
            if len(set(summed)) < len(summed):
                raise ValueError(f"'{text}' has a bit twice, which takes it out again; write each once")
            masks.append(sum(1 << bit for bit in summed))
        else:
            raise ValueError(f'\'{text}\' is no address bit; write one such as "14^18" or "3-12"')
    if any(mask >> 52 for mask in masks):
        raise ValueError("physical addresses have bits 0 to 51")
    return tuple(masks)


def show_mask(mask: int) -> str:
    """Return a mask as text, such as "14^18"."""
    return "^".join(str(bit) for bit in range(mask.bit_length()) if mask >> bit & 1)


def _show_masks(masks: Iterable[int]) -> str:
    return ", ".join(map(show_mask, masks)) or "none"


Time = Annotated[DramTime, BeforeValidator(_time), Unit(str, 'time, as "17 tCK" or "7.8 us"')]
AddressBits = Annotated[
    tuple[int, ...],
    BeforeValidator(_masks),
    Unit(_show_masks, 'address bits, lowest first, as ["3-5", "14^18"]'),
]


class Dram(Table):
    """A DRAM and its controller.

    Each bit of a channel, bank or row number is a parity of address bits, lowest first.
    """

    clock: Sourced[Seconds] = Field(description="tCK; data move twice in it")
    width: Sourced[Bytes] = Field(description="the width of a channel's data bus")
    burst_length: Sourced[Positive] = Field(description="transfers that a read or write makes: one line")
    page_policy: Sourced[Literal["open", "closed"]] = Field(description="whether rows stay open")
    window: Sourced[Annotated[int, Field(ge=1, le=_core.DRAM_MOST_WINDOW)]] = Field(
        description="requests that a channel's scheduler chooses from; 1: in order"
    )
    controller_latency: Sourced[Seconds] = Field(
        description="the time of a read outside of the DRAM: from the core to the controller and back"
    )

    interleave: Sourced[Annotated[int, Field(ge=1, le=64)]] | None = Field(
        default=None,
        description="groups of channels that blocks go round; the bits below are of what is left",
    )
    interleave_block: Sourced[Bytes] | None = Field(
        default=None, validate_default=True, description="the block size of `interleave`"
    )
    column: Sourced[AddressBits] = Field(description="the place in the row; lower bits are within the bus")
    bank: Sourced[AddressBits] = Field(description="the bank in a bank group")
    bank_group: Sourced[AddressBits] = Field(description="the bank group in a rank; [] if there are none")
    rank: Sourced[AddressBits]
    channel: Sourced[AddressBits]
    row: Sourced[AddressBits]

    CL: Sourced[Time] = Field(description="read to its data")
    CWL: Sourced[Time] = Field(description="write to its data")
    tRCD: Sourced[Time] = Field(description="activate to read or write")
    tRP: Sourced[Time] = Field(description="precharge to activate")
    tRAS: Sourced[Time] = Field(description="activate to precharge")
    tRC: Sourced[Time] = Field(description="activate to activate of the same bank")
    tRRD_S: Sourced[Time] = Field(description="activate to activate of another bank group of the rank")
    tRRD_L: Sourced[Time] = Field(description="the same in one bank group")
    tFAW: Sourced[Time] = Field(description="four activates of a rank")
    tCCD_S: Sourced[Time] = Field(description="read to read, write to write of another bank group")
    tCCD_L: Sourced[Time] = Field(description="the same in one bank group")
    tCCD_L_WR: Sourced[Time] = Field(description="write to write in one bank group")
    tWTR_S: Sourced[Time] = Field(description="end of a write's data to a read of another bank group")
    tWTR_L: Sourced[Time] = Field(description="the same in one bank group")
    tRTW: Sourced[Time] = Field(description="gap on the bus from a read's data to a write's")
    tRTRS: Sourced[Time] = Field(description="gap on the bus between two ranks")
    tRTP: Sourced[Time] = Field(description="read to precharge")
    tWR: Sourced[Time] = Field(description="end of a write's data to precharge")
    tRFC: Sourced[Time] = Field(description="duration of a refresh")
    tREFI: Sourced[Time] = Field(description="refresh to refresh of a rank")

    @field_validator("clock")
    @classmethod
    def _whole_picoseconds(cls, clock: Sourced[float]) -> Sourced[float]:
        if not 10 <= round(clock.value * 1e12) <= 1_000_000:
            raise ValueError("a DRAM's clock is from 10 ps to 1 us")
        return clock

    @field_validator("width")
    @classmethod
    def _power_of_two(cls, width: Sourced[int]) -> Sourced[int]:
        if width.value & (width.value - 1) or width.value > LINE_BYTES:
            raise ValueError("a power of two of at most 64 B")
        return width

    @field_validator("burst_length")
    @classmethod
    def _one_line(cls, length: Sourced[int], info: ValidationInfo) -> Sourced[int]:
        if length.value % 2:
            raise ValueError("an even number: data move twice in a clock")
        if "width" in info.data and info.data["width"].value * length.value != LINE_BYTES:
            bus = info.data["width"].value
            raise ValueError(f"width x burst_length must be a line of 64 B, not {bus} B x {length.value}")
        return length

    @field_validator(*MAP_FIELDS)
    @classmethod
    def _one_to_one(cls, field: Sourced[tuple[int, ...]], info: ValidationInfo) -> Sourced[tuple[int, ...]]:
        """Check each field together with those before it.

        A mask that is a sum of other masks adds nothing, and is an error of its field.
        """
        before = [name for name in MAP_FIELDS if name in info.data]
        known = [(f"{name}.{i}", mask) for name in before for i, mask in enumerate(info.data[name].value)]
        masks = [mask for _, mask in known] + list(field.value)
        if "width" in info.data and any(mask & (info.data["width"].value - 1) for mask in field.value):
            raise ValueError(f"has an address bit inside the bus's {info.data['width'].value} B")
        if (found := _core.first_dependence(masks)) is not None:
            names = [name for name, _ in known] + [f"{info.field_name}.{i}" for i in range(len(field.value))]
            mask, of = found
            others = " ^ ".join(f"{names[i]} ({show_mask(masks[i])})" for i in of)
            raise ValueError(
                f"{names[mask]} ({show_mask(masks[mask])}) is {others}, so two addresses would share a place"
            )
        if info.field_name == "row" and len(before) == len(MAP_FIELDS) - 1 and "width" in info.data:
            cls._no_gap(masks, info)
        return field

    @staticmethod
    def _no_gap(masks: list[int], info: ValidationInfo) -> None:
        """Check that the masks use all address bits below the map's size, and no others.

        As many independent masks as address bits are then a bijection.
        """
        offset_bits = info.data["width"].value.bit_length() - 1
        placed = sum(1 << bit for bit in range(offset_bits, offset_bits + len(masks)))
        used = 0
        for mask in masks:
            used |= mask
        if used != placed:
            missing, beyond = placed & ~used, used & ~placed
            wrong = f"bit {show_mask(missing & -missing)} is in none" if missing else (
                f"bit {show_mask(beyond & -beyond)} is used too"
            )  # fmt: skip
            raise ValueError(
                f"{len(masks)} masks of the map place the bits {offset_bits} to"
                f" {offset_bits + len(masks) - 1}, but {wrong}"
            )
        banks = sum(len(info.data[name].value) for name in MAP_FIELDS[1:-1])
        rows = len(masks) - banks - len(info.data["column"].value)
        if banks > 16 or banks + rows > 31 or offset_bits + len(masks) > 52:
            raise ValueError("at most 16 bits of banks, 31 of banks and rows and 52 of addresses")
        block = info.data.get("interleave_block")
        if block is not None and block.value > 1 << (offset_bits + len(masks)):
            raise ValueError("the masks place fewer bytes than interleave_block has")

    @field_validator("interleave_block")
    @classmethod
    def _blocks(cls, block: Sourced[int] | None, info: ValidationInfo) -> Sourced[int] | None:
        if block is not None and (block.value & (block.value - 1) or block.value < LINE_BYTES):
            raise ValueError("a power of two of at least 64 B")
        if (block is None) != (info.data.get("interleave") is None):
            raise ValueError("interleave and interleave_block belong together; state both or none")
        return block

    @field_validator(*TIMINGS)
    @classmethod
    def _possible(cls, time: Sourced[DramTime], info: ValidationInfo) -> Sourced[DramTime]:
        if "clock" not in info.data:
            return time
        clock = round(info.data["clock"].value * 1e12)
        picoseconds = time.value.picoseconds(clock)
        if not 0 < picoseconds <= MOST_PICOSECONDS:
            raise ValueError("must be above 0 and at most 1 ms")
        least = NO_LESS_THAN.get(info.field_name or "")
        if least in info.data and picoseconds < info.data[least].value.picoseconds(clock):
            raise ValueError(f"shorter than {least}, {info.data[least].value}")
        return time

    @field_validator("tREFI")
    @classmethod
    def _time_to_work(cls, time: Sourced[DramTime], info: ValidationInfo) -> Sourced[DramTime]:
        needed = ("clock", "burst_length", "tRFC", "tRC", "tRP", "tRTP", "CWL", "tWR")
        if all(name in info.data for name in needed):
            clock = round(info.data["clock"].value * 1e12)
            rest = sum(info.data[name].value.picoseconds(clock) for name in needed[2:])
            rest += info.data["burst_length"].value // 2 * clock
            if time.value.picoseconds(clock) < rest:
                raise ValueError(
                    f"shorter than a refresh and the row that it closes, {format_time(rest * 1e-12)}"
                )
        return time

    @property
    def clock_ps(self) -> int:
        """Picoseconds of one clock."""
        return round(self.clock.value * 1e12)

    @property
    def channels(self) -> int:
        """The channels of the node."""
        return (self.interleave.value if self.interleave else 1) << len(self.channel.value)

    @property
    def size(self) -> int:
        """The bytes that the map places."""
        masks = sum(len(getattr(self, name).value) for name in MAP_FIELDS)
        return (self.interleave.value if self.interleave else 1) * self.width.value << masks

    @property
    def banks_per_channel(self) -> int:
        """The banks of a channel, in all ranks and groups."""
        return 1 << len((*self.bank.value, *self.bank_group.value, *self.rank.value))

    @property
    def peak_bandwidth(self) -> float:
        """Bytes a second of all channels together."""
        return self.channels * self.width.value * 2e12 / self.clock_ps

    def fields(self) -> _core.DramFields:
        """Return the map's fields for the core."""
        return _core.DramFields(
            offset_bits=self.width.value.bit_length() - 1,
            interleave=self.interleave.value if self.interleave else 1,
            interleave_bit=(self.interleave_block.value if self.interleave_block else LINE_BYTES).bit_length()
            - 1,
            **{name: list(getattr(self, name).value) for name in MAP_FIELDS},
        )

    def map(self) -> _core.DramMap:
        """Return the map.

        Called with N addresses it gives their banks, numbered over all channels, and rows.
        """
        return _core.DramMap(self.fields())

    def timings_ps(self) -> dict[str, int]:
        """Return the timings by name, with tCK and the time of a burst."""
        timings = {name: getattr(self, name).value.picoseconds(self.clock_ps) for name in TIMINGS}
        return {**timings, "tCK": self.clock_ps, "burst": self.burst_length.value // 2 * self.clock_ps}

    def simulator(
        self, *, outstanding: int, ideal: bool = False, window: int | None = None
    ) -> "DramSimulator":
        """Return the DRAM, used by cores with `outstanding` lines under way each.

        With `ideal` it is the twin without row conflicts.
        """
        return DramSimulator(self, self.core(outstanding=outstanding, ideal=ideal, window=window))

    def core(self, *, outstanding: int, ideal: bool = False, window: int | None = None) -> _core.Dram:
        """Return the same as an unused DRAM of the core. Raises UsageError for values out of range."""
        chosen = window or self.window.value
        if not 1 <= outstanding <= _core.DRAM_MOST_OUTSTANDING:
            raise UsageError(f"outstanding: {outstanding} is not from 1 to {_core.DRAM_MOST_OUTSTANDING}")
        if not 1 <= chosen <= _core.DRAM_MOST_WINDOW:
            raise UsageError(f"window: {chosen} is not from 1 to {_core.DRAM_MOST_WINDOW}")
        return _core.Dram(
            fields=self.fields(),
            timings_ps=self.timings_ps(),
            policy=_core.RowPolicy.ideal if ideal else getattr(_core.RowPolicy, self.page_policy.value),
            window=chosen,
            outstanding=outstanding,
            path_ps=round(self.controller_latency.value * 1e12),
        )


@dataclass(frozen=True)
class DramCounts:
    """What happened since the simulator began."""

    banks: NDArray[np.uint64]  # [bank, COUNTERS]; banks of a channel together
    channels: int
    time_s: float
    read_latency_s: float  # mean, from a core's issue to its data

    def total(self, name: str) -> int:
        """Return a counter's sum over all banks."""
        return int(self.banks[:, COUNTERS.index(name)].sum())

    def by_channel(self, name: str) -> NDArray[np.uint64]:
        """Return a counter's sum over the banks of each channel."""
        sums: NDArray[np.uint64] = self.banks[:, COUNTERS.index(name)].reshape(self.channels, -1).sum(axis=1)
        return sums


class DramSimulator:
    """A DRAM and the cores that use it, in a closed loop. Time goes on from run to run."""

    def __init__(self, dram: Dram, core: _core.Dram) -> None:
        self._channels = dram.channels
        self._core = core

    def run(self, *cores: Requests) -> DramCounts:
        """Run a core for each array of physical addresses (| WRITE), to the end."""
        self._core.run(list(cores))
        return self.counts()

    def counts(self) -> DramCounts:
        """Return the counts since the beginning."""
        banks = self._core.counts()
        reads = int(banks[:, COUNTERS.index("reads")].sum())
        return DramCounts(
            banks=banks,
            channels=self._channels,
            time_s=self._core.time_ps * 1e-12,
            read_latency_s=self._core.read_latency_ps * 1e-12 / max(1, reads),
        )
