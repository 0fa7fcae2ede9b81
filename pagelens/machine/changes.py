"""Changes one value of a table, as a user of the API requests."""

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from pagelens.errors import UsageError
from pagelens.spelling import nearest
from pagelens.values.quantities import Table

ASKED_FOR = "asked for by the user"

AnyTable = TypeVar("AnyTable", bound=Table)


def with_value(table: AnyTable, key: str, value: Any, where: str) -> AnyTable:
    """Return a copy of the table in which `key` has that value, written as in a machine file.

    `where` names the table in errors. Raises UsageError for an unknown key and for an impossible value.
    """
    fields = type(table).model_fields
    if key not in fields:
        raise UsageError(f"{where}.{key}: there is no such value; did you mean {nearest(key, fields)}?")
    field = TypeAdapter(fields[key].rebuild_annotation())
    try:
        changed = field.validate_python({"value": value, "assumed": ASKED_FOR})
    except ValidationError as error:
        raise UsageError(f"{where}.{key}: {value!r}: {first_reason(error)}") from None
    return table.model_copy(update={key: changed})


def with_value_in_array(tables: list[AnyTable], key: str, value: Any, where: str) -> list[AnyTable]:
    """Return a copy of an array of tables. `key` is a place from 0 on and a value's name, as `0.entries`.

    Raises UsageError as `with_value` does, and for a place that the array does not have.
    """
    place, _, field = key.partition(".")
    if not place.isdecimal() or int(place) >= len(tables):
        known = f"{where}.0 to {where}.{len(tables) - 1}"
        raise UsageError(f"{where}.{key}: there is no such table; the machine has {known}")
    changed = with_value(tables[int(place)], field, value, f"{where}.{place}")
    return [changed if at == int(place) else each for at, each in enumerate(tables)]


def first_reason(error: ValidationError) -> str:
    """Return the first fault, in one line."""
    return error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
