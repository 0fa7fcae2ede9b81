"""Binds the threads of OpenMP as a plan says, by the variables that every runtime of OpenMP reads."""

from collections.abc import Mapping

_PLACES = {"OMP_PLACES": "cores"}
_BINDS = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")


def binding_variables(threads: str | None, before: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a program gets, given its environment: none if that binds threads already."""
    if threads is None or binds_already(before):
        return {}
    return {"OMP_PROC_BIND": threads, **_PLACES}


def binds_already(environment: Mapping[str, str]) -> str | None:
    """Return the variable by which an environment binds threads, or None."""
    return next((name for name in _BINDS if environment.get(name)), None)


def binding_note(threads: str, before: Mapping[str, str]) -> str:
    """Return what becomes of the plan's binding: a line for the user."""
    if (name := binds_already(before)) is not None:
        return f"threads = '{threads}': {name}={before[name]} is set, and decides"
    words = " ".join(f"{name}={value}" for name, value in binding_variables(threads, before).items())
    return f"threads of OpenMP run bound: {words}"
