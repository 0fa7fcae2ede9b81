"""Importers: another tool's text becomes the trace of its accesses, or an error of one line."""

import bz2
import gzip
import io
import lzma
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from machine_roles import CACHE_MODE

import pagelens as pl
from pagelens.accesses import importer_names, importers, text_lines
from pagelens.accesses.importer import BadLine

Run = Callable[..., subprocess.CompletedProcess[str]]

RECORDED = Path(__file__).parents[1] / "data" / "lackey.txt"  # two arrays of 32 KiB, every fourth line copied
DIN = b"2 401000\n0 10000\n2 401004 mov\n1\t0X7FFE8a8\r\n\n  0 10040 5\n2 401008\n"
SLOW = {
    "lackey": re.compile(rb"(?P<kind>I| [LSM]) {1,2}(?P<address>[0-9a-fA-F]{1,16}),(?P<size>[0-9]{1,9})"),
    "din": re.compile(rb"[ \t]*(?P<kind>[012])[ \t]+(0[xX])?(?P<address>[0-9a-fA-F]{1,16})([ \t].*)?"),
}
ADDRESSES = rb"(?P<address>0[xX][0-9a-fA-F]{1,16}|[0-9]{1,18})"
LINE = {  # of formats that count an instruction for each access, or state them
    "dramsim3": re.compile(
        rb"[ \t]*(0[xX])?(?P<address>[0-9a-fA-F]{1,16})[ \t]+"
        rb"(?P<kind>WRITE|write|P_MEM_WR|BOFF|READ|read|P_MEM_RD|P_FETCH)[ \t]+[0-9]{1,18}[ \t]*"
    ),
    "ramulator": re.compile(
        rb"[ \t]*(?:(?P<kind>LD|ST)|(?P<count>0[xX][0-9a-fA-F]{1,16}|[0-9]{1,18}))[ \t]+"
        + ADDRESSES
        + rb"(?(count)(?:[ \t]+(?P<back>0[xX][0-9a-fA-F]{1,16}|[0-9]{1,18}))?)[ \t]*"
    ),
    "gem5": re.compile(
        rb"(?:[0-9]{1,18},)?(?P<kind>[rwu]),(?P<address>[0-9]{1,18}),(?P<size>[0-9]{1,18})(?:,[0-9]{1,18}){1,3}"
    ),
    "perf-script": re.compile(
        rb"[ \t]*(?P<thread>[0-9]{1,9})[ \t]+(?P<kind>\S.*?):[ \t]+(?P<address>[0-9a-f]{1,16})"
        rb"([ \t]+[0-9a-f]{1,16})?[ \t]*"
    ),
}
STORES = {"dramsim3": (b"WRITE", b"write", b"P_MEM_WR", b"BOFF"), "ramulator": (b"ST",), "gem5": (b"w",)}
MOST = {"lackey": b"=-*", "din": b""}  # first characters of lines that say nothing of accesses


def accesses_of(form: str, text: bytes) -> Iterator[tuple[int, int, bool, int]]:
    """Slow and obvious: address, bytes, whether it stores, instructions. Raises BadLine."""
    lines = text.split(b"\n")
    if form in LINE:
        for number, line in enumerate(lines, 1):
            yield from accesses_of_line(form, number, line.removesuffix(b"\r"))
        return
    fetched = 0
    counts = form == "lackey" or any(line.split()[:1] == [b"2"] for line in lines[:-1])
    for number, line in enumerate(lines, 1):
        line = line.removesuffix(b"\r")
        skipped = not line.strip(b" \t") if form == "din" else not line or line[:1] in MOST[form]
        if skipped or (form == "lackey" and line.startswith(b"SB ")):
            continue
        match = SLOW[form].fullmatch(line)
        if match is None or (form == "lackey" and line[2:3] != b" ") or match.groupdict().get("size") == b"0":
            raise BadLine(number, line)
        kind, address = match["kind"].strip(), int(match["address"], 16)
        if kind in (b"I", b"2"):
            fetched += 1
            continue
        size = int(match["size"]) if form == "lackey" else 1
        if address >= (1 << 57) - (1 << 32):
            raise BadLine(number, line)
        yield address, size, kind in (b"S", b"1"), fetched if counts else 1
        if kind == b"M":
            yield address, size, True, 0
        fetched = 0
    yield 0, 0, False, fetched if counts else 0


def number_of(text: bytes) -> int:
    return int(text, 16) if text[:2] in (b"0x", b"0X") else int(text)


