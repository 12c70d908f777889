"""Sessions: list, and detail with turns and their rounds of model and tool calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tracereel._redact.event_redaction import owner_forms
from tracereel_collector.errors import UnknownResourceError
from tracereel_collector.query import cursor as cursors
from tracereel_collector.query.content.questions import Questions, Said
from tracereel_collector.query.content.run_texts import add_texts
from tracereel_collector.query.costs import shown_unpriced
from tracereel_collector.query.event_contents import EventContents, StoredPayload
from tracereel_collector.query.filters import COLUMNS, NOT_SCORED, Scored, check_scored
from tracereel_collector.query.found_details import MAX_SCORES, add_scores, scores_of_sessions
from tracereel_collector.query.run.timeline import stored_payload
from tracereel_collector.query.search import Reach, Search
from tracereel_collector.query.store_reader import StoreReader, read_rows, shown_row, usd
from tracereel_collector.query.window import DAY, HOUR, Window, hour_of
from tracereel_collector.store.rollups import MAX_TAG
from tracereel_collector.store.sql import query

MAX_SESSIONS = 500
MAX_TURNS = 500
MAX_SCORED = 10_000
"""Maximum sessions that a filter by scores considers, the most recently scored."""
MAX_STEPS = 20_000
MAX_SESSION_EVENTS = 5_000
"""Maximum events of one page of a session."""
MAX_TEXT = 2_000
"""Maximum length of an argument, result or answer shown of a step, in characters."""
_WIDER = (HOUR, DAY)
"""Look-back periods that are tried before the whole window."""
_RUNS_WHERE = """s.trace_id GLOBAL IN (
    SELECT trace_id FROM trace_summaries
    WHERE tenant = {tenant:String} AND hour >= {first_hour:DateTime('UTC')}
      AND hour <= {last_hour:DateTime('UTC')} AND %s)"""
_RECENT = _RUNS_WHERE % "ended >= fromUnixTimestamp64Nano({since:Int64}, 'UTC')"
_NAMED = _RUNS_WHERE % (
    # The index finds candidate rows; comparing the tags of every row would be slow.
    "indexHint(hasAny(tags, {session_tags:Array(String)}))"
    " AND arrayFirst(t -> startsWith(t, 'session:'), arraySort(tags)) IN {session_tags:Array(String)}"
)
"""Conditions on whole runs, because the session tag may be in any of their hours."""
_FAILED = ("failed", "cancelled")
_LATEST = cursors.CursorPosition(value=2**63 - 1, name="\U0010ffff")


class _Session(
    msgspec.Struct,
    array_like=True,
    frozen=True,
    gc=False,
    rename={
        "session": "session_id",
        "runs": "turns",
        "failed_runs": "failed_turns",
        "last_run": "last_trace_id",
    },
):
    """Row of `sessions.sql`."""

    session: str
    last: int
    started_at: str
    ended_at: str
    runs: int
    failed_runs: int
    errors: int
    tokens: int
    nano_usd: int
    unpriced: dict[str, int]
    users: list[str]
    last_run: str
    last_status: str
    last_opened: str
    answered: str
    opened: str


class _SessionStepRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `session_steps.sql`."""

    trace_id: str
    clock: int
    sequence_number: int
    kind: str
    agent: str
    name: str
    tool_call_id: str
    status: str
    duration_ms: float
    tokens: int | None
    cost_usd: float | None
    asked: str
    answered: str
    round: int
    """Number of the agent's round that made a tool call; 0 if unknown."""


