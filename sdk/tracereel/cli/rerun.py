"""`tracereel replay TRACE_ID --run`: re-execute a recorded run with the current code."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import tracereel
from tracereel.cli import connection
from tracereel.cli.asking import TIMEOUT
from tracereel.cli.connection import positive
from tracereel.cli.terminal import clean, quoted
from tracereel.client import (
    Client,
    ClientError,
    CollectorUnavailableError,
    TraceNotFoundError,
)
from tracereel.tape import DivergenceError, NotAllowedError, Override, TapeEndedError, TapeError
from tracereel.tape import fork as make_fork
from tracereel.tape import format as tape_format
from tracereel.tape import replay as make_replay
from tracereel.tape.choosing import choice_like
from tracereel.tape.entry import entry_point, load_function
from tracereel.tape.format import Tape
from tracereel.tape.guards import NetworkBlockedError
from tracereel.tape.overrides import result_like
from tracereel.tape.replaying import check, fetched

EXIT_DIVERGED: Final = 1
EXIT_COULD_NOT: Final = 2
MODES: Final = ("strict", "report", "live-after")
_NEXT: Final = {
    "strict": "All differences: --mode report. Real calls from the first one on: --mode live-after.",
    "report": "Real calls from the first difference on: --mode live-after, or --fork.",
}
_OVERRIDES: Final = {
    "--result": "What a call gives instead: its name or number, and a value (a text needs no quotes;"
    " of an object, the fields that change).",
    "--choose": "What a decision comes out as instead: one of its candidates, if it was recorded with any.",
    "--choose-any": "The same, also with a value that was no candidate.",
    "--argument": "What a live call is given instead, as in model-small.temperature=0.",
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
    group.add_argument("--mode", choices=MODES, default="strict", help="What a divergence does.")
    group.add_argument(
        "--fork",
        action="store_true",
        help="Record what comes of it as a run of its own: calls are served up to where a change"
        " leads elsewhere, and made for real from there on.",
    )
    group.add_argument(
        "--fork-at",
        type=positive,
        metavar="N",
        help="The same, with the calls from the N-th on made for real.",
    )
    group.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="TOOL",
        help="A tool that may run for real although it changes something; may be given again.",
    )
    group.add_argument(
        "--allow-network",
        action="append",
        default=[],
        metavar="HOST",
        help="A host that may be reached; may be given again. A fork may reach all, if none is named.",
    )
    for option, what in _OVERRIDES.items():
        group.add_argument(option, action="append", default=[], metavar="TARGET=JSON", help=what)
    group.add_argument(
        "--no-keep",
        action="store_true",
        help="Do not tell the collector what came of it.",
    )
    group.add_argument(
        "--freeze", action="store_true", help="Time, random numbers and UUIDs as in every replay."
    )


def tape_of(args: argparse.Namespace) -> "Tape":
    """Return the tape that a command names."""
    return _found(args)[0]


def _found(args: argparse.Namespace) -> "tuple[Tape, Client | None]":
    """Return the tape that a command names, and its collector's client, if any."""
    if Path(args.trace_id).is_file():
        return tape_format.load(args.trace_id), None
    if Path(args.trace_id).suffix or "/" in args.trace_id:
        raise tape_format.TapeError(f"there is no file {args.trace_id}, and it is no id of a run")
    settings = connection.config_of(args)
    client = Client(settings.endpoint, settings.api_key or "", TIMEOUT)
    return fetched(client, args.trace_id), client


