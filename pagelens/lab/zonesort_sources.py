"""Where the sources of the zonesort module are, which guests' kernels need built for them."""

from pathlib import Path

import pagelens
from pagelens.errors import Failure


def zonesort_sources() -> Path:
    """The module's folder: of the repository, or installed with the package."""
    package = Path(pagelens.__file__).parent
    for folder in (package.parent / "zonesort", package / "zonesort"):
        if (folder / "Kbuild").is_file():
            return folder
    raise Failure(f"{package / 'zonesort'} is missing; install pagelens again: pip install .")
