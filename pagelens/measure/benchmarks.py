"""What is measured: the points of each kernel to time in a trial's memory, and what its figures count."""

from collections.abc import Callable

import numpy as np

from pagelens import _probes
from pagelens.accesses.declared import declared
from pagelens.errors import Failure, UsageError
from pagelens.measure.blas import find_blas
from pagelens.measure.choices import isa_of, numbers, order_of, some, stores_of, whole
from pagelens.measure.experiment import Experiment, Model, Settings
from pagelens.measure.trials import Floats, Point
from pagelens.units import format_binary_size, parse_size

STREAM_KERNELS = ("copy", "scale", "add", "triad")
_DOUBLE, _LINE, _PAGE = 8, 64, 4096
_STREAM_OVER_CACHE = 4  # STREAM's rule: each array at least so many times the last-level caches
_L2SUM_BYTES = 1_000_000  # 125,000 doubles: github.com/jdmccalpin/SKX-SF-Conflicts
_L2SUM_SWEEPS = 200
_LOADS = 1 << 20  # of a chase, a repetition
_UPDATES_A_WORD = 4  # HPCC's rule
_CONFLICT_BYTES = 2 << 20
_GRID, _ITERATIONS = 96, 10  # of the conjugate gradients
_ORDER = 1536  # of the matrices


