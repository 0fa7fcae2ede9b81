"""The studies, one a module, which has it as STUDY; a new one takes a line here (docs/reproduce.md)."""

from importlib import import_module

from pagelens.errors import UsageError
from pagelens.reproduce.study import Study
from pagelens.spelling import nearest

# By name, in the order of the page.
MODULES = {
    "snoop-filter": "pagelens.reproduce.studies.snoop_filter",
    "dgemm": "pagelens.reproduce.studies.dgemm",
    "page-walks": "pagelens.reproduce.studies.page_walks",
    "red-storm": "pagelens.reproduce.studies.red_storm",
    "hpccg": "pagelens.reproduce.studies.hpccg",
    "cori-minife": "pagelens.reproduce.studies.cori_minife",
    "cori-stream": "pagelens.reproduce.studies.cori_stream",
    "periodic-sort": "pagelens.reproduce.studies.periodic_sort",
    "intel-colouring": "pagelens.reproduce.studies.intel_colouring",
    "two-level": "pagelens.reproduce.studies.two_level",
    "placement": "pagelens.reproduce.studies.placement",
    "johnny-cache": "pagelens.reproduce.studies.johnny_cache",
    "xeon-max": "pagelens.reproduce.studies.xeon_max",
}


def find_study(name: str) -> Study:
    """The study of that name. Raises UsageError, which names the nearest."""
    if name not in MODULES:
        raise UsageError(f"study: there is no '{name}'; did you mean {nearest(name, MODULES)}?")
    study: Study = import_module(MODULES[name]).STUDY
    return study
