"""Writes a plan as one file that the preload library maps. preload/plan_file.h has its layout."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pagelens import _core
from pagelens.accesses.region_names import region_bytes
from pagelens.errors import Failure
from pagelens.place.plan import Plan
from pagelens.run.memory_tiers import Tiers
from pagelens.run.plan_sites import Located

_Rows = Sequence[tuple[Any, ...]]
_RULES = {None: 0, "prefer": 1, "bind": 2, "interleave": 3, "weighted": 4}  # enum plan_rule
_NODE_WORDS = 16  # of preload/plan_file.h


def handed_plan(plan: Plan, located: Located, tiers: Tiers) -> bytes:
    """Return the file's bytes."""
    strings = _Strings()
    modules: list[tuple[int, ...]] = []
    places: list[tuple[int, ...]] = []
    for path, known in zip(located.paths, located.places, strict=True):
        modules.append((strings.at(str(path) if path else ""), len(places), len(known)))
        places += [(low, high, number) for (low, high), number in known]
    shares: list[list[float]] = []  # a row for each object that moves
    objects: list[tuple[Any, ...]] = []
    for one in plan.objects:
        if one.shares:
            shares.append([one.shares.get(region, one.share) for region in plan.regions])
        share = 0.0 if one.tier == "slow" else one.share
        row, rule = len(shares) if one.shares else 0, _RULES[one.policy]
        objects.append((strings.at(one.name), share, row, rule, _mask(one.nodes)))
    phases = [(strings.at(region_bytes(region)), len(region_bytes(region))) for region in plan.regions]
    hooks = [(one.module, one.address, one.count) for one in located.hooks]
    variables = [(one.module, one.planned, one.address, one.size) for one in located.variables]
    parts = {
        "modules": _table("module", modules),
        "places": _table("place", places),
        "steps": _table("step", _steps(located.sites)),
        "objects": _table("object", objects),
        "variables": _table("variable", variables),
        "phases": _table("phase", phases),
        "shares": np.array(shares, dtype="<f8").ravel(),
        "hooks": _table("hook", hooks),
        "strings": np.frombuffer(strings.bytes, dtype=np.uint8),
    }
    return _file(plan.capacity, tiers, parts)


def _table(struct: str, rows: _Rows) -> NDArray[Any]:
    """Return rows of a struct of preload/plan_file.h."""
    return np.array(rows, dtype=_layout(struct))


def _layout(struct: str) -> np.dtype[np.void]:
    found: np.dtype[np.void] = np.dtype(cast(Any, _core.plan_layouts()[struct]))
    return found


def _file(capacity: int, tiers: Tiers, parts: Mapping[str, NDArray[Any]]) -> bytes:
    header = np.zeros(1, dtype=_layout("header"))
    body = bytearray()
    for name, content in parts.items():
        header[name] = header.nbytes + len(body), len(content)
        raw = content.tobytes()
        body += raw + bytes(-len(raw) % 8)
    header["magic"], header["bytes"] = _core.PLAN_MAGIC, header.nbytes + len(body)
    header["capacity"] = capacity
    header["fast"], header["slow"] = _mask(tiers.fast), _mask(tiers.slow)
    return header.tobytes() + bytes(body)


def _mask(nodes: Sequence[int]) -> list[int]:
    """Return the words of a set of nodes."""
    words = [0] * _NODE_WORDS
    for node in nodes:
        words[node // 64] |= 1 << node % 64
    return words


class _Strings:
    def __init__(self) -> None:
        self.bytes = bytearray(b"\0")

    def at(self, text: str | bytes) -> int:
        place = len(self.bytes)
        raw = text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
        self.bytes += raw.replace(b"\0", b"?") + b"\0"
        return place


@dataclass
class _Step:
    place: int = 0
    planned: int = 0  # + 1; 0: no site ends here
    following: dict[int, _Step] = field(default_factory=dict)


def _steps(sites: dict[tuple[int, ...], int]) -> list[tuple[int, int, int, int]]:
    """Return the sites as a tree. Its steps are ordered by depth, so that successors lie together."""
    root = _Step()
    for site, planned in sites.items():
        step = root
        for place in site:
            step = step.following.setdefault(place, _Step(place))
        step.planned = planned + 1
    table, order, first = [], [root], 1
    for step in order:
        following = [step.following[place] for place in sorted(step.following)]
        table.append((step.place, first, len(following), step.planned))
        order += following
        first += len(following)
    return table


def keep(content: bytes) -> Path:
    """Keep the content in a file that all child processes find, and return its path. Raises Failure."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    name = hashlib.sha256(content).hexdigest()[:32] + ".plan"
    reasons = []
    for folder in (
        Path(base) / "pagelens" / "plans",
        Path(tempfile.gettempdir()) / f"pagelens-{os.getuid()}",
    ):
        final = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if folder.stat().st_uid != os.geteuid():
                raise PermissionError(None, "it is another user's")
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as partial:
                partial.write(content)
            os.replace(partial.name, final)
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror}")
            continue
        return final
    raise Failure(f"--plan: nowhere to keep it for the program ({'; '.join(reasons)}); set XDG_CACHE_HOME")
