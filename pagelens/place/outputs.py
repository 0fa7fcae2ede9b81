"""Writes the files of an assignment: the plan, the report's data, and its figure."""

from pathlib import Path

from pagelens.files import write_whole
from pagelens.place.assignment import Assignment
from pagelens.place.numa_nodes import NodesReport, OnNodes
from pagelens.place.plan import write_plan
from pagelens.place.report import PlaceReport

PLAN, DATA, FIGURE = "plan.toml", "place.json", "place.svg"


def write_outputs(assignment: Assignment, directory: Path) -> PlaceReport:
    """Write plan.toml, place.json and place.svg. Return the report with the path of the plan in it."""
    from pagelens.place.figure import draw  # matplotlib takes a second

    shown = assignment.report
    if assignment.plan is not None:
        write_plan(assignment.plan, directory / PLAN)
        shown = shown.model_copy(update={"plan": str(directory / PLAN)})
    data, svg = shown.model_dump_json(indent=1), draw(shown).svg
    write_whole(directory / DATA, lambda path: path.write_text(data + "\n"))
    write_whole(directory / FIGURE, lambda path: path.write_text(svg))
    return shown


def write_nodes(found: OnNodes, directory: Path) -> NodesReport:
    """Write plan.toml and place.json of a placement on NUMA nodes. Return the report with the plan's path."""
    shown = found.report
    if found.plan is not None:
        write_plan(found.plan, directory / PLAN)
        shown = shown.model_copy(update={"plan": str(directory / PLAN)})
    data = shown.model_dump_json(indent=1)
    write_whole(directory / DATA, lambda path: path.write_text(data + "\n"))
    return shown
