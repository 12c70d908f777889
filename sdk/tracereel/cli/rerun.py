"""`tracereel replay TRACE_ID --run`: re-execute a recorded run with the current code."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import tracereel
from tracereel._core import replay_guard
from tracereel.cli import connection
from tracereel.cli.asking import EXIT_NO, client_of, failed, print_json, with_exit_status
from tracereel.cli.terminal import clean, quoted
from tracereel.client import Client
from tracereel.config import Config
from tracereel.errors import NetworkBlockedError, NotAllowedError
from tracereel.tape import format as tape_format
from tracereel.tape import isolation
from tracereel.tape.divergence import DivergenceError, TapeEndedError
from tracereel.tape.entry import entry_point, load_function
from tracereel.tape.format import Tape, TapeError
from tracereel.tape.options import MODES
from tracereel.tape.overrides import Override, choice_like, result_like
from tracereel.tape.replaying import Replaying, check, fetched, fork, replay
from tracereel.tape.report import Report

_NEXT: Final = {
    "strict": "All differences: --mode report. Real calls from the first one on: --mode live-after.",
    "report": "Real calls from the first difference on: --mode live-after, or --fork.",
}
_FLAGS: Final = {
    "--fork": "Record the result as a new run: calls are served until a change has an effect, and made"
    " for real from there on.",
    "--keep": "Store the result at the collector, to show with the run; a fork is always stored.",
    "--freeze": "Time, random numbers and UUIDs as in every replay.",
}
_CHANGE: Final = "TARGET=JSON"
_REPEATABLE: Final = {
    "--allow": (
        "TOOL",
        "A tool that may run for real although it changes something; may be given again.",
    ),
    "--allow-network": (
        "HOST",
        "A host that may be reached; may be given again. Forks too reach only these.",
    ),
    "--result": (
        _CHANGE,
        (
            "Another result of a call: its name or number, and a value (a text needs no quotes;"
            " of an object, the fields that change)."
        ),
    ),
    "--choose": (
        _CHANGE,
        "Outcome of a decision instead: one of its candidates, if it was recorded with any.",
    ),
    "--choose-any": (_CHANGE, "The same, also with a value that was no candidate."),
    "--argument": (
        _CHANGE,
        "Argument of a live call instead, as in model-small.temperature=0.",
    ),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a re-execution."""
    group = parser.add_argument_group("re-execution")
    group.add_argument(
        "--run",
        metavar="MODULE:FUNCTION",
        nargs="?",
        const="",
        help="Re-execute the run: call this function (the recorded entry point if none is named);"
        " calls to models and tools are served from the tape.",
    )
    group.add_argument("--mode", choices=MODES, default="strict", help="Reaction to a divergence.")
    group.add_argument(
        "--fork-at",
        type=connection.positive,
        metavar="N",
        help="As --fork, with the calls from the N-th on made for real.",
    )
    for option, text in _FLAGS.items():
        group.add_argument(option, action="store_true", help=text)
    for option, (metavar, text) in _REPEATABLE.items():
        group.add_argument(option, action="append", default=[], metavar=metavar, help=text)


def tape_of(args: argparse.Namespace) -> tuple[Tape, Client | None]:
    """Return the tape that a command names, and its collector's client, if any."""
    if Path(args.trace_id).is_file():
        return tape_format.load(args.trace_id), None
    if Path(args.trace_id).suffix or "/" in args.trace_id:
        raise TapeError(f"there is no file {args.trace_id}, and it is no id of a run")
    client = client_of(args)
    return fetched(client, args.trace_id), client


def _overrides(args: argparse.Namespace, tape: Tape) -> list[Override]:
    made = []
    for given, value in map(_pair, args.result):
        target = _number_or_name(given)
        made.append(Override(target, result=result_like(tape, target, value)))
    for option, any_value in ((args.choose, False), (args.choose_any, True)):
        for name, value in map(_pair, option):
            chosen = choice_like(tape, name, value)
            made.append(Override(name, chosen=chosen, any_value=any_value))
    for given, value in map(_pair, args.argument):
        call, _, name = given.rpartition(".")
        if not call:
            raise TapeError(
                f"{given!r} names no call; expected CALL.ARGUMENT=JSON, as in"
                " --argument model-small.temperature=0"
            )
        made.append(Override(_number_or_name(call), arguments={name: value}))
    return made


def _number_or_name(target: str) -> int | str:
    return int(target) if target.isdigit() else target


def _pair(given: str) -> tuple[str, Any]:
    target, sign, text = given.partition("=")
    if not target or not sign:
        raise TapeError(f"{given!r} changes nothing; expected TARGET=JSON, as in search=[]")
    try:
        return target, json.loads(text)
    except ValueError:
        return target, text


