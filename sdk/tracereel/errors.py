"""Exceptions of configuration, client calls and replays.

Decorated code raises only those of a replay, and only while one runs.
"""


class TracereelError(Exception):
    """Base class of all exceptions that tracereel raises."""


class ConfigurationError(TracereelError):
    """Invalid value of a setting; the message names it and the accepted values."""


class ReplayStoppedError(BaseException):
    """A re-execution was stopped.

    It is not an `Exception`, so that the program's retry loops do not handle it as a failed call.
    """


class NotAllowedError(ReplayStoppedError):
    """A tool with side effects would have run without being allowed by name."""


class NetworkBlockedError(ReplayStoppedError):
    """The program tried to use the network during a re-execution."""
