"""Systems that refuse something: what still works, and the one line that says what is missing.

Namespaces and seccomp play these systems.
"""

import ctypes
import os
import resource
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pagelens import _core
from pagelens.accesses.dynamorio import has_dynamorio

PACKAGE = Path(_core.__file__).parent
ENGINES = [
    "qemu",
    pytest.param("dynamorio", marks=pytest.mark.skipif(not has_dynamorio(), reason="no DynamoRIO")),
]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_SET_MDWE = 38, 22, 65  # linux/prctl.h
SECCOMP_MODE_FILTER = 2
PTRACE, PERSONALITY, PERF_EVENT_OPEN, BPF, PROCESS_VM_READV = 101, 135, 298, 321, 310  # of x86-64


def refuse(*calls: int) -> None:
    """Have the kernel answer these system calls of this process and its children with EPERM."""
    load_number, is_equal, answer = (
        0x20,
        0x15,
        0x06,
    )  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
    program = [(load_number, 0, 0, 0)]
    for call in calls:
        program += [(is_equal, 0, 1, call), (answer, 0, 0, 0x0005_0001)]  # SECCOMP_RET_ERRNO
    program.append((answer, 0, 0, 0x7FFF_0000))  # SECCOMP_RET_ALLOW
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    described = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, described, 0, 0) == 0


def deny_written_code() -> None:
    """Do what SELinux's deny_execmem and systemd's MemoryDenyWriteExecute do."""
    if ctypes.CDLL(None).prctl(PR_SET_MDWE, 1, 0, 0, 0) != 0:
        os._exit(77)


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


@pytest.fixture
def trace(pagelens_command: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Trace a program that says hello. `before` is called in the process first; `mounts` are made for it."""

    def run(
        engine: str, before: Callable[[], None] | None = None, mounts: str = ""
    ) -> subprocess.CompletedProcess[str]:
        command = [str(pagelens_command), "trace", "--engine", engine, "--", "/bin/echo", "hello"]
        if mounts:
            command = ["unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh", *command]
        return subprocess.run(
            command, cwd=tmp_path, preexec_fn=before, capture_output=True, text=True, check=False, timeout=120
        )

    return run


Trace = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_container_without_ptrace_and_perf(trace: Trace, engine: str) -> None:
    """Its seccomp filter often also refuses personality(), by which addresses stay the same."""
    done = trace(engine, lambda: refuse(PTRACE, PERSONALITY, PERF_EVENT_OPEN, BPF, PROCESS_VM_READV))
    assert (done.stdout, done.stderr, done.returncode) == ("hello\n", "", 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_system_that_executes_no_written_code(trace: Trace, engine: str) -> None:
    done = trace(engine, deny_written_code)
    if done.returncode == 77:
        pytest.skip("the kernel is older than 6.3")
    assert (done.stdout, done.returncode, done.stderr.count("\n")) == ("", 1, 1)
    assert "lets no program execute what it has written" in done.stderr
    assert "deny_execmem off" in done.stderr


def test_too_few_addresses_are_named(trace: Trace) -> None:
    done = trace("dynamorio" if has_dynamorio() else "qemu", limit_memory)
    if done.returncode == 0:
        pytest.skip("the engine does with these")
    assert done.stderr.endswith(
        "ulimit -v is 2097152, and an engine needs more addresses: ulimit -v unlimited\n"
    )


@needs_root
@pytest.mark.parametrize("engine", ENGINES)
def test_a_folder_without_proc(trace: Trace, engine: str) -> None:
    done = trace(engine, mounts="umount -l /proc")
    assert (done.stdout, done.returncode, done.stderr.count("\n")) == ("", 1, 1)
    assert "/proc is not mounted" in done.stderr


@needs_root
def test_a_home_from_which_nothing_is_executed(trace: Trace) -> None:
    """pagelens itself is there: its compiled module cannot be loaded."""
    noexec = f"mount --bind {PACKAGE} {PACKAGE} && mount -o remount,bind,noexec {PACKAGE}"
    done = trace("qemu", mounts=noexec)
    assert (done.stdout, done.returncode, done.stderr.count("\n")) == ("", 1, 1)
    assert "mounted noexec; install pagelens into a folder elsewhere" in done.stderr


@needs_root
@pytest.mark.skipif(not has_dynamorio(), reason="no DynamoRIO")
def test_libraries_that_may_not_be_executed(trace: Trace) -> None:
    libraries = PACKAGE / "lib"
    done = trace(
        "dynamorio",
        mounts=f"mount --bind {libraries} {libraries} && mount -o remount,bind,noexec {libraries}",
    )
    assert (done.stdout, done.returncode, done.stderr.count("\n")) == ("", 1, 1)
    assert "libdynamorio.so may not be executed" in done.stderr


@needs_root
def test_temporary_files_may_lie_where_nothing_is_executed(trace: Trace, tmp_path: Path) -> None:
    engine = "dynamorio" if has_dynamorio() else "qemu"
    done = trace(
        engine, mounts=f"mount -t tmpfs -o noexec tmpfs {tmp_path} && cd {tmp_path} && export TMPDIR=$PWD"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("hello\n", "", 0)
