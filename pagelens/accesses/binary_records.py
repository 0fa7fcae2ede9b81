"""Reads other tools' binary files in batches of records of one size."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pagelens.accesses.importer import CutRecord

BATCH_RECORDS = 1 << 16


def record_batches(stream: BinaryIO, kind: np.dtype[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield arrays of records of the type `kind`, each with the number of its first record, from 1 on.

    Raises CutRecord, after all whole records, where the file ends within one.
    """
    number, rest = 1, b""
    while read := stream.read(BATCH_RECORDS * kind.itemsize):
        text = rest + read
        whole = len(text) // kind.itemsize
        rest = text[whole * kind.itemsize :]
        if whole:
            yield number, np.frombuffer(text, kind, whole)
            number += whole
    if rest:
        raise CutRecord(number)
