"""Reads a kernel's memory zones from its /proc/zoneinfo, for the model of its page allocator."""

import re

from pagelens import _core
from pagelens.address.units import HUGE_PAGE_FRAMES
from pagelens.errors import Failure

_KINDS = {"DMA": _core.ZoneKind.dma, "DMA32": _core.ZoneKind.dma32, "Normal": _core.ZoneKind.normal}


def read_layout(zoneinfo: str) -> _core.Layout:
    """Return the zones and CPUs that a /proc/zoneinfo lists. Empty zones are left out.

    Raises Failure if no zone has memory, and KeyError or ValueError if the text is damaged.
    """
    zones: list[_core.ZoneSpec] = []
    cpu_numa: dict[int, int] = {}
    for numa, name, text in re.findall(r"Node (\d+), zone +(\w+)\n((?: .*\n?)+)", zoneinfo):
        # The zone's start and the sizes of its per-CPU lists have a colon. All CPUs share these sizes.
        values = {key: int(value) for key, value in re.findall(r"^ +(\w+:?) +(\d+)$", text, re.MULTILINE)}
        if not values.get("present") or name not in _KINDS:
            continue
        begin = values["start_pfn:"]
        # The model's zones begin and end at page blocks. Frames added by rounding are holes.
        zone = _core.ZoneSpec(
            kind=_KINDS[name],
            numa=int(numa),
            begin=begin // HUGE_PAGE_FRAMES * HUGE_PAGE_FRAMES,
            end=-(-(begin + values["spanned"]) // HUGE_PAGE_FRAMES) * HUGE_PAGE_FRAMES,
        )
        zone.min, zone.low, zone.high = values["min"], values["low"], values["high"]
        protection = re.search(r"protection: \(([\d, ]+)\)", text)
        zone.protection = (
            int(protection[1].split(",")[3]) if protection else 0
        )  # against requests that may use ZONE_MOVABLE
        for cpu in re.findall(r"cpu: (\d+)", text):
            cpu_numa.setdefault(int(cpu), int(numa))
        zone.pcp_high, zone.pcp_batch = values["high:"], values["batch:"]
        zones.append(zone)
    if not zones:
        raise Failure("/proc/zoneinfo names no zone that has memory")
    cpus = [cpu_numa[cpu] for cpu in sorted(cpu_numa)]
    return _core.Layout(max(zone.end for zone in zones), zones, cpus)
