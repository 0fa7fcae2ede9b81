"""Writes files that are complete or as they were before."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from pagelens.errors import Failure

if TYPE_CHECKING:
    import polars as pl

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of a full disk, quota, or limit of a file's size


def write_whole(final: Path, write: Callable[[Path], object]) -> None:
    """Let `write` write a file beside `final`, and rename it to `final`; for --output. Raises Failure."""
    partial = final.with_name(f"{final.name}.partial")
    try:
        write(partial)
        os.replace(partial, final)
    except OSError as error:
        reason = error.strerror or error
        raise Failure(
            f"--output: cannot write {final} ({reason}); free some space or name another"
        ) from error
    finally:
        partial.unlink(missing_ok=True)  # there where something went wrong, Ctrl-C included


def write_table(final: Path, table: pl.DataFrame) -> None:
    """Write a table as Parquet. Raises Failure."""
    content = BytesIO()  # Polars' own errors of writing a file are no OSErrors
    table.write_parquet(content)
    write_whole(final, lambda path: path.write_bytes(content.getbuffer()))
