"""One simulation: a workload on a machine, with the frames of a placement."""
