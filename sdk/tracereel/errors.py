"""Exceptions of configuration and client calls; decorated code never raises them."""


class TracereelError(Exception):
    """Base class of all exceptions that tracereel raises."""


class ConfigurationError(TracereelError):
    """Invalid value of a setting; the message names it and the accepted values."""
