"""The examples of docs/extending.md, written into a copy of the package, pass their tests.

They are written as they stand on the page. tests/cpp compiles the one that is C++, which
test_replacement_policies.py compares with the page.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pagelens._core

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/extending.md"
FILE = re.compile(r"^`(?P<path>[\w./-]+)`\n```\w+\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def copy_of_the_package(folder: Path) -> None:
    """The sources, their bytecode, and the machines as copies; what was compiled, as links."""
    ignored = shutil.ignore_patterns("*.so", "lib", "include")
    shutil.copytree(ROOT / "pagelens", folder / "pagelens", ignore=ignored)
    shutil.copytree(ROOT / "machines", folder / "machines")
    compiled = Path(pagelens._core.__file__).parent
    for path in (*compiled.glob("*.so"), compiled / "lib"):
        (folder / "pagelens" / path.name).symlink_to(path)


def test_every_example_is_a_file_and_its_test(tmp_path: Path) -> None:
    text = PAGE.read_text()
    found = {match["path"]: match["text"] for match in FILE.finditer(text)}
    files = {path: content for path, content in found.items() if not path.endswith((".hpp", ".cpp"))}
    tests = [path for path in files if path.startswith("tests/")]
    in_python = re.findall(r"^## ", text, re.MULTILINE)[1:]
    assert len(tests) == len(files) - len(tests) == len(in_python)

    copy_of_the_package(tmp_path)
    for path, content in files.items():
        assert not (ROOT / path).exists(), f"{path} has become a file of the package; take another example"
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    # Without -S the editable installation would be imported in place of the copy.
    packages = [str(tmp_path), *(entry for entry in sys.path if entry.endswith("-packages"))]
    command = [sys.executable, "-S", "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    run = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(packages)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{len(tests)} passed" in run.stdout