def accesses_of_line(form: str, number: int, line: bytes) -> Iterator[tuple[int, int, bool, int]]:
    """Slow and obvious: what one line of a format states."""
    if not (line if form == "gem5" else line.strip(b" \t")) or (form == "perf-script" and line[:1] == b"#"):
        return
    match = LINE[form].fullmatch(line)
    if match is None:
        raise BadLine(number, line)
    found = match.groupdict()
    is_decimal = form in ("gem5", "ramulator")
    address = number_of(found["address"]) if is_decimal else int(found["address"], 16)
    size = int(found.get("size") or 1)
    count = number_of(found["count"]) if found.get("count") else 0
    back = number_of(found["back"]) if found.get("back") else 0
    if form == "gem5" and found["kind"] == b"u":
        return
    if form == "perf-script" and (address == 0 or address >= 1 << 63):
        return
    if max(address, back) >= (1 << 57) - (1 << 32) or not 0 < size < 1 << 32 or count >= 1 << 31:
        raise BadLine(number, line)
    stores = found["kind"] in STORES.get(form, ()) or (form == "perf-script" and b"store" in found["kind"])
    yield address, size, stores, 1 + count
    if found.get("back"):
        yield back, 1, True, 0


def recorded_slowly(form: str, text: bytes, path: Path) -> bytes:
    """The trace's bytes, access by access."""
    producer = f"pagelens trace-import {form}"
    with pl.TraceRecorder(path, path.stem, producer=producer, pages_exist=form in LINE) as recorder:
        for address, size, store, instructions in accesses_of(form, text):
            if size:
                recorder.access(0, address, size, store, instructions)
            else:
                recorder.execute(0, instructions)
        if form == "perf-script":
            recorder.warn("its accesses are samples: pages are those seen, and caches cannot be counted")
    return path.read_bytes()


def imported(form: str, text: bytes, folder: Path) -> pl.Workload:
    (folder / "app.txt").write_bytes(text)
    return pl.import_trace(form, folder / "app.txt", folder / "app.trace", progress=False)


def test_what_lackey_wrote(tmp_path: Path) -> None:
    """Valgrind 3.19 counted 1286 instructions of this program."""
    workload = pl.import_trace("lackey", RECORDED, tmp_path / "copy.trace", program="copy")
    assert workload.trace.summary is not None
    assert (workload.trace.summary.instructions, workload.trace.summary.accesses) == (1286, 512)
    assert workload.survey.lines_fetched == 2 * 128
    assert workload.survey.lines_stored == 2 * 128
    assert workload.footprint_bytes == 64 << 10
    assert (workload.name, workload.warnings) == ("copy", [])
    assert [found.name for found in workload.objects if found.lines] == ["[unnamed memory]"]
    e = pl.simulate(workload, pl.machine(CACHE_MODE), ["random"], nodes=1, progress=False)
    assert "copy" in pl.explain(e)._repr_html_()


def test_what_din_means(tmp_path: Path) -> None:
    workload = imported("din", DIN, tmp_path)
    assert workload.trace.summary is not None
    assert (workload.trace.summary.instructions, workload.trace.summary.accesses) == (3, 3)
    assert (workload.survey.lines_fetched, workload.survey.lines_stored) == (3, 1)
    without_fetches = imported("din", b"0 10000\n1 20000\n", tmp_path).trace.summary
    assert without_fetches is not None
    assert without_fetches.instructions == 2


