"""Writes docs/results/dram-offsets.md: a copy of two arrays at several distances and on random frames."""

import argparse
from pathlib import Path

import numpy as np
from results import write_table

from pagelens.machine.dram import MAP_FIELDS, WRITE, Dram, DramCounts, Requests
from pagelens.machine.dram_files import load_dram
from pagelens.units import format_binary_size

ARRAY = 16 << 20  # bytes
OFFSETS = (0, 8 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20)  # beyond ARRAY, from the one to the other
FRAME = 4096
DRAWS = 8
# The lines that a core keeps under way: line-fill buffers of Intel's cores; the Opteron's miss buffers.
OUTSTANDING = {"ddr4-2400": 10, "opteron": 8}
DRAMS = (
    "ddr4-2400", "opteron-ddr-400", "opteron-ddr-400-swizzle", "opteron-ddr2-667", "opteron-ddr2-667-swizzle",
    "opteron-ddr2-800", "opteron-ddr2-800-swizzle",
)  # fmt: skip

INTRODUCTION = f"""\
How much slower is a copy if the distance between its two arrays is a bad one? `b[i] = a[i]` copies an array
of 16 MiB line by line. It reads a line of `a`, and writes a line of `b` with a streaming store. One core has
10 (DDR4) or 8 (Opteron) lines under way, and makes 524,288 requests. Row conflicts are counted and times are
modelled; nothing is measured or fitted. Maps and timings are those of `machines/dram/`
([docs/dram.md](../dram.md)). `python scripts/dram_table.py --output docs/results/dram-offsets.md` wrote this
page.

| column or row | means |
|---|---|
| distance | from the beginning of one array to that of the other, in contiguous memory |
| random frames | the 4 KiB pages lie anywhere: mean and standard deviation of {DRAWS} draws |
| no row conflicts | the ideal twin, which finds every row open, at 16 MiB |
| clash | the share of the pairs a[i], b[i] that lie in one bank but in different rows |
| told apart by | which numbers of the place (rank, bank group, bank) differ, in how many pairs |

The map of the addresses explains each row:
- The bad distances are multiples of what one row of every bank holds together. That is 256 KiB on this DDR4
  (16 KiB of columns of two bank groups, x 4 banks, x 2 for the bank group's upper bit, x 2 ranks). It is 128
  KiB on the Opteron's DDR2 (16 KiB x 8 banks, as published: Ferreira, Pedretti, Brightwell, CUG 2008), and 64
  KiB on its DDR (x 4 banks). At these distances only the row differs. So each turn from reads to writes, and
  back, finds the row of the other array open in the bank. At 8 KiB more, half of the pairs still clash.
- On this DDR4, 64 KiB more lead to the other bank group, and 128 KiB more to the other rank. There is no
  clash. The bus turns round sooner between two ranks than within one, so 128 KiB more take the least time. It
  turns round slowest within a bank group. So the ideal twin at 16 MiB takes longer than random frames. The
  rest of the time at a bad distance is due to row conflicts.
- Random frames clash by chance, once in the banks that a page can lie in. They use both ranks. Contiguous
  arrays of 32 MiB on an Opteron do not, because its ranks have 2 GiB each. So without any conflict these
  arrays take a little longer than random frames.
- The swizzle of DDR2's controller (rev. F) makes the bank depend on bits 18 to 25, so none of these distances
  is bad. That of DDR's controller (rev. E) makes it depend on bits 18, 19, 21 and 22. So 16 MiB, which is bit
  24, is still a bad distance there.
- With DDR-400, bad distances cost little. Its bus takes 10 ns a line, and with four banks random frames clash
  often as well."""

Lines = tuple[Requests, Requests]  # addresses of the two arrays' lines, in the order of the loop


def at_offset(offset: int) -> Lines:
    """Both arrays in contiguous memory from address 0 on."""
    lines = np.arange(0, ARRAY, 64, dtype=np.uint64)
    return lines, lines + np.uint64(ARRAY + offset)


def on_random_frames(dram: Dram, draw: int) -> Lines:
    """Each page on a frame of its own, drawn from all of the DRAM."""
    frames = np.random.default_rng(draw).choice(dram.map().bytes // FRAME, 2 * ARRAY // FRAME, replace=False)
    lines = np.arange(0, 2 * ARRAY, 64, dtype=np.uint64)
    addresses = frames[lines // FRAME].astype(np.uint64) * np.uint64(FRAME) + lines % np.uint64(FRAME)
    return addresses[: ARRAY // 64], addresses[ARRAY // 64 :]


def copy(dram: Dram, lines: Lines, outstanding: int, ideal: bool = False) -> DramCounts:
    """Reads each line of the first array, and writes one of the second without reading it."""
    requests = np.empty(2 * len(lines[0]), dtype=np.uint64)
    requests[0::2], requests[1::2] = lines[0], lines[1] | WRITE
    return dram.simulator(outstanding=outstanding, ideal=ideal).run(requests)


def told_apart(dram: Dram, lines: Lines) -> tuple[float, str]:
    """Share of the pairs of lines in one bank but different rows, and what the other pairs differ in."""
    (first_banks, first_rows), (banks, rows) = (dram.map()(array) for array in lines)
    clash = (first_banks == banks) & (first_rows != rows)
    said, shift = [], 0
    for name in MAP_FIELDS[1:-1]:
        width = len(getattr(dram, name).value)
        differ = ((first_banks ^ banks) >> np.uint32(shift) & np.uint32((1 << width) - 1)) != 0
        shift += width
        if differ.any():
            said.append(f"{name.replace('_', ' ')} of {differ.mean():.0%}")
    return float(clash.mean()), ", ".join(said) or "nothing but the row"


def rows_of(name: str) -> list[tuple[str, ...]]:
    """The table's rows of one DRAM."""
    dram = load_dram(name).dram
    outstanding = OUTSTANDING[name.partition("-ddr")[0] if name.startswith("opteron") else name]
    draws = [on_random_frames(dram, draw) for draw in range(DRAWS)]
    random = [copy(dram, lines, outstanding) for lines in draws]
    times = np.array([counts.time_s for counts in random])
    mean = float(times.mean())
    clashes = np.mean([told_apart(dram, lines)[0] for lines in draws])
    found = [
        (
            name,
            "random frames",
            f"{np.mean([counts.total('conflicts') for counts in random]):,.0f}",
            f"{1e3 * mean:.2f} ± {1e3 * times.std():.2f}",
            "1",
            f"{clashes:.0%}",
            "by chance",
        )
    ]
    for offset in OFFSETS:
        lines = at_offset(offset)
        counts = copy(dram, lines, outstanding)
        clash, apart = told_apart(dram, lines)
        where = f"16 MiB + {format_binary_size(offset)}" if offset else "16 MiB"
        found.append(
            (
                name,
                where,
                f"{counts.total('conflicts'):,}",
                f"{1e3 * counts.time_s:.2f}",
                f"{counts.time_s / mean:.2f}",
                f"{clash:.0%}",
                apart,
            )
        )
    ideal = copy(dram, at_offset(0), outstanding, ideal=True)
    found.append(
        (name, "no row conflicts", "0", f"{1e3 * ideal.time_s:.2f}", f"{ideal.time_s / mean:.2f}", "", "")
    )
    return found


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    write_table(
        arguments.output,
        "A copy's row conflicts by the distance of its arrays",
        INTRODUCTION,
        (
            "DRAM",
            "distance",
            ">row conflicts",
            ">time (ms)",
            ">over random",
            ">clash",
            "told apart by",
        ),
        [row for name in DRAMS for row in rows_of(name)],
    )


if __name__ == "__main__":
    main()
