"""The parts of a machine that decide by address alone which lines can be held: L2s, snoop filter and L3."""

from collections.abc import Iterator
from dataclasses import dataclass

from pagelens import _core
from pagelens.address.pages import HIGHEST_ADDRESS
from pagelens.errors import UsageError
from pagelens.machine import Machine, list_machines, load_machine
from pagelens.machine.caches import Sliced


@dataclass(frozen=True)
class Shared:
    """A cache or snoop filter that the cores share, in slices of `sets` x `ways` lines of 64 B."""

    name: str
    slices: _core.AddressHash
    sets: int  # the sets of a slice, a power of two; address bits from 6 up are the index
    ways: int
    reach: int  # the slices of physical addresses from here on are unknown

    def counts(self) -> _core.SetCounts:
        """Return counters that hold no lines yet."""
        return _core.SetCounts(self.slices, self.sets, self.ways)

    @property
    def geometry(self) -> str:
        """The slices, sets and ways as text, such as "24 x 2048 x 12"."""
        return f"{self.slices.values} x {self.sets} x {self.ways}"


@dataclass(frozen=True)
class Socket:
    """A socket's private L2s and shared structures. The first shared one limits what the L2s can hold."""

    name: str
    title: str
    cores: int
    cores_per_l2: int
    l2_sets: int
    l2_ways: int
    shared: tuple[Shared, ...]
    notes: tuple[str, ...] = ()  # say what is assumed

    @property
    def l2s(self) -> int:
        """The number of L2s."""
        return -(-self.cores // self.cores_per_l2)

    @property
    def l2_lines(self) -> int:
        """The number of 64 B lines that one L2 holds."""
        return self.l2_sets * self.l2_ways

    @property
    def reach(self) -> int:
        """The smallest reach of the shared structures."""
        return min(structure.reach for structure in self.shared)

    def l2_counts(self) -> _core.SetCounts:
        """Return counters for one L2 that hold no lines yet."""
        return _core.SetCounts(_one_piece(), self.l2_sets, self.l2_ways)


def socket_of(machine: Machine) -> Socket:
    """Return the socket, or the cores of one L3, that a machine file describes. Raises UsageError."""
    shared = _all_shared(machine)
    if not shared:
        known = (name for name in list_machines() if knows_sets(load_machine(name)))
        raise UsageError(
            f"--machine {machine.name}: no snoop filter or inclusive L3 of known slices is stated; "
            f"take one of {', '.join(known)}"
        )
    own = machine.l3.shared_by if machine.l3 is not None else None
    return Socket(
        name=machine.name,
        title=machine.title,
        cores=machine.cores.count.value if own is None else own.value,
        cores_per_l2=machine.l2.shared_by.value,
        l2_sets=machine.l2.sets,
        l2_ways=machine.l2.ways.value,
        shared=shared,
        notes=tuple(_assumptions(machine)),
    )


def knows_sets(machine: Machine) -> bool:
    """Return whether `socket_of` succeeds, as the sets of shared structures are known."""
    return bool(_all_shared(machine))


def _all_shared(machine: Machine) -> tuple[Shared, ...]:
    """Return the structure that limits what the L2s can hold, then the L3; empty if the file does not say."""
    filter_, l3 = machine.snoop_filter, machine.l3
    found = []
    if filter_ is not None:
        found.append(_shared("snoop filter", filter_, filter_.sets.value, filter_.ways.value))
    if l3 is not None and (filter_ is not None or l3.inclusion.value == "inclusive"):
        found.append(_shared("L3", l3, l3.sets, l3.ways.value))
    return tuple(structure for structure in found if structure is not None)


def _shared(name: str, section: Sliced, sets: int, ways: int) -> Shared | None:
    """Return one structure, or None if nobody knows which slice a line belongs to."""
    form = section.slice_hash()
    if form is not None:
        return Shared(name, form.hash(), sets, ways, 2 << form.highest_bit)
    if section.slices.value == 1:
        return Shared(name, _one_piece(), sets, ways, HIGHEST_ADDRESS)
    return None


def _one_piece() -> _core.AddressHash:
    return _core.AddressHash([_core.HashLevel([], None, None)], 1, [])


def _assumptions(machine: Machine) -> Iterator[str]:
    """Yield what the machine file assumes about the snoop filter, in the file's words."""
    if machine.snoop_filter is not None:
        stated = {"sets": machine.snoop_filter.sets, "ways": machine.snoop_filter.ways}
        for what, number in stated.items():
            if number.assumed:
                yield f"Assumed: the snoop filter's {number.value} {what} ({number.assumed})."
