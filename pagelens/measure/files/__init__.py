"""Measures operations on the files of one folder, for the section [io] of a machine file."""

from pagelens.measure.files.machine_file import file_with_io, kept_file
from pagelens.measure.files.measured import Measured, pooled
from pagelens.measure.files.session import measure_folder
from pagelens.measure.files.system import read_file_system
from pagelens.measure.files.ways import Replayed, replay, variants

__all__ = [
    "Measured",
    "Replayed",
    "file_with_io",
    "kept_file",
    "measure_folder",
    "pooled",
    "read_file_system",
    "replay",
    "variants",
]