ADDRESS = st.integers(0, 1 << 16) | st.integers(0, (1 << 57) - (1 << 33))
LINES = {
    "lackey": st.one_of(
        st.builds(" {} {:08x},{}".format, st.sampled_from("LSM"), ADDRESS, st.integers(1, 200)),
        st.builds("I  {:08x},{}".format, ADDRESS, st.integers(1, 15)),
        st.sampled_from(["==12== Lackey", "SB 0040100e", "", "--12-- warning"]),
    ),
    "din": st.one_of(
        st.builds("{} {:x}".format, st.integers(0, 2), ADDRESS),
        st.builds(" {}\t0x{:X} more".format, st.integers(0, 2), ADDRESS),
        st.sampled_from(["", "  "]),
    ),
    "dramsim3": st.builds(
        "{}{:x}{}{}{}{}".format,
        st.sampled_from(["", " ", "0x", "\t0X"]),
        ADDRESS,
        st.sampled_from([" ", " \t "]),
        st.sampled_from(["READ", "WRITE", "write", "P_MEM_WR", "P_FETCH", "BOFF", "read", "P_MEM_RD"]),
        st.sampled_from([" ", "   "]),
        st.integers(0, 10**18 - 1),
    ),
    "ramulator": st.one_of(
        st.builds("{} {:#x}".format, st.sampled_from(["LD", "ST", " LD"]), ADDRESS),
        st.builds("{} {} ".format, st.integers(0, 40), ADDRESS),
        st.builds("{:#x} {:#x} {}".format, st.integers(0, 40), ADDRESS, ADDRESS),
        st.sampled_from(["", " "]),
    ),
    "gem5": st.builds(
        "{}{},{},{},{}".format,
        st.sampled_from(["", "12,"]),
        st.sampled_from("rwu"),
        ADDRESS,
        st.integers(1, 200),
        st.sampled_from(["7000", "256,7000", "256,7000,4198400"]),
    ),
    "perf-script": st.one_of(
        st.builds(
            "{}4711 {}:  {:x}{}".format,
            st.sampled_from(["", "   "]),
            st.sampled_from(["page-faults", "cpu/mem-loads,ldlat=30/P", "cpu/mem-stores/P"]),
            ADDRESS | st.integers(1 << 63, (1 << 64) - 1),
            st.sampled_from(["", "   1c0034110", "  0 "]),
        ),
        st.sampled_from(["# a comment", ""]),
    ),
}
BYTES = st.sampled_from([*b" ,\t\n\r0123fxILSM=-2:XWRDu\xff\0"])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("form", LINES)
@given(data=st.data())
def test_text_whole_cut_or_damaged_is_read_as_line_by_line(
    form: str, data: st.DataObject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The traces are equal to the byte, or both readers name the first line that is wrong."""
    lines = data.draw(st.lists(LINES[form], max_size=30))
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    text = bytearray("".join(line + end for line in lines).encode())
    for _ in range(data.draw(st.integers(0, 2)) if text else 0):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(BYTES)
    if data.draw(st.booleans()):
        del text[data.draw(st.integers(0, len(text))) :]
    whole, text = bytes(text), bytes(text)
    (tmp_path / "app.trace").unlink(missing_ok=True)  # of the example before
    samples = ["its accesses are samples: pages are those seen, and caches cannot be counted"]
    said = samples if form == "perf-script" else []

    monkeypatch.setattr(
        text_lines, "BATCH_BYTES", data.draw(st.integers(200, 400)) if form == "lackey" else 1 << 22
    )
    try:
        list(accesses_of(form, text))
        cut = None
    except BadLine as error:
        cut = error.line
        whole = text[: text.rfind(b"\n") + 1]
    unfinished = text.count(b"\n") + 1 if not text.endswith(b"\n") else None
    if cut is not None and cut != unfinished:
        with pytest.raises(pl.Failure, match=rf"app.txt: line {cut}: cannot read '.*'; ") as refused:
            imported(form, text, tmp_path)
        assert "\n" not in str(refused.value)
        assert not (tmp_path / "app.trace").exists()
    elif not any(size for _, size, *_ in accesses_of(form, whole)):
        with pytest.raises(pl.Failure, match="holds no accesses"):
            imported(form, text, tmp_path)
    else:
        workload = imported(form, text, tmp_path)
        if cut is None:
            slow = tmp_path / "slow"
            slow.mkdir(exist_ok=True)
            expected = recorded_slowly(form, whole, slow / "app.trace")
            if workload.threads == 1:  # a damaged sample of perf can be of another thread
                assert (tmp_path / "app.trace").read_bytes() == expected
            assert workload.warnings == said
        else:
            cut_short = f"{tmp_path}/app.txt: line {cut} is cut short; imported up to there"
            assert workload.warnings == [*said, cut_short]
            assert workload.trace.summary is not None
            expected = sum(1 for _, size, *_ in accesses_of(form, whole) if size)
            assert workload.trace.summary.accesses == expected


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": lambda text: pyarrow.compress(text, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_compressed_files(suffix: str, tmp_path: Path) -> None:
    """Found by their first bytes, not by their names; cut, they are read up to there."""
    text = b"".join(b" L %08x,4\n" % (0x1000000 + at * 977 % 999_983) for at in range(200_000))
    (tmp_path / "plain").write_bytes(text)
    pl.import_trace("lackey", tmp_path / "plain", tmp_path / "plain.trace", program="app")
    packed = COMPRESSED[suffix](text)
    (tmp_path / "packed").write_bytes(packed)
    pl.import_trace("lackey", tmp_path / "packed", tmp_path / "packed.trace", program="app")
    assert (tmp_path / "packed.trace").read_bytes() == (tmp_path / "plain.trace").read_bytes()

    (tmp_path / "packed").write_bytes(packed[: len(packed) // 2])
    if suffix == "bz2":  # of one block: nothing is left of half of it
        return
    workload = pl.import_trace("lackey", tmp_path / "packed", tmp_path / "cut.trace", program="app")
    assert (
        workload.warnings[-1] == f"{tmp_path}/packed: its compressed data end too early; imported up to there"
    )
    assert workload.trace.summary is not None
    assert 0 < workload.trace.summary.accesses < 200_000


@pytest.mark.parametrize("suffix", ["gz", "xz", "bz2"])
def test_damaged_compressed_files(suffix: str, tmp_path: Path) -> None:
    packed = bytearray(COMPRESSED[suffix](RECORDED.read_bytes()))
    packed[len(packed) // 2 :] = b"damaged!" * 20
    (tmp_path / "app.packed").write_bytes(packed)
    with pytest.raises(
        pl.Failure, match=r"cannot be read \(.*\); check the file|line \d+: cannot|end too early"
    ):
        pl.import_trace("lackey", tmp_path / "app.packed", tmp_path / "app.trace")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app.packed"]


def test_a_line_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "BATCH_BYTES", 100)
    with pytest.raises(pl.Failure, match=r"line 2: cannot read '0{40}\.\.\.'; the line has no end"):
        imported("din", b"0 10\n" + b"0" * 1_000_000 + b"\n", tmp_path)


def test_an_importer_is_a_file_that_is_found_by_its_name() -> None:
    names = importers.importer_names()
    assert names == sorted(
        path.stem.replace("_", "-") for path in Path(importers.__file__).parent.glob("[!_]*.py")
    )
    for name in names:
        assert importers.find_importer(name).name == name
    with pytest.raises(pl.UsageError, match="format: there is no 'lacky'; did you mean lackey"):
        importers.find_importer("lacky")


def test_ctrl_c_leaves_no_trace(tmp_path: Path) -> None:
    def read(stream: io.BufferedIOBase, recorder: pl.TraceRecorder) -> None:
        recorder.access(0, [64])
        raise KeyboardInterrupt

    stopped = importers.Importer("stopped", "stops", read)
    with pytest.raises(pl.Interrupted, match="no trace was written"):
        pl.import_trace(stopped, RECORDED, tmp_path / "app.trace")
    assert list(tmp_path.iterdir()) == []


def test_the_command(pagelens: Run, pagelens_command: Path, tmp_path: Path) -> None:
    done = pagelens("trace-import", "lackey", RECORDED, "-o", "app.trace")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "pagelens: wrote app.trace: 512 accesses of 1.29 k instructions, 65.5 kB resident\n"
    piped = subprocess.run(
        [pagelens_command, "trace-import", "din", "-", "-o", "din.trace", "--program", "app"],
        cwd=tmp_path,
        input=DIN + b"0 ",
        capture_output=True,
        check=True,
    )
    assert piped.stderr.decode().splitlines() == [
        "pagelens: warning: standard input: line 8 is cut short; imported up to there",
        "pagelens: wrote din.trace: 3 accesses of 3 instructions, 4.1 kB resident",
    ]
    assert pagelens("trace-info", "din.trace").stdout.split()[:2] == ["program", "app"]


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (
            ["din", RECORDED, "-o", "x.trace"],
            1,
            "lackey.txt: line 1: cannot read '==9650== Lackey, an example",
        ),
        (["lacky", RECORDED, "-o", "x.trace"], 2, "format: there is no 'lacky'; did you mean lackey"),
        (["lackey", "missing.txt", "-o", "x.trace"], 1, "missing.txt: cannot be read (No such file"),
        (["lackey", ".", "-o", "x.trace"], 1, ".: cannot be read (Is a directory)"),
        (["lackey", "/dev/null", "-o", "x.trace"], 1, "/dev/null: it holds no accesses of the format lackey"),
        (["lackey", RECORDED, "-o", "no/x.trace"], 1, "cannot write no/x.trace (No such file or directory)"),
        (["lackey", RECORDED], 2, "Missing option '--output'"),
    ],
)
def test_what_the_command_refuses(
    arguments: list[str], status: int, says: str, in_process: Run, tmp_path: Path
) -> None:
    done = in_process("trace-import", *arguments)
    assert (done.returncode, done.stdout) == (status, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("pagelens: ")
    assert says in line
    assert list(tmp_path.iterdir()) == []


def test_the_reference_has_an_item_for_each_format() -> None:
    reference = (Path(__file__).parents[2] / "docs/cli.md").read_text()
    missing = [name for name in importer_names() if f"\n* `{name}`: " not in reference]
    assert not missing
