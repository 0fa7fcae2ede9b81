"""Describes all NUMA nodes of a machine, from sysfs: their processors, sizes, distances (SLIT) and HMAT.

HMAT, as Linux shows it, has the speed of a memory for the processors nearest to it only. Farther processors
are assumed: loads take longer in proportion to the distances, which is what SLIT's numbers mean (ACPI 6.5,
5.2.17), and another socket's memory gives a third of its rate, as measured between sockets of Xeon Gold 6140,
6240 and 8360Y (docs/numa.md).
"""

from collections.abc import Mapping, Sequence

from pagelens.address.units import FRAME_BYTES, HUGE_PAGE_FRAMES
from pagelens.host.numa_nodes import NumaNode
from pagelens.machine.detect.detected_value import Found, assumed, read, size_text
from pagelens.machine.detect.processor import Processor
from pagelens.machine.detect.shared import Section
from pagelens.machine.numa import LARGEST_DISTANCE, LEAST_BYTES, LOCAL_DISTANCE, MOST_NODES

REMOTE_SHARE = 1 / 3  # of a memory's own rate, which processors of another socket get (assumed)
SAME_SOCKET = 15  # assumed: nodes at this distance or less are on one socket
_LATENCY_NS, _BANDWIDTH = 100, 20e9  # ns and bytes/s, assumed where neither HMAT nor DMI states them
_HUGE = HUGE_PAGE_FRAMES * FRAME_BYTES
_FOLDER = "/sys/devices/system/node"


def in_order(nodes: Sequence[NumaNode]) -> list[NumaNode]:
    """Return the nodes as a machine file states them: those without processors last."""
    return sorted(nodes, key=lambda node: (not node.cpus, node.number))


def several(nodes: Sequence[NumaNode]) -> bool:
    """Return whether more than one node has processors, so that a machine file states them as nodes."""
    return sum(bool(node.cpus) for node in nodes) > 1 and len(nodes) <= MOST_NODES


