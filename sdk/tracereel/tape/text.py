"""Escaping of tape strings for terminals and generated code."""

from typing import Final

MAX_NAME: Final = 80


def printable(text: object) -> str:
    """Return a text with non-printable characters escaped, as in `repr`."""
    given = str(text)
    if given.isprintable():
        return given
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in given)


def name_of(text: object) -> str:
    """Return a short text that is safe in comments and docstrings."""
    return "".join(c if c.isalnum() or c in " ._:+-" else "_" for c in str(text)[:MAX_NAME])


def literal(text: str) -> str:
    """Return a text as a Python literal, in double quotes if it is printable."""
    if not text.isprintable():
        return repr(text)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def is_dotted(name: str) -> bool:
    """Return whether a text is a dotted name such as `package.module`."""
    return all(part.isidentifier() for part in name.split("."))
