"""Spack's recipe: in a clone, `spack repo add packaging/spack` and then `spack dev-build pagelens@0.1.0`."""

from spack.package import *  # as Spack's recipes begin


class Pagelens(PythonPackage):
    """Measure, predict, explain and fix what the placement of pages costs a program."""

    version("0.1.0")

    license("Apache-2.0")

    variant(
        "dynamorio", default=True, description="Build DynamoRIO; the build then fetches its source with cargo"
    )

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("python@3.11:", type=("build", "link", "run"))
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("py-scikit-build-core@0.10:", type="build")
    depends_on("py-nanobind@2.4:", type="build")
    depends_on("rust", type="build", when="+dynamorio")
    depends_on("zstd")
    for name, version in {
        "typer": "0.29",
        "rich": "15",
        "numpy": "1.26",
        "polars": "2.1",
        "pyarrow": "15",
        "pydantic": "2.13",
        "matplotlib": "3.8",
        "jinja2": "3.1",
        "pyelftools": "0.32",
        "capstone": "5",
        "tomlkit": "0.12",
        "scipy": "1.12",
        "lazy-loader": "0.4",
    }.items():
        depends_on(f"py-{name}@{version}:", type=("build", "run"))

    @run_before("install")
    def build_engine(self):
        """Build DynamoRIO where the package's build looks for it."""
        if self.spec.satisfies("+dynamorio"):
            Executable("scripts/build-engine")()
