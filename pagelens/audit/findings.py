"""Draws findings for a job's placement from the readings, the most important first."""

from collections.abc import Callable, Iterator

from pagelens.audit import frame_rules, memory_rules, numa_rules, page_rules
from pagelens.audit.model import Audit, Finding, Probe, Severity
from pagelens.audit.probe_findings import of_probe

Rule = Callable[[Audit], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    frame_rules.lists,
    page_rules.fragmentation,
    numa_rules.tiers,
    frame_rules.snoop_filter,
    frame_rules.numa_fake,
    memory_rules.swap,
    page_rules.large_pages,
    memory_rules.page_cache,
    numa_rules.uneven_free,
    numa_rules.pools,
    numa_rules.files,
    numa_rules.balancing,
    numa_rules.demotion,
    memory_rules.compaction,
    frame_rules.guest,
    frame_rules.rights,
    page_rules.unused_pool,
    page_rules.gigantic,
    page_rules.pinned_blocks,
    frame_rules.intel_module,
    frame_rules.assumed_cache,
    memory_rules.overcommit,
)


def find(audit: Audit, probe: Probe | None = None) -> tuple[Finding, ...]:
    """Return all findings, by severity and then in the order of RULES.

    If a probe saw this machine's frames, its finding replaces the one that its free lists suggest.
    """
    found = list(of_probe(probe)) if probe is not None else []
    seen = {finding.code for finding in found} if probe is not None and probe.verified else set()
    for rule in RULES:
        if rule is not frame_rules.lists or "probe-cache" not in seen:
            found += rule(audit)
    return tuple(sorted(found, key=lambda finding: list(Severity).index(finding.severity)))
