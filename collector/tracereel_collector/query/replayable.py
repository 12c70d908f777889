"""Whether a run can be re-executed, what came of it when it was, and the branches that were made of it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from tracereel.tape.format import Tape, TapeError, parse
from tracereel_collector.errors import NotFoundError
from tracereel_collector.query.replay import Selects
from tracereel_collector.query.tape import MAX_PARTS
from tracereel_collector.store.sql import query

MAX_GENERATIONS: Final = 12
"""Branches of branches that are followed, up and down."""
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


@dataclass(slots=True)
class Notes:
    """What the tapes of one run say of it."""

    tape: Tape | None = None
    calls: int = 0
    replays: list[dict[str, Any]] = field(default_factory=list)

    @property
    def origin(self) -> dict[str, Any] | None:
        """The run it is a branch of, at which call, and what was changed."""
        found = self.tape.header.get("forked_from") if self.tape is not None else None
        return found if isinstance(found, dict) and found.get("trace_id") else None

    @property
    def branches(self) -> list[dict[str, Any]]:
        """The re-executions that made a run of their own."""
        return [each for each in self.replays if each.get("branch")]


@dataclass(frozen=True, slots=True)
class Replayable:
    """Answers `GET /v1/traces/{trace_id}/replayable`."""

    store: Selects

    def document(self, tenant: str, trace_id: str) -> bytes:
        """The answer as JSON; a run without a tape is one that cannot be replayed.

        Raises:
            NotFoundError: this tenant has nothing of that trace.
        """
        known = self._read(tenant, [trace_id])
        notes = known[trace_id]
        tape = notes.tape
        if tape is None and not notes.replays:
            asked = {"tenant": tenant, "trace_id": trace_id}
            if not self.store.select(query("run_exists"), asked, fmt="TabSeparated"):
                raise NotFoundError(f"no run {trace_id!r}", hint="see GET /v1/traces")
        first = self._first_ancestor(tenant, trace_id, known)
        family = self._tree(tenant, first, known)
        header = tape.header if tape is not None else {}
        answer = {
            "trace_id": trace_id,
            "replayable": tape.state if tape is not None else "no",
            "recorded": tape is not None,
            "reasons": self._reasons(tenant, trace_id, tape),
            "calls": notes.calls,
            "entry": header.get("entry"),
            "command": _command(trace_id, tape),
            "commit": header.get("commit"),
            "recorded_at": header.get("started"),
            "forked_from": notes.origin,
            "replays": notes.replays[-MAX_REPLAYS:],
            "branches": family if family["branches"] else None,
        }
        return msgspec.json.encode(answer)

    def _reasons(self, tenant: str, trace_id: str, tape: Tape | None) -> list[str]:
        """Why it cannot be replayed, or only in part; without a tape, why there is none."""
        if tape is not None:
            return list(tape.reasons)
        asked = {"tenant": tenant, "trace_id": trace_id}
        answer = self.store.select(query("run_recording"), asked, fmt="JSONCompactEachRow")
        for recording, rate in _CHOICES.decode_lines(answer):
            if recording == "sampled":
                return [_NOT_CHOSEN.format(rate=rate)]
            if recording == "errors":
                return [_DID_NOT_FAIL]
        return [_UNRECORDED]

    def fork_of(self, tenant: str, a: str, b: str) -> dict[str, Any] | None:
        """How one of two runs came to be a branch of the other, if it is one."""
        known = self._read(tenant, [a, b])
        for child, parent in ((b, a), (a, b)):
            origin = known[child].origin
            if origin is not None and origin["trace_id"] == parent:
                at, overrides = origin.get("at"), origin.get("overrides") or []
                return {"branch": child, "of": parent, "at": at, "overrides": overrides}
        return None

    def _first_ancestor(self, tenant: str, trace_id: str, known: dict[str, Notes]) -> str:
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

    def _tree(self, tenant: str, first: str, known: dict[str, Notes]) -> dict[str, Any]:
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

    def _read(self, tenant: str, trace_ids: list[str]) -> dict[str, Notes]:
        given = {"tenant": tenant, "trace_ids": trace_ids, "limit": MAX_PARTS}
        answer = self.store.select(query("tape_notes"), given, fmt="JSONCompactEachRow")
        parts: dict[str, list[dict[str, Any]]] = {trace_id: [] for trace_id in trace_ids}
        found = {trace_id: Notes() for trace_id in trace_ids}
        for trace_id, tape_id, part, texts, calls in _ROWS.decode_lines(answer):
            records = [msgspec.json.decode(text) for text in texts]
            parts[trace_id].append({"tape_id": tape_id, "part": int(part), "records": records})
            found[trace_id].calls += int(calls)
            found[trace_id].replays += _replays(records)
        for trace_id, notes in found.items():
            try:
                notes.tape = parse(parts[trace_id])
            except TapeError:
                continue
        return found


def _replays(records: Iterable[Any]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in record.items() if name != "r"}
        for record in records
        if isinstance(record, dict) and record.get("r") == "replayed"
    ]


def _shown(trace_id: str, notes: Notes, made: dict[str, Any] | None) -> dict[str, Any]:
    """A run as a node of the tree of branches."""
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
    if tape is None or tape.state == "no":
        return None
    # A run that began with a block, or a method, has no function to call: the reader has to name one.
    module, _, name = str(tape.header.get("entry") or "").partition(":")
    entry = "" if module else " module:function"
    if module and tape.header.get("object"):
        entry = f" {module}:OBJECT.{name.rpartition('.')[2]}"
    return f"tracereel replay {trace_id} --run{entry}"


_CHOICES: Final = msgspec.json.Decoder(tuple[str, float])
_ROWS: Final = msgspec.json.Decoder(tuple[str, str, int | str, list[str], int | str])
