"""Completes the values of options in a shell. A module is imported only when its values are needed."""


def complete_machine(incomplete: str) -> list[str]:
    """Names of machines, the last one of a list with commas."""
    from pagelens.machine import list_machines

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in list_machines() if name.startswith(last)]


def complete_policies(incomplete: str) -> list[str]:
    """Names of policies, the last one of a list with commas."""
    from pagelens.frames import policies

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in policies if name.startswith(last)]


def complete_workload(incomplete: str) -> list[str]:
    """Names of declared loops."""
    from pagelens.accesses.declared import DECLARED

    return [name for name in DECLARED if name.startswith(incomplete)]