def stream(s: Settings) -> Experiment:
    """Run STREAM's kernels at each OFFSET between the arrays."""
    # The size is in whole pages, as the model needs them. STREAM's own minimum is 2,000,000.
    n = s.n or max(2_000_896, -(-_STREAM_OVER_CACHE * s.cache_bytes // _DOUBLE // 512) * 512)
    if n < 512:
        raise UsageError(f"--n {n}: at least 512 doubles an array")
    offsets = numbers(s.offset or "0", "--offset", lambda text: whole(text, "--offset"))
    names = some(s.kernels or ",".join(STREAM_KERNELS), STREAM_KERNELS, "--kernels")
    isa, order = isa_of(s.isa), order_of(s.order, sweep=len(offsets) > 1)
    points, kinds = [], set[str]()
    for offset in offsets:
        for name in names:
            kernel = getattr(_probes.StreamKernel, name)
            stores = stores_of(s.stores, kernel, n, s.cpus)
            kinds.add(stores.name)
            labels: dict[str, str | int] = {"kernel": name}
            if len(offsets) > 1:
                labels["offset"] = offset

            def run(
                memory: _probes.Memory,
                kernel: _probes.StreamKernel = kernel,
                offset: int = offset,
                stores: _probes.Stores = stores,
            ) -> Floats:
                done = _probes.stream(
                    memory, kernel, n, _DOUBLE * offset, s.repeats + 1, list(s.cpus), isa, stores, order
                )
                _require(done.error <= 1e-13, f"stream {kernel.name}", f"off by {done.error:.1e}")
                return done.seconds[1:]

            points.append(Point(labels, run, float(n * _probes.stream_bytes(kernel))))

    def models() -> list[Model | None]:
        found: list[Model | None] = []
        for point in points:
            offset = _DOUBLE * int(point.labels.get("offset", offsets[0]))
            name = str(point.labels["kernel"])
            if (n * _DOUBLE) % _PAGE or offset % _PAGE:  # arrays begin within pages
                found.append(None)
                continue
            workload = declared(f"stream-{name}", 3 * n * _DOUBLE, len(s.cpus))
            found.append(Model(workload, name, point.amount, offset))
        return found

    return Experiment(
        name="stream",
        title=f"STREAM, {n} doubles an array, {_threads(s)}, {isa.name}, "
        f"{' and '.join(sorted(kinds))} stores",
        points=points,
        memory_bytes=3 * n * _DOUBLE + 2 * _DOUBLE * max(offsets),
        arrays=[number * _DOUBLE * (n + offsets[0]) for number in range(3)],
        unit="GB/s",
        rate=True,
        counted="10^9 bytes that the program reads and writes, as STREAM counts: 16 an element of copy and "
        "scale, 24 of add and triad; what a plain store reads first is not counted. STREAM's arrays and "
        "rules, this project's loops",
        models=models,
        along="offset" if len(offsets) > 1 else "",
        ran={"isa": isa.name, "order": order.name, "stores": " ".join(sorted(kinds))},
        unpredicted="arrays begin within pages; take --n and --offset in multiples of 512",
    )


def latency(s: Settings) -> Experiment:
    """Chase pointers through each footprint."""
    default = ",".join(f"{1 << k}KiB" for k in range(4, 19, 1))
    sizes = numbers(s.footprint or default, "--footprint", lambda text: parse_size(text, "--footprint"))
    stride = parse_size(s.stride, "--stride") if s.stride else _LINE
    if stride < _LINE or stride % _LINE:
        raise UsageError(f"--stride {stride} bytes: a multiple of {_LINE}")
    wrong = next((size for size in sizes if size < 2 * stride), None)
    if wrong is not None:
        raise UsageError(f"--footprint {wrong} bytes: at least two strides of {stride}")
    points = []
    for size in sizes:
        rounded = size // stride * stride

        def run(memory: _probes.Memory, size: int = rounded) -> Floats:
            done = _probes.latency(memory, size, stride, _LOADS, s.repeats, s.cpus[0], s.seed)
            _require(done.ok, "latency", "the chase did not close")
            return done.seconds

        points.append(Point({"footprint": format_binary_size(size)}, run, float(_LOADS)))
    what = "every line" if stride == _LINE else f"a line of every {format_binary_size(stride)}"
    return Experiment(
        name="latency",
        title=f"a chase through {what}, 1 thread",
        points=points,
        memory_bytes=max(sizes),
        arrays=[0],
        unit="ns",
        rate=False,
        counted="nanoseconds a load that waits for the one before it",
        along="footprint",
    )


def gups(s: Settings) -> Experiment:
    """Run RandomAccess on a table."""
    table = parse_size(s.table, "--table") if s.table else 1 << 30
    if table & (table - 1) or table < _probes.least_gups_table:
        least = format_binary_size(_probes.least_gups_table)
        raise UsageError(f"--table {table} bytes: a power of two of at least {least}")
    updates = _UPDATES_A_WORD * table // _DOUBLE
    done: list[_probes.GupsResult] = []

    def run(memory: _probes.Memory) -> Floats:
        found = [_probes.gups(memory, table, updates, list(s.cpus)) for _ in range(s.repeats)]
        done.extend(found)
        return np.array([one.seconds for one in found])

    def remarks() -> list[str]:
        lost = max(one.errors for one in done) / (table // _DOUBLE)
        rules = "Official" if all(one.official for one in done) else "Unofficial"
        return [
            f"{rules} by HPCC's rules; threads overwrote each other's updates in at most "
            f"{100 * lost:.2g}% of the words (1% is allowed)."
        ]

    return Experiment(
        name="gups",
        title=f"RandomAccess, a table of {format_binary_size(table)}, {_threads(s)}",
        points=[Point({"table": format_binary_size(table)}, run, float(updates))],
        memory_bytes=table,
        arrays=[0],
        unit="GUPS",
        rate=True,
        counted="10^9 updates of 8 bytes a second; unofficial unless the table is half of the memory "
        "(HPCC's rules)",
        models=lambda: [Model(declared("random-access", table, len(s.cpus)), "update", table / _LINE)],
        remarks=remarks,
    )


def l2sum(s: Settings) -> Experiment:
    """Let every core sum a block that fits its L2."""
    block = parse_size(s.block, "--block") if s.block else _L2SUM_BYTES
    if block < _LINE or block % _DOUBLE:
        raise UsageError(f"--block {block} bytes: a multiple of 8, at least 64")
    apart = -(-block // _PAGE) * _PAGE
    isa = isa_of(s.isa)

    def run(memory: _probes.Memory) -> Floats:
        done = _probes.l2sum(memory, block, apart, _L2SUM_SWEEPS, s.repeats + 1, list(s.cpus), isa)
        _require(done.ok, "l2sum", "a sum is wrong")
        slowest: Floats = done.seconds.max(axis=1)
        return slowest[1:]

    def models() -> list[Model | None]:
        if apart != block:  # the model's blocks follow each other
            return [None]
        together = block * len(s.cpus)
        return [Model(declared("l2-sum", together, len(s.cpus)), "sum", float(together))]

    return Experiment(
        name="l2sum",
        title=f"sums of {block} bytes a core, {_threads(s)}, {isa.name}",
        points=[Point({"block": str(block)}, run, float(block * _L2SUM_SWEEPS * len(s.cpus)))],
        memory_bytes=apart * len(s.cpus),
        arrays=[apart * number for number in range(len(s.cpus))],
        unit="GB/s",
        rate=True,
        counted="10^9 bytes read a second by all cores together, until the slowest is done",
        models=models,
        ran={"isa": isa.name},
        unpredicted="blocks end within pages; take a --block in multiples of 4KiB, such as "
        f"{_whole_pages(block) >> 10}KiB",
    )


def conflict(s: Settings) -> Experiment:
    """Read two streams at each distance."""
    default = ",".join(f"{1 << k}KiB" for k in range(11, 17))
    distances = numbers(s.distance or default, "--distance", lambda text: parse_size(text, "--distance"))
    wrong = next((each for each in distances if each < _CONFLICT_BYTES or each % _LINE), None)
    if wrong is not None:
        raise UsageError(f"--distance {wrong} bytes: a multiple of 64, at least {_CONFLICT_BYTES}")
    points = []
    for distance in distances:

        def run(memory: _probes.Memory, distance: int = distance) -> Floats:
            kind = _probes.ConflictKind.read
            done = _probes.conflict(memory, 0, distance, _CONFLICT_BYTES, kind, s.repeats + 1, s.cpus[0])
            _require(done.ok, "conflict", "the data were changed")
            return done.seconds[1:]

        points.append(Point({"distance": format_binary_size(distance)}, run, 2.0 * _CONFLICT_BYTES))
    return Experiment(
        name="conflict",
        title=f"two streams of {format_binary_size(_CONFLICT_BYTES)}, line by line in turn, 1 thread",
        points=points,
        memory_bytes=max(distances) + _CONFLICT_BYTES,
        arrays=[0],
        unit="GB/s",
        rate=True,
        counted="10^9 bytes read a second",
        along="distance",
    )


def dgemm(s: Settings) -> Experiment:
    """Multiply matrices by the installed BLAS."""
    n = s.n or _ORDER
    if not 16 <= n <= _probes.most_dgemm_order:
        raise UsageError(f"--n {n}: an order from 16 to {_probes.most_dgemm_order}")
    library, threads = find_blas(s.blas), list[bool]()

    def run(memory: _probes.Memory) -> Floats:
        done = _probes.dgemm(memory, n, 0, s.repeats + 1, list(s.cpus), library, "dgemm_", 4)
        _require(done.error <= 1, "dgemm", f"{library} gives wrong elements")
        threads.append(done.threads_set)
        return done.seconds[1:]

    def remarks() -> list[str]:
        return [] if all(threads) else [f"{library} was not told how many threads to use: it chose itself."]

    return Experiment(
        name="dgemm",
        title=f"a product of matrices of order {n} by {library}, {_threads(s)}",
        points=[Point({"order": n}, run, 2.0 * n**3)],
        memory_bytes=3 * n * n * _DOUBLE,
        arrays=[number * n * n * _DOUBLE for number in range(3)],
        unit="GFLOP/s",
        rate=True,
        counted="10^9 multiplications and additions a second: 2 n^3 of a product",
        ran={"library": library},
        remarks=remarks,
    )


def cg(s: Settings) -> Experiment:
    """Run conjugate gradients on a 27-point stencil."""
    side = s.n or _GRID
    if not 8 <= side <= _probes.most_cg_side:
        raise UsageError(f"--n {side}: 8 to {_probes.most_cg_side} points a side")
    *begins, end = _probes.cg_arrays(side, 0)

    def run(memory: _probes.Memory) -> Floats:
        done = _probes.cg(memory, side, 0, _ITERATIONS, s.repeats + 1, list(s.cpus))
        _require(done.ok, "cg", "the residual is not what it should be")
        return done.seconds[1:]

    return Experiment(
        name="cg",
        title=f"conjugate gradients on {side} x {side} x {side} points, {_threads(s)}",
        points=[Point({"side": side}, run, float(_probes.cg_bytes(side) * _ITERATIONS))],
        memory_bytes=end,
        arrays=begins,
        unit="GB/s",
        rate=True,
        counted="10^9 bytes that the loops read and write: 12 an entry of the matrix and 112 a row, an "
        "iteration",
    )


# For each benchmark, the function that makes the experiment, and its settings.
BENCHMARKS: dict[str, tuple[Callable[[Settings], Experiment], frozenset[str]]] = {
    "stream": (stream, frozenset({"n", "offset", "kernels", "isa", "stores", "order"})),
    "latency": (latency, frozenset({"footprint", "stride"})),
    "gups": (gups, frozenset({"table"})),
    "l2sum": (l2sum, frozenset({"block", "isa"})),
    "dgemm": (dgemm, frozenset({"n", "blas"})),
    "cg": (cg, frozenset({"n"})),
    "conflict": (conflict, frozenset({"distance"})),
}


def _threads(s: Settings) -> str:
    return "1 thread" if len(s.cpus) == 1 else f"{len(s.cpus)} threads"


def _require(right: bool, kernel: str, what: str) -> None:
    if not right:
        raise Failure(f"measure {kernel}: the answer is wrong ({what}); do not trust this machine's memory")


def _whole_pages(size: int) -> int:
    """Return the nearest number of bytes in whole pages that is no more, but at least one page."""
    return max(_PAGE, size // _PAGE * _PAGE)
