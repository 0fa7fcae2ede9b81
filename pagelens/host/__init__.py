"""Facts about the machine that pagelens runs on, read under a root directory."""

from pagelens.host.program_signals import end_like

__all__ = ["end_like"]
