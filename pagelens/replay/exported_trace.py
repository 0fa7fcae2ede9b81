"""Writes physical lines and page tables in the formats of other simulators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pagelens.address import FRAME_BYTES
from pagelens.replay.physical_trace import WRITE, Requests

Addresses = NDArray[np.uint64]
Writes = NDArray[np.bool_]

_LINES_AT_A_TIME = 1 << 16

# `input_instr` of ChampSim's inc/trace_instruction.h: 64 bytes.
_CHAMPSIM = np.dtype(
    [("ip", "<u8"), ("branch", "u1", 2), ("registers", "u1", 6), ("stores", "<u8", 2), ("loads", "<u8", 4)]
)
# Instructions lie at one address, so that ChampSim's caches of instructions have no part in the result. The
# lowest address that Linux gives a program is another than any line's number 0 (assumed).
_CHAMPSIM_IP = 0x400000


@dataclass(frozen=True)
class Format:
    """A format of traces: what a line of it says, and how a batch of lines is written."""

    says: str
    encode: Callable[[Addresses, Writes], bytes]


def _dramsim3(addresses: Addresses, writes: Writes) -> bytes:
    """Return lines for DRAMsim3's trace-driven CPU: address, operation and the earliest cycle.

    Cycle 0 means as soon as there is room.
    """
    words = ("READ", "WRITE")
    pairs = zip(addresses.tolist(), writes.tolist(), strict=True)
    return "".join(f"{address:#x} {words[write]} 0\n" for address, write in pairs).encode()


def _ramulator(addresses: Addresses, writes: Writes) -> bytes:
    """Return lines for Ramulator's front end LoadStoreTrace, which reads an operation and an address."""
    words = ("LD", "ST")
    pairs = zip(addresses.tolist(), writes.tolist(), strict=True)
    return "".join(f"{words[write]} {address:#x}\n" for address, write in pairs).encode()


def _champsim(addresses: Addresses, writes: Writes) -> bytes:
    """Return records for ChampSim: an instruction for each line, which loads or stores it.

    Address 0 means no access there, so the first line of memory is named by its second byte.
    """
    records = np.zeros(len(addresses), _CHAMPSIM)
    records["ip"] = _CHAMPSIM_IP
    named = np.maximum(addresses, np.uint64(1))
    records["stores"][:, 0] = np.where(writes, named, np.uint64(0))
    records["loads"][:, 0] = np.where(writes, np.uint64(0), named)
    return records.tobytes()


FORMATS: Mapping[str, Format] = {
    "dramsim3": Format("lines as `0x40 READ 0`", _dramsim3),
    "ramulator": Format("lines as `LD 0x40`", _ramulator),
    "champsim": Format("an instruction of 64 bytes a line", _champsim),
}


def write_lines(batches: Iterator[Requests], form: Format, limit: int, file: BinaryIO) -> int:
    """Write at most `limit` requests in a format (0 means all). Return their number."""
    written = 0
    for batch in batches:
        for begin in range(0, len(batch), _LINES_AT_A_TIME):
            part = batch[begin : begin + _LINES_AT_A_TIME]
            part = part[: limit - written] if limit else part
            file.write(form.encode(part & ~WRITE, (part & WRITE) != 0))
            written += len(part)
            if limit and written == limit:
                return written
    return written


def write_v2p(pages: NDArray[np.uint64], frames: NDArray[np.uint32], file: BinaryIO) -> int:
    """Write the file v2p.textproto, by which drmemtrace's simulators translate addresses. Return its pages.

    The form is that which clients/drcachesim/reader/v2p_reader.cpp of DynamoRIO reads: a pair of lines for
    each page.
    """
    head = f"page_size: {FRAME_BYTES}\n  page_count: {len(pages)}\n  bytes_mapped: {len(pages) * FRAME_BYTES}"
    file.write(f"# VirtualToPhysical\naddress_mapping_group {{\n  {head}\n".encode())
    for begin in range(0, len(pages), _LINES_AT_A_TIME):
        some = slice(begin, begin + _LINES_AT_A_TIME)
        pairs = zip(pages[some].tolist(), frames[some].tolist(), strict=True)
        file.write(
            "".join(
                f"  address_mapping {{\n    virtual_address: {page * FRAME_BYTES:#x}\n"
                f"    physical_address: {frame * FRAME_BYTES:#x}\n  }}\n"
                for page, frame in pairs
            ).encode()
        )
    file.write(b"}\n")
    return len(pages)
