"""What operations on the files of one folder take, for the section [io] of a machine file."""

from pagelens.measure.files.machine_file import file_with_io, kept_file
from pagelens.measure.files.session import Measured, measure_folder

__all__ = ["Measured", "file_with_io", "kept_file", "measure_folder"]
