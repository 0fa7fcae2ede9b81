"""Judges how fit a node's memory is for the next job, from what is read of it and a probe on request."""

from pagelens.audit.findings import find
from pagelens.audit.model import Audit, Finding, Severity
from pagelens.audit.node import AuditReport, audit
from pagelens.audit.read import read_audit

__all__ = ["Audit", "AuditReport", "Finding", "Severity", "audit", "find", "read_audit"]
