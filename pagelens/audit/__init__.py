"""Judges how fit a node's memory is for the next job, from what is read of it and a probe on request."""

from pagelens.audit.findings import find
from pagelens.audit.fragmentation import free_frames, suitable_blocks
from pagelens.audit.model import Audit, Effect, Finding, Probe, ProbedPlacement, Severity, Zone
from pagelens.audit.node import AuditReport, audit
from pagelens.audit.read import read_audit

__all__ = [
    "Audit",
    "AuditReport",
    "Effect",
    "Finding",
    "Probe",
    "ProbedPlacement",
    "Severity",
    "Zone",
    "audit",
    "find",
    "free_frames",
    "read_audit",
    "suitable_blocks",
]
