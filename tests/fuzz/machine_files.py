"""Mutational fuzzing of the readers of machine files and address hashes.

Any bytes give what the file states, or one line of error.
"""

import random
from collections.abc import Iterator
from pathlib import Path

from mutations import mutate

from pagelens.address.hashes import list_hashes, parse_hash
from pagelens.errors import UsageError
from pagelens.machine import list_machines, parse_machine
from pagelens.machine.reader import list_parts
from pagelens.machine.tlb_files import parse_tlb

WHOLE = Path(__file__).parents[1] / "data" / "machines"  # files with every section in them
FILES = (
    *list_machines().values(),
    *list_parts().values(),
    *list_hashes().values(),
    *sorted(WHOLE.glob("*.toml")),
)
SEEDS = tuple(path.read_bytes() for path in FILES)
TOKENS = tuple(
    token.encode()
    for token in (
        *"[]{}=\",.#\n\t\0'+-_:",
        "[[", "]]", '"""', "'''", "\\u0000", "\\n", "\\", "=\n", "value", "source", "assumed", "input",
        "true", "inf", "nan", "-nan", "1e999", "-1", "0", "0x7fffffffffffffffffff", "1979-05-27T07:32:00Z",
        "9" * 26, "16 GiB", "0 B", "-1 B", "1e400 GiB", "0.000001 ns", "90 GB/s", "µ",
        "base = ", '"fuzz.toml"', '"family/knl"', '"hybrid"', '"a\\nb" = 1\n',
    )
)  # fmt: skip


def _span_of_another(data: bytes, at: int, low: int, high: int, draw: random.Random) -> bytes:
    """Put a span of another file in the place of one."""
    source = draw.choice(SEEDS)
    begin = draw.randrange(len(source))
    return data[:low] + source[begin : begin + draw.choice((4, 40, 400))] + data[high:]


def inputs(seed: int, count: int) -> Iterator[bytes]:
    """`count` inputs determined by the seed; now and then a mutant is mutated further."""
    draw = random.Random(seed)
    data = draw.choice(SEEDS)
    for _ in range(count):
        if draw.random() < 0.3 or len(data) > 20_000:
            data = draw.choice(SEEDS)
        data = mutate(data, draw, 8, TOKENS, _span_of_another)
        yield data


def check(data: bytes) -> bool:
    """True if the bytes are a machine, a hash or a TLB; AssertionError unless refused by a one-line error."""
    accepted = False
    for parse in (parse_machine, parse_hash, parse_tlb):
        try:
            parse(data, "fuzz.toml")
        except UsageError as error:
            text = str(error)
            assert text.startswith("fuzz.toml"), text
            assert "\n" not in text, repr(text)
            assert len(text) < 1000, text
        else:
            accepted = True
    return accepted


def run(seed: int, count: int) -> int:
    """Checks `count` inputs; how many stated something. A failure names its input."""
    accepted = 0
    for data in inputs(seed, count):
        try:
            accepted += check(data)
        except BaseException as error:
            raise AssertionError(f"{type(error).__name__}: {error}; input {data!r}") from error
    return accepted
