"""The device behind a narrow interface: memory of both kinds, and the seconds of a kernel.

The rest of the package does not use Numba. Tests have a device of their own. Numba's simulator
(NUMBA_ENABLE_CUDASIM=1) runs the same kernels, thread by thread in Python.
"""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from pagelens.errors import Failure

Tier = Literal["host", "device"]  # pinned host memory that the device maps; the device's own
Values = NDArray[Any]

ATTRIBUTES = ("MULTIPROCESSOR_COUNT", "CLOCK_RATE", "L2_CACHE_SIZE")  # of CUdevice_attribute
_BLOCK, _SIMULATED_BLOCK = 1024, 32  # threads of a block; the simulator starts one of Python for each


@dataclass(frozen=True)
class Facts:
    """What the driver says of a device. Of a simulator it says only the name."""

    name: str
    simulator: bool
    processors: int = 0  # SMs
    clock_hz: float = 0.0  # the highest of an SM
    cache_bytes: int = 0  # the cache that all SMs share (CUDA's L2)
    memory_bytes: int = 0
    free_bytes: int = 0


class Device(Protocol):
    """What a measurement needs of a device."""

    @property
    def facts(self) -> Facts:
        """What is known of the device."""

    def empty(self, tier: Tier, count: int, dtype: type) -> Any:
        """Return a one-dimensional array in a memory, with undefined content."""

    def write(self, array: Any, begin: int, values: Values) -> None:
        """Copy values to the elements from `begin` on."""

    def read(self, array: Any, begin: int, end: int) -> Values:
        """Return a copy of the elements from `begin` to before `end`."""

    def seconds(self, kernel: str, threads: int, *arguments: Any) -> float:
        """Run a kernel of kernels.py twice, and return the seconds of the second run."""


def find_device() -> Device:
    """Return the first device that CUDA shows (CUDA_VISIBLE_DEVICES), or Numba's simulator.

    Raises Failure.
    """
    try:
        from numba import config, cuda

        context = cuda.current_context()
    except ModuleNotFoundError:
        raise Failure(
            "measure tiers: numba-cuda is not installed, by which a CUDA device is asked: pip install "
            "'pagelens[gpu]' where there is one; nothing was measured"
        ) from None
    except Exception as error:  # what drivers and their bindings raise has no common class
        raise Failure(
            f"measure tiers: no CUDA device can be used here ({_first_line(error)}); nothing was measured"
        ) from error
    if config.ENABLE_CUDASIM:
        return _NumbaDevice(cuda, Facts("Numba's CUDA simulator", simulator=True))
    device = context.device
    with _one_line():
        processors, kilohertz, cache_bytes = (int(getattr(device, name)) for name in ATTRIBUTES)
        free_bytes, memory_bytes = context.get_memory_info()
    facts = Facts(
        str(device.name), False, processors, 1e3 * kilohertz, cache_bytes, int(memory_bytes), int(free_bytes)
    )
    return _NumbaDevice(cuda, facts)


class _NumbaDevice:
    """A device of Numba's CUDA target. `cuda` is its module, for a device or for the simulator."""

    def __init__(self, cuda: Any, facts: Facts) -> None:
        from pagelens.measure.tiers.kernels import KERNELS

        self.facts = facts
        self._cuda = cuda
        self._kernels = {kernel.__name__: cuda.jit(kernel) for kernel in KERNELS}

    def empty(self, tier: Tier, count: int, dtype: type) -> Any:
        make = self._cuda.mapped_array if tier == "host" else self._cuda.device_array
        with _one_line():
            return make(count, dtype=dtype)

    def write(self, array: Any, begin: int, values: Values) -> None:
        with _one_line():
            if _is_host(array):
                np.asarray(array)[begin : begin + values.size] = values
            else:
                array[begin : begin + values.size].copy_to_device(values)

    def read(self, array: Any, begin: int, end: int) -> Values:
        with _one_line():
            if _is_host(array):
                return np.array(np.asarray(array)[begin:end])
            found: Values = array[begin:end].copy_to_host()
            return found

    def seconds(self, kernel: str, threads: int, *arguments: Any) -> float:
        block = min(threads, _SIMULATED_BLOCK if self.facts.simulator else _BLOCK)
        cuda = self._cuda
        with _one_line(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Numba warns that one block leaves most of the device idle
            launch = self._kernels[kernel][-(-threads // block), block]
            begin, end = cuda.event(), cuda.event()
            # The second run is queued while the device is busy with the first, so the time that Python takes
            # to start it does not count.
            launch(*arguments)
            begin.record()
            started = time.perf_counter()
            launch(*arguments)
            end.record()
            end.synchronize()
            if self.facts.simulator:  # its events have no time
                return time.perf_counter() - started
            return float(begin.elapsed_time(end)) / 1e3


def _is_host(array: Any) -> bool:
    """Return whether this process can use the array directly, as it can mapped memory."""
    return isinstance(array, np.ndarray)


@contextmanager
def _one_line() -> Iterator[None]:
    """Turn errors of the driver, the compiler and the bindings into a Failure of one line.

    They have many classes and lines.
    """
    try:
        yield
    except Exception as error:
        raise Failure(f"measure tiers: CUDA failed ({_first_line(error)}); {_remedy(error)}") from error


def _remedy(error: Exception) -> str:
    """Say what to do about what was raised: by memory, by packages of other years, or by the driver."""
    if isinstance(error, MemoryError) or "OUT_OF_MEMORY" in str(error):
        return "take a smaller --array"
    if isinstance(error, AttributeError | ImportError):
        found = ", ".join(f"{name} {_version(name)}" for name in ("numba-cuda", "numba", "numpy"))
        return f"one of {found} is too old or too new for the others: pip install -U 'pagelens[gpu]' numba"
    return "see that driver and CUDA toolkit fit"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _first_line(error: Exception) -> str:
    """Return the first line of an error, without the heading of Numba's errors."""
    lines = [line.strip(" :.") for line in str(error).splitlines()]
    said = [line for line in lines if line and line != "Error at driver init"]
    return (said or [type(error).__name__])[0][:200]
