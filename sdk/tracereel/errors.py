"""Errors the SDK raises to its callers (configuration and client calls; never from decorated code)."""


class TracereelError(Exception):
    """Base of everything tracereel raises on purpose."""


class ConfigurationError(TracereelError):
    """A setting has a value that cannot be used; the message names it and what is accepted."""