def numa_section(
    nodes: Sequence[NumaNode], processor: Processor, peak: float | None, mcdram: bool = False
) -> Section:
    """Return the section [numa]. `peak` is the bandwidth of all nodes with processors, if DMI states it.

    The distances of MCDRAM say that programs have to ask for it, and not that it is slow.
    """
    ordered = in_order(nodes)
    near = [node for node in ordered if node.cpus]
    far = _distances(ordered)
    distances = far or _flat(len(ordered))
    rates = [node.bandwidth or (peak or 0) / len(near) or _BANDWIDTH for node in ordered]
    of_nearest = [min(row[column] for row in distances[: len(near)]) for column in range(len(ordered))]
    latency, bandwidth = [], []
    for row, of_row in enumerate(near):
        latency.append([
            (node.latency_ns or _LATENCY_NS)
            * distances[row][column]
            / (nearest if node.latency_ns or mcdram else LOCAL_DISTANCE)
            for column, (node, nearest) in enumerate(zip(ordered, of_nearest, strict=True))
        ])  # fmt: skip
        bandwidth.append([
            most * (1 if _is_near(of_row, node, distances[row][column]) else REMOTE_SHARE)
            for column, (node, most) in enumerate(zip(ordered, rates, strict=True))
        ])  # fmt: skip
    delay = "nearest processors: HMAT" if all(node.latency_ns for node in ordered) else "typical of a server"
    rate = "nearest processors: HMAT"
    if not all(node.bandwidth for node in ordered):
        rate = "DMI's peak in equal parts" if peak else "neither HMAT nor DMI says the rate of each node"
    section = {
        "cores": read(
            [max(1, len(node.cpus) // processor.threads_a_core) if node.cpus else 0 for node in ordered],
            f"{_FOLDER}: cpulist",
        ),
        "sizes": read([size_text(_whole(node.size)) for node in ordered], f"{_FOLDER}: MemTotal, rounded"),
        "latencies": assumed(_rows(latency, "ns"), f"{delay}; others in proportion to the distances"),
        "bandwidths": assumed(
            _rows([[rate / 1e9 for rate in row] for row in bandwidth], "GB/s"),
            f"{rate}; other sockets a third, as of Xeon Gold 6140, 6240 and 8360Y",
        ),
    }
    if far:
        section["distances"] = read([" ".join(map(str, row)) for row in far], f"{_FOLDER}: distance (SLIT)")
    return section


def with_measured_nodes(
    sections: Mapping[str, Section],
    columns: Sequence[int],
    latency_s: Mapping[int, Sequence[float]],
    bandwidth: Mapping[int, Sequence[float]],
) -> dict[str, Section]:
    """Return [numa] and [ddr] with both matrices as measured.

    Rows are the kernel's numbers of nodes with processors, and `columns` are those of all nodes.
    """
    rows = sorted(latency_s)
    order = [columns.index(node) for node in (*rows, *(node for node in columns if node not in rows))]
    where = "measured here: every pair of nodes alone, reads only"

    def matrix(found: Mapping[int, Sequence[float]], factor: float, unit: str) -> Found:
        return read(_rows([[factor * found[row][column] for column in order] for row in rows], unit), where)

    numa = {
        **sections["numa"],
        "latencies": matrix(latency_s, 1e9, "ns"),
        "bandwidths": matrix(bandwidth, 1e-9, "GB/s"),
    }
    own = min(latency_s[row][order[at]] for at, row in enumerate(rows))
    memory = {"bandwidth": bandwidth_of_all(numa), "latency": read(f"{own * 1e9:.4g} ns", where)}
    return {"numa": numa, "ddr": {**sections["ddr"], **memory}}


def bandwidth_of_all(section: Section) -> Found:
    """Return what the memories of [numa] give together: the sum of the best in each column."""
    rows = [[float(word) for word in str(row).split()[:-1]] for row in _texts(section["bandwidths"])]
    own = [
        rows[column][column] if column < len(rows) else max(row[column] for row in rows)
        for column in range(len(rows[0]))
    ]
    return Found(f"{sum(own):.6g} GB/s", section["bandwidths"].kind, "the sum of all nodes in [numa]")


def _texts(found: Found) -> list[str]:
    assert isinstance(found.value, list)
    return [str(text) for text in found.value]


def _rows(rows: Sequence[Sequence[float]], unit: str) -> list[str]:
    return [" ".join(f"{value:.4g}" for value in row) + f" {unit}" for row in rows]


def _whole(size: int) -> int:
    """Return a node's bytes in whole pages of 2 MiB, as a machine file states them."""
    return max(LEAST_BYTES, size // _HUGE * _HUGE)


def _distances(ordered: Sequence[NumaNode]) -> list[list[int]]:
    """Return the distances in the order of the machine file; none where they make no sense."""
    numbers = sorted(node.number for node in ordered)
    if any(len(node.distances) != len(numbers) for node in ordered):
        return []
    found = [[node.distances[numbers.index(other.number)] for other in ordered] for node in ordered]
    for row, of_row in enumerate(found):
        for column, far in enumerate(of_row):
            if row != column and far > LARGEST_DISTANCE:  # as stated from nodes without processors
                of_row[column] = min(found[column][row], LARGEST_DISTANCE)
    sound = all(
        (far == LOCAL_DISTANCE) == (row == column) and LOCAL_DISTANCE <= far <= LARGEST_DISTANCE
        for row, of_row in enumerate(found)
        for column, far in enumerate(of_row)
    )
    return found if sound else []


def _flat(nodes: int) -> list[list[int]]:
    return [[LOCAL_DISTANCE * (1 + (row != column)) for column in range(nodes)] for row in range(nodes)]


def _is_near(row: NumaNode, node: NumaNode, distance: int) -> bool:
    return not node.cpus or row.number in node.near or distance <= SAME_SOCKET
