"""Runs the `pagelens` command in copies of a process that has imported it already.

Many tests run a command, and each start of Python with all imports takes longer than most commands. A copy
is a process of its own, with its own arguments, environment, folder and output, so a test cannot tell the
difference. Tests of the start itself, of signals, or of what is imported start the installed command.

The server takes one request at a time: a message with the arguments, the environment and the folder, and the
files that become standard output and standard error. It answers with the exit status.
"""

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path

LARGEST_REQUEST = 1 << 17  # bytes, far above what a command line and an environment take
HANGS_S = 300  # a guard against hangs, far above what any command takes
IMPORTED_LATER = (
    "jinja2",
    "matplotlib.figure",
    "pandas",
    "polars",
    "pyarrow.parquet",
    "rich.progress",
    "scipy.optimize",
    "scipy.stats",
)


class CommandServer:
    """The server and the connection to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        self._socket.settimeout(HANGS_S)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()

    def run(
        self, words: list[str], folder: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run `pagelens` with these arguments in a folder, and return what it printed and its exit status."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            request = json.dumps([words, str(folder), dict(environment)]).encode()
            socket.send_fds(self._socket, [request], [out.fileno(), err.fileno()])
            try:
                status = int(self._socket.recv(16))
            except TimeoutError:
                self.close()
                raise subprocess.TimeoutExpired(words, HANGS_S) from None
            printed = []
            for file in (out, err):
                file.seek(0)
                printed.append(file.read().decode())
        return subprocess.CompletedProcess(words, status, *printed)

    def close(self) -> None:
        """End the server and what it still runs."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._socket.close()


def _serve(requests: socket.socket) -> None:
    _import_all()
    while True:
        message, files, _, _ = socket.recv_fds(requests, LARGEST_REQUEST, 2)
        if not message:
            return
        child = os.fork()
        if child == 0:
            requests.close()
            _become(*json.loads(message), files)
        for file in files:
            os.close(file)
        _, status = os.waitpid(child, 0)
        requests.send(str(os.waitstatus_to_exitcode(status)).encode())


def _import_all() -> None:
    """Import every command, and what commands import only when they need it."""
    import importlib

    from pagelens.cli.main import find_commands

    for name in find_commands():
        importlib.import_module(f"pagelens.cli.commands.{name.replace('-', '_')}")
    for name in IMPORTED_LATER:
        importlib.import_module(name)
    gc.freeze()  # copies need not look through what is imported here


def _become(words: list[str], folder: str, environment: dict[str, str], files: list[int]) -> None:
    for file, number in zip(files, (1, 2), strict=True):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Polars has installed a handler of its own
    sys.argv = ["pagelens", *words]
    from pagelens.__main__ import main

    try:
        main()
    except SystemExit as ended:
        status = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)  # the interpreter would take half a second to take down all that is imported


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