def _overrides(args: argparse.Namespace, tape: "Tape") -> "list[Override]":
    """Return the overrides from the options."""
    made = []
    for given, value in map(_pair, args.result):
        target = int(given) if given.isdigit() else given
        made.append(Override(target, result=result_like(tape, target, value)))
    for target, value in map(_pair, args.choose):
        made.append(Override(target, chosen=choice_like(tape, target, value)))
    for target, value in map(_pair, args.choose_any):
        chosen = choice_like(tape, target, value)
        made.append(Override(target, chosen=chosen, any_value=True))
    for given, value in map(_pair, args.argument):
        target, _, name = given.rpartition(".")
        if not target:
            raise TapeError(
                f"{given!r} names no call; expected CALL.ARGUMENT=JSON, as in"
                " --argument model-small.temperature=0"
            )
        made.append(Override(int(target) if target.isdigit() else target, arguments={name: value}))
    return made


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
    try:
        tape, client = _found(args)
        check(tape)
        if _forks(args) and args.mode != MODES[0]:
            raise TapeError(
                f"a fork has no --mode {args.mode}: what is different in it is made for real"
            )
        if _forks(args) and client is not None:
            # Record the branch in the run's collector, unless the program configures another.
            settings = connection.config_of(args)
            tracereel.configure(endpoint=settings.endpoint, api_key=settings.api_key)
            # For programs that configure themselves from the environment.
            os.environ["TRACEREEL_ENDPOINT"] = settings.endpoint
            if settings.api_key:
                os.environ["TRACEREEL_API_KEY"] = settings.api_key
        # Load before the replay starts: import-time work is not part of the run.
        function = load_function(args.run) if args.run else entry_point(tape, _announce)
        overrides = _overrides(args, tape)
        if _forks(args):
            again = make_fork(
                tape,
                at=args.fork_at,
                freeze=args.freeze,
                allow=args.allow,
                allow_network=args.allow_network or True,
                overrides=overrides,
            )
        else:
            again = make_replay(
                tape,
                mode=args.mode,
                freeze=args.freeze,
                allow=args.allow,
                allow_network=args.allow_network,
                overrides=overrides,
            )
    except (TraceNotFoundError, TapeError) as error:
        return _fail(str(error), EXIT_DIVERGED)
    except CollectorUnavailableError as error:
        hint = connection.start_hint(connection.config_of(args).endpoint)
        return _fail(f"{error}; {hint}", EXIT_COULD_NOT)
    except ClientError as error:
        return _fail(str(error), EXIT_COULD_NOT)
    if client is not None and not args.no_keep:
        again.keep_in(client)
    refused = ""
    try:
        with again:
            result = again.call(function)
        print(f"result: {clean(repr(result))[:2000]}")
    except (DivergenceError, TapeEndedError):
        pass
    except TapeError as error:
        return _fail(str(error), EXIT_DIVERGED)
    except (NotAllowedError, NetworkBlockedError) as error:
        refused = str(error)
    except Exception as error:  # noqa: BLE001 - raised by the program, maybe also when recorded
        print(f"raised: {clean(repr(error))[:2000]}")
    for line in str(again.report).splitlines():
        print(" " * (len(line) - len(line.lstrip())) + clean(line))
    if _forks(args):
        try:
            branch = again.tape.trace_id
        except TapeError as error:
            return _fail(refused or str(error), EXIT_DIVERGED)
        print(f"recorded as {clean(branch)}")
        if client is not None:
            runs = f"{quoted(tape.trace_id)} {quoted(branch)}"
            print(f"compare: {connection.program()} diff {runs}{connection.there(args)}")
    if refused:
        return _fail(refused, EXIT_DIVERGED)
    if _forks(args):
        return 0
    if again.report.divergences and overrides:
        print("To see what comes of a change, and record it as a run of its own: --fork.")
    elif again.report.divergences and args.mode in _NEXT:
        print(_NEXT[args.mode])
    return 0 if again.report.identical else EXIT_DIVERGED


def is_asked_for(args: argparse.Namespace) -> bool:
    """Return whether any option requests a re-execution."""
    changes = args.result or args.choose or args.choose_any or args.argument
    others = args.allow or args.allow_network or args.freeze or args.mode != MODES[0]
    return bool(args.run is not None or _forks(args) or changes or others)


def _forks(args: argparse.Namespace) -> bool:
    return bool(args.fork or args.fork_at is not None)


def _announce(line: str) -> None:
    print(f"tracereel replay: {clean(line)}", file=sys.stderr, flush=True)


def _fail(message: str, status: int) -> int:
    print(f"tracereel replay: {clean(message)}", file=sys.stderr)
    return status