class _SessionNumbers(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `session_numbers.sql`."""

    trace_id: str
    first: int
    last: int
    events: int


@dataclass(frozen=True, slots=True)
class Sessions:
    """Queries of `GET /v1/sessions` and `GET /v1/sessions/{session_id}`."""

    store: StoreReader
    search: Search
    questions: Questions

    def list_document(
        self,
        tenant: str,
        window: Window,
        *,
        user: str,
        scored: Scored = NOT_SCORED,
        scores: int = 0,
        limit: int,
        cursor: str | None,
    ) -> bytes:
        """Return the sessions active in a window as JSON, most recent first, each with `scores`."""
        question = cursors.digest(["sessions", user, msgspec.to_builtins(scored)])
        place = cursors.decode(cursor, question) if cursor else _LATEST
        reach = self.search.reach(tenant)
        asked: dict[str, Any] = {
            "tenant": tenant,
            "place": place.value,
            "place_name": place.name,
            "limit": limit + 1,
            "first_hour": hour_of(window.start or 0),
            "last_hour": hour_of(window.end if window.end is not None else 2**62),
        }
        among: list[str] = []
        if scored != NOT_SCORED:
            check_scored(scored)
            among = self._scored(tenant, scored)
            if not among:
                return msgspec.json.encode({"sessions": [], "next": None, "window": window.shown()})
        # With a user filter only that user's runs count, and linked spans may belong to other runs:
        # in both cases all runs must be read.
        elif not user and not reach.linked:
            lately = self._lately(asked, reach, min(place.value, reach.newest + HOUR))
            among = [f"session:{name}" for name in lately]
        asked["session_tags"] = among
        shown = ("status", "errors", "tokens", "nano_usd", "unpriced")
        fragments = {name: COLUMNS[name] for name in shown}
        statement = reach.fill("sessions", first=_NAMED if among else "", **fragments)
        users = [f"user:{form[:MAX_TAG]}" for form in owner_forms(user)] if user else []
        given = {**asked, **reach.costs.parameters, "user_tags": users}
        rows = read_rows(self.store, statement, _Session, **given)
        following = None
        if len(rows) > limit:
            del rows[limit:]
            last = cursors.CursorPosition(value=rows[-1].last, name=rows[-1].session)
            following = cursors.encode(last, question)
        sessions = [_shown(row) for row in rows]
        of_last = {"run": "last_trace_id", "status": "last_status"}
        add_texts(self.store, tenant, sessions, asked="asked", answered="answered", **of_last)
        for session in sessions:
            del session["last_status"]
        if scores:
            names = [row.session for row in rows]
            given_scores = scores_of_sessions(self.store, tenant, names, scores)
            for session in sessions:
                session["scores"] = given_scores[session["session_id"]]
        return msgspec.json.encode(
            {
                "sessions": sessions,
                "next": following,
                "window": window.shown(),
            }
        )

    def _scored(self, tenant: str, scored: Scored) -> list[str]:
        """Return the tags of the sessions with a score that matches."""
        given = {**scored.parameters(), "limit": MAX_SCORED}
        rows = read_rows(self.store, query("scored_sessions"), tuple[str], tenant=tenant, **given)
        return [f"session:{form[:MAX_TAG]}" for (name,) in rows for form in owner_forms(name)]

    def _lately(self, asked: dict[str, Any], reach: Reach, newest: int) -> list[str]:
        """Return a page of session names from a recent period; empty if too few."""
        for back in _WIDER:
            since = newest - back
            if since <= reach.oldest:
                break
            statement = reach.fill("sessions_lately", first=_RECENT)
            rows = read_rows(self.store, statement, tuple[str, int], **asked, since=since)
            # Sessions last active before `since` may be missing, but they sort after all of these.
            found = [name for name, last in rows if last >= since]
            if len(found) == asked["limit"]:
                return found
        return []

    def document(
        self, tenant: str, session_id: str, *, events: int = 0, after_event: int = 0
    ) -> bytes:
        """Return one session with its turns as JSON, oldest first, and up to `events` of its events."""
        tags = [f"session:{form[:MAX_TAG]}" for form in owner_forms(session_id)]
        given = {"session_tags": tags, "limit": MAX_TURNS + 1}
        rows = read_rows(self.store, query("session_runs"), tuple[str, int], tenant=tenant, **given)
        starts = dict(rows)
        if not starts:
            raise UnknownResourceError(
                f"Session not found: {session_id!r}", hint="see GET /v1/sessions"
            )
        shown = dict(list(starts.items())[:MAX_TURNS])
        turns = self.search.by_ids(tenant, shown)
        add_scores(self.store, tenant, turns, MAX_SCORES)
        silent = (turn for turn in turns if not turn["prompt"] and not turn["answer"])
        said = self.questions.of(tenant, (turn["trace_id"] for turn in silent if turn["spans"]))
        steps = self._steps(tenant, turns)
        runs = [turn["trace_id"] for turn in turns]
        numbers = self._numbers(tenant, runs)
        listed = self._events(tenant, runs, after=after_event, limit=events) if events else None
        told = [_turn(turn, steps, numbers, said.get(turn["trace_id"])) for turn in turns]
        add_texts(self.store, tenant, told)
        return msgspec.json.encode(
            {
                "session_id": session_id,
                "users": sorted({turn["user_id"] for turn in turns if turn["user_id"]}),
                "scores": scores_of_sessions(self.store, tenant, [session_id], MAX_SCORES)[
                    session_id
                ],
                "turns": told,
                "total_events": sum(each.events for each in numbers.values()),
                **({} if listed is None else {"events": listed}),
                "truncated": len(starts) > MAX_TURNS or len(steps) == MAX_STEPS,
            }
        )

    def _numbers(self, tenant: str, runs: list[str]) -> dict[str, _SessionNumbers]:
        rows = read_rows(
            *(self.store, query("session_numbers"), _SessionNumbers), tenant=tenant, runs=runs
        )
        return {row.trace_id: row for row in rows}

    def _events(
        self, tenant: str, runs: list[str], *, after: int, limit: int
    ) -> list[dict[str, Any]]:
        """Return events with their number within the session, in that order."""
        given: dict[str, Any] = {"tenant": tenant, "runs": runs}
        page = read_rows(
            *(self.store, query("session_events"), tuple[int, int]),
            **given,
            after=after,
            limit=limit,
        )
        wanted = [number for _, number in page]
        rows = read_rows(
            *(self.store, query("session_payloads"), tuple[int, str, str]), **given, numbers=wanted
        )
        stored = [StoredPayload(number, payload) for number, _, payload in rows]
        whole = EventContents(self.store).whole(tenant, stored)
        sent = {
            number: stored_payload(payload, tenant, number, ingested_at)
            for (number, ingested_at, _), payload in zip(rows, whole, strict=True)
        }
        return [
            {"session_sequence": place, "details": msgspec.Raw(sent[number])}
            for place, number in page
            if number in sent  # deleted in between
        ]

    def _steps(self, tenant: str, turns: Sequence[dict[str, Any]]) -> list[_SessionStepRow]:
        otel_ids = {each for turn in turns for each in (turn["trace_id"], *turn["otel_trace_ids"])}
        return read_rows(
            *(self.store, query("session_steps"), _SessionStepRow),
            tenant=tenant,
            runs=[turn["trace_id"] for turn in turns],
            otel_runs=sorted(otel_ids),
            text=MAX_TEXT,
            limit=MAX_STEPS,
        )


def _shown(row: _Session) -> dict[str, Any]:
    name, _, prompt = row.opened.partition("\t")
    asked = row.last_opened.partition("\t")[2]
    others = {"name": name or None, "first_prompt": prompt or None, "asked": asked or None}
    others |= shown_unpriced(row.unpriced)
    shown = shown_row(row, cost_usd=usd(row.nano_usd), **others)
    for hidden in ("last", "nano_usd", "unpriced", "opened", "last_opened"):
        del shown[hidden]
    return shown


def _turn(
    run: dict[str, Any],
    steps: Sequence[_SessionStepRow],
    numbers: Mapping[str, _SessionNumbers],
    from_spans: Said | None,
) -> dict[str, Any]:
    """Return a run as a turn: prompt, answer and the rounds in between."""
    here = {run["trace_id"], *run["otel_trace_ids"]}
    mine = [step for step in steps if step.trace_id in here]
    place = numbers.get(run["trace_id"])
    if from_spans is not None and (from_spans.asked or from_spans.answered):
        prompt, answer = from_spans.asked, from_spans.answered
    else:
        answers = [step.answered for step in mine if step.kind == "answer" and step.answered]
        said = [step.answered for step in mine if step.kind == "model" and step.answered]
        prompt, answer = run["prompt"], next(reversed(answers or said), None)
        if run["status"] in _FAILED and not run["answer"]:
            # What a step inside of a failed run returned is not its answer.
            answer = None
    return {
        **run,
        "prompt": prompt,
        "answer": answer,
        "first_session_sequence": place and place.first,
        "last_session_sequence": place and place.last,
        "rounds": rounds(mine),
    }


def rounds(steps: Sequence[_SessionStepRow]) -> list[dict[str, Any]]:
    """Group the steps of each agent into model calls and the tool calls that follow.

    Tool calls that name their round are grouped by it: some agents report no model calls.
    """
    made: list[dict[str, Any]] = []
    current: dict[str, dict[str, Any]] = {}
    numbers: dict[str, int] = {}
    for step in steps:
        call = step if step.kind == "model" else None
        is_next = step.round > numbers.get(step.agent, 0)
        if is_next:
            numbers[step.agent] = step.round
        has_tools = bool(current.get(step.agent, {"tools": ()})["tools"])
        begins = step.agent not in current or (is_next and has_tools)
        if call is not None or (step.kind == "tool" and begins):
            current[step.agent] = {
                "agent": step.agent or None,
                "model": call and (call.name or None),
                "status": call and call.status,
                "duration_ms": call and call.duration_ms,
                "tokens": call and call.tokens,
                "cost_usd": call and call.cost_usd,
                "tools": [],
            }
            made.append(current[step.agent])
        if step.kind == "tool":
            current[step.agent]["tools"].append(
                {
                    "tool": step.name,
                    "tool_call_id": step.tool_call_id or None,
                    "status": step.status,
                    "duration_ms": step.duration_ms,
                    "arguments": step.asked or None,
                    "result": step.answered or None,
                }
            )
    return made
