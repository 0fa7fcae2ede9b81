"""Lists the machine file's values, each with its origin."""

from pagelens.explain.model import Input
from pagelens.machine import Machine
from pagelens.machine.values import stated_values


def machine_inputs(machine: Machine) -> list[Input]:
    """Return every sourced value of the machine that the model has, in the order of the schema."""
    return [
        Input(name=stated.name, value=stated.value.shown, origin=stated.value.label, note=stated.value.origin)
        for stated in stated_values(machine)
        if not stated.name.startswith(("counters.", "io."))  # what is measured by, and of files: no inputs
    ]
