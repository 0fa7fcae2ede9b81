"""Prints how a program ran as it is and with advice applied."""

from collections.abc import Iterator

from pagelens.cli.text.tables import count_noun, table, wrap
from pagelens.io import WORTH, Advice, Compared
from pagelens.units import format_time

_COLUMNS = ("way", "processor", "wall")
_WIDTHS = (24, -14, -14)


def render_comparison(
    found: Compared, saved: tuple[float, float] | None, advice: Advice, rounds: int
) -> Iterator[str]:
    """Yield the times of both ways, what was saved and what the model said, and whether files are equal.

    `saved` has the processor and wall seconds that the model expects of direct writes and of properties of
    HDF5; None if it expects none of them.
    """
    gained = (found.plain_cpu_s - found.applied_cpu_s, found.plain_wall_s - found.applied_wall_s)
    rows = [
        ("as the program is", found.plain_cpu_s, found.plain_wall_s),
        ("with the advice", found.applied_cpu_s, found.applied_wall_s),
        ("saved, measured", *gained),
    ]
    if saved is not None:
        # Nothing saves more than the program took, however long the model thinks that it takes.
        cpu_s, wall_s = min(saved[0], found.plain_cpu_s), min(saved[1], found.plain_wall_s)
        rows.append(("saved, by the model", cpu_s, wall_s))
    yield from table(_COLUMNS, [(title, _signed(cpu), _signed(wall)) for title, cpu, wall in rows], _WIDTHS)
    runs = "one run" if rounds == 1 else f"medians of {rounds} runs"
    yield from wrap(f"Measured: {runs} each way, in turn, beside whatever else runs here.")
    if saved is None and advice.smallest is not None:
        yield from wrap("The program has no write that would be made direct.")
    if saved is None and advice.buffer is not None:
        yield from wrap("stdio makes no small writes in this program that a larger buffer would merge.")
    if saved is None and advice.hdf5:
        yield from wrap("The model does not know what these properties of HDF5 change in this program.")
    equal = found.files - len(found.unequal) - len(found.unsteady) - len(found.unread)
    written = f"{count_noun(found.files, 'file')} that the program wrote"
    same = "contents" if found.hdf5 else "bytes"
    yield from wrap(f"Of {written}, {equal} {'has' if equal == 1 else 'have'} the same {same} both ways.")
    if found.hdf5:
        yield from wrap(
            f"Of {count_noun(found.hdf5, 'file')} of HDF5, all objects, attributes and values were compared, "
            "and of others the bytes."
        )
    if found.unread:
        names = ", ".join(found.unread)
        yield from wrap(
            f"These could not be read, so whether they have the same contents is not known: {names}. HDF5 "
            "needs the plugins of all filters that they use (HDF5_PLUGIN_PATH), and cannot read one file of "
            "several that belong together."
        )
    if found.unsteady:
        names = ", ".join(found.unsteady)
        yield from wrap(f"These differ from run to run even without the advice: {names}")
    if found.unequal:
        names = ", ".join(found.unequal)
        yield from wrap(f"These differ because of the advice: {names}. Do not use it with this program.")
    else:
        yield from wrap(_verdict(*gained, found))


def _verdict(cpu_s: float, wall_s: float, found: Compared) -> str:
    """Return in plain words whether to apply the advice."""
    cpu, wall = cpu_s / max(found.plain_cpu_s, 1e-9), wall_s / max(found.plain_wall_s, 1e-9)
    if abs(wall) < WORTH:
        if cpu < WORTH:
            return "The advice gains less than 2% of the program's time: it is not worth it."
        return f"With the advice the program is as fast, and takes {cpu:.0%} less processor time."
    doubt = (
        " But some runs of the faster way took as long as some of the slower one." if found.overlap else ""
    )
    if wall > 0:
        return f"With the advice the program takes {wall:.0%} less time.{doubt}"
    less = f", though it takes {cpu:.0%} less processor time" if cpu >= WORTH else ""
    return f"With the advice the program takes {-wall:.0%} longer{less}: do not apply it.{doubt}"


def _signed(seconds: float) -> str:
    return f"-{format_time(-seconds)}" if seconds < 0 else format_time(seconds)
