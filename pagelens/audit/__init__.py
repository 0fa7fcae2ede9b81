"""A node's health for placement: what can be read of it, what it means, what a probe of its memory shows."""

from pagelens.audit.findings import find
from pagelens.audit.model import Audit, Finding, Severity
from pagelens.audit.read import read_audit

__all__ = ["Audit", "Finding", "Severity", "find", "read_audit"]
