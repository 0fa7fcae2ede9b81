"""Measures a GPU's two memories from the GPU: its own, and pinned host memory that its kernels reach."""

from pagelens.measure.tiers.arrays import parse_array
from pagelens.measure.tiers.device import find_device
from pagelens.measure.tiers.machine_file import NAME, machine_file
from pagelens.measure.tiers.measurement import measure
from pagelens.measure.tiers.report import render, to_json

__all__ = ["NAME", "find_device", "machine_file", "measure", "parse_array", "render", "to_json"]
