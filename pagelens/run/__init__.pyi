from .best_remedy import run_with_best_remedy as run_with_best_remedy
from .command import Request as Request, run_program as run_program
from .emulate import emulate_plan as emulate_plan
from .preload import (
    HUGE_BYTES as HUGE_BYTES,
    LARGE as LARGE,
    LEAST_LARGE as LEAST_LARGE,
    LEAST_PERIOD as LEAST_PERIOD,
    MOST_CACHE as MOST_CACHE,
    MOST_PERIOD as MOST_PERIOD,
    Pages as Pages,
    Preload as Preload,
)
