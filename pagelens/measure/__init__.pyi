from .benchmarks import BENCHMARKS as BENCHMARKS
from .node_matrix import NodeMatrix as NodeMatrix, measure_nodes as measure_nodes
from .of_machine import measured_sections as measured_sections
from .outputs import to_json as to_json, write_outputs as write_outputs
from .results import (
    FEWEST_CORRELATED as FEWEST_CORRELATED,
    Measured as Measured,
    Prediction as Prediction,
    Result as Result,
)
from .session import (
    MOST_PREDICTED as MOST_PREDICTED,
    Report as Report,
    Request as Request,
    measure_benchmark as measure_benchmark,
)
from .summary import SIGNIFICANT as SIGNIFICANT
