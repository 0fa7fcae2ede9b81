"""Where the machine files lie."""

from importlib import resources
from pathlib import Path


def machine_directory() -> Path:
    """In the wheel beside the package, in a checkout at its root."""
    installed = Path(str(resources.files("pagelens"))) / "machines"
    return installed if installed.is_dir() else Path(__file__).resolve().parents[2] / "machines"
