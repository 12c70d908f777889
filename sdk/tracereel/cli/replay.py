"""`tracereel replay`: show a recorded run, play it back, or re-execute it."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tracereel.cli import replayed, rerun
from tracereel.cli.asking import add_options, asked, print_json, print_lines
from tracereel.cli.command import Command
from tracereel.cli.connection import there, times
from tracereel.cli.progress import progress
from tracereel.cli.registry import BASE_COMMANDS
from tracereel.cli.steps import count, duration, money
from tracereel.cli.tail import line_of
from tracereel.cli.terminal import Terminal, clean, quoted
from tracereel.cli.timeline import render
from tracereel.cli.tree import branches, line_of_step
from tracereel.client import Client, ClientError, Replayable, RunState


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "trace_id", metavar="TRACE_ID", help="The run; the file of a tape can be run again."
    )
    add_options(parser, json_help="Print the collector's JSON as it is, for machines.")
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


def _run(args: argparse.Namespace) -> int:
    if unread := _unread(args):
        args.complain(unread)
    if rerun.is_asked_for(args):
        return rerun.run(args)
    if Path(args.trace_id).is_file():
        print(
            f"tracereel replay: {clean(args.trace_id)} is a file, which can only be run again:"
            f" tracereel replay {quoted(args.trace_id)} --run",
            file=sys.stderr,
        )
        return rerun.EXIT_COULD_NOT

    def show(client: Client, terminal: Terminal) -> int:
        if args.play:
            return _play(args, client, terminal)
        return _state(args, client, terminal) if args.at else _replay(args, client, terminal)

    return asked(args, show)


def _unread(args: argparse.Namespace) -> str | None:
    """Return an error message for options that would be ignored."""
    if rerun.is_asked_for(args):
        shown = {"--play": args.play, "--at": args.at, "--json": args.json}
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
        print_lines(replayed.lines(found, terminal, there(args)))
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
        count(state.errors_so_far, "error", "errors") if state.errors_so_far else "",
    ]
    rows = [
        ("trace", clean(state.trace_id)),
        ("after", duration(state.offset_ms)),
        ("state", clean(state.state or "")),
        ("steps", " · ".join(filter(None, counts))),
        ("used", " · ".join(filter(None, [_tokens(state), money(state.cost_usd)]))),
    ]
    for label, value in rows:
        if value:
            shown = terminal.fit(terminal.shown(value), terminal.width - 10)
            yield f"{terminal.paint(f'{label:<9}', 'dim')} {shown}"
    yield ""
    depths: dict[str, int] = {}
    for step in state.steps:
        depths[step.id] = depths.get(step.parent_id or "", -1) + 1
    drawn = branches([depths[step.id] for step in state.steps], terminal)
    for step, branch in zip(state.steps, drawn, strict=True):
        yield line_of_step(step, branch, terminal)


def _tokens(state: RunState) -> str:
    return f"{state.tokens:,} tokens" if state.tokens else ""


COMMAND: Final = Command("replay", BASE_COMMANDS["replay"].help, _configure, _run)
