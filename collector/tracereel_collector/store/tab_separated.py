"""Reading what the engine answers as tab-separated text."""


def lines_of(data: bytes) -> list[str]:
    """The lines of an answer.

    Only line feeds end them, which the engine escapes in values. Python's `splitlines` would end them
    at a dozen other characters too, which names and texts of users may hold.
    """
    text = data.decode(errors="replace").removesuffix("\n")
    return text.split("\n") if text else []


def rows_of(data: bytes) -> list[tuple[str, ...]]:
    """The rows of an answer; escaped values stay escaped."""
    return [tuple(line.split("\t")) for line in lines_of(data)]
