"""Settings and fixtures that all tests share."""

import fcntl
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from command_server import CommandServer
from hypothesis import settings

from pagelens.cli.main import main

ROOT = Path(__file__).parent.parent

# No test depends on the clock: a busy machine must not fail an example for being slow.
settings.register_profile("pagelens", deadline=None, print_blob=True)
settings.load_profile("pagelens")

# Tests see the same with and without `make engine`. Tests of both engines name them.
os.environ.setdefault("PAGELENS_ENGINE", "qemu")

# Tests start Python hundreds of times. Without its cache, each start compiles what it imports.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Open MPI does not start ranks as root unless it is told to. Over TCP, a rank of MPICH can wait for
# ever in MPI_Finalize: UCX takes TCP beside shared memory if nobody says otherwise.
os.environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "UCX_TLS": "posix,self"}

# What somebody measured of this machine, and keeps in their own folder, is not for tests.
_settings = tempfile.TemporaryDirectory(prefix="pagelens-settings-")
os.environ["XDG_CONFIG_HOME"] = _settings.name

# A shell's background jobs ignore Ctrl-C, and programs that they start inherit that; ours must not here.
signal.signal(signal.SIGINT, signal.default_int_handler)

Run = Callable[..., subprocess.CompletedProcess[str]]

LONGEST = (
    "test_lab",
    "test_zonesort",
    "test_fix",
    "test_study_slurm",
    "test_study_dask",
    "test_site_guest",
    "test_site_prolog",
    "test_reproduce_studies",
    "test_measured_machine",
    "test_io_measure",
    "test_rank_",
    "test_tracer",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files whose tests take longest come first: at the end no worker waits for another's guest."""
    items.sort(key=lambda item: not item.path.name.startswith(LONGEST))


@pytest.fixture(scope="session")
def pagelens_command() -> Path:
    """The installed `pagelens` command."""
    return Path(sys.executable).parent / "pagelens"


@pytest.fixture(scope="session")
def command_server() -> Iterator[CommandServer]:
    """Runs commands without starting Python for each of them."""
    server = CommandServer()
    yield server
    server.close()


@pytest.fixture
def pagelens(command_server: CommandServer, tmp_path: Path) -> Run:
    """Runs `pagelens` with the given arguments in the test's own folder, in a process of its own."""

    def run(*arguments: str | Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return command_server.run([*map(str, arguments)], tmp_path, {**os.environ, **(env or {})})

    return run


@pytest.fixture
def in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The same within this process: for what is refused at once, where starting Python takes longest."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        words = [*map(str, arguments)]
        monkeypatch.setattr(sys, "argv", ["pagelens", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capfd.readouterr()
        return subprocess.CompletedProcess(words, int(ended.value.code or 0), said.out, said.err)

    return run


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """Ends the room of each file after so many bytes, until the test ends."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="session")
def examples() -> Path:
    """The folder of the built programs of examples/ (each builds once, whatever the workers)."""
    out = ROOT / "build" / "examples"
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "-s", "-C", str(ROOT / "examples"), f"OUT={out}"], check=True)
    return out


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles a C program given as text; the same text is compiled once."""
    folder = tmp_path_factory.mktemp("programs")
    known: dict[tuple[str, ...], Path] = {}

    def compile_text(text: str, *flags: str) -> Path:
        program = known.get((text, *flags))
        if program is None:
            source = folder / f"program{len(known)}.c"
            source.write_text(text)
            program = known[text, *flags] = source.with_suffix("")
            subprocess.run(["gcc", "-O1", "-g", *flags, source, "-o", program, "-pthread"], check=True)
        return program

    return compile_text


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles a program of tests/programs once."""
    folder = tmp_path_factory.mktemp("built")

    def build(name: str, *flags: str, compiler: str = "gcc") -> Path:
        program = folder / "_".join([name, compiler, *flags]).replace("/", "_")
        if not program.exists():
            command = [compiler, "-O1", "-g", "-pthread", f"-I{ROOT / 'hooks'}"]
            source = ROOT / "tests/programs" / f"{name}.c"
            subprocess.run([*command, source, "-o", program, *flags], check=True)
        return program

    return build
