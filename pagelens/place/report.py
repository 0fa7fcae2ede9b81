"""The result of `pagelens place`, as data: `--json` prints it, terminal and figure show it.

Times are modelled seconds of the whole run. Gains are shares of what all in fast memory gains over all in
slow memory. They exceed 1 if both memories together are faster than the fast one alone.
"""

from pydantic import BaseModel, ConfigDict


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class PolicyRow(_Frozen):
    """One policy at one capacity."""

    policy: str
    title: str
    capacity_bytes: int  # the fast memory of one rank
    time_s: float
    speedup: float  # over all slow
    gain: float
    fast_bytes: int  # what one rank has in fast memory at the peak
    copied_bytes: int = 0  # what one rank copies in the run, where objects move


class ObjectRow(_Frozen):
    """One object. Its lines of memory are those of all ranks, its bytes those of one."""

    name: str
    can_be_placed: bool
    bytes: int  # the most that live at a time
    blocks: int
    lifetime: float  # share of the run at which it lives
    reads: int
    writes: int
    in_sequence: float  # share of its lines below L1 near where a thread used it last; the rest waits
    threads: int  # the threads of a rank
    bound_by: str  # the resource that decides most of the time in which its lines move, all slow
    fast_share: float  # share of its pages: at the start where objects move, else in the static optimum
    fast_shares: dict[str, float]  # its share in each marked region, where objects move
    phases: dict[str, float]  # share of its lines


class PhaseRow(_Frozen):
    """One phase: its times, and the objects that are used together in it."""

    phase: str
    all_slow_s: float
    all_fast_s: float
    optimum_s: float
    bound_by: str  # all slow
    lines: int  # the lines of memory of all ranks
    fast_lines: float  # share of its lines that the optimum has in fast memory
    objects: dict[str, float]  # share of its lines, those of 5% and more


class CacheModeRow(_Frozen):
    """Fast memory as a cache, bounded by two nodes."""

    bytes: int  # the bytes of all ranks
    in_a_row_s: float
    at_random_s: float
    gain_in_a_row: float
    gain_at_random: float


class PlaceReport(_Frozen):
    """The whole report."""

    program: str
    command: str
    machine: str
    machine_title: str
    ranks: int
    footprint_bytes: int  # what one rank has that can be placed, at the peak
    capacity_bytes: int  # the fast memory of one rank
    simulated: float  # share of the lines
    all_slow_s: float
    all_fast_s: float
    optimum_gap: float  # how far the optimum may be from the least time, as a share
    policies: list[PolicyRow]  # at the capacity above
    sweep: list[PolicyRow]
    cache_mode: list[CacheModeRow]
    phases: list[PhaseRow]
    objects: list[ObjectRow]
    notes: list[str]
    plan: str = ""  # the file
