"""`tracereel score`: rate a run, one of its steps, or a session."""

import argparse
import math

from tracereel.cli.asking import add_options, collector_command, print_json
from tracereel.cli.terminal import Terminal, clean
from tracereel.client import Client, InvalidRequestError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("name", metavar="NAME", help="What is rated, such as correct.")
    parser.add_argument(
        "value", nargs="?", metavar="VALUE", help="A number, true, false or a category."
    )
    rated = parser.add_mutually_exclusive_group(required=True)
    rated.add_argument("--run", dest="trace_id", metavar="TRACE_ID", help="Run that is rated.")
    rated.add_argument("--session", metavar="ID", help="Session that is rated.")
    parser.add_argument("--step", metavar="ID", help="With --run: the step that is rated.")
    parser.add_argument("--comment", metavar="TEXT", help="Reason, or a note without a value.")
    parser.add_argument("--author", metavar="NAME", help="Who gives the score.")
    parser.add_argument(
        "--id", metavar="ID", help="Id of the score; an earlier score with it is replaced."
    )
    add_options(parser, json_help="Print the collector's JSON.")


@collector_command
def run(args: argparse.Namespace, client: Client, terminal: Terminal) -> int:
    """Give a score and print its id."""
    value = _value(args.value) if args.value is not None else None
    common = {"comment": args.comment, "author": args.author, "id": args.id, "source": "person"}
    if args.session is not None:
        if args.step:
            raise InvalidRequestError("--step needs --run: a session has no steps")
        answer = client.score_session(args.session, args.name, value, **common)
    else:
        answer = client.score(args.trace_id, args.name, value, span_id=args.step, **common)
    if args.json:
        print_json(dict(answer))
    else:
        (made,) = answer["ids"]
        print(terminal.shown(f"score {clean(str(made))} saved"))
    return 0


def _value(text: str) -> float | bool | str:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text
