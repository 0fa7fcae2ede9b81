"""Writes what one rank of LULESH 2.0 executes and moves on the machines of the study `placement`.

LULESH is not part of pagelens. Build it as pagelens/reproduce/data/lulesh/README.md says, trace it, and give
each trace with the -march that it was built with.
"""

import argparse
from pathlib import Path

import pagelens as pl
from pagelens.address.units import LINE_BYTES
from pagelens.machine import Machine
from pagelens.reproduce.studies.placement import LULESH_RANKS

COUNTS = ("instructions", "issue_cycles", "waiting_lines", "lines")


def all_slow(machine: Machine) -> Machine:
    """Return the machine as if it had its slow memory only."""
    gone = {"mode": "single", "fast_memory": None, "dram": None}
    return machine.model_copy(update=gone | {"name": f"{machine.name}-slow"})


def counted(trace: Path, name: str, ranks: int) -> dict[str, int]:
    """Replay as many ranks as the study has, and return the counts of one."""
    machine = all_slow(pl.machine(name))
    ensemble = pl.simulate(pl.trace(trace), machine, ranks=ranks, policies=["contiguous"], nodes=1)
    total = (
        ensemble.placements.select("instructions", "issue_s", "latency_s", "ddr_s").sum().row(0, named=True)
    )
    return {
        "instructions": round(total["instructions"] / ranks),
        "issue_cycles": round(total["issue_s"] * machine.cores.frequency.value),
        "waiting_lines": round(total["latency_s"] / machine.ddr.latency.value),
        "lines": round(total["ddr_s"] * machine.ddr.bandwidth.value / LINE_BYTES / ranks),
    }


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+", metavar="MARCH=TRACE")
    parser.add_argument("--output", type=Path, required=True, help="the CSV file")
    arguments = parser.parse_args()
    lines = [",".join(("march", "machine", *COUNTS))]
    for march, _, trace in (each.partition("=") for each in arguments.traces):
        for name, ranks in LULESH_RANKS.items():
            found = counted(Path(trace), name, ranks)
            lines.append(",".join((march, name, *(str(found[count]) for count in COUNTS))))
    arguments.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
