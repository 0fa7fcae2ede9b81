"""Writes a plan as one file that the preload library maps. preload/plan_file.h is the counterpart."""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pagelens.accesses.region_names import region_bytes
from pagelens.errors import Failure
from pagelens.place.plan import Plan
from pagelens.run.memory_tiers import Tiers
from pagelens.run.plan_sites import Located

_MAGIC = b"PLPLAN2\n"
_NODE_WORDS = 16
_HEADER_BYTES = 8 + 16 + 2 * 8 * _NODE_WORDS + 9 * 16


def handed_plan(plan: Plan, located: Located, tiers: Tiers) -> bytes:
    """Return the file's bytes."""
    strings = _Strings()
    modules, places = bytearray(), bytearray()
    for path, known in zip(located.paths, located.places, strict=True):
        modules += struct.pack("<3Q", strings.at(str(path) if path else ""), len(places) // 24, len(known))
        places += b"".join(struct.pack("<3Q", low, high, number) for (low, high), number in known)
    steps = b"".join(struct.pack("<4I", *step) for step in _steps(located.sites))
    regions, shares, objects = plan.regions, bytearray(), bytearray()
    for one in plan.objects:
        row = 0
        if one.shares:
            shares += b"".join(struct.pack("<d", one.shares.get(region, one.share)) for region in regions)
            row = len(shares) // (8 * len(regions))
        objects += struct.pack("<QdQ", strings.at(one.name), one.share if one.tier == "fast" else 0.0, row)
    phases = b"".join(
        struct.pack("<2Q", strings.at(region_bytes(region)), len(region_bytes(region))) for region in regions
    )
    hooks = b"".join(struct.pack("<3Q", one.module, one.address, one.count) for one in located.hooks)
    variables = b"".join(
        struct.pack("<2I2Q", one.module, one.planned, one.address, one.size) for one in located.variables
    )
    parts = [(bytes(modules), 24), (bytes(places), 24), (steps, 16), (bytes(objects), 24), (variables, 24),
             (phases, 16), (bytes(shares), 8), (hooks, 24), (bytes(strings.bytes), 1)]  # fmt: skip
    return _file(plan.capacity, tiers, parts)


def _file(capacity: int, tiers: Tiers, parts: Sequence[tuple[bytes, int]]) -> bytes:
    body, table = bytearray(), bytearray()
    for content, size in parts:
        table += struct.pack("<2Q", _HEADER_BYTES + len(body), len(content) // size)
        body += content + bytes(-len(content) % 8)
    nodes = _mask(tiers.fast) + _mask(tiers.slow)
    return _MAGIC + struct.pack("<2Q", _HEADER_BYTES + len(body), capacity) + nodes + table + body


def _mask(nodes: Sequence[int]) -> bytes:
    return sum(1 << node for node in nodes).to_bytes(8 * _NODE_WORDS, "little")


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
