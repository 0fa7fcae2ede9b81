"""The machine file's values as a flat list, each with where it comes from."""

from pagelens.explain.model import Input
from pagelens.machine import Machine
from pagelens.machine.values import stated_values


def machine_inputs(machine: Machine) -> list[Input]:
    """Every sourced value of the machine that the model has, in the order of the schema."""
    return [
        Input(name=stated.name, value=stated.value.shown, origin=stated.value.label, note=stated.value.origin)
        for stated in stated_values(machine)
        if not stated.name.startswith(("counters.", "io."))  # what is measured by, and of files: no inputs
    ]
