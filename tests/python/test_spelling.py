"""Words of a suggested command reach the program as they were, whatever bytes a file's name has."""

import os
import subprocess

import pytest

from pagelens.spelling import typed


@pytest.mark.parametrize(
    "name",
    [
        b"plain.trace",
        b"a b",
        "caf\u00e9".encode(),
        b"caf\xe9.trace",
        b"it's \xff\\x",
        b"line\nend",
        b"\xe9A1",
    ],
)
def test_a_shell_gives_back_the_bytes_of_a_typed_word(name: bytes) -> None:
    word = typed(os.fsdecode(name))
    assert word.isprintable()
    assert subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True).stdout == name
