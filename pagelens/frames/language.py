"""The language of histories: "boot; age(jobs=200, mix=cori); io(20GB, buffered); zonesort; run".

Steps are separated by semicolons; arguments follow a step in parentheses, by name or in their order.
docs/frames.md lists them.
"""

import re
from dataclasses import replace
from typing import Any, Never

from pagelens.errors import UsageError
from pagelens.frames.steps import STEPS, Boot, Step
from pagelens.spelling import nearest

_STEP = re.compile(r"\s*(?P<name>[^\s(;]*)\s*(?:\((?P<arguments>[^()]*)\))?\s*")
_ARGUMENT = re.compile(r"\s*(?:(?P<key>[A-Za-z_]+)\s*=)?\s*(?P<value>[^\s=]+(?: [A-Za-z/]+)?)\s*")


def parse_history(text: str, name: str = "history") -> tuple[Step, ...]:
    """Return the steps of a text. A history that does not begin with `boot` gets one.

    Raises UsageError with the step or argument, its column and what could stand there. The error calls the
    text `name`.

    >>> [step.name for step in parse_history("age(jobs=3); run")]
    ['boot', 'age', 'run']
    """
    steps: list[Step] = []
    start = 0
    for part in text.split(";"):
        if part.strip():
            steps.append(_parse_step(part, start, name))
            if isinstance(steps[-1], Boot) and len(steps) > 1:
                column = start + len(part) - len(part.lstrip()) + 1
                _refuse(name, column, "'boot' can only be the first step; leave it out")
        start += len(part) + 1
    if not steps:
        raise UsageError(f"{name}: is empty; write steps such as 'boot; age(jobs=10); drop_caches; run'")
    return tuple(steps) if isinstance(steps[0], Boot) else (Boot(), *steps)


def with_boot(steps: tuple[Step, ...], options: dict[str, Any]) -> tuple[Step, ...]:
    """Return the same history on a kernel that is booted with these options."""
    return (replace(steps[0], **options), *steps[1:])


def _parse_step(part: str, start: int, name: str) -> Step:
    match = _STEP.fullmatch(part)
    at = start + len(part) - len(part.lstrip()) + 1
    if match is None or not match["name"]:
        _refuse(name, at, f"'{part.strip()}' is not a step; write NAME or NAME(ARGUMENT, ...)")
    if match["name"] not in STEPS:
        _refuse(name, at, f"step '{match['name']}' is unknown; did you mean {nearest(match['name'], STEPS)}?")
    step = STEPS[match["name"]]
    known = step.arguments()
    given: dict[str, Any] = {}
    inside = match["arguments"]
    if inside is None or not inside.strip():
        return step()
    at = start + match.start("arguments") + 1
    for position, argument in enumerate(inside.split(",")):
        here = at + len(argument) - len(argument.lstrip())
        at += len(argument) + 1
        found = _ARGUMENT.fullmatch(argument)
        if found is None:
            _refuse(name, here, f"'{argument.strip()}' is not an argument; write VALUE or NAME=VALUE")
        if position >= len(known) and not found["key"]:
            takes = f"takes {', '.join(known)}" if known else "takes no arguments"
            _refuse(name, here, f"{step.name} {takes}")
        key = found["key"] or list(known)[position]
        if key not in known:
            hint = f"did you mean {nearest(key, known)}?" if known else "it takes none"
            _refuse(name, here, f"{step.name} has no argument '{key}'; {hint}")
        if key in given:
            _refuse(name, here, f"{step.name}: '{key}' is given twice")
        try:
            given[key] = known[key].parse(found["value"])
        except ValueError:
            _refuse(name, here, f"{step.name}: {key} = '{found['value']}' is not {known[key].form}")
        except UsageError as error:
            _refuse(name, here, f"{step.name}: {error}")
    return step(**given)


def _refuse(name: str, position: int, what: str) -> Never:
    raise UsageError(f"{name}, column {position}: {what}")
