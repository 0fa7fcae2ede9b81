"""Documents `pagelens explain --json`, from the model's own classes."""

import json
from collections.abc import Iterator
from typing import Any

from pagelens.explain.model import SCHEMA_VERSION, Explanation

_INTRODUCTION = f"""# What `pagelens explain --json` prints

One JSON object; `explanation.json` in the output directory is the same. This page and
[explain-schema.json](explain-schema.json) (JSON Schema, draft 2020-12) are generated from the
classes of `pagelens/explain/model/` by `make docs`.

**Version.** `schema_version` is {SCHEMA_VERSION}. Fields may be added within a version; it grows when a
field changes its meaning or goes away.

**Units and kinds.** Names end in their units (`_s`: seconds, `_bytes`); counts of lines are of 64
bytes, of the whole node. A figure is *counted* (the program's lines through the stated caches, on
modelled frames), *modelled* (times) or *stated* (an input). Shares are from 0 to 1. Equal commands
give equal objects, whatever the number of cores.

Standard output has this object and nothing else: what a traced program prints goes to standard
error. `pagelens diff` compares two such objects ([diff.md](diff.md)).

**What each version changed**

- **5.** A distribution says of how many `nodes` it is: policies stop early where more nodes would
  change nothing, so `times_s` and `misses` may be shorter than the baseline's. Intervals of fewer
  than 16 nodes are as wide as Student's t makes them. New: the interval of `p95_s`; `bounds`;
  `gain_p95_serial` of a remedy.
- **4.** Intervals hold the choice of what is simulated of the run, beside the choice of nodes.
  `attributions` are of the baseline alone where each takes replays. New: `verdict`, `gain_serial`
  and the interval of `gain_p95` of a remedy; `gain_median` of a distribution; `assumptions`;
  `shared_bytes`, `share_of_zero_page`, `job_cost`.
- **3.** Machines without a memory-side cache: `sampled_lines` may be a share of the run,
  `without_s` may be null, and an attribution says `of_nodes` how many it is the mean.
- **2.** `parts` of an attribution is a list, because machines differ in their mechanisms.
"""


def json_schema() -> str:
    """Return the JSON Schema as text.

    It allows unknown fields, because later versions of pagelens add fields.
    """
    schema = Explanation.model_json_schema()
    for record in (schema, *schema["$defs"].values()):
        record.pop("additionalProperties", None)
    return json.dumps(schema, indent=1) + "\n"


def json_reference() -> str:
    """Return the text of docs/explain-json.md."""
    schema = Explanation.model_json_schema()
    sections = [_INTRODUCTION, *_section("Explanation", schema)]
    for name, record in schema["$defs"].items():
        sections += _section(name, record)
    return "\n".join(sections)


def _section(name: str, record: dict[str, Any]) -> Iterator[str]:
    """Yield the section of one record: what it is, and a table of its fields."""
    yield f"## {name}\n{record['description']}\n"
    yield "| field | type | meaning |\n|---|---|---|"
    for field, stated in record["properties"].items():
        yield f"| `{field}` | {_type(stated)} | {stated.get('description', '')} |"
    yield ""


def _type(stated: dict[str, Any]) -> str:
    if "$ref" in stated:
        name = stated["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in stated:
        return " or ".join(_type(choice) for choice in stated["anyOf"])
    if "enum" in stated:
        return " or ".join(f"`{value}`" for value in stated["enum"])
    if "const" in stated:
        return f"`{stated['const']}`"
    if stated["type"] == "array":
        return f"array of {_type(stated['items'])}"
    return str(stated["type"])
