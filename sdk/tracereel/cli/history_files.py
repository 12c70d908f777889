"""Records of files with history: JSON lines, or one JSON document."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
MAX_DOCUMENT_BYTES: Final = 256 * 1024 * 1024
_LISTS: Final = ("data", "traces", "observations", "scores")
"""Fields of a document that hold its records."""


class BadHistoryError(Exception):
    """File that cannot be read as records."""


class HistoryFile:
    """File, and the bytes of it that were read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.position = 0


def records_of(file: HistoryFile) -> Iterator[Any]:
    """Yield the records of a file.

    A file whose first line is no JSON value of its own is one document: a record, a list of them, or
    an object with a list.

    Raises:
        BadHistoryError: a line or the document is no JSON, or too long.
    """
    with file.path.open("rb") as lines:
        for number in range(1, 2**63):
            line = lines.readline(MAX_LINE_BYTES + 1)
            if not line:
                return
            if len(line) > MAX_LINE_BYTES:
                raise BadHistoryError(f"{file.path}: line {number} is longer than 64 MiB")
            file.position += len(line)
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                if number > 1:
                    raise BadHistoryError(
                        f"{file.path}: line {number} is no JSON ({error})"
                    ) from None
                yield from _document(file)
                return
            yield from _listed(record)


def _document(file: HistoryFile) -> Iterator[Any]:
    size = file.path.stat().st_size
    if size > MAX_DOCUMENT_BYTES:
        raise BadHistoryError(
            f"{file.path}: is one JSON document of {size} bytes; up to {MAX_DOCUMENT_BYTES} are"
            " read, JSON lines may be longer"
        )
    try:
        document = json.loads(file.path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BadHistoryError(f"{file.path}: is neither JSON lines nor JSON ({error})") from None
    file.position = size
    yield from _listed(document)


def _listed(document: Any) -> Iterator[Any]:
    """Yield the members of a list, of a list in an object without id, or the value itself."""
    if isinstance(document, dict) and "id" not in document:
        for name in _LISTS:
            if isinstance(document.get(name), list):
                document = document[name]
                break
    if isinstance(document, list):
        yield from document
    else:
        yield document
