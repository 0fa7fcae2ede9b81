"""Draws a machine as text: its parts in the order in which a line meets them, then every value."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from pagelens.machine.dram import Dram
from pagelens.machine.memories import Memory
from pagelens.machine.parts import Parts
from pagelens.machine.private_caches import PrivateCache
from pagelens.machine.topology import matrix_lines, topology_of
from pagelens.machine.values import stated_values
from pagelens.report import terminal_width
from pagelens.units import format_binary_size, format_rate

_LEFT = 27  # columns of the values' names and of the values
_VALUE = 18
_LIST_WIDTH = 80  # columns from which a list of machines has room for all
_KINDS = {"source": "", "input": "calibration: ", "assumed": "assumed: "}

Row = tuple[str, str]  # a part's name, and what is said of it


def list_lines(machines: Mapping[str, Parts]) -> Iterator[str]:
    """Yield a line for each machine. A narrow terminal has no room for modes and fast memories."""
    wide = terminal_width() >= _LIST_WIDTH

    def line(name: str, mode: str, cores: object, fast: str, memory: str) -> str:
        return f"{name:<23}  " + (f"{mode:<6}  " if wide else "") + f"{cores:>5}  " + (
            f"{fast:<19}  " if wide else ""
        ) + memory  # fmt: skip

    yield line("machine", "mode", "cores", "fast memory", "memory")
    for name, machine in machines.items():
        fast = _listed(machine.fast_memory) if machine.fast_memory else ""
        yield line(name, machine.mode, machine.cores.count.value, fast, _listed(machine.ddr))


def _listed(memory: Memory) -> str:
    """Return a memory as `_memory` does, but with four digits, so that it fits into a column."""
    return f"{format_binary_size(memory.size.value, 4)} {format_rate(memory.bandwidth.value, 4)}"


def picture_lines(machine: Parts) -> Iterator[str]:
    """Yield the drawing of a machine, under its title."""
    yield from textwrap.wrap(f"{machine.name}: {machine.title}", terminal_width())
    yield from _picture(machine)


def machine_lines(machine: Parts) -> Iterator[str]:
    """Yield the drawing of a machine, and its values with their sources."""
    yield from textwrap.wrap(machine.title, terminal_width())
    based = f", based on {', '.join(machine.base)}" if machine.base else ""
    yield from textwrap.wrap(f"{machine.name}: mode {machine.mode}{based}", terminal_width())
    if machine.hypervisor:
        yield f"A guest of {machine.hypervisor}: its frames are the guest's, not those of the memory."
    if machine.device:
        yield f"A {machine.device}: its pages are its driver's. `pagelens place` plans for it."
    yield ""
    yield from _picture(machine)
    for section, values in groupby(stated_values(machine), key=lambda stated: stated.section):
        yield ""
        yield _header(section)
        above = ""
        for stated in values:
            text = _KINDS[stated.value.label] + stated.value.origin
            yield from _value_lines(stated.key, stated.value.shown, "as above" if text == above else text)
            above = text
    yield ""
    yield from textwrap.wrap(
        "Calibration: a measured figure that the model is fitted to, never a prediction. Assumed: not known, "
        "with the reason. All else is from the document named.",
        terminal_width(),
    )


def _header(section: str) -> str:
    array, _, number = section.partition(".")
    return f"[[{array}]] {int(number) + 1}" if number else f"[{section}]"


def _value_lines(key: str, value: str, origin: str) -> Iterator[str]:
    head = f"  {key:<{_LEFT - 3}} {value:<{_VALUE - 1}} "
    if len(head) > _LEFT + _VALUE:  # a long value has a line of its own
        yield from textwrap.wrap(
            head.strip(), terminal_width(), initial_indent="  ", subsequent_indent="    "
        )
        head = ""
    indent = " " * (_LEFT + _VALUE)
    lines = textwrap.wrap(origin, terminal_width() - len(indent), break_on_hyphens=False) or [""]
    yield f"{head or indent}{lines[0]}".rstrip()
    for line in lines[1:]:
        yield indent + line


def _picture(machine: Parts) -> Iterator[str]:
    """Yield boxes from the cores down to the memories, joined by lines."""
    inner = terminal_width() - 6
    yield from _box([_cores(machine), *_tlbs(machine), *_private(machine)], inner)
    shared = list(_shared(machine))
    if shared:
        yield from _box(shared, inner, joined=True)
    fast, cache = machine.fast_memory, machine.memory_side_cache
    if fast is not None and machine.mode == "flat":
        half = inner // 2 - 3
        left = _box([("fast memory", _memory(fast))], half, joined=True)
        right = _box([("ddr", _memory(machine.ddr))], half, joined=True)
        for pair in zip(left, right, strict=True):
            yield "  ".join(line.ljust(half + 5) for line in pair).rstrip()
        return
    if fast is not None and cache is not None:
        part = format_binary_size((cache.size or fast.size).value, 6)
        size = f"{part} of the fast memory, {cache.ways.value}-way" if cache.size else _memory(fast)
        kind = "direct-mapped" if cache.ways.value == 1 else f"{cache.ways.value}-way"
        rows = [("memory-side cache", size if cache.size else f"{size}, {kind}")]
        if cache.size:
            rest = format_binary_size(fast.size.value - cache.size.value, 6)
            rows.append(("fast memory", f"{rest} of its own, {format_rate(fast.bandwidth.value, 6)} in all"))
        yield from _box(rows, inner, joined=True)
    rows = [("ddr", _memory(machine.ddr))]
    if machine.dram is not None:
        rows.append(("", _dram(machine.dram)))
    if machine.numa is not None:
        rows += matrix_lines(topology_of(machine.numa, machine.numa_link, machine.ddr.write_cost))
    yield from _box(rows, inner, joined=True)


def _cores(machine: Parts) -> Row:
    cores = machine.cores
    return "cores", (
        f"{cores.count.value} x {cores.frequency.shown}, {cores.instructions_per_cycle.shown} a cycle, "
        f"{cores.outstanding_lines.shown} lines in flight"
    )


def _tlbs(machine: Parts) -> Iterator[Row]:
    for level in (1, 2):
        arrays = [array for array in machine.tlb if array.level.value == level]
        held = (f"{array.entries.value} x {array.pages.shown.replace(', ', '/')}" for array in arrays)
        if arrays:
            yield f"L{level} TLB", ", ".join(held)


def _private(machine: Parts) -> Iterator[Row]:
    for name, cache in zip(("L1", "L2"), machine.private_caches, strict=True):
        copies = -(-machine.cores.count.value // cache.shared_by.value)
        yield name, f"{copies} x {_shape(cache)}"


def _shape(cache: PrivateCache) -> str:
    return f"{cache.size.shown}, {cache.ways.value}-way"


def _shared(machine: Parts) -> Iterator[Row]:
    if (l3 := machine.l3) is not None:
        sharers = l3.shared_by.value if l3.shared_by else machine.cores.count.value
        copies = -(-machine.cores.count.value // sharers)
        several = f"{copies} x " if copies > 1 else ""
        parts = f" in {l3.slices.value} slices" if l3.slices.value > 1 else ""
        yield "L3", f"{several}{l3.size.shown}{parts}, {l3.ways.value}-way, {l3.inclusion.value}"
    if (directory := machine.snoop_filter) is not None:
        yield (
            "snoop filter",
            (f"{directory.slices.value} slices x {directory.sets.value} sets x {directory.ways.value} ways"),
        )


def _dram(dram: Dram) -> str:
    banks = dram.banks_per_channel
    return f"{dram.channels} channels x {banks} banks, {dram.page_policy.value} pages"


def _memory(memory: Memory) -> str:
    return f"{memory.size.shown} {memory.bandwidth.shown}"


def _box(rows: Sequence[Row], inner: int, joined: bool = False) -> Iterator[str]:
    """Yield a frame around rows, `inner` + 4 columns wide. With `joined`, a line from above meets it."""
    name_width = 19 if inner > terminal_width() // 2 else 13
    middle = 8
    if joined:
        yield " " * (middle + 1) + "│"
    top = "┴" if joined else "─"
    yield "┌" + "─" * middle + top + "─" * (inner + 1 - middle) + "┐"
    for name, text in rows:
        for number, part in enumerate(textwrap.wrap(text, inner - name_width) or [""]):
            yield f"│ {name if number == 0 else '':<{name_width}}{part:<{inner - name_width}} │"
    yield "└" + "─" * (inner + 2) + "┘"
