"""Builds a kernel that checks itself, and zonesort for it, from Debian's kernel source.

    python scripts/debug_kernel.py 6.12 build/debug-kernel

puts bzImage, zonesort_module.ko and pagelens_state.ko into build/debug-kernel/6.12.

Takes a quarter of an hour or more the first time, seconds when nothing changed.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from pagelens.errors import Failure, PagelensError
from pagelens.lab import debian

ROOT = Path(__file__).parent.parent
FRAGMENT = ROOT / "tests" / "zonesort" / "debug.config"
MODULES = {"zonesort_module": ROOT / "zonesort", "pagelens_state": ROOT / "tracer" / "guest" / "state"}
TOOLS = ("flex", "bison", "bc", "make", "gcc")


def run(command: list[str | Path], folder: Path) -> None:
    """Runs a step of the build; its output is kept in FOLDER/log and shown if it fails."""
    log = folder / "log"
    with log.open("a") as output:
        if subprocess.run(command, stdout=output, stderr=output, check=False).returncode == 0:
            return
    last = "\n  ".join(log.read_text(errors="replace").splitlines()[-12:])
    raise Failure(f"{' '.join(map(str, command))} failed; its last lines ({log}):\n  {last}")


def unpack(series: str, folder: Path) -> Path:
    """The source tree, fetched once."""
    source = folder / "source"
    if not source.exists():
        with debian.locked():
            archives = debian.cache_folder() / "sources" / series
            if not archives.exists():
                archives.parent.mkdir(parents=True, exist_ok=True)
                debian.fetch([f"linux-source-{series}"], archives)
        archive = archives / "usr" / "src" / f"linux-source-{series}.tar.xz"
        run(["tar", "-xJf", archive, "-C", folder], folder)
        (folder / f"linux-source-{series}").rename(source)
    return source


def configure(source: Path, folder: Path) -> None:
    """The smallest kernel with the options of the fragment. Raises Failure if one of them cannot be had."""
    wanted = FRAGMENT.read_text()
    stamp = folder / "fragment"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    run(["make", "-C", source, "tinyconfig"], folder)
    with (source / ".config").open("a") as config:
        config.write(wanted)
    run(["make", "-C", source, "olddefconfig"], folder)
    taken = set((source / ".config").read_text().splitlines())
    missing = [line for line in wanted.splitlines() if line.startswith("CONFIG_") and line not in taken]
    if missing:
        raise Failure(f"the kernel's configuration would not take {', '.join(missing)}; edit {FRAGMENT}")
    stamp.write_text(wanted)


def build(series: str, folder: Path, jobs: int) -> None:
    """All steps; what is there already is not done again."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log").write_text("")
    source = unpack(series, folder)
    configure(source, folder)
    run(["make", "-C", source, f"-j{jobs}", "bzImage", "modules"], folder)
    for name, sources in MODULES.items():
        module = folder / name
        module.mkdir(exist_ok=True)
        for pattern in ("*.c", "*.h", "Kbuild"):
            for file in sources.glob(pattern):
                shutil.copy(file, module)
        run(["make", "-C", source, f"M={module}", "modules"], folder)
        shutil.copy(module / f"{name}.ko", folder)
    shutil.copy(source / "arch/x86/boot/bzImage", folder / "bzImage")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("series", choices=("6.1", "6.12"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    for tool in TOOLS:
        if shutil.which(tool) is None:
            raise Failure(f"{tool} is not in PATH; install it: scripts/setup debian kernel")
    build(arguments.series, arguments.folder.resolve() / arguments.series, arguments.jobs)


if __name__ == "__main__":
    try:
        main()
    except PagelensError as error:
        sys.exit(f"debug_kernel: {error}")
