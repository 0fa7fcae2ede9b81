"""Runs Linux in an emulated guest: boots a kernel, runs programs in it, and leaves nothing behind.

    with Guest(kernel="6.1", memory="2GiB", files={"/lab/module.ko": path}) as guest:
        done = guest.run("insmod", "/lab/module.ko")
        print(done.status, done.output, guest.console)

The guest's root is an initramfs with busybox. The agent (tracer/guest/agent.c) is its init, and takes
requests on the second serial port. The first serial port is the console.
"""

from __future__ import annotations

import ctypes
import select
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from pagelens.errors import Failure, UsageError
from pagelens.host.commands import Finished
from pagelens.host.native_files import native_file
from pagelens.interrupts import ctrl_c_waits
from pagelens.lab.emulator import Disk, Hardware, NumaSpeed, find_qemu
from pagelens.lab.initramfs import Content, Initramfs, base_initramfs
from pagelens.lab.kernels import DEFAULT_KERNEL, Kernel, find_kernel
from pagelens.lab.watch import Watch
from pagelens.units import parse_size

LIMIT_S = 3600.0  # for one command, a program that never ends say; in processor time of the emulator

_CONSOLE_LINES = 12  # shown with an error
_REQUEST_BYTES = 4096  # REQUEST_BYTES of tracer/guest/agent.c
_APPEND_BYTES = 1024  # no more than a serial driver buffers
_MOST_ARCHIVE = 0.4  # of guest memory: the archive and the files unpacked from it are there at once
_PR_SET_PDEATHSIG = 1  # prctl(2)
_prctl = ctypes.CDLL(None).prctl  # found before a fork: other threads may hold the loader's lock then
# The tests of the kernel's own cryptography would take an eighth of a boot. That of the timer fails, and
# stops the kernel, if the computer is so busy that QEMU's ticks come late.
_KERNEL_OPTIONS = (
    "console=ttyS0 panic=-1 oops=panic loglevel=5 mitigations=off nokaslr cryptomgr.notests no_timer_check"
)


class GuestFailure(Failure):
    """The guest is of no use any more. The message ends with the console's last lines."""


