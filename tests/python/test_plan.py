"""Plans of a placement as files: what is written is read again, and what is wrong is one line."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_roles import FLAT_MODE

from pagelens import _core
from pagelens.accesses.region_names import region_bytes, region_text
from pagelens.errors import UsageError
from pagelens.place.plan import (
    MOST_REGIONS,
    Frame,
    Plan,
    PlannedModule,
    PlannedObject,
    StaticVariable,
    parse_frame,
    parse_variable,
    plan_text,
    read_plan,
    write_plan,
)
from pagelens.run.memory_tiers import Tiers
from pagelens.run.plan_file import handed_plan
from pagelens.run.plan_sites import Located

TEXT = f"""
format = 1
program = "hydro"
machine = "{FLAT_MODE}"
capacity = "1GiB"
[[modules]]
name = "hydro"
build_id = "ab12"
[[objects]]
name = "Mesh::allocate (hydro.cpp:120)"
site = ["hydro!_ZN4Mesh8allocateEv+0x1c", "hydro!main+0x40", "hydro+0x1169"]
bytes = "1.2GiB"
tier = "fast"
[[objects]]
name = "table (hydro)"
variable = "hydro!table"
bytes = "3MB"
tier = "fast"
share = 0.5
phases = ["solve"]
shares = {{ solve = 0.0, "the set-up" = 1.0 }}
"""


def read(text: str, folder: Path) -> Plan:
    (folder / "plan.toml").write_text(text)
    return read_plan(folder / "plan.toml")


def test_the_format_of_the_document_is_read(tmp_path: Path) -> None:
    plan = read(TEXT, tmp_path)
    mesh, table = plan.objects
    assert (plan.capacity, mesh.bytes, mesh.share, table.share) == (1 << 30, round(1.2 * (1 << 30)), 1.0, 0.5)
    assert mesh.frames == [
        Frame("hydro", "_ZN4Mesh8allocateEv", 0x1C),
        Frame("hydro", "main", 0x40),
        Frame("hydro", None, 0x1169),
    ]
    assert table.shares == {"solve": 0.0, "the set-up": 1.0}
    assert plan.regions == ["solve", "the set-up"]
    assert table.variable is not None
    assert parse_variable(table.variable).symbol == "table"


@pytest.mark.parametrize("text", ["hydro!table", "hydro!table@0x4060", "hydro!a@@V1", "hydro!x!y@0x1@0x2"])
def test_a_variable_may_have_its_address(text: str) -> None:
    assert str(parse_variable(text)) == text
    assert parse_variable("hydro!table@0x4060") == StaticVariable("hydro", "table", 0x4060)


NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30)
OBJECTS = st.builds(
    lambda name, frames, variable, size, share, fast, phases, shares: PlannedObject.model_construct(
        name=name,
        site=None if variable else [str(frame) for frame in frames],
        variable="app!" + name if variable else None,
        bytes=size,
        tier="fast" if fast else "slow",
        share=share if fast else 1.0,
        shares=shares if fast else {},
        phases=phases,
    ),
    NAMES,
    st.lists(
        st.builds(
            Frame,
            st.sampled_from(["app", "libstdc++.so.6.0.30", "a b"]),
            st.none() | st.sampled_from(["main", "_ZN1aC2Ev", "f@@V1+0x3", "a!b"]),
            st.integers(0, 2**64 - 1),
        ),
        min_size=1,
        max_size=16,
    ),
    st.booleans(),
    st.integers(1, 1 << 44),
    st.floats(0, 1, exclude_min=True),
    st.booleans(),
    st.lists(NAMES, max_size=2),
    st.dictionaries(NAMES, st.floats(0, 1), max_size=3),
)


@given(
    st.lists(OBJECTS, max_size=4, unique_by=lambda o: o.variable or tuple(o.site or [])),
    st.integers(1, 1 << 44),
)
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, objects: list[PlannedObject], capacity: int
) -> None:
    modules = [PlannedModule(name=name, build_id="") for name in ("app", "libstdc++.so.6.0.30", "a b")]
    plan = Plan(format=1, program="app", machine="m", capacity=f"{capacity} B", modules=modules)  # type: ignore[arg-type]
    plan = plan.model_copy(update={"objects": objects})
    path = tmp_path_factory.getbasetemp() / "plan.toml"
    write_plan(plan, path)
    assert read_plan(path) == plan


def test_a_plan_has_shares_of_so_many_regions_and_no_more(tmp_path: Path) -> None:
    def with_regions(count: int) -> Plan:
        many = ", ".join(f"r{i} = 1.0" for i in range(count))
        return read(TEXT.replace('solve = 0.0, "the set-up" = 1.0', many), tmp_path)

    assert len(with_regions(MOST_REGIONS).regions) == MOST_REGIONS
    with pytest.raises(UsageError, match="shares of 256 regions; state those of at most 255"):
        with_regions(MOST_REGIONS + 1)


@pytest.mark.parametrize("name", [b"caf\xe9", b"caf\xc3\xa9", b"a" * 254 + b"\xc3", b"C:\\x", b""])
def test_names_of_regions_are_any_bytes(name: bytes, tmp_path: Path) -> None:
    plan = read(TEXT, tmp_path)
    moving = plan.objects[1].model_copy(update={"shares": {region_text(name): 0.25}})
    write_plan(plan.model_copy(update={"objects": [moving]}), tmp_path / "plan.toml")
    (region,) = read_plan(tmp_path / "plan.toml").regions
    assert region_bytes(region) == name
    handed = handed_plan(read_plan(tmp_path / "plan.toml"), Located([]), Tiers((0,), (), None))
    assert b"\0" + name + b"\0" in handed


def test_a_thousand_sites_are_a_file(tmp_path: Path) -> None:
    one = read(TEXT, tmp_path).objects[0]
    frames = [f"hydro!{'_ZN4Mesh8allocateEv' * 3}{i}+0x1c" for i in range(15)]
    objects = [one.model_copy(update={"site": [f"hydro+{i:#x}", *frames]}) for i in range(1_000)]
    plan = read(TEXT, tmp_path).model_copy(update={"objects": objects})
    write_plan(plan, tmp_path / "large.toml")
    assert read_plan(tmp_path / "large.toml") == plan


def test_nodes_and_policies_are_read_and_handed_over(tmp_path: Path) -> None:
    """A plan of nodes alone needs no capacity, and is written as it was read."""
    of_nodes = 'tier = "nodes"\npolicy = "interleave"\nnodes = [0, 65]'
    text = TEXT.replace('capacity = "1GiB"\n', "").replace('tier = "fast"\n[[', f"{of_nodes}\n[[")
    plan = read(text[: text.rindex("[[objects]]")], tmp_path)
    assert plan.nodes == [0, 65]
    write_plan(plan, tmp_path / "again.toml")
    assert "capacity" not in (tmp_path / "again.toml").read_text()
    assert read_plan(tmp_path / "again.toml") == plan
    handed = handed_plan(plan, Located([]), Tiers((), (), None))
    layout = _core.plan_layouts()
    header = np.frombuffer(handed, dtype=np.dtype(layout["header"]), count=1)  # type: ignore[arg-type]
    found = np.frombuffer(
        handed,
        dtype=np.dtype(layout["object"]),
        count=1,
        offset=int(header["objects"][0][0]),  # type: ignore[arg-type]
    )
    assert found["rule"][0] == 3
    assert found["nodes"][0][:3].tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("format = 1", "format = 2", [":2: 'format' (is 2)", "1"]),
        ("format = 1", "format = ", [":2: not TOML"]),
        ('capacity = "1GiB"', 'capacity = "0GiB"', [":5: 'capacity' (is '0GiB')", "greater than 0"]),
        ('capacity = "1GiB"', 'capacity = "1"', [":5: 'capacity'", "has no unit"]),
        ('capacity = "1GiB"', "", ["capacity should say how much fast memory there is"]),
        ("share = 0.5", "share = -0.5", ["'objects.1.share' (is -0.5)", "greater than or equal to 0"]),
        (
            TEXT[TEXT.index("share = 0.5") :],
            "share = 0.0",
            [":14: 'objects.1': share (is 0) should be greater"],
        ),
        ("share = 0.5", "share = 1.5", ["'objects.1.share' (is 1.5)", "less than or equal to 1"]),
        ("solve = 0.0", "solve = 1.5", ["'objects.1.shares.solve' (is 1.5)", "less than or equal to 1"]),
        ('"the set-up"', '"' + 256 * "x" + '"', ["region 'xxxxxxxxxxxxxxxxxxxx...' has more than 255 bytes"]),
        ('tier = "fast"\nshare = 0.5', 'tier = "slow"', ["share is of the fast tier", "and shares"]),
        ("share = 0.5", "shar = 0.5", [":19: unknown key 'objects.1.shar'; did you mean share"]),
        ('tier = "fast"\nshare', 'tier = "slow"\nshare', ["share is of the fast tier"]),
        ('tier = "fast"\nshare', 'tier = "quick"\nshare', ["'fast', 'slow' or 'nodes'"]),
        ('tier = "fast"\n[[', 'tier = "nodes"\nnodes = [0]\n[[', ["policy and nodes belong to tier"]),
        ('tier = "fast"\nshare = 0.5', 'policy = "bind"\nnodes = [0]\ntier = "fast"', ["policy and nodes"]),
        (
            'tier = "fast"\n[[',
            'tier = "nodes"\npolicy = "bind"\nnodes = [1, 1]\n[[',
            ["name each node once"],
        ),
        (
            'tier = "fast"\nshare = 0.5',
            'tier = "nodes"\npolicy = "bind"\nnodes = [1024]',
            ["'objects.1.nodes.0' (is 1024)"],
        ),
        ("+0x40", "", ["'hydro!main' is no frame; write module!symbol+0xOFFSET"]),
        ('variable = "hydro!table"', 'variable = "table"', ["'table' is no variable; write module!symbol"]),
        ('variable = "hydro!table"', "", ["state exactly one of site and variable"]),
        ('variable = "hydro!table"', 'variable = "libx!table"', ["lies in 'libx', which [[modules]]"]),
        ('name = "hydro"', 'name = "hy!dro"', ["should have no '!', which parts a file from a symbol"]),
        ('build_id = "ab12"', 'build_id = "xyz"', ["'modules.0.build_id' (is 'xyz')"]),
    ],
)
def test_what_is_wrong_is_one_line_with_its_place(
    tmp_path: Path, old: str, new: str, says: list[str]
) -> None:
    assert old in TEXT
    with pytest.raises(UsageError) as caught:
        read(TEXT.replace(old, new, 1), tmp_path)
    said = str(caught.value)
    assert len(said.splitlines()) == 1
    assert said.startswith("--plan ")
    assert all(word in said for word in says), said


def test_an_object_planned_twice_and_a_file_that_is_none(tmp_path: Path) -> None:
    twice = TEXT + TEXT[TEXT.index("[[objects]]") :]
    with pytest.raises(UsageError, match=r"'Mesh::allocate \(hydro.cpp:120\)' is planned twice"):
        read(twice, tmp_path)
    with pytest.raises(UsageError, match="--plan: cannot read"):
        read_plan(tmp_path / "none.toml")


@pytest.mark.parametrize(
    "text", ["", "main", "a!+0x1", "a!b+1", "a!b+0xfffffffffffffffff", "!b+0x1", "a+0X1"]
)
def test_what_is_no_frame(text: str) -> None:
    with pytest.raises(ValueError, match="no frame"):
        parse_frame(text)


def test_the_text_is_for_people(tmp_path: Path) -> None:
    text = plan_text(read(TEXT, tmp_path))
    assert text.startswith("# Written by pagelens; pagelens run --plan reads it.\nformat = 1\n")
    assert '[[objects]]\nname = "table (hydro)"\nvariable = "hydro!table"\nbytes = "3000000B"\n' in text
