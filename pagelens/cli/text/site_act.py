"""Prints what `pagelens site act` did."""

from collections.abc import Iterator

from pagelens.site import Pass


def render_pass(found: Pass) -> str:
    """Return one line for each slow node, then the remarks."""
    return "".join(f"{line}\n" for line in _lines(found))


def _lines(found: Pass) -> Iterator[str]:
    for planned in found.planned:
        if planned.node in found.failed:
            yield f"{planned.node}: {planned.step} failed: {found.failed[planned.node]}"
        elif planned.step:
            yield f"{planned.node}: {planned.step}, because it has {planned.why}"
        else:
            yield f"{planned.node}: slow, but waits: {planned.why}"
    yield from found.said
    if not found.planned and not found.said:
        yield "no node is slow"
    if found.dry_run and any(planned.step for planned in found.planned):
        yield "dry run: nothing was done; with --no-dry-run or act.dry_run = false it is"
