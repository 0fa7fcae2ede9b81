"""Predicts each trial with the model: the same loops on the frames that the trial had."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pagelens import _core
from pagelens.address.units import FRAME_BYTES
from pagelens.ensemble import run_ensemble
from pagelens.ensemble.scale import Scaled
from pagelens.errors import UsageError
from pagelens.frames import Node, Policy, parse_history
from pagelens.frames.live_node import LiveNode
from pagelens.machine import Machine
from pagelens.measure.experiment import Model
from pagelens.measure.pages import PageSize
from pagelens.units import format_binary_size

_NAME = "measured"
_SPARE = 1 << 16  # frames above the highest one that was given: page tables lie there

Floats = NDArray[np.float64]
Frames = NDArray[np.uint64]


def predicted_seconds(
    machine: Machine, model: Model, page: PageSize, frames: Sequence[Frames], seed: int
) -> Floats:
    """Return the modelled seconds of one repetition on each trial's frames, float64[trial].

    Raises UsageError if the frames cannot be the machine's.
    """
    highest = max(int(of_trial.max()) for of_trial in frames)
    if machine.dram is not None and (highest + 1) * FRAME_BYTES > machine.dram.size:
        own, end = (format_binary_size(size) for size in (machine.dram.size, (highest + 1) * FRAME_BYTES))
        raise UsageError(
            f"--machine {machine.name}: its banks are of one socket's {own}, and frames lie up to {end}; to "
            "stay on the first socket: numactl --cpunodebind=0 --membind=0 pagelens measure ..."
        )
    order = page.bytes.bit_length() - 1 - 12
    small = [of_trial.astype(np.uint32) for of_trial in frames]

    def given(_: Machine, node: Node, __: LiveNode) -> _core.Placement:
        return _core.place_as_given(small[node.node], highest + 1 + _SPARE, order)

    policy = Policy(_NAME, "frames as measured", given, page_bits=12 + order, offset_bytes=model.offset_bytes)
    with TemporaryDirectory(prefix="pagelens-measure-") as folder:
        ensemble = run_ensemble(
            model.workload,
            Scaled(machine, 1),
            {_NAME: policy},
            len(frames),
            seed,
            Path(folder),
            history=parse_history("boot; run"),
            attributed=0,
        )
    rows = ensemble.tables["placements"]
    return rows.filter(pl.col("phase") == model.phase).sort("node")["time_s"].to_numpy()
