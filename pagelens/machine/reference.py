"""Makes docs/machine-schema.md: every section and key of a machine file, from the models themselves."""

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pagelens.machine.schema import Machine
from pagelens.values.quantities import Sourced, Table, Unit

_INTRODUCTION = """# Machine files

A machine is one TOML file: `pagelens machines check FILE` reads one, `pagelens machines show NAME` draws
one, and `machines/` has those that come with pagelens. This page is generated from the models in
`pagelens/machine/` by `make docs`.

**Values.** Every value is a table that says where it is from: exactly one of `source` (a document), `input`
(a measured figure that the model is calibrated on, hence never a prediction) and `assumed` (with the
reason). Units stand in the value; a number without its unit is an error, and so is a key that is not on
this page.
```toml
[l2]
size = { value = "1 MiB", source = "Intel 64 and IA-32 Optimization Reference Manual" }
ways = { value = 16, assumed = "as of its predecessor" }
latency = { value = "5 ns", range = ["4 ns", "7 ns"], assumed = "as of its predecessors" }
```
An assumed number can have a `range`: the least and the largest that it can well be. `pagelens explain
--sensitivity` says whether its conclusion is the same at both ends.

**Files over files.** `base = ["family/skylake-sp", "mine.toml"]` takes over the values of other files:
machines by name, parts in `machines/family`, `machines/dram`, `machines/tlb` and `machines/io`, or paths
from this file. Where several state a value, the last of them counts, and the file's own value before all.
A value is taken over with its source, and an array of tables as a whole. `name` and `title` are never
taken over. A file that states another `bandwidth` keeps the `write_bandwidth` of the file below it, so state
both. Any of these files can state what is needed. A processor with another cache:
```toml
schema = 1
base = "skx-8160"
name = "skx-8160-2m"
title = "Xeon Platinum 8160 with an L2 of 2 MiB"
[l2]
size = { value = "2 MiB", assumed = "what if" }
```

**Modes.** `cache`: the fast memory is a cache for the other, and `[memory_side_cache]` says of what kind.
`flat`: it is memory of its own. `hybrid`: `memory_side_cache.size` of it is a cache, the rest is memory.
`single`: there is only `[ddr]`.
"""
_BOUNDS = {Gt: (">", "gt"), Ge: ("at least", "ge"), Lt: ("<", "lt"), Le: ("at most", "le")}


def schema_reference() -> str:
    """Return the page."""
    lines = [_INTRODUCTION, "## Keys outside any section\n", *_rows(Machine, plain=True)]
    for name, model, is_array in _sections():
        header = f"[[{name}]]" if is_array else f"[{name}]"
        lines += [f"## `{header}`\n", f"{_paragraph(model)}\n", *_rows(model, plain=False)]
    return "\n".join(lines)


def _sections() -> Iterator[tuple[str, type[Table], bool]]:
    """Name, model, and whether it is an array of tables."""
    for name, field in Machine.model_fields.items():
        model = _table_of(field.annotation)
        if model is not None:
            yield name, model, list in _parts(field.annotation)


def _parts(annotation: Any) -> list[Any]:
    """Return a type, the members of its union, and the types in its lists."""
    parts = [get_origin(annotation) or annotation]
    for argument in get_args(annotation):
        parts += _parts(argument)
    return parts


def _table_of(annotation: Any) -> type[Table] | None:
    """Return the table that a field holds, itself or in a list."""
    tables = [part for part in _parts(annotation) if isinstance(part, type) and issubclass(part, Table)]
    return next((table for table in tables if not issubclass(table, Sourced)), None)


def _paragraph(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split())


def _rows(model: type[BaseModel], plain: bool) -> Iterator[str]:
    """Yield a table of the keys. With `plain`, keys that are sections are left out."""
    yield "| key | value | needed | meaning |\n|---|---|---|---|"
    for name, field in model.model_fields.items():
        if plain and (_table_of(field.annotation) is not None or name == "ideal"):
            continue
        needed = "yes" if field.is_required() else ""
        yield f"| `{field.alias or name}` | {_value(field)} | {needed} | {field.description or ''} |"
    yield ""


def _value(field: FieldInfo) -> str:
    """Return what a key holds, in words."""
    sourced = [part for part in _models(field.annotation) if issubclass(part, Sourced)]
    if not sourced:
        return f"{_kind(field.annotation, field.metadata)}, without a source"
    inner = sourced[0].model_fields["value"]
    return _kind(inner.annotation, inner.metadata)


def _models(annotation: Any) -> list[type[BaseModel]]:
    return [part for part in _parts(annotation) if isinstance(part, type) and issubclass(part, BaseModel)]


def _kind(annotation: Any, metadata: list[Any]) -> str:
    unit = next((item for item in metadata if isinstance(item, Unit)), None)
    if unit is not None:
        return unit.kind
    if get_origin(annotation) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(annotation))
    members = [part for part in _parts(annotation) if part in (bool, int, float, str)]
    words = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    kind = words[members[0]] if members else "value"
    if list in _parts(annotation):
        kind = f"array of {kind}s"
    bounds = [
        f"{word} {getattr(item, attribute):g}"
        for item in metadata
        for of, (word, attribute) in _BOUNDS.items()
        if isinstance(item, of)
    ]
    return ", ".join([kind, *bounds])
