"""Shared parts of commands that query a collector: options, exit statuses, JSON output."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tracereel.cli import connection
from tracereel.cli.terminal import Terminal, clean, harmless_json
from tracereel.client import (
    Client,
    ClientError,
    CollectorUnavailableError,
    NotFoundError,
    RunAsked,
)

EXIT_NO: Final = 1
EXIT_NO_ANSWER: Final = 2
TIMEOUT: Final = 60.0
_MAX_ASKED: Final = 100
_FILTERS: Final = {
    "agent": "Agent; may be given several times, as may all of these.",
    "pipeline": "Type of pipeline.",
    "status": "success, partial_success, failed, cancelled, running, crashed or unknown.",
    "model": "Model.",
    "provider": "Provider of the model.",
    "service": "Service.",
    "session": "Session.",
    "user": "User.",
    "error": "Type of error.",
    "category": "Category of error.",
    "code": "Code of error.",
    "attribute": "key=value, a field of an event or attribute of a span.",
}
_RANGES: Final = {
    "duration_ms": "duration in milliseconds",
    "cost_usd": "cost in US dollars",
    "tokens": "number of tokens",
    "confidence": "confidence, from 0 to 1",
}
_LEAST: Final = ("errors", "retries", "fallbacks")
"""Counts of whole runs that have a minimum filter."""
_MEASURED: Final = (*_RANGES, *_LEAST, "score", "decision_confidence")
_OF_SCORES: Final = {
    "score": ("NAME", "Name of a score; may be given several times."),
    "score_category": ("CATEGORY", "Category that was given as a score; the same."),
}

_OF_DECISIONS: Final = {
    "decision_type": (
        "TYPE",
        "Type of a decision; may be given several times, as may the next three.",
    ),
    "decision_category": ("CATEGORY", "Category of the decision."),
    "decision_agent": ("AGENT", "Agent that decided."),
    "decision_chosen": ("VALUE", "What was chosen."),
}


def add_options(parser: argparse.ArgumentParser, *, json_help: str) -> None:
    """Add `--endpoint`, `--api-key` and `--json`."""
    connection.add_options(parser)
    parser.add_argument("--json", action="store_true", help=json_help)


def add_filters(parser: argparse.ArgumentParser, **other_help: str) -> None:
    """Add the filters for runs and live records; `other_help` overrides help texts."""
    chosen = parser.add_argument_group("filters")
    for name, text in (_FILTERS | other_help).items():
        chosen.add_argument(f"--{name}", action="append", metavar=name.upper(), help=text)
    chosen.add_argument("-q", "--text", dest="q", metavar="WORDS", help="Words that must be there.")
    for name, what in _RANGES.items():
        for end, text in (("min", "Lowest"), ("max", "Highest")):
            _add_figure(chosen, f"{end}_{name}", f"{text} {what}.")


def add_run_filters(parser: argparse.ArgumentParser) -> None:
    """Add the filters that only apply to whole runs."""
    chosen = parser.add_argument_group("filters by problems")
    for name in _LEAST:
        _add_figure(chosen, f"min_{name}", f"At least so many {name}.")
    add_score_filters(parser, "a run or its steps")
    decided = parser.add_argument_group("filters by one decision")
    for name, (value, text) in _OF_DECISIONS.items():
        option = f"--{name.replace('_', '-')}"
        decided.add_argument(option, action="append", dest=name, metavar=value, help=text)
    for end, text in (("min", "Lowest"), ("max", "Highest")):
        _add_figure(decided, f"{end}_decision_confidence", f"{text} confidence of the decision.")
    text = "Decided although the confidence was below the threshold."
    decided.add_argument("--below-threshold", action="store_const", const=True, help=text)


def add_score_filters(parser: argparse.ArgumentParser, rated: str) -> None:
    """Add the filters by scores."""
    scored = parser.add_argument_group(f"filters by scores of {rated}")
    for name, (value, text) in _OF_SCORES.items():
        option = f"--{name.replace('_', '-')}"
        scored.add_argument(option, action="append", dest=name, metavar=value, help=text)
    _add_figure(scored, "min_score", "Scored at least so; yes is 1, no is 0.")
    _add_figure(scored, "max_score", "Scored at most so.")


def _add_figure(group: Any, name: str, text: str) -> None:
    option = f"--{name.replace('_', '-')}"
    group.add_argument(option, dest=name, type=connection.number, metavar="N", help=text)


def add_limit(parser: argparse.ArgumentParser, limit: int, items: str) -> None:
    """Add `--limit`."""
    text = f"Most {items} ({limit})."
    parser.add_argument("--limit", type=connection.positive, default=limit, metavar="N", help=text)


def add_window(parser: argparse.ArgumentParser) -> None:
    """Add `--since` and `--until`."""
    parser.add_argument("--since", metavar="WHEN", help="From then on: a time, or 2h, 7d.")
    parser.add_argument("--until", metavar="WHEN", help="Up to then.")


def filters_of(args: argparse.Namespace, *more: str) -> dict[str, Any]:
    """Return the filters that were given."""
    ranges = (f"{end}_{name}" for end in ("min", "max") for name in _MEASURED)
    return _given(
        args, *_FILTERS, *_OF_SCORES, *_OF_DECISIONS, "below_threshold", "q", *ranges, *more
    )


def score_filters_of(args: argparse.Namespace, *more: str) -> dict[str, Any]:
    """Return the filters by scores that were given."""
    return _given(args, *_OF_SCORES, "min_score", "max_score", *more)


def _given(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(args, name, None)) is not None}


def asked(client: Client, trace_ids: Sequence[str]) -> dict[str, RunAsked]:
    """Return the last question and answer of each run, by trace id."""
    found: dict[str, RunAsked] = {}
    for start in range(0, len(trace_ids), _MAX_ASKED):
        found |= client.asked(trace_ids[start : start + _MAX_ASKED])
    return found


Show = Callable[[argparse.Namespace, Client, Terminal], int]


def collector_command(show: Show) -> Callable[[argparse.Namespace], int]:
    """Make the `run` of a command from a function that needs a client and a terminal."""
    return lambda args: with_client(args, lambda client, terminal: show(args, client, terminal))


def with_client(args: argparse.Namespace, work: Callable[[Client, Terminal], int]) -> int:
    """Run a function with a client; map errors to exit statuses."""
    return with_exit_status(args, lambda: work(client_of(args), Terminal.of(sys.stdout)))


def client_of(args: argparse.Namespace) -> Client:
    """Return a client for the collector that the options name."""
    settings = connection.config_of(args)
    return Client(settings.endpoint, settings.api_key or "", TIMEOUT)


def with_exit_status(args: argparse.Namespace, work: Callable[[], int]) -> int:
    """Run a function; print errors of the client and map them to exit statuses."""
    try:
        return work()
    except NotFoundError as error:
        return failed(args.command, str(error), EXIT_NO)
    except CollectorUnavailableError as error:
        hint = connection.start_hint(connection.config_of(args).endpoint)
        return failed(args.command, f"{error}; {hint}", EXIT_NO_ANSWER)
    except ClientError as error:
        return failed(args.command, str(error), EXIT_NO_ANSWER)


def failed(command: str, message: str, status: int) -> int:
    """Print an error, maybe with server text, as one safe line; return the status."""
    print(f"tracereel {command}: {clean(message)}", file=sys.stderr)
    return status


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of text."""
    for line in lines:
        print(line)


def print_json(document: Any) -> None:
    """Print a JSON document on one line, with terminal control characters escaped."""
    sys.stdout.flush()
    text = (
        document.decode("utf-8", "replace")
        if isinstance(document, bytes)
        else json.dumps(document, ensure_ascii=False)
    )
    data = harmless_json(text).encode()
    sys.stdout.buffer.write(data if data.endswith(b"\n") else data + b"\n")
    sys.stdout.buffer.flush()
