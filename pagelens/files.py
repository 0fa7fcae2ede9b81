"""Files that are whole or as they were before."""

import os
from collections.abc import Callable
from pathlib import Path

from pagelens.errors import Failure


def write_whole(final: Path, write: Callable[[Path], object]) -> None:
    """Has `write` write a file beside `final`, and gives it that name; of --output. Raises Failure."""
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
