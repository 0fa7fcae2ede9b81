"""A program's operations on files: recorded or imported, predicted, and what would make them faster."""

from pagelens.io.describe import Facts, describe
from pagelens.io.recorder import Recorded, open_recording, record_program
from pagelens.io.recording import Recording

__all__ = ["Facts", "Recorded", "Recording", "describe", "open_recording", "record_program"]
