"""Errors that reach a user: one line that names the parameter, its value, the range and the remedy."""

from typing import Any


class PagelensError(Exception):
    """Base of the errors shown without a traceback; `exit_code` is the status of the command."""

    exit_code = 1


class UsageError(PagelensError):
    """What was asked for cannot be asked for (unknown name, value out of range): exit status 2."""

    exit_code = 2


class Failure(PagelensError):
    """What was asked for failed (no disk space, unreadable trace, program crashed): exit status 1."""


class Interrupted(PagelensError):
    """The user pressed Ctrl-C: exit status 130, as shells expect of SIGINT; the line says what was kept."""

    exit_code = 130
    partial: Any = None  # the Ensemble of what is complete, where `simulate` was stopped
