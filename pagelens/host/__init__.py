"""Facts about the machine that pagelens runs on, read under a root directory."""

from pagelens.host.mpi_rank import LaunchedRank, launched_rank
from pagelens.host.output_name import expand_rank
from pagelens.host.process_binding import all_but, named_processors
from pagelens.host.program_signals import end_like

__all__ = ["LaunchedRank", "all_but", "end_like", "expand_rank", "launched_rank", "named_processors"]
