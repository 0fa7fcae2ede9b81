"""Expands the name of a file that a program under pagelens writes. %r in it is the MPI rank."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from pagelens.errors import UsageError

# The variables in which MPI launchers put a process's rank: Open MPI, MPICH and its kin, PMIx, Slurm.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")


def expand_rank(output: str, environment: Mapping[str, str], option: str = "--output") -> str:
    """Return the name, which `option` gave, with the rank that a launcher put into the environment.

    Raises UsageError without one.
    """
    if "%r" not in output:
        return output
    for variable in RANK_VARIABLES:
        if variable in environment:
            return output.replace("%r", environment[variable])
    raise UsageError(f"{option} {output}: %r is the MPI rank, but there is none; run it under mpirun or srun")


def rank_in_words(environment: Mapping[str, str]) -> str:
    """Return the rank that a launcher put into the environment, or an empty text if it is no number."""
    given = [environment[variable] for variable in RANK_VARIABLES if variable in environment]
    return given[0] if given and re.fullmatch(r"\d{1,9}", given[0], re.ASCII) else ""


def checked_output(output: str) -> Path:
    """Return the path if a plain file can be written there. Raises UsageError if not."""
    path = Path(output)
    if path.is_dir():
        raise UsageError(f"--output {output}: it is a folder; name a file")
    if path.exists() and not path.is_file():
        raise UsageError(f"--output {output}: it is not a plain file; name another")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--output {output}: there is no folder {path.absolute().parent}; make it first")
    if not os.access(path.absolute().parent, os.W_OK):
        raise UsageError(
            f"--output {output}: {path.absolute().parent} is not writable; choose another folder"
        )
    return path
