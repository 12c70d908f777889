"""`tracereel replay`: show a recorded run, play it back, or re-execute it."""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tracereel.cli import rerun
from tracereel.cli.asking import (
    EXIT_NO_ANSWER,
    add_options,
    failed,
    print_json,
    print_lines,
    with_client,
)
from tracereel.cli.connection import there, times
from tracereel.cli.diff import override_text
from tracereel.cli.progress import progress
from tracereel.cli.steps import count, duration, joined, money, some, tokens
from tracereel.cli.tail import line_of
from tracereel.cli.terminal import Terminal, quoted
from tracereel.cli.timeline import render
from tracereel.cli.trace import drawn
from tracereel.client import Client, ClientError, Replayable, RunState

MAX_SHOWN: Final = 5
_REPLAYABLE: Final = {"yes": "can be run again", "partly": "can be run again in part"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "trace_id", metavar="TRACE_ID", help="The run; the file of a tape can be run again."
    )
    add_options(
        parser,
        json_help="Print JSON for machines: the collector's as it is, or the report of a re-execution.",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--play", action="store_true", help="Play it again, at its own pace.")
    how.add_argument(
        "--at",
        metavar="WHEN",
        help="How it was at a moment: a time, or milliseconds after its beginning.",
    )
    rerun.add_options(parser)
    parser.add_argument(
        "--speed",
        type=times,
        metavar="N",
        help="With --play: so many times as fast; 0 is without pauses.",
    )


def run(args: argparse.Namespace) -> int:
    """Show, play back or re-execute a run."""
    if unread := _unread(args):
        args.complain(unread)
    if rerun.is_asked_for(args):
        return rerun.run(args)
    if Path(args.trace_id).is_file():
        again = f"tracereel replay {quoted(args.trace_id)} --run"
        message = f"{args.trace_id} is a file, which can only be run again: {again}"
        return failed(args.command, message, EXIT_NO_ANSWER)
    show = _play if args.play else _state if args.at else _replay
    return with_client(args, lambda client, terminal: show(args, client, terminal))


def _unread(args: argparse.Namespace) -> str | None:
    """Return an error message for options that would be ignored."""
    if rerun.is_asked_for(args):
        shown = {"--play": args.play, "--at": args.at}
        for option, given in shown.items():
            if given:
                return f"{option} shows what was recorded: it does not go with re-execution"
    if args.speed is not None and not args.play:
        return "--speed goes with --play"
    return None


def _replay(args: argparse.Namespace, client: Client, terminal: Terminal) -> int:
    with progress("reading"):
        replay = client.replay(args.trace_id)
        found = None if args.json else _replayable(client, args.trace_id)
    if args.json:
        print_json(replay.raw)
        return 0
    print_lines(render(replay, terminal))
    if found is not None:
        print_lines(about_tape(found, terminal, there(args)))
    return 0


def _replayable(client: Client, trace_id: str) -> Replayable | None:
    """Return re-execution data, or None from a collector that does not support it."""
    try:
        return client.replayable(trace_id)
    except ClientError:
        return None


def _play(args: argparse.Namespace, client: Client, terminal: Terminal) -> int:
    with client.replay_stream(
        args.trace_id, speed=1.0 if args.speed is None else args.speed
    ) as stream:
        for step in stream:
            if args.json:
                shown = {"time": step.time, "event": step.event, "details": step.details}
                print_json({**shown, **step.more})
            else:
                print(line_of(step, terminal), flush=True)
    return 0


def _state(args: argparse.Namespace, client: Client, terminal: Terminal) -> int:
    with progress("reading"):
        state = client.state(args.trace_id, args.at)
    if args.json:
        print_json(state.model_dump(mode="json"))
    else:
        print_lines(_lines(state, terminal))
    return 0


def _lines(state: RunState, terminal: Terminal) -> Iterator[str]:
    counts = [
        f"{state.under_way} under way",
        f"{state.finished} finished",
        f"{state.to_come} to come",
        some(state.errors_so_far, "error", "errors"),
    ]
    rows = [
        ("trace", state.trace_id),
        ("after", duration(state.offset_ms)),
        ("state", state.state or ""),
        ("steps", joined(counts)),
        ("used", joined([tokens(state.tokens), money(state.cost_usd)])),
    ]
    yield from terminal.rows(rows)
    yield ""
    depths: dict[str, int] = {}
    for step in state.steps:
        depths[step.id] = depths.get(step.parent_id or "", -1) + 1
    yield from drawn(state.steps, [depths[step.id] for step in state.steps], terminal)


def about_tape(found: Replayable, terminal: Terminal, there: str = "") -> Iterator[str]:
    """Yield the lines below a run that has a tape: feasibility, re-executions, branches.

    `there` is the endpoint option for suggested commands.
    """
    if found.recorded:
        yield ""
        yield from terminal.rows(_tape_rows(found, there))


def _tape_rows(found: Replayable, there: str) -> Iterator[tuple[str, str]]:
    outcome = _REPLAYABLE.get(found.replayable, "cannot be run again")
    yield "tape", joined([outcome, count(found.calls, "call", "calls")])
    for reason in found.reasons[:MAX_SHOWN]:
        yield "", reason
    if found.command:
        yield "", f"{found.command}{there}"
    # Forks are shown below as branches.
    replays = [each for each in found.replays if not each.get("branch")]
    for replay in replays[-MAX_SHOWN:]:
        outcome = "as recorded" if replay.get("identical") else "another way"
        yield "replayed", joined([str(replay.get("time"))[:19], outcome])
        for each in (replay.get("divergences") or ())[:MAX_SHOWN]:
            where = f" at {each['location']}" if each.get("location") else ""
            yield "", f"{each.get('kind')}: {each.get('path')}{where}"
            for difference in each.get("differences") or ():
                yield "", f"  {difference}"
    if found.branches:
        yield from _branch_rows(found.branches, found.trace_id, 0)


def _branch_rows(node: Mapping[str, Any], here: str, depth: int) -> Iterator[tuple[str, str]]:
    mark = " (this run)" if node.get("trace_id") == here else ""
    at = f" from call {node['at']} on" if node.get("at") else ""
    changes = "; ".join(map(override_text, node.get("overrides") or ()))
    text = f"{'  ' * depth}{node.get('trace_id')}{mark}{at}{': ' if changes else ''}{changes}"
    yield "branches" if depth == 0 else "", text
    for each in node.get("branches") or ():
        yield from _branch_rows(each, here, depth + 1)
