"""A program's operations on files: recorded or imported, predicted, and what would make them faster."""

from pagelens.io.describe import Facts, describe
from pagelens.io.explanation import (
    GOOD,
    Explanation,
    Way,
    busiest_folder,
    explain_recording,
    in_words,
)
from pagelens.io.history import steps_with_files, transferred
from pagelens.io.importers.import_log import FORMATS, import_log
from pagelens.io.page import render_page
from pagelens.io.predict import predict_transfers
from pagelens.io.recorder import Recorded, open_recording, record_program
from pagelens.io.recording import Recording
from pagelens.io.replayable import replayable

__all__ = [
    "FORMATS",
    "GOOD",
    "Explanation",
    "Facts",
    "Recorded",
    "Recording",
    "Way",
    "busiest_folder",
    "describe",
    "explain_recording",
    "import_log",
    "in_words",
    "open_recording",
    "predict_transfers",
    "record_program",
    "render_page",
    "replayable",
    "steps_with_files",
    "transferred",
]
