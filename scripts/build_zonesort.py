"""Builds zonesort for the kernels of Debian 12 and of its backports: FOLDER/RELEASE/zonesort_module.ko."""

import shutil
import sys
from pathlib import Path

from pagelens.errors import PagelensError
from pagelens.lab.kernels import find_kernel
from pagelens.lab.modules import build_module

SERIES = ("6.1", "6.12")


def main() -> None:
    """Entry point."""
    for series in SERIES:
        kernel = find_kernel(series)
        module = build_module(Path(__file__).parent.parent / "zonesort", kernel)
        folder = Path(sys.argv[1]) / kernel.release
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(module, folder)
        print(f"zonesort: {folder / module.name}")


if __name__ == "__main__":
    try:
        main()
    except PagelensError as error:
        sys.exit(f"zonesort: {error}")
