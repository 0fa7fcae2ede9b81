"""An experiment that is ready to be timed: the settings of the command line, and the kernel made of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pagelens.accesses.workload import Workload
from pagelens.measure.trials import Floats, Point


@dataclass(frozen=True)
class Settings:
    """What the command line says. None means that it says nothing."""

    cpus: Sequence[int]
    repeats: int
    seed: int
    cache_bytes: int  # all last-level caches that the processors have
    n: int | None = None
    offset: str | None = None
    kernels: str | None = None
    footprint: str | None = None
    stride: str | None = None
    table: str | None = None
    block: str | None = None
    distance: str | None = None
    blas: str | None = None
    isa: str | None = None
    stores: str | None = None
    order: str | None = None


@dataclass(frozen=True)
class Model:
    """A point as a declared workload, for the prediction. `amount` is what its phase does, as in a Point."""

    workload: Workload
    phase: str
    amount: float
    offset_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A kernel that is ready to be timed."""

    name: str
    title: str
    points: Sequence[Point]
    memory_bytes: int
    arrays: Sequence[int]  # their first bytes; threads divide each of them for the first touch
    unit: str
    rate: bool  # a figure is amount / time, and more is better; else time / amount, and less is
    counted: str  # says what a figure counts
    # The models of the points.
    models: Callable[[], Sequence[Model | None]] = field(default=lambda: (), repr=False)
    along: str = ""  # the label that is swept, if one is
    ran: dict[str, str] = field(default_factory=dict)  # what was chosen where nothing was asked for
    unpredicted: str = ""  # why some points have no model
    remarks: Callable[[], Sequence[str]] = field(default=lambda: (), repr=False)  # remarks on what ran

    def figure(self, amount: float, seconds: Floats) -> Floats:
        """Return figures in `unit`: 10^9 bytes, updates or operations a second, or nanoseconds a load."""
        return amount / seconds / 1e9 if self.rate else seconds / amount * 1e9
