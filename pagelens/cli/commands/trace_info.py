"""`pagelens trace-info`: Show what a trace holds: footprint, lines, objects, pages."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagelens.accesses import ObjectInfo, TraceWorkload, describe_family, end_in_words, open_trace
from pagelens.address import FRAME_BYTES
from pagelens.cli.options import Json
from pagelens.spelling import printable
from pagelens.units import format_count, format_size

SCHEMA_VERSION = 1  # of --json; a version only adds
_OBJECTS_SHOWN = 20
_RANGES_SHOWN = 40


EXAMPLES = """Examples:

  pagelens trace-info app.trace

  pagelens trace-info app.trace --json | jq .objects
"""

app = typer.Typer(add_completion=False)


@app.command(epilog=EXAMPLES)
def trace_info(
    file: Annotated[Path, typer.Argument(help="A trace file that `pagelens trace -o FILE` wrote.")],
    as_json: Json = False,
    pages: Annotated[
        bool, typer.Option("--pages", help="Also list the pages in the order of their first write.")
    ] = False,
) -> None:
    """Show what a trace holds: footprint, lines, objects, pages."""
    workload = open_trace(file)
    if as_json:
        typer.echo(json.dumps(to_json(workload, pages), indent=2))
    else:
        _render(workload, pages, Console(highlight=False))


def to_json(workload: TraceWorkload, pages: bool) -> dict[str, Any]:
    """Return the whole content by name.

    Sizes are in bytes, lines have 64 B, and page numbers are addresses / 4096.
    """
    trace, survey, summary = workload.trace, workload.survey, workload.trace.summary
    result: dict[str, Any] = {
        "schema": "pagelens trace-info",
        "version": SCHEMA_VERSION,
        "file": printable(workload.path),
        "file_bytes": trace.file_bytes,
        "complete": trace.damage is None,
        "producer": trace.producer,
        "program": trace.program,
        "arguments": trace.arguments,
        "exit_status": summary.exit_status if summary else None,
        "ended_by": trace.end.kind.name if trace.end else None,
        "chosen": trace.chosen,
        "instructions": sum(survey.instructions),
        "instructions_of_threads": survey.instructions,
        "accesses": summary.accesses if summary else None,
        "share_seen": workload.share_seen,
        "threads": trace.threads,
        "phases": workload.phases,
        "footprint_bytes": workload.footprint_bytes,
        "lines_fetched": survey.lines_fetched,
        "lines_stored": survey.lines_stored,
        "line_events": survey.line_events,
        "file_bytes_per_line": _ratio(trace.file_bytes, survey.line_events),
        "exact_for": [{"least_sets": sets, "least_ways": ways} for sets, ways in trace.exact_for],
        "page_filter": dict(zip(("sets", "ways"), trace.page_filter, strict=True)),
        "objects": [
            {
                "name": found.name,
                "index": found.index,
                "frames": found.frames,
                "bytes": found.bytes,
                "births": found.births,
                "lines_fetched": found.lines,
                "lines_stored": found.stored,
                "lines_per_byte": _ratio(found.lines, found.bytes),
                "share": _ratio(found.lines, survey.lines_fetched),
            }
            for found in workload.objects
        ],
        "warnings": workload.warnings,
    }
    if pages:
        result["first_writes"] = [
            {"first_page": first, "pages": count} for first, count in survey.first_writes.tolist()
        ]
    return result


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _render(workload: TraceWorkload, pages: bool, console: Console) -> None:
    console.print(_totals(workload))
    console.print()
    used = sorted((o for o in workload.objects if o.lines or o.stored or o.births), key=lambda o: -o.lines)
    console.print(_objects(used[:_OBJECTS_SHOWN], workload.survey.lines_fetched))
    if len(used) > _OBJECTS_SHOWN:
        console.print(f"and {len(used) - _OBJECTS_SHOWN} smaller objects (--json has all)")
    if pages:
        console.print()
        console.print(_first_writes(workload))
    for warning in workload.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))


def _totals(workload: TraceWorkload) -> Table:
    trace, survey, summary = workload.trace, workload.survey, workload.trace.summary
    rows = {"program": " ".join([trace.program, *trace.arguments])}
    seen = "" if workload.share_seen is None else f" ({workload.share_seen:.1%} of the run)"
    rows["instructions"] = f"{format_count(sum(survey.instructions))}{seen}"
    if summary is not None:
        rows["data accesses"] = format_count(summary.accesses)
        rows["exit status"] = str(summary.exit_status)
    rows["end"] = end_in_words(trace.end)
    if trace.chosen:
        rows["chosen by"] = trace.chosen
    rows["threads"] = str(trace.threads)
    rows["phases"] = ", ".join(workload.phases[1:]) or "no regions marked"
    rows["footprint"] = f"{format_size(workload.footprint_bytes)} resident at most"
    if workload.shared_bytes:
        rows["files"] = f"{format_size(workload.shared_bytes)} read through mappings, which all ranks share"
    moved = format_size(survey.lines_fetched * 64)
    rows["lines"] = (
        f"{format_count(survey.lines_fetched)} fetched ({moved}), {format_count(survey.lines_stored)} stored"
    )
    rows["exact for"] = f"L1s of {describe_family(trace.exact_for)}"
    rows["file"] = (
        f"{format_size(trace.file_bytes)}, {trace.file_bytes / max(1, survey.line_events):.2g} bytes a line"
    )
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows.items():
        table.add_row(label, Text(text))
    return table


def _objects(objects: list[ObjectInfo], lines_fetched: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("object", overflow="fold", ratio=1)
    for heading in ("bytes", "blocks", "lines", "lines/byte", "share"):
        table.add_column(heading, justify="right", no_wrap=True)
    for found in objects:
        density = _ratio(found.lines, found.bytes)
        table.add_row(
            Text(found.name),
            format_size(found.bytes),
            format_count(found.births) if found.births else "",
            format_count(found.lines),
            "" if density is None else f"{density:.3g}",
            f"{found.lines / max(1, lines_fetched):.1%}",
        )
    return table


def _first_writes(workload: TraceWorkload) -> Table:
    ranges = workload.survey.first_writes.tolist()
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("first write", "address", "pages", "bytes"):
        table.add_column(heading, justify="right", no_wrap=True)
    before = 0
    for first, count in ranges[:_RANGES_SHOWN]:
        table.add_row(
            f"{before:,}", f"{first * FRAME_BYTES:#x}", f"{count:,}", format_size(count * FRAME_BYTES)
        )
        before += count
    if len(ranges) > _RANGES_SHOWN:
        table.caption = f"and {len(ranges) - _RANGES_SHOWN:,} more ranges (--json --pages has all)"
    return table
