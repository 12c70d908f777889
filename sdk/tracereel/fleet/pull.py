"""Fetch the tapes of chosen runs from a collector into a fleet file."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from tracereel.client import Client
from tracereel.client.errors import UnexpectedAnswerError
from tracereel.fleet.choosing import Variety, in_share
from tracereel.fleet.file import FleetWriter, writing
from tracereel.tape.format import TapeError, parse

Shape = TypeVar("Shape")
AT_ONCE: Final = 100
"""Tapes per request."""
PAGE: Final = 500

Pulled = Callable[[int, int | None], None]
"""Callback with the number of runs looked at, and of all if known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullSelection:
    """Which runs are pulled."""

    filters: dict[str, Any] = field(default_factory=dict)
    share: float = 1.0
    variety: int = 0
    """Runs per path through the program; 0 for all runs."""
    limit: int = 10_000
    """Runs in the file."""
    look: int = 100_000
    """Runs looked at."""

    def shown(self) -> dict[str, Any]:
        """Return the selection for the header of a file."""
        filters = {name: str(value) for name, value in self.filters.items()}
        return {"filters": filters, "share": self.share, "variety": self.variety}


@dataclass(slots=True)
class PullOutcome:
    """Result of a pull."""

    looked_at: int = 0
    written: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Runs that are not in the file, by reason."""
    paths: int = 0
    size: int = 0


class _Line(msgspec.Struct):
    trace_id: str
    part: msgspec.Raw


class _Last(msgspec.Struct):
    rest: list[str]


def pull(
    client: Client, path: str | Path, selection: PullSelection, *, noted: Pulled | None = None
) -> PullOutcome:
    """Write the tapes of the chosen runs into a file.

    Raises:
        ClientError: the collector is unreachable or refuses.
    """
    outcome = PullOutcome()
    variety = Variety(selection.variety) if selection.variety else None
    with writing(path, selection.shown()) as writer:
        for ids in _batches(_chosen(client, selection, outcome)):
            for trace_id, parts in _tapes(client, ids):
                _add(writer, outcome, selection, variety, trace_id, parts)
            if noted is not None:
                noted(outcome.looked_at, None)
            if writer.runs >= selection.limit or writer.full:
                break
        outcome.written = writer.runs
    outcome.paths = variety.paths if variety is not None else 0
    outcome.size = Path(path).stat().st_size
    return outcome


def _chosen(client: Client, selection: PullSelection, outcome: PullOutcome) -> Iterator[str]:
    for run in client.find(most=selection.look, page_size=PAGE, **selection.filters):
        outcome.looked_at += 1
        if in_share(run.trace_id, selection.share):
            yield run.trace_id
        else:
            outcome.left_out["not in the share"] += 1


def _batches(ids: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(ids)
    while some := list(islice(rest, AT_ONCE)):
        yield some


def _tapes(client: Client, ids: list[str]) -> Iterator[tuple[str, list[msgspec.Raw]]]:
    """Yield each run and the parts of its tape, none if it has no tape."""
    left = ids
    while left:
        *lines, last = client.fetch("GET", "/v1/tapes", {"trace_id": left}).body.splitlines() or [
            b""
        ]
        rest = _decoded(client, last, _Last).rest
        parts: dict[str, list[msgspec.Raw]] = {each: [] for each in left if each not in rest}
        for line in lines:
            found = _decoded(client, line, _Line)
            if found.trace_id in parts:
                parts[found.trace_id].append(found.part)
        yield from parts.items()
        # Each answer has at least one run; a collector that sends none ends the loop.
        left = rest if len(rest) < len(left) else []


def _decoded(client: Client, line: bytes, kind: type[Shape]) -> Shape:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.DecodeError as error:
        raise UnexpectedAnswerError(
            f"{client.endpoint} sent something that is not a tape ({error}); is it a tracereel"
            " collector of this version?"
        ) from error


def _add(
    writer: FleetWriter,
    outcome: PullOutcome,
    selection: PullSelection,
    variety: Variety | None,
    trace_id: str,
    parts: list[msgspec.Raw],
) -> None:
    if not parts:
        outcome.left_out["no tape"] += 1
    elif writer.runs >= selection.limit or writer.full:
        outcome.left_out["the file is full"] += 1
    elif variety is not None and not _is_new(variety, trace_id, parts):
        outcome.left_out["enough runs of this path"] += 1
    else:
        writer.add(trace_id, parts)


def _is_new(variety: Variety, trace_id: str, parts: list[msgspec.Raw]) -> bool:
    try:
        tape = parse(map(bytes, parts), where=trace_id)
    except TapeError:
        return True  # the replay reports it
    return variety.wants(tape)
