"""The errors that reach a user. Each is one line with the parameter, its value, the range and the remedy."""

from typing import Any


class PagelensError(Exception):
    """Base of the errors shown without a traceback. `exit_code` is the status of the command."""

    exit_code = 1


class UsageError(PagelensError):
    """The user must correct the request, for example an unknown name or a value out of range.

    The exit status is 2.
    """

    exit_code = 2


class Failure(PagelensError):
    """The work failed, for example because of a full disk, an unreadable trace or a crashed program.

    The exit status is 1.
    """


class Interrupted(PagelensError):
    """The user pressed Ctrl-C. The message says what was kept.

    The exit status is 130, as shells expect of SIGINT.
    """

    exit_code = 130
    partial: Any = None  # the Ensemble of what is complete, where `simulate` was stopped
