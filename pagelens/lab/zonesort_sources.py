"""Finds the sources of the zonesort module, which has to be built for a guest's kernel."""

from pathlib import Path

import pagelens
from pagelens.errors import Failure


def zonesort_sources() -> Path:
    """Return the module's folder, which is in the repository or was installed with the package."""
    package = Path(pagelens.__file__).parent
    for folder in (package.parent / "zonesort", package / "zonesort"):
        if (folder / "Kbuild").is_file():
            return folder
    raise Failure(f"{package / 'zonesort'} is missing; install pagelens again: pip install .")
