"""What all contests share: contestants do the same work in turn, and medians of their times are compared."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Done:
    """One run: processor seconds, and what was counted, by name."""

    seconds: float
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Contestant:
    """A tool that does the work. `run` returns None where the tool is not installed."""

    name: str
    run: Callable[[], Done | None]
    cannot: str  # what it cannot do that others here can


@dataclass(frozen=True)
class Contest:
    """A piece of work, the number of its units, and those who do it; the first is the yardstick."""

    work: str
    unit: str
    units: int
    contestants: Sequence[Contestant]
    counted: str = ""  # the count that must be equal, if two contestants have it
    tolerance: int = 0  # by which it may differ, where a tool returns a rounded share


Row = tuple[str, ...]
COLUMNS = ("work", "tool", ">median, s", ">spread", ">speed", ">to the first", ">count", "cannot")


def hold(contest: Contest, rounds: int) -> list[Row]:
    """Run everybody `rounds` times, every other round backwards, and return a row for each.

    Ends the program where two tools that count the same do not agree.
    """
    found: dict[str, list[Done]] = {each.name: [] for each in contest.contestants}
    for number in range(rounds):
        for each in contest.contestants[:: -1 if number % 2 else 1]:
            if (done := each.run()) is not None:
                found[each.name].append(done)
    _check(contest, found)
    first = next((statistics.median(d.seconds for d in done) for done in found.values() if done), 1.0)
    rows = []
    for each in contest.contestants:
        done = found[each.name]
        if not done:
            rows.append((contest.work, each.name, "", "", "not installed", "", "", each.cannot))
            continue
        seconds = [one.seconds for one in done]
        median = statistics.median(seconds)
        count = done[0].counts.get(contest.counted)
        rows.append(
            (
                contest.work,
                each.name,
                f"{median:.3g}",
                f"{min(seconds):.3g} to {max(seconds):.3g}",
                f"{contest.units / max(median, 1e-9) / 1e6:.3g} M {contest.unit}/s",
                f"{median / first:.2f}",
                "" if count is None else f"{count:,} {contest.counted}",
                each.cannot,
            )
        )
    return rows


def _check(contest: Contest, found: dict[str, list[Done]]) -> None:
    counts = {
        name: one.counts[contest.counted]
        for name, done in found.items()
        for one in done
        if contest.counted in one.counts
    }
    if counts and max(counts.values()) - min(counts.values()) > contest.tolerance:
        raise SystemExit(f"peers: {contest.work}: the tools count different {contest.counted}: {counts}")
