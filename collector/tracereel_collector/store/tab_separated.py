"""Parsing of tab-separated responses."""


def lines_of(data: bytes) -> list[str]:
    """Return the lines of a response.

    Only line feeds separate them; the engine escapes those in values. Python's `splitlines` would
    also split at a dozen other characters, which user content may contain.
    """
    text = data.decode(errors="replace").removesuffix("\n")
    return text.split("\n") if text else []


def rows_of(data: bytes) -> list[tuple[str, ...]]:
    """Return the rows of a response; escaped values stay escaped."""
    return [tuple(line.split("\t")) for line in lines_of(data)]
