"""`tracereel sessions`: list conversations, or show one with its turns."""

import argparse
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from tracereel.cli.asking import (
    add_limit,
    add_options,
    add_score_filters,
    add_window,
    asked,
    collector_command,
    print_json,
    print_lines,
    score_filters_of,
)
from tracereel.cli.progress import progress
from tracereel.cli.steps import duration, joined, money
from tracereel.cli.tables import Cell, TableColumn, table
from tracereel.cli.terminal import Terminal, clean
from tracereel.cli.traces import STATUS_STYLES, moment
from tracereel.client import Client, Conversation, Session, ShortScore, Turn

_SCORES: Final = 4
_COLUMNS: Final = (
    TableColumn("last active", needed=6, least=19),
    TableColumn("turns", right=True, least=9, needed=7),
    TableColumn("failed", right=True, least=9, needed=6),
    TableColumn("user", needed=4, least=8),
    TableColumn("tokens", right=True, least=9, needed=2),
    TableColumn("cost", right=True, least=9, needed=5),
    TableColumn("asked", needed=3, least=12),
    TableColumn("answered", needed=0, least=12),
    TableColumn("scores", needed=1, least=12),
    TableColumn("session", needed=9, least=24),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "session_id", nargs="?", metavar="ID", help="One conversation (default: all)."
    )
    add_options(parser, json_help="Print JSON: one conversation, or one a line.")
    add_window(parser)
    parser.add_argument("--user", metavar="USER", help="Only those of a user.")
    add_score_filters(parser, "the session")
    add_limit(parser, 20, "conversations")


@collector_command
def run(args: argparse.Namespace, client: Client, terminal: Terminal) -> int:
    """Show one conversation, or a table of all."""
    if args.session_id:
        return _one(args, client, terminal)
    chosen = score_filters_of(args, "since", "until", "user")
    sessions = client.find_sessions(most=args.limit, scores=_SCORES, **chosen)
    with progress("searching") as shown:
        found = shown.collect(sessions, args.limit)
    if args.json:
        for session in found:
            print_json(session.model_dump(mode="json"))
    else:
        lacking = [each.last_trace_id for each in found if not (each.asked or each.answered)]
        contents = asked(client, [each for each in lacking if each])
        found = [
            each.model_copy(
                update=contents[each.last_trace_id].model_dump(include={"asked", "answered"})
            )
            if each.last_trace_id in contents
            else each
            for each in found
        ]
        print_lines(table(_COLUMNS, map(_row, found), terminal, empty="no conversations"))
    return 0


def _one(args: argparse.Namespace, client: Client, terminal: Terminal) -> int:
    with progress("reading"):
        answer = client.fetch("GET", f"/v1/sessions/{quote(args.session_id, safe='')}")
    if args.json:
        print_json(answer.body)
    else:
        print_lines(_turns(client.parsed(Conversation, answer.body), terminal))
    return 0


def _row(session: Session) -> list[Cell | str]:
    return [
        Cell(moment(session.ended_at), ("dim",)),
        str(session.turns),
        Cell(str(session.failed_turns or ""), ("red",)),
        ", ".join(session.users),
        f"{session.tokens:,}" if session.tokens else "",
        money(session.cost_usd) if session.cost_usd else "",
        session.asked or session.first_prompt or session.name or "",
        session.answered or "",
        ", ".join(map(_score, session.scores)),
        session.session_id,
    ]


def _score(score: ShortScore) -> str:
    value = score.value
    if isinstance(value, bool):
        value = "yes" if value else "no"
    return f"{score.name} {value:g}" if isinstance(value, float) else f"{score.name} {value or ''}"


def _turns(conversation: Conversation, terminal: Terminal) -> Iterator[str]:
    """Yield prompts and responses of a conversation, turn by turn."""
    head = [f"session {conversation.session_id}", ", ".join(conversation.users)]
    yield _fitted(joined(head), 0, terminal, "bold")
    for score in conversation.scores:
        yield _fitted(f"score     {joined([_score(score), score.comment or ''])}", 0, terminal)
    for number, turn in enumerate(conversation.turns, 1):
        yield ""
        yield from _turn(number, turn, terminal)
    if conversation.truncated:
        yield ""
        yield _fitted("only a part of it is shown", 0, terminal, "yellow")


def _turn(number: int, turn: Turn, terminal: Terminal) -> Iterator[str]:
    parts = [
        f"{number}.",
        moment(turn.started_at),
        turn.status or "",
        duration(turn.duration_ms),
        money(turn.cost_usd) if turn.cost_usd else "",
        turn.trace_id,
    ]
    style = STATUS_STYLES.get(turn.status or "", "dim")
    yield _fitted("  ".join(filter(None, parts)), 0, terminal, style)
    if turn.prompt:
        yield _fitted(f"asked     {turn.prompt}", 3, terminal)
    for one in turn.rounds:
        tools = one.get("tools") or []
        names = [str(tool.get("tool")) for tool in tools if isinstance(tool, dict)]
        words = [str(one.get("model") or ""), f"used {', '.join(names)}" if names else ""]
        agent = str(one.get("agent") or "")
        yield _fitted(f"round     {joined([agent, *words])}", 3, terminal, "dim")
    if turn.answer:
        yield _fitted(f"answered  {turn.answer}", 3, terminal)


def _fitted(value: str, indent: int, terminal: Terminal, *styles: str) -> str:
    # Spaces align the columns, so only the recorded text is cleaned.
    label, gap, rest = value.partition("  ")
    shown = terminal.shown(
        clean(label) + gap + " " * (len(rest) - len(rest.lstrip())) + clean(rest)
    )
    return " " * indent + terminal.paint(terminal.fit(shown, terminal.width - indent), *styles)
