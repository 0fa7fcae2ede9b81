"""The recipes of packaging/ name the version and the packages that pyproject.toml names."""

import ast
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SPACK = PACKAGING / "spack/packages/pagelens/package.py"
[EASYBUILD] = (PACKAGING / "easybuild").glob("*.eb")


def required() -> dict[str, str]:
    """The least version of each package."""
    return dict(line.split(">=") for line in PROJECT["dependencies"])


def values(file: Path) -> dict[str, object]:
    """The constants that a file of Python assigns."""
    found: dict[str, object] = {}
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = re.sub(r"\bname, version\b", "'pagelens', ''", ast.unparse(node.value))
            found[node.targets[0].id] = ast.literal_eval(text)
    return found


def test_recipes_are_of_this_version() -> None:
    version = PROJECT["version"]
    assert f'version("{version}")' in SPACK.read_text()
    assert values(EASYBUILD)["version"] == version
    assert EASYBUILD.name.startswith(f"pagelens-{version}-")
    assert (PACKAGING / "modulefiles/pagelens" / version).read_text().startswith("#%Module")


def test_spack_has_the_dependencies() -> None:
    [loop] = [node for node in ast.walk(ast.parse(SPACK.read_text())) if isinstance(node, ast.For)]
    assert isinstance(loop.iter, ast.Call)
    assert isinstance(loop.iter.func, ast.Attribute)
    assert ast.literal_eval(loop.iter.func.value) == required()


def test_easybuild_has_the_dependencies() -> None:
    recipe = values(EASYBUILD)
    bundled = {
        "SciPy-bundle": ["numpy", "scipy"],
        "Arrow": ["pyarrow"],
        "Python-bundle-PyPI": ["rich", "jinja2", "tomlkit"],
    }
    names = [entry[0] for key in ("dependencies", "exts_list") for entry in recipe[key]]  # type: ignore[attr-defined]
    assert set(required()) <= {found for name in names for found in bundled.get(name, [name])}


def test_containers_are_installed_by_the_script_that_is_tested() -> None:
    script = "packaging/install-on-debian"
    for recipe in ("packaging/Dockerfile", "packaging/pagelens.def", "scripts/test-debian"):
        assert f"/{script} /opt/pagelens" in (ROOT / recipe).read_text()
    for file in (script, "scripts/test-debian", "scripts/test-installed"):
        subprocess.run(["bash", "-n", ROOT / file], check=True)
    build = re.search(r'\[build\]="(.*)"', (ROOT / "scripts/setup").read_text())
    assert build is not None
    assert set(shlex.split(build[1])) <= set((ROOT / script).read_text().split())
