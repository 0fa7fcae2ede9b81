"""Random changes of a file's bytes, for the fuzzers of readers that are written in Python."""

import random
import re
from collections.abc import Callable, Sequence

Change = Callable[[bytes, int, int, int, random.Random], bytes]  # of data, a place, and a span's two ends


def mutate(data: bytes, draw: random.Random, most: int, tokens: Sequence[bytes], own: Change) -> bytes:
    """Return the data with one to `most` changes of bytes, tokens, spans, lines or numbers.

    One change in seven is the fuzzer's `own`.
    """
    for _ in range(draw.randint(1, most)):
        at, other = draw.randrange(len(data) + 1), draw.randrange(len(data) + 1)
        low, high = min(at, other), min(max(at, other), min(at, other) + draw.choice((1, 4, 40, 400)))
        match draw.randrange(7):
            case 0:
                data = data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
            case 1:
                data = data[:at] + draw.choice(tokens) + data[at:]
            case 2:
                data = data[:low] + data[high:]
            case 3:
                data = data[:at] + data[low:high] + data[at:]
            case 4:
                data = own(data, at, low, high, draw)
            case 5:
                lines = data.split(b"\n")
                first, second = draw.randrange(len(lines)), draw.randrange(len(lines))
                lines[first], lines[second] = lines[second], lines[first]
                data = b"\n".join(lines)
            case _:
                numbers = list(re.finditer(rb"[0-9]+", data))
                if numbers:
                    number = draw.choice(numbers)
                    data = data[: number.start()] + draw.choice(tokens) + data[number.end() :]
    return data
