"""Programs whose data stay in the L2s, with a part for each core.

They suffer most from snoop filter conflicts. These are McCalpin's test for such conflicts (SC18), which is a
sum, and two programs that he expects to suffer: a shallow-water model and Fourier transforms. Their small
twins are examples/sum.cpp, shallow.cpp and fft.cpp.
"""

import math

from pagelens.accesses.declared.loops import Array, Kind, Loops, Stream, Sweep, read, write

_STATE = ("u", "v", "p")
_OLD, _NEW = (tuple(f"{name}_{when}" for name in _STATE) for when in ("old", "new"))
_FLUXES = ("cu", "cv", "z", "h")
_WARM_UPS = {"warm-up": 3}  # rounds, until what was made dirty at the beginning has left all caches
_POINT, _LINE = 16, 64  # bytes of a complex number, and of a line


def l2_sum(size_bytes: int, threads: int, repeats: int) -> Loops:
    """Let every thread sum its part again and again. In the original, a core has 1,000,000 bytes."""
    return Loops(
        (Array("data", size_bytes),),
        (
            Sweep("initialise", 60.0, write("data"), first_touch=True),
            Sweep("warm-up", 2.5, read("data")),  # vectors as of STREAM's loops
            Sweep("sum", 2.5, read("data")),
        ),
        _WARM_UPS | {"sum": repeats},
    )


def shallow(size_bytes: int, threads: int, repeats: int) -> Loops:
    """Return steps of Sadourny's scheme over thirteen fields: fluxes, a leapfrog step, the filter in time.

    The rows of a field fit into the caches above the L2. What a thread reads of its neighbours' rows is left
    out.
    """
    names = (*_STATE, *_OLD, *_NEW, *_FLUXES)

    def step(phase: str) -> tuple[Sweep, ...]:
        return (
            Sweep(phase, 85.0, (*read(*_STATE), *write(*_FLUXES))),
            Sweep(phase, 95.0, (*read(*_OLD, *_FLUXES), *write(*_NEW))),
            Sweep(phase, 60.0, (*read(*_NEW), *write(*_STATE, *_OLD))),
        )

    return Loops(
        tuple(Array(name, size_bytes / len(names)) for name in names),
        (
            *(Sweep("initialise", 24.0, write(name), first_touch=True) for name in names),
            Sweep("initialise", 700.0, write("p")),
            *(
                Sweep("initialise", 6.0, (*read(now), *write(old)))
                for now, old in zip(_STATE, _OLD, strict=True)
            ),
            *step("warm-up"),
            *step("steps"),
        ),
        _WARM_UPS | {"steps": repeats},
    )


def fft(size_bytes: int, threads: int, repeats: int) -> Loops:
    """Return Stockham's transforms of radix 2 between two buffers, with one of its own for each thread.

    A repeat makes two transforms. The buffers may have any size: the number of passes is that of the nearest
    power of two, which stands for a transform of mixed radices. A pass reads both halves of a buffer in step,
    which the model takes as one stream.
    """
    points = size_bytes / threads / (2 * _POINT + _POINT // 2)
    passes = round(math.log2(points))

    def transform(phase: str, buffers: tuple[str, str]) -> tuple[Sweep, ...]:
        found = []
        for number in range(passes):
            source, target = buffers if number % 2 == 0 else buffers[::-1]
            stride = max(1.0, 2**number * _POINT / _LINE)  # neighbours that share a twiddle, in its lines
            twiddles = Stream("twiddles", Kind.read, stride=stride)
            found.append(Sweep(phase, 30.0, (twiddles, *read(source), *write(target))))
        return tuple(found)

    def there_and_back(phase: str) -> tuple[Sweep, ...]:
        ends_in = ("x", "y") if passes % 2 == 0 else ("y", "x")
        return (*transform(phase, ("x", "y")), *transform(phase, ends_in))

    buffer = threads * points * _POINT
    return Loops(
        (Array("x", buffer), Array("twiddles", buffer / 2), Array("y", buffer)),
        (
            *(Sweep("initialise", 700.0, write(name), first_touch=True) for name in ("x", "twiddles")),
            Sweep("initialise", 6.0, write("y"), first_touch=True),
            *there_and_back("warm-up"),
            *there_and_back("transforms"),
        ),
        _WARM_UPS | {"transforms": repeats},
    )
