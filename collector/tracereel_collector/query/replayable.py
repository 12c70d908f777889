"""Tapes of a run: recorded calls, replayability, re-executions, and branches made from it."""

import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from tracereel.tape.format import Tape, TapeError, parse
from tracereel.tape.text import is_dotted
from tracereel_collector.errors import UnknownResourceError
from tracereel_collector.query.event_contents import EventContents, StoredPayload
from tracereel_collector.query.store_reader import StoreReader, read_rows
from tracereel_collector.store.sql import query

MAX_PARTS: Final = 100_000
"""Parts returned of a tape; if more exist, the SDK detects the missing end."""
MAX_TAPES: Final = 50
"""Tapes listed per run, one per emitter."""
MAX_GENERATIONS: Final = 12
"""Maximum depth of branches that is followed, up and down."""
MAX_BRANCHES: Final = 200
MAX_REPLAYS: Final = 50
_UNRECORDED: Final = (
    "it was not recorded: tracereel.configure(record=…) has to be errors, sampled or all,"
    " before it runs"
)
_NOT_CHOSEN: Final = (
    "recording was on for a share of the runs (record=sampled, record_rate={rate:g}), and this run is"
    ' not among them: for every run, tracereel.configure(record="all")'
)
_DID_NOT_FAIL: Final = (
    "recording was on for runs in which something fails (record=errors), and nothing failed in this"
    ' one: for every run, tracereel.configure(record="all")'
)


class TapeName(msgspec.Struct, array_like=True, frozen=True):
    """Identity of one tape of a run: recording emitter and tape id."""

    trace_id: str
    emitter_id: str
    tape_id: str


def tapes_of(store: StoreReader, tenant: str, trace_ids: list[str]) -> dict[str, list[TapeName]]:
    """List the tapes of runs, one per emitter; the first one is the root tape.

    The root tape is that of the emitter that began the run. If that emitter recorded none, it is the
    tape that arrived first.
    """
    given = {"tenant": tenant, "trace_ids": trace_ids, "limit": MAX_TAPES}
    found: dict[str, list[TapeName]] = {trace_id: [] for trace_id in trace_ids}
    for tape in read_rows(store, query("tapes_of_runs"), TapeName, **given):
        found[tape.trace_id].append(tape)
    return found


@dataclass(frozen=True, slots=True)
class Tapes:
    """Query of `GET /v1/traces/{trace_id}/tape`."""

    store: StoreReader

    def lines(self, tenant: str, trace_id: str, emitter_id: str | None = None) -> bytes:
        """Return the parts as NDJSON, each line the event as sent; default: of the root tape."""
        tapes = tapes_of(self.store, tenant, [trace_id])[trace_id]
        if emitter_id is not None:
            tapes = [tape for tape in tapes if tape.emitter_id == emitter_id]
        if not tapes:
            by = f" by emitter {emitter_id!r}" if emitter_id is not None else ""
            raise UnknownResourceError(
                f"no tape of trace {trace_id!r}{by}",
                hint=f"why there is none: GET /v1/traces/{trace_id}/replayable",
            )
        given = {**msgspec.structs.asdict(tapes[0]), "tenant": tenant, "limit": MAX_PARTS}
        rows = read_rows(self.store, query("tape"), tuple[int, str], **given)
        stored = [StoredPayload(number, payload) for number, payload in rows]
        parts = EventContents(self.store, max_bytes=sys.maxsize).whole(tenant, stored)
        return b"".join(payload.encode().rstrip() + b"\n" for payload in parts)


@dataclass(slots=True)
class ReplayNotes:
    """Facts about a run from its tapes."""

    tape: Tape | None = None
    damage: str = ""
    """Reason why the stored parts are not a valid tape."""
    calls: int = 0
    replays: list[dict[str, Any]] = field(default_factory=list)
    other_emitters: list[str] = field(default_factory=list)
    """Emitters with tapes of the run other than the root tape."""

    @property
    def origin(self) -> dict[str, Any] | None:
        """Run that this one forked off, with the call and the overrides."""
        found = self.tape.header.get("forked_from") if self.tape is not None else None
        return found if isinstance(found, dict) and found.get("trace_id") else None

    @property
    def branches(self) -> list[dict[str, Any]]:
        """Re-executions that created a new run."""
        return [each for each in self.replays if each.get("branch")]