class Guest:
    """A running guest. Use it in a `with` statement.

    `files` are put into the guest's root by their absolute names: bytes, text, or a file of this machine. An
    Initramfs is taken with everything in it. `append` is added to the kernel's command line, and `plugin` is
    QEMU's option of that name. The firmware states `described_cache`, the bytes of the memory-side cache in
    front of each node, `speeds`, the speed of each node's memory, and `distances` from node to node. `fast`
    bytes of the memory are in a last node without processors, which the firmware calls the fastest. The guest
    can read the folder `share` of this machine: it is a 9p file system with the tag "share", which needs
    modules of the kernel's package, as `disk` does. A command may take `limit_s` of the emulator's processor
    time. Raises UsageError, or GuestFailure with the console's last lines if the guest does not come up.
    """

    def __init__(
        self,
        kernel: str | Kernel = DEFAULT_KERNEL,
        memory: str | int = "1GiB",
        files: Mapping[str, Content] | Initramfs | None = None,
        append: str = "",
        nodes: int = 1,
        cpus: int = 1,
        described_cache: int = 0,
        fast: int = 0,
        speeds: Sequence[NumaSpeed] = (),
        distances: Sequence[Sequence[int]] = (),
        plugin: str | None = None,
        share: Path | None = None,
        disk: Disk | None = None,
        watch: Callable[[int], Watch] = Watch,
        limit_s: float = LIMIT_S,
    ) -> None:
        self.kernel = kernel if isinstance(kernel, Kernel) else find_kernel(kernel)
        self.memory_bytes = parse_size(memory, "--memory") if isinstance(memory, str) else memory
        self.release = ""  # as the running kernel says it
        self._hardware = Hardware(self.memory_bytes, nodes, cpus, described_cache, fast, speeds, distances)
        self._append = append
        self._plugin = plugin
        self._share = share
        self._disk = disk
        self._watch_by_pid = watch
        self._limit_s = limit_s
        self._killed = False
        agent = native_file("pagelens_agent")
        if isinstance(files, Initramfs):
            self._root = base_initramfs(agent, {})
            self._root.files.update(files.files)
        else:
            self._root = base_initramfs(agent, files or {})
        if self._root.size > _MOST_ARCHIVE * self.memory_bytes:
            need = int(self._root.size / _MOST_ARCHIVE) >> 20
            raise UsageError(
                f"--memory {self.memory_bytes >> 20}MiB: the program with its files is "
                f"{self._root.size >> 20} MiB and does not fit; the guest needs at least {need + 1}MiB"
            )

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="pagelens-lab-")
        try:
            self._start(Path(self._folder.name))
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def kill(self) -> None:
        """End the emulator, now or when it starts.

        Another thread that uses the guest gets GuestFailure.
        """
        self._killed = True
        if hasattr(self, "_process"):
            self._process.kill()

    def close(self) -> None:
        """End the emulator, whatever the guest does."""
        self.kill()
        if hasattr(self, "_process"):
            self._process.wait()
            self._port.close()
        self._folder.cleanup()

    @property
    def pid(self) -> int:
        """The emulator's process id."""
        return self._process.pid

    @property
    def console(self) -> str:
        """All that the kernel has written so far."""
        return self._console.read_bytes().decode(errors="replace").replace("\r", "")

    def run(
        self, program: str, *arguments: str, on_output: Callable[[bytes], None] | None = None
    ) -> Finished:
        """Run a program of the guest to its end. `on_output`, if given, gets the output as it comes."""
        payload = b"".join(word.encode() + b"\0" for word in (program, *arguments))
        if len(payload) > _REQUEST_BYTES:
            raise UsageError(f"{program}: its arguments are longer than {_REQUEST_BYTES} bytes; use a file")
        self._send(b"run %d\n" % len(payload) + payload)
        output = bytearray()
        status = self._answer(on_output or output.extend)
        return Finished(status, output.decode(errors="replace"))

    def shell(self, script: str) -> Finished:
        """Run a line of busybox's shell."""
        return self.run("sh", "-c", script)

    def put(self, name: str, content: bytes) -> None:
        """Write a file in the guest. Large files are better given as `files`."""
        self.run("rm", "-f", name).checked()
        for start in range(0, max(len(content), 1), _APPEND_BYTES):
            part = content[start : start + _APPEND_BYTES]
            self._send(b"append %d %s\n" % (len(part), name.encode()) + part)
            if error := self._answer(lambda _: None):
                raise Failure(f"cannot write {name} in the guest: error {error}")

    def get(self, name: str) -> bytes:
        """Return the content of a file in the guest."""
        content = bytearray()
        if self.run("cat", name, on_output=content.extend).status != 0:
            raise Failure(f"cannot read {name} in the guest: {content.decode(errors='replace').strip()}")
        return bytes(content)

    def _start(self, folder: Path) -> None:
        archive = folder / "initramfs"
        archive.write_bytes(self._root.archive())
        self._console = folder / "console"
        self._console.touch()
        self._port, theirs = socket.socketpair()
        self._buffer = bytearray()
        words = [
            str(find_qemu()),
            *("-accel", "tcg,thread=single"),  # one thread: caches need no locks, runs repeat better
            *("-seed", "1"),  # what the guest's kernel takes for random
            *self._hardware.options(),
            *("-kernel", str(self.kernel.decompressed or self.kernel.image), "-initrd", str(archive)),
            *("-append", f"{_KERNEL_OPTIONS} {self._append}".strip()),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-chardev", f"file,id=console,path={self._console}", "-serial", "chardev:console"),
            *("-chardev", f"socket,id=agent,fd={theirs.fileno()}", "-serial", "chardev:agent"),
            *(_share_options(self._share) if self._share else ()),
            *(self._disk.options() if self._disk else ()),
            *(("-plugin", self._plugin) if self._plugin else ()),
        ]
        with theirs, (folder / "emulator").open("wb") as messages, ctrl_c_waits():
            self._messages = folder / "emulator"
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is ours to handle
                preexec_fn=_die_with_parent,
            )
        if self._killed:
            self._process.kill()
        self._watch = self._watch_by_pid(self._process.pid)
        self._console_size = 0

    def _wait_until_ready(self) -> None:
        # This happens once, while the guest boots: only then is the console the only sign of life.
        word, _, self.release = self._line().partition(" ")
        if word != "ready":
            raise self._failure(f"the guest's agent said '{word}' instead of 'ready'")

    def _send(self, data: bytes) -> None:
        try:
            self._port.sendall(data)
        except OSError:
            raise self._ended() from None

    def _answer(self, on_output: Callable[[bytes], None]) -> int:
        end = self._watch.cpu_s() + self._limit_s
        while True:
            word, _, rest = self._line().partition(" ")
            if self._watch.cpu_s() > end and word != "end":
                took = f"a command in the guest took more than {self._limit_s:g} s of processor time"
                raise self._failure(f"{took}; raise --limit")
            if word == "out":
                on_output(self._take(int(rest)))
            elif word == "end":
                how, number = rest.split()
                return int(number) if how == "exit" else -int(number)
            elif word != "beat":
                raise self._failure(f"the guest's agent said '{word} {rest}'")

    def _line(self) -> str:
        while b"\n" not in self._buffer:
            self._receive()
        end = self._buffer.index(b"\n")
        return self._take(end + 1)[:-1].decode(errors="replace")

    def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._receive()
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def _receive(self) -> None:
        while not select.select([self._port], [], [], 1.0)[0]:
            if self._process.poll() is not None:
                raise self._ended()
            if (size := self._console.stat().st_size) != self._console_size:
                self._console_size = size
                self._watch.heard()
            if reason := self._watch.look():
                raise self._failure(f"the guest hangs: {reason}")
        data = self._port.recv(1 << 16)
        if not data:
            raise self._ended()
        self._watch.heard()
        self._buffer += data

    def _ended(self) -> GuestFailure:
        """Return the failure for an emulator that is gone, or about to be."""
        try:
            status = self._process.wait(10)
        except subprocess.TimeoutExpired:
            return self._failure("the emulator closed the guest's serial port")
        panics = [line for line in self.console.splitlines() if "Kernel panic" in line or "BUG:" in line]
        if panics:
            what = panics[-1].partition("] ")[2] or panics[-1]
            return self._failure(f"the guest's kernel stopped: {what.strip()}")
        if messages := self._messages.read_text(errors="replace").strip():
            return self._failure(
                f"qemu-system-x86_64 ended with status {status}: {messages.splitlines()[-1]}"
            )
        return self._failure(f"the guest ended, the emulator with status {status}")

    def _failure(self, message: str) -> GuestFailure:
        lines = [line for line in self.console.splitlines() if line.strip()][-_CONSOLE_LINES:]
        if not lines:
            return GuestFailure(f"{message}; its console is empty (is {self.kernel.image} for x86-64?)")
        return GuestFailure("\n  ".join([f"{message}; its console's last lines:", *lines]))


def _share_options(folder: Path) -> list[str]:
    path = str(folder.resolve()).replace(",", ",,")  # as QEMU's options have a comma
    backend = f"local,id=share,path={path},security_model=none,readonly=on,multidevs=remap"
    return ["-fsdev", backend, "-device", "virtio-9p-pci,fsdev=share,mount_tag=share"]


def _die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
