"""Programs that bench_stream.py compares with: how each is run, and the rates that it prints."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

KERNELS = ("copy", "scale", "add", "triad")
REPEATS = 10
HPCC_INPUT = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")

Rates = dict[str, float]  # GB/s by kernel, of 1e9 bytes as STREAM counts them


def output_of(command: list[str], folder: Path | None = None, **environment: str) -> str:
    """Returns what a program prints, or nothing if a signal ended it. Other failures end the benchmark."""
    result = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if result.returncode < 0:
        return ""
    if result.returncode:
        raise SystemExit(f"{command[0]} failed: {(result.stdout + result.stderr)[-500:]}")
    return result.stdout


def likwid_variants(kernel: str) -> list[str]:
    """likwid-bench's double-precision variants of "copy" or "stream" (STREAM's triad) for this processor."""
    flags = set(_found(r"^flags\s*:(.*)", Path("/proc/cpuinfo").read_text()).split())
    needs = {"avx": "avx", "avx512": "avx512f", "fma": "fma"}
    names = re.findall(rf"^({kernel}(?:_\w+)?) - Double", output_of(["likwid-bench", "-a"]), re.M)
    return [n for n in names if all(needs[p] in flags for p in n.split("_") if p in needs)]


def likwid(variant: str, n: int, threads: int) -> float:
    """GB/s of one run, with arrays of n doubles that each thread fills its part of.

    0 where it crashes, as 5.2's stream_mem does.
    """
    streams = 2 if variant.startswith("copy") else 3
    size = f"{streams * n * 8 // 1000}kB"
    text = output_of(["likwid-bench", "-t", variant, "-i", str(REPEATS), "-W", f"S0:{size}:{threads}"])
    found = re.search(r"MByte/s:\s*([\d.]+)", text)
    return float(found[1]) / 1000 if found else 0


def hpcc(n: int, processes: int) -> tuple[Rates, int]:
    """Best rates of the STREAM in Debian's hpcc, of all its processes together, and doubles of its arrays.

    A process has its own arrays of n / processes: a third each of the HPL matrix, which decides their size.
    """
    side = round((3 * n) ** 0.5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = folder / "only_stream.so"
        source = Path(__file__).with_name("only_stream.c")
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
        text = HPCC_INPUT.read_text()
        for old, new in (
            ("1000 ", side),
            ("2            Ps", "1 Ps"),
            ("2            Qs", f"{processes} Qs"),
        ):
            text = text.replace(old, f"{new} ", 1)
        (folder / "hpccinf.txt").write_text(text)
        output_of(
            [
                "mpirun.openmpi",
                "--bind-to",
                "core",
                "-x",
                f"LD_PRELOAD={library}",
                "-np",
                str(processes),
                "hpcc",
            ],
            folder,
            STREAM_BYTES=str(side * side * 8 // 3 // processes),
            OMPI_ALLOW_RUN_AS_ROOT="1",
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        )
        found = dict(
            re.findall(r"^(\w+)=(\S+)$", (folder / "hpccoutf.txt").read_text(errors="replace"), re.M)
        )
    section = "SingleSTREAM" if processes == 1 else "StarSTREAM"
    rates = {kernel: processes * float(found[f"{section}_{kernel.capitalize()}"]) for kernel in KERNELS}
    return rates, processes * int(found["STREAM_VectorSize"])


def own_stream(program: Path, threads: int) -> tuple[Rates, int]:
    """Best rates of somebody's build of STREAM, and doubles of its arrays."""
    text = output_of([str(program)], OMP_NUM_THREADS=str(threads), OMP_PROC_BIND="true")
    rates = {k: float(_found(rf"^{k.capitalize()}:\s+([\d.]+)", text)) / 1000 for k in KERNELS}
    return rates, int(_found(r"Array size = (\d+)", text))


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise SystemExit(f"no {pattern} in: {text[-500:]}")
    return match[1]
