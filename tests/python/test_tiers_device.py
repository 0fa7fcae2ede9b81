"""`pagelens measure tiers`: its kernels simulated and compiled, and what asks CUDA on a stub of it."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from machine_roles import GPU

from pagelens.machine import load_machine
from pagelens.measure.tiers.device import ATTRIBUTES, Facts, find_device
from pagelens.measure.tiers.measurement import CHASE, STREAM_BYTES, measure
from pagelens.measure.tiers.report import SIMULATED

Run = Callable[..., subprocess.CompletedProcess[str]]

SIMULATOR = {"NUMBA_ENABLE_CUDASIM": "1"}


# The command, its kernels run by Numba's simulator.


def test_the_simulator_runs_the_command_and_nothing_is_called_measured(pagelens: Run, tmp_path: Path) -> None:
    done = pagelens("measure", "tiers", "--array", "1KiB", "--trials", "1", "-o", "out", env=SIMULATOR)
    assert (done.returncode, done.stderr) == (0, "")
    assert SIMULATED in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "measured" not in done.stdout
    table = re.findall(r"^(\w+) \((?:GB/s|ns)\) (.*)$", done.stdout, re.MULTILINE)
    assert [kernel for kernel, _ in table] == [*STREAM_BYTES, CHASE]
    assert {cell for _, cells in table for cell in cells.split()} == {"-"}  # no figure is shown
    assert sorted(os.listdir(tmp_path / "out")) == [".lock", "measure.json"]  # no machine file
    said = json.loads((tmp_path / "out" / "measure.json").read_text())
    assert said["simulator"] is True
    assert SIMULATED in said["title"]
    assert said["settings"] == {"array_bytes": 1024, "trials": 1, "seed": 1}
    assert [len(result["values"]) for result in said["results"]] == [1] * 10


_KERNELS = """
import numpy as np
from numba import cuda
from pagelens.measure.tiers.kernels import KERNELS
copy, scale, add, triad, chase = map(cuda.jit, KERNELS)
rng = np.random.default_rng(3)
n = 1000
first, second = rng.random(n), rng.random(n)
def run(kernel, *given):
    to = cuda.to_device(np.full(n + 5, -1.0))
    kernel[-(-n // 32), 32](to[:n], *given)  # the last block has threads beyond the arrays
    found = to.copy_to_host()
    assert (found[n:] == -1).all(), "an element beyond the array was written"
    return found[:n]
a, b = cuda.to_device(first), cuda.mapped_array(n)
b.copy_to_device(second)
assert (run(copy, a) == first).all()
assert (run(scale, b, 0.4) == 0.4 * second).all()
assert (run(add, a, b) == first + second).all()
assert (run(triad, a, b, 0.4) == first + 0.4 * second).all()
assert (a.copy_to_host() == first).all() and (b.copy_to_host() == second).all()
links = np.roll(np.arange(64, dtype=np.uint64), -5)
at = cuda.to_device(np.array([2], dtype=np.uint64))
chase[1, 1](cuda.to_device(links), 7, at)
assert at.copy_to_host()[0] == (2 + 7 * 5) % 64
print("right")
"""


def test_every_kernel_s_answer_is_numpy_s() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _KERNELS],
        env=os.environ | SIMULATOR,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("right\n", "")


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="there is a device")
def test_where_there_is_no_device_one_line_says_so(pagelens: Run, tmp_path: Path) -> None:
    done = pagelens("measure", "tiers", env={"NUMBA_ENABLE_CUDASIM": "0"})
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"pagelens: measure tiers: no CUDA device .*; nothing was measured\n", done.stderr)
    assert not os.listdir(tmp_path)


def test_without_numba_one_line_says_what_to_install(
    in_process: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    done = in_process("measure", "tiers")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"pagelens: measure tiers: numba-cuda is not installed.*\n", done.stderr)
    assert "pip install 'pagelens[gpu]'" in done.stderr
    assert not os.listdir(tmp_path)


def test_numba_is_imported_for_tiers_alone() -> None:
    code = "import sys, pagelens.cli.commands.measure; assert not {'numba', 'cuda'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tiers", "--page-size", "2m"], "No such option: --page-size"),
        (["tiers", "--no-stir"], "No such option: --no-stir"),
        (["tiers", "--n", "100"], "No such option: --n"),
        (["stream", "--array", "1GiB"], "No such option: --array"),
        (["tier"], "Did you mean 'tiers'?"),
    ],
)
def test_options_of_other_benchmarks_are_refused(words: list[str], said: str, in_process: Run) -> None:
    done = in_process("measure", *words)
    assert done.returncode == 2
    assert said in done.stderr


# What asks CUDA, on a driver of NumPy: mapped memory is an ndarray there, as of CUDA, and events tell time.


class StubCuda:
    """Numba's module `cuda` as far as device.py uses it: kernels run thread by thread, events tick in ms."""

    def __init__(self) -> None:
        self.now_ms, self.index = 0.0, 0
        self.launched: list[tuple[str, tuple[int, int]]] = []
        attributes = dict(zip(ATTRIBUTES, (7, 1_500_000, 1 << 10), strict=True))
        self.device = SimpleNamespace(name="stub", **attributes)

    def current_context(self) -> SimpleNamespace:
        return SimpleNamespace(device=self.device, get_memory_info=lambda: (10_000_000, 20_000_000))

    def grid(self, dimensions: int) -> int:
        assert dimensions == 1
        return self.index

    def mapped_array(self, count: int, dtype: type) -> np.ndarray:
        return np.empty(count, dtype=dtype)

    def device_array(self, count: int, dtype: type) -> "StubArray":
        return StubArray(np.empty(count, dtype=dtype))

    def event(self) -> SimpleNamespace:
        made = SimpleNamespace(synchronize=lambda: None, elapsed_time=lambda end: end.ms - made.ms)
        made.record = lambda: setattr(made, "ms", self.now_ms)
        return made

    def jit(self, kernel: Callable[..., None]) -> Any:
        return StubKernel(self, kernel)


class StubKernel:
    """Launched as kernel[blocks, threads](...)."""

    def __init__(self, cuda: StubCuda, kernel: Callable[..., None]) -> None:
        self.cuda, self.kernel = cuda, kernel

    def __getitem__(self, shape: tuple[int, int]) -> Callable[..., None]:
        assert shape[1] <= 1024

        def launch(*given: Any) -> None:
            self.cuda.launched.append((self.kernel.__name__, shape))
            bare = [each.values if isinstance(each, StubArray) else each for each in given]
            for self.cuda.index in range(shape[0] * shape[1]):
                self.kernel(*bare)
            self.cuda.now_ms += 2.0

        return launch


class StubArray:
    """A DeviceNDArray: sliced, and copied from and to the host."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __getitem__(self, part: slice) -> "StubArray":
        assert isinstance(part, slice)
        return StubArray(self.values[part])

    def copy_to_device(self, values: np.ndarray) -> None:
        assert values.size == self.values.size
        self.values[:] = values

    def copy_to_host(self) -> np.ndarray:
        return self.values.copy()


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> StubCuda:
    made = StubCuda()
    fake = SimpleNamespace(config=SimpleNamespace(ENABLE_CUDASIM=0), cuda=made)
    monkeypatch.setitem(sys.modules, "numba", fake)
    monkeypatch.delitem(sys.modules, "pagelens.measure.tiers.kernels", raising=False)
    return made


def test_a_device_is_asked_in_cuda_s_units(stub: StubCuda) -> None:
    device = find_device()
    assert device.facts == Facts("stub", False, 7, 1.5e9, 1 << 10, 20_000_000, 10_000_000)
    found = measure(device, 8192, 2, seed=1)
    # 2 ms a launch, of which the second of each pair counts.
    assert found.figures["host", "triad"].values == pytest.approx([24 * 1024 / 2e-3 / 1e9] * 2)
    assert found.figures["device", CHASE].values == pytest.approx([2e-3 / 64 * 1e9] * 2)
    assert set(stub.launched) == {(kernel, (1, 1024)) for kernel in STREAM_BYTES} | {(CHASE, (1, 1))}
    assert len(stub.launched) == 3 * 2 * 5 * 2  # rounds, memories, kernels, twice


def test_arrays_are_copied_piece_by_piece_to_their_places(
    stub: StubCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pagelens.measure.tiers.measurement._CHUNK", 1 << 14)
    measure(find_device(), 1250 * 128, 1, seed=1)  # a wrong element would end it
    assert ("triad", (20, 1024)) in stub.launched


def test_the_command_measures_a_device_and_writes_its_machine_file(
    stub: StubCuda, in_process: Run, tmp_path: Path
) -> None:
    done = in_process("measure", "tiers", "--array", "8KiB", "--trials", "2", "-o", "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert "stub, 7 SMs" in done.stdout
    machine = load_machine(tmp_path / "out" / f"{GPU}.toml")
    assert machine.cores.count.value == 7
    assert machine.ddr.bandwidth.value == pytest.approx(24 * 1024 / 2e-3, rel=1e-4)


@pytest.mark.parametrize(
    ("attribute", "value", "written"),
    [
        ("L2_CACHE_SIZE", 0, True),  # CUDA's word for a device without one
        ("CLOCK_RATE", 0, True),
        ("MULTIPROCESSOR_COUNT", 0, False),
    ],
)
def test_what_is_measured_is_kept_whatever_the_driver_does_not_say(
    attribute: str, value: int, written: bool, stub: StubCuda, in_process: Run, tmp_path: Path
) -> None:
    setattr(stub.device, attribute, value)
    done = in_process("measure", "tiers", "--array", "8KiB", "--trials", "1", "-o", "out")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads((tmp_path / "out" / "measure.json").read_text())
    assert len(result["results"]) == 10
    file = tmp_path / "out" / f"{GPU}.toml"
    assert file.exists() == written
    assert ("No machine file" in done.stdout) != written
    if written:  # with the described GPU's own value
        base, machine = load_machine(GPU), load_machine(file)
        assert machine.l3 is not None
        assert (machine.l3 == base.l3) == (attribute == "L2_CACHE_SIZE")
        assert (machine.cores.frequency == base.cores.frequency) == (attribute == "CLOCK_RATE")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            RuntimeError("\n[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY\nmore"),
            "CUDA failed ([2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY); "
            "take a smaller --array\n",
        ),
        (  # an older Numba beside NumPy 2.5
            AttributeError("module 'numpy' has no attribute 'row_stack'"),
            "is too old or too new for the others: pip install -U 'pagelens[gpu]' numba\n",
        ),
        (RuntimeError("[222] PTX"), "CUDA failed ([222] PTX); see that driver and CUDA toolkit fit\n"),
    ],
)
def test_what_cuda_raises_is_one_line_with_its_remedy(
    error: Exception, said: str, stub: StubCuda, in_process: Run, tmp_path: Path
) -> None:
    def refuse(count: int, dtype: type) -> None:
        raise error

    stub.device_array = refuse  # type: ignore[method-assign, assignment]
    done = in_process("measure", "tiers", "--array", "8KiB")
    assert done.returncode == 1
    assert done.stderr.startswith("pagelens: measure tiers: CUDA failed (")
    assert done.stderr.endswith(said)
    assert done.stderr.count("\n") == 1
    assert not os.listdir(tmp_path)


def test_the_attributes_are_cuda_s() -> None:
    known = importlib.import_module("cuda.bindings.driver").CUdevice_attribute
    assert all(hasattr(known, f"CU_DEVICE_ATTRIBUTE_{name}") for name in ATTRIBUTES)


_PTX = """
import sys
from numba import cuda, types
from pagelens.measure.tiers.kernels import KERNELS
doubles, links = types.float64[::1], types.uint64[::1]
of = {"copy": (doubles,) * 2, "scale": (doubles, doubles, types.float64), "add": (doubles,) * 3,
      "triad": (doubles,) * 3 + (types.float64,), "chase": (links, types.int64, links)}
for kernel in KERNELS:
    print("//", kernel.__name__)
    print(cuda.compile_ptx(kernel, of[kernel.__name__], cc=divmod(int(sys.argv[1]), 10))[0])
"""


@pytest.mark.long
@pytest.mark.parametrize("capability", [75, 80, 90, 100])
def test_the_kernels_compile_to_the_loads_and_stores_that_they_state(capability: int, tmp_path: Path) -> None:
    """Needs CUDA's compilers from wheels, and where there is ptxas has it assemble all, no GPU."""
    done = subprocess.run(
        [sys.executable, "-c", _PTX, str(capability)], capture_output=True, text=True, check=False
    )
    if "DynamicLibNotFoundError" in done.stderr:
        pytest.skip("CUDA's compilers are not here: pip install 'numba-cuda[cu13]' nvidia-cuda-nvcc")
    assert done.returncode == 0, done.stderr
    parts = dict(re.findall(r"^// (\w+)$\n(.*?)(?=^// \w+$\n|\Z)", done.stdout, re.MULTILINE | re.DOTALL))
    loads, stores = (
        {name: len(re.findall(rf"\b{move}\.global\S*64\s", text)) for name, text in parts.items()}
        for move in ("ld", "st")
    )
    assert loads.pop(CHASE) >= 3  # where it begins, and links
    assert loads == {"copy": 1, "scale": 1, "add": 2, "triad": 2}
    assert stores == dict.fromkeys([*STREAM_BYTES, CHASE], 1)
    assert "shr.s64" not in parts["chase"]  # no index is taken from the end
    ptxas = shutil.which("ptxas") or next(map(str, Path(sys.prefix).rglob("bin/ptxas")), None)
    for name, text in parts.items() if ptxas else ():
        source = tmp_path / f"{name}.ptx"
        source.write_text(text)
        subprocess.run(
            [ptxas, f"-arch=sm_{capability}", source, "-o", tmp_path / f"{name}.cubin"], check=True
        )
