"""Mutational fuzzing of the readers of recordings, raw logs, and logs of strace and fio.

Any bytes give a recording that can be described, or one line of error. Darshan's logs are read by a C library
in a process of its own, so they are not here.
"""

import random
import struct
from collections.abc import Callable, Iterator
from io import BytesIO

import polars as pl
import pyarrow.parquet as pq
from mutations import mutate

from pagelens.errors import UsageError
from pagelens.io.importers.builder import RecordingBuilder
from pagelens.io.importers.fio import read_fio
from pagelens.io.importers.strace import read_strace
from pagelens.io.kinds import KINDS
from pagelens.io.raw_log import parse_raw_log
from pagelens.io.recording import COLUMNS, Header, Recording, parse_recording
from pagelens.io.resolve import resolve

_STRACE = b"""7 1.5 openat(AT_FDCWD, "a", O_RDWR|O_CREAT|O_TRUNC, 0600) = 3</a> <0.000012>
7 1.6 write(3</a>, ""..., 4096) = 4096 <0.000010>
8 1.7 pread64(3</a>, ""..., 4096, 512 <unfinished ...>
7 1.8 lseek(3</a>, 100, SEEK_SET) = 100 <0.000001>
8 1.9 <... pread64 resumed>) = 4096 <0.2>
7 2.0 readv(3</a>, [{iov_base=""..., iov_len=8}], 1) = 8 <0.000001>
7 2.1 fcntl(3</a>, F_SETFL, O_RDONLY|O_DIRECT) = 0 <0.000001>
7 2.2 dup2(3</a>, 5) = 5</a> <0.000001>
7 2.3 fadvise64(3</a>, 0, 0, POSIX_FADV_DONTNEED) = 0 <0.000001>
7 2.4 fallocate(3</a>, 0, 0, 100) = 0 <0.000001>
7 2.5 sendfile(5</a>, 3</a>, [0] => [8], 8) = 8 <0.000001>
7 2.6 fsync(5</a>) = -1 EIO (Input/output error) <0.000001>
[pid 9] 12:00:01.5 close(5</a>) = 0 <0.000001>
"""
_FIO = b"""fio version 2 iolog
/a add
/a open
/a write 0 4096
/a sync 0 0
/a read 8192 100
/a close
"""


def _raw_log() -> bytes:
    """Return one chunk of a raw log: a process, a file, and operations on it."""

    def record(kind: int, *fields: int) -> bytes:
        start, wall, cpu, offset, size, result, address, descriptor, flags, buffers, texts = fields
        return struct.pack(
            "<HHIQQQqQqQiIII", kind, 0, 7, start, wall, cpu, offset, size, result, address, descriptor, flags,
            buffers, texts,
        )  # fmt: skip

    records = [
        record(1, 10, 5, 5, 1, 0, -1, 0, 0, 0, 0, 1),
        struct.pack("<HHI72s", 4, 0, 7, b"/bin/app"),
        record(5, 20, 5, 5, -1, 0, 3, 0, 3, 66, 1, 0),
        record(3, 26, 9, 0xEF53, 0, 100, 55, 1, 3, 66, 0o100600, 1),
        struct.pack("<HHI72s", 4, 0, 7, b"/tmp/a"),
        *(record(kind, 30 + kind, 3, 2, -1, 4096, 4096, 1 << 40, 3, 0, 1, 0) for kind in range(6, 22)),
        record(2, 90, 5, 5, 1, 0, -1, 0, 0, 0, 0, 0),
    ]
    body = b"".join(records)
    return struct.pack("<8sIIQQ48x", b"PLIOLOG", 1, 7, 80 + len(body), 0) + body


def _recording() -> bytes:
    builder = RecordingBuilder(Header(source="fio", command=["app"]), ["cpu_ns"])
    for number, kind in enumerate(KINDS):
        builder.add(kind, file=builder.file("/a"), start_ns=number, size=4096, result=4096, offset=0)
    recording = builder.build()
    table = recording.operations.select(*COLUMNS).to_arrow()
    header = {b"pagelens.io": recording.header.model_dump_json().encode()}
    content = BytesIO()
    # Compressed pages have checksums, which would refuse nearly all that is changed.
    pq.write_table(table.cast(table.schema.with_metadata(header)), content, compression="none")
    return content.getvalue()


def _read_raw(data: bytes) -> Recording | None:
    log = parse_raw_log(data)
    return None if log is None else resolve([log], Header(source="recorder"))


def _parse_raw(data: bytes) -> None:
    """Read the bytes alone, which takes a hundredth of the time."""
    parse_raw_log(data)


TARGETS: dict[str, tuple[tuple[bytes, ...], Callable[[bytes], Recording | None]]] = {
    "strace": ((_STRACE,), lambda data: read_strace(BytesIO(data), Header(source="strace"))),
    "fio": ((_FIO, _FIO.replace(b"version 2", b"version 3").replace(b"\n/a", b"\n17 /a")),
            lambda data: read_fio(BytesIO(data), Header(source="fio"))),
    "raw-bytes": ((_raw_log(), _raw_log() * 2), _parse_raw),
    "raw": ((_raw_log(), _raw_log() * 2), _read_raw),
    "recording": ((_recording(),), lambda data: parse_recording(data, "fuzz.plio")),
}  # fmt: skip
_TOKENS = tuple(
    token.encode()
    for token in (
        *"<>()[]{},\"=\n\t\0 -.|/", "9" * 10, "9" * 19, "9" * 25, "-1", "0x7fffffffffffffff", "0",
        "4294967296", "1e9", "nan", "inf", "99:99:99", " resumed>", "<unfinished ...>", "= ?", "pipe:[5]",
        "pwritev2(", "copy_file_range(", "null", "true", '"version":2', '"size":-1', "\x7f", "µ",
    )
)  # fmt: skip
_NUMBERS = tuple(struct.pack("<Q", n) for n in (0, 1, 1 << 31, 1 << 32, 1 << 62, 1 << 63, (1 << 64) - 1))


def _number(data: bytes, at: int, low: int, high: int, draw: random.Random) -> bytes:
    """Put a number into a word of eight bytes, as raw logs have them."""
    return data[: at & ~7] + draw.choice(_NUMBERS) + data[(at & ~7) + 8 :]


def inputs(target: str, seed: int, count: int) -> Iterator[bytes]:
    """Yield `count` inputs that the seed decides. Now and then a mutant is mutated further."""
    draw = random.Random(f"{target}-{seed}")
    seeds = TARGETS[target][0]
    data = seeds[0]
    for _ in range(count):
        if draw.random() < 0.4 or len(data) > 20_000:
            data = draw.choice(seeds)
        data = mutate(data, draw, 6, _TOKENS, _number)
        yield data


def check(target: str, data: bytes) -> bool:
    """Return whether the bytes are a recording. Raises AssertionError if others get no one-line error."""
    try:
        recording = TARGETS[target][1](data)
    except UsageError as error:
        text = str(error)
        assert "\n" not in text, repr(text)
        assert len(text) < 1000, text
        return False
    if recording is None:
        return False
    assert recording.operations.schema == pl.Schema(COLUMNS)
    return True


def run(target: str, seed: int, count: int) -> int:
    """Check `count` inputs, and return how many were recordings. A failure names its input."""
    accepted = 0
    for data in inputs(target, seed, count):
        try:
            accepted += check(target, data)
        except BaseException as error:
            raise AssertionError(f"{type(error).__name__}: {error}; input {data!r}") from error
    return accepted
