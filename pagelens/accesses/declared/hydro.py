"""Explicit Lagrangian hydrodynamics in LULESH's manner (examples/hydro.cpp is its small twin).

It gathers from nodes to elements. Every step maps temporaries of half the footprint, and gives them back. A
layer of elements uses two planes of nodes, each too large for the caches above memory.
"""

from dataclasses import replace

import numpy as np

from pagelens.accesses.declared.loops import Array, Kind, Loops, Stream, Sweep, read, write

_ELEMENT = ("mass", "energy", "volume", "pressure", "sound", "damping")  # 8 bytes an element each
_NODE = {"position": 24, "velocity": 24, "force": 24, "node_mass": 8}  # bytes a node
_NODES, _GRADIENTS, _BEFORE = 8 * 4, 8 * 24, 24
BYTES_PER_ELEMENT = 8 * len(_ELEMENT) + sum(_NODE.values()) + _NODES + _GRADIENTS + _BEFORE


def elements_side(size_bytes: int) -> int:
    """Return the number of elements along a side of the cube."""
    return int(np.cbrt(size_bytes / BYTES_PER_ELEMENT).round())


LOOPS = {  # of a step, in order: the region each belongs to
    "clear gradients": "gradients",
    "gradients": "gradients",
    "gas": "gas",
    "clear forces": "forces",
    "forces": "forces",
    "copy velocities": "motion",
    "motion": "motion",
    "work": "work",
}


def by_loop(loops: Loops) -> Loops:
    """Return one run of the program in which each loop of the measured step is a phase."""
    *before, _ = dict.fromkeys(sweep.phase for sweep in loops.sweeps)
    names = iter(LOOPS)
    sweeps = (sweep if sweep.phase in before else replace(sweep, phase=next(names)) for sweep in loops.sweeps)
    return Loops(loops.arrays, tuple(sweeps))


def hydro(side: int, threads: int, repeats: int) -> Loops:
    """Return the program for one cube of side^3 elements that all threads share."""
    elements, nodes, planes = side**3, (side + 1) ** 3, side + 1

    def gather(name: str, kind: Kind = Kind.read) -> tuple[Stream, ...]:
        """Return the two planes of nodes that a layer of elements uses."""
        plane = _NODE.get(name, _BEFORE) * nodes / planes
        return tuple(Stream(name, kind, shift, plane * (planes - 1)) for shift in (0, plane))

    def step(phase: str) -> tuple[Sweep, ...]:
        return (
            Sweep(phase, 8.0, write("gradients"), first_touch=True),
            Sweep(
                phase, 1700.0, (*write("gradients", "volume"), *read("nodes"), *gather("position"))
            ),  # volumes and their gradients
            Sweep(
                phase,
                330.0,
                (
                    *read("gradients", "nodes", "mass", "volume", "energy"),
                    *gather("velocity"),
                    *write("pressure", "sound", "damping"),
                ),
            ),  # the gas
            Sweep(phase, 8.0, write("force")),
            Sweep(
                phase,
                820.0,
                (
                    *write("gradients"),
                    *read("pressure", "damping", "nodes", "volume", "mass", "sound"),
                    *gather("velocity"),
                    *gather("force", Kind.write),
                ),
            ),  # the corners' forces
            Sweep(phase, 12.0, (*read("velocity"), *write("before")), first_touch=True),
            Sweep(phase, 40.0, (*read("force", "node_mass"), *write("velocity", "position"))),
            Sweep(
                phase,
                150.0,
                (*read("gradients", "nodes"), *gather("before"), *gather("velocity"), *write("energy")),
                unmaps=("before", "gradients"),
            ),  # work done on the gas
        )

    arrays = (
        *(Array(name, bytes_ * nodes) for name, bytes_ in _NODE.items()),
        *(Array(name, 8 * elements) for name in _ELEMENT),
        Array("nodes", _NODES * elements),
        Array("gradients", _GRADIENTS * elements),
        Array("before", _BEFORE * nodes),
    )
    lasting = [array.name for array in arrays if array.name not in ("gradients", "before")]
    set_up = (Sweep("set-up", 20.0, write(name), first_touch=True) for name in lasting)
    return Loops(arrays, (*set_up, *step("warm-up"), *step("steps")), {"steps": repeats})