@dataclass(frozen=True, slots=True)
class ReplayableRun:
    """Query of `GET /v1/traces/{trace_id}/replayable`."""

    store: StoreReader

    def document(self, tenant: str, trace_id: str) -> bytes:
        """Return the answer as JSON; a run without a tape is not replayable."""
        known = self._read(tenant, [trace_id])
        notes = known[trace_id]
        tape = notes.tape
        if tape is None and not notes.replays and not notes.damage:
            asked = {"tenant": tenant, "trace_id": trace_id}
            if not self.store.select(query("run_exists"), asked, fmt="TabSeparated"):
                raise UnknownResourceError(
                    f"Run not found: {trace_id!r}", hint="see GET /v1/traces"
                )
        first = self._first_ancestor(tenant, trace_id, known)
        family = self._tree(tenant, first, known)
        header = tape.header if tape is not None else {}
        answer = {
            "trace_id": trace_id,
            "replayable": tape.state if tape is not None else "no",
            "recorded": tape is not None,
            "reasons": [notes.damage] if notes.damage else self._reasons(tenant, trace_id, tape),
            "calls": notes.calls,
            "entry": header.get("entry"),
            "command": _command(trace_id, tape),
            "commit": header.get("commit"),
            "recorded_at": header.get("started"),
            "forked_from": notes.origin,
            "other_emitters": notes.other_emitters,
            "replays": notes.replays[-MAX_REPLAYS:],
            "branches": family if family["branches"] else None,
        }
        return msgspec.json.encode(answer)

    def _reasons(self, tenant: str, trace_id: str, tape: Tape | None) -> list[str]:
        """Return why a run is not fully replayable, or why it has no tape."""
        if tape is not None:
            return list(tape.reasons)
        asked = {"tenant": tenant, "trace_id": trace_id}
        rows = read_rows(self.store, query("run_recording"), tuple[str, float], **asked)
        for recording, rate in rows:
            if recording == "sampled":
                return [_NOT_CHOSEN.format(rate=rate)]
            if recording == "errors":
                return [_DID_NOT_FAIL]
        return [_UNRECORDED]

    def fork_of(self, tenant: str, a: str, b: str) -> dict[str, Any] | None:
        """Return how one of two runs forked off the other, or `None`."""
        known = self._read(tenant, [a, b])
        for child, parent in ((b, a), (a, b)):
            origin = known[child].origin
            if origin is not None and origin["trace_id"] == parent:
                at, overrides = origin.get("at"), origin.get("overrides") or []
                return {"branch": child, "of": parent, "at": at, "overrides": overrides}
        return None

    def _first_ancestor(self, tenant: str, trace_id: str, known: dict[str, ReplayNotes]) -> str:
        for _ in range(MAX_GENERATIONS):
            origin = known[trace_id].origin
            if origin is None or origin["trace_id"] in known:
                break
            parent = str(origin["trace_id"])
            found = self._read(tenant, [parent])
            if found[parent].tape is None:
                break
            known |= found
            trace_id = parent
        return trace_id

    def _tree(self, tenant: str, first: str, known: dict[str, ReplayNotes]) -> dict[str, Any]:
        root = _shown(first, known[first], None)
        level, seen = [root], {first}
        for _ in range(MAX_GENERATIONS):
            wanted = [
                str(each["branch"])
                for node in level
                for each in known[node["trace_id"]].branches
                if str(each["branch"]) not in known
            ]
            if wanted:
                known |= self._read(tenant, wanted[:MAX_BRANCHES])
            following: list[dict[str, Any]] = []
            for node in level:
                for each in known[node["trace_id"]].branches:
                    branch = str(each["branch"])
                    if branch in seen or branch not in known or len(seen) > MAX_BRANCHES:
                        continue
                    seen.add(branch)
                    child = _shown(branch, known[branch], each)
                    node["branches"].append(child)
                    following.append(child)
            level = following
        return root

    def _read(self, tenant: str, trace_ids: list[str]) -> dict[str, ReplayNotes]:
        tapes = tapes_of(self.store, tenant, trace_ids)
        roots = [named[0] for named in tapes.values() if named]
        rows = read_rows(
            *(self.store, query("tape_notes"), tuple[str, str, int, list[str], int, int]),
            tenant=tenant,
            trace_ids=trace_ids,
            of_traces=[root.trace_id for root in roots],
            emitter_ids=[root.emitter_id for root in roots],
            tape_ids=[root.tape_id for root in roots],
            limit=MAX_PARTS,
        )
        parts: dict[str, list[dict[str, Any]]] = {trace_id: [] for trace_id in trace_ids}
        found = {
            trace_id: ReplayNotes(other_emitters=[each.emitter_id for each in named[1:]])
            for trace_id, named in tapes.items()
        }
        for trace_id, tape_id, part, texts, calls, of_replay in rows:
            records = [msgspec.json.decode(text) for text in texts]
            if of_replay:
                found[trace_id].replays += _replays(records)
                continue
            parts[trace_id].append({"tape_id": tape_id, "part": part, "records": records})
            found[trace_id].calls += calls
        for trace_id, notes in found.items():
            try:
                notes.tape = parse(parts[trace_id], where=f"trace {trace_id}")
            except TapeError as error:
                notes.damage = str(error) if parts[trace_id] else ""
        return found


def _replays(records: Iterable[Any]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in record.items() if name != "r"}
        for record in records
        if isinstance(record, dict) and record.get("r") == "replayed"
    ]


def _shown(trace_id: str, notes: ReplayNotes, made: dict[str, Any] | None) -> dict[str, Any]:
    """Return a run as a node of the branch tree."""
    header = notes.tape.header if notes.tape is not None else {}
    made = made or {}
    return {
        "trace_id": trace_id,
        "name": header.get("name"),
        "time": header.get("started") or made.get("time"),
        "at": made.get("at"),
        "overrides": made.get("overrides") or [],
        "branches": [],
    }


def _command(trace_id: str, tape: Tape | None) -> str | None:
    """Return the shell-quoted command that re-executes a run."""
    if tape is None or tape.state == "no" or trace_id.startswith("-"):
        return None
    module, _, name = str(tape.header.get("entry") or "").partition(":")
    words = ["tracereel", "replay", trace_id, "--run"]
    # Runs that began with a block or a method have no importable function: the user must name one.
    if not module or tape.header.get("object"):
        known = is_dotted(module) and is_dotted(name)
        words.append(f"{module}:OBJECT.{name.rpartition('.')[2]}" if known else "module:function")
    return shlex.join(words)