def run(args: argparse.Namespace) -> int:
    """Re-execute a run, print the report and return the exit status."""
    return with_exit_status(args, lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    try:
        tape, client = tape_of(args)
        check(tape)
        _check_mode(args)
        # The guard is there before the program is imported, which may start threads, and stays
        # until the process ends, for what is still running then.
        with replay_guard.installed(
            allow=args.allow, hosts=args.allow_network, stays=args.owns_process
        ):
            network = _leave_network(args)
            again, function = _prepared(args, tape, client)
            if client is not None and (args.keep or _forks(args)):
                again.keep_in(client)
            refused = _executed(again, function, quiet=args.json)
            again.report.network = network
            return _report_of(args, again, client, refused)
    except TapeError as error:
        if args.json:
            report = Report(args.trace_id, mode=args.mode, unplayable=str(error))
            print_json(report.to_json())
            return EXIT_NO
        return failed(args.command, str(error), EXIT_NO)


def _leave_network(args: argparse.Namespace) -> str:
    """Leave the network, if the run may not use it; return why not."""
    if not args.owns_process or args.allow_network or args.keep or not _only_compares(args):
        return ""
    if problem := isolation.leave_network():
        _announce(
            f"no network namespace ({problem}): sockets that are not Python's, as those of gRPC and"
            " uvloop, can reach the network"
        )
    return problem


def _only_compares(args: argparse.Namespace) -> bool:
    return not _forks(args) and args.mode != "live-after"


def _report_of(
    args: argparse.Namespace, again: Replaying, client: Client | None, refused: str
) -> int:
    """Print the report and return the exit status."""
    if args.json:
        return _as_json(args, again, refused)
    for line in str(again.report).splitlines():
        print(" " * (len(line) - len(line.lstrip())) + clean(line))
    if _forks(args):
        return _forked(args, again, client, refused)
    if refused or again.report.refused:
        return failed(args.command, refused or again.report.refused, EXIT_NO)
    if again.report.divergences and _changes(args):
        print("To see the effect of a change, and record it as a new run: --fork.")
    elif again.report.divergences and args.mode in _NEXT:
        print(_NEXT[args.mode])
    return 0 if again.report.identical else EXIT_NO


def _as_json(args: argparse.Namespace, again: Replaying, refused: str) -> int:
    """Print the report as one line of JSON."""
    report = again.report.to_json()
    if not _forks(args):
        print_json(report)
        return 0 if again.report.identical else EXIT_NO
    try:
        report["recorded_as"] = again.tape.trace_id
    except TapeError:
        report["recorded_as"] = None
    print_json(report)
    return EXIT_NO if refused or report["recorded_as"] is None else 0


def _check_mode(args: argparse.Namespace) -> None:
    if _forks(args) and args.mode != MODES[0]:
        raise TapeError(
            f"a fork has no --mode {args.mode}: what is different in it is made for real"
        )


def _prepared(args: argparse.Namespace, tape: Tape, client: Client | None) -> tuple[Replaying, Any]:
    """Return the re-execution and the function to call in it."""
    if _forks(args) and client is not None:
        _record_in_collector(connection.config_of(args))
    # Load before the replay starts: import-time work is not part of the run.
    function = load_function(args.run) if args.run else entry_point(tape, _announce)
    options = {
        "freeze": args.freeze,
        "allow": args.allow,
        "overrides": _overrides(args, tape),
    }
    if _forks(args):
        hosts = args.allow_network
        return fork(tape, at=args.fork_at, allow_network=hosts, **options), function
    return replay(tape, mode=args.mode, allow_network=args.allow_network, **options), function


def _record_in_collector(settings: Config) -> None:
    """Record a branch in the run's collector, unless the program configures another."""
    # The command's own output stays readable, unless the lines are asked for.
    lines = "off" if settings.event_logs == "auto" else settings.event_logs
    tracereel.configure(endpoint=settings.endpoint, api_key=settings.api_key, event_logs=lines)
    # For programs that configure themselves from the environment.
    os.environ["TRACEREEL_ENDPOINT"] = settings.endpoint
    if settings.api_key:
        os.environ["TRACEREEL_API_KEY"] = settings.api_key


def _executed(again: Replaying, function: Any, *, quiet: bool = False) -> str:
    """Run the function against the tape; return why it was stopped, if it was not allowed to go on."""
    try:
        with again:
            result = again.call(function)
        if not quiet:
            print(f"result: {clean(repr(result))[:2000]}")
    except (DivergenceError, TapeEndedError):
        pass
    except TapeError:
        raise
    except (NotAllowedError, NetworkBlockedError) as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - raised by the program, maybe also when recorded
        if not quiet:
            print(f"raised: {clean(repr(error))[:2000]}")
    return ""


def _forked(args: argparse.Namespace, again: Replaying, client: Client | None, refused: str) -> int:
    try:
        branch = again.tape.trace_id
    except TapeError as error:
        return failed(args.command, refused or str(error), EXIT_NO)
    print(f"recorded as {clean(branch)}")
    if client is not None:
        runs = f"{quoted(again.original.trace_id)} {quoted(branch)}"
        print(f"compare: {connection.program()} diff {runs}{connection.there(args)}")
    return failed(args.command, refused, EXIT_NO) if refused else 0


def is_asked_for(args: argparse.Namespace) -> bool:
    """Return whether any option requests a re-execution."""
    others = args.allow or args.allow_network or args.freeze or args.mode != MODES[0]
    return bool(args.run is not None or _forks(args) or _changes(args) or others)


def _changes(args: argparse.Namespace) -> bool:
    return bool(args.result or args.choose or args.choose_any or args.argument)


def _forks(args: argparse.Namespace) -> bool:
    return bool(args.fork or args.fork_at is not None)


def _announce(line: str) -> None:
    print(f"tracereel replay: {clean(line)}", file=sys.stderr, flush=True)
