"""Speeds of this machine as distributions over page maps: each trial has frames of its own."""

from pagelens.measure.files.machine_file import file_with_io, kept_file
from pagelens.measure.files.session import Measured, measure_folder

__all__ = ["Measured", "file_with_io", "kept_file", "measure_folder"]
