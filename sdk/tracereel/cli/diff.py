"""`tracereel diff`: compare two runs step by step."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tracereel.cli.asking import EXIT_NO, add_options, collector_command, print_json, print_lines
from tracereel.cli.progress import progress
from tracereel.cli.steps import count, duration, joined, money, number, text
from tracereel.cli.terminal import Terminal, clean, display_width
from tracereel.client import Client, Diff, Difference

_MARKS: Final = {
    "added": ("+", "green"),
    "removed": ("-", "red"),
    "changed": ("~", "yellow"),
}
_MAX_INDENT: Final = 8


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("a", metavar="A", help="The run to compare with.")
    parser.add_argument("b", metavar="B", help="The run to compare.")
    add_options(parser, json_help="Print the collector's JSON.")
    parser.add_argument("--all", action="store_true", help="Show steps that are the same too.")


@collector_command
def run(args: argparse.Namespace, client: Client, terminal: Terminal) -> int:
    """Show the differences; the status is 1 if there are any."""
    with progress("comparing"):
        diff = client.diff(args.a, args.b, everything=args.all)
    if args.json:
        print_json(diff.model_dump(mode="json", exclude_unset=True))
    else:
        print_lines(render(diff, terminal))
    return 0 if diff.same else EXIT_NO


def render(diff: Diff, terminal: Terminal) -> Iterator[str]:
    """Yield the lines to print for a comparison."""
    totals = diff.totals
    rows = [
        ("a", joined([text(diff.a, "trace_id"), text(diff.a, "state")])),
        ("b", joined([text(diff.b, "trace_id"), text(diff.b, "state")])),
        ("fork", _fork(diff.fork)),
        ("duration", _changed(totals.get("duration_ms", {}), duration)),
        ("tokens", _changed(totals.get("tokens", {}), lambda value: f"{value:,.0f}")),
        ("cost", _changed(totals.get("cost_usd", {}), money)),
        ("wasted", _changed(totals.get("wasted_ms", {}), duration)),
        ("steps", _counts(diff.counts)),
        ("first", _first(diff)),
    ]
    yield from terminal.rows(rows)
    if diff.steps:
        yield ""
    for step in diff.steps:
        yield from _step(step, terminal)
    if diff.truncated:
        yield ""
        yield "only a part of it is shown"


def _fork(fork: Mapping[str, Any] | None) -> str:
    """Describe where a branch forked off, and its overrides."""
    if not fork:
        return ""
    at = f"from call {fork['at']} on" if fork.get("at") else ""
    return joined(
        [
            f"{clean(str(fork.get('branch')))} is a branch of {clean(str(fork.get('of')))}",
            at,
            *map(override_text, fork.get("overrides") or ()),
        ]
    )


def override_text(override: Mapping[str, Any]) -> str:
    """Describe one override of a fork briefly: `search: result is []`."""
    changes = [
        f"{name} is {override[name]}" for name in ("result", "raises", "chosen") if name in override
    ]
    given = override.get("arguments")
    if isinstance(given, dict):
        changes += [f"{name} is {value}" for name, value in given.items()]
    return clean(f"{override.get('target')}: {', '.join(changes)}")


def _first(diff: Diff) -> str:
    first = diff.first_difference
    if first is None:
        return "no difference" if diff.same else ""
    what = "" if first.what == first.change else clean(first.what or "")
    return joined([clean(f"{first.change} {_named(first.kind, first.name)}"), what])


def _named(kind: str | None, name: str | None) -> str:
    """Return kind and name of a step without repeating the kind."""
    own = bool(kind and name and name.startswith(f"{kind} "))
    return clean(f"{name}" if own else f"{kind} {name}")


def _counts(counts: Mapping[str, int]) -> str:
    names = ("added", "removed", "changed", "same")
    return joined([count(number(counts, name), name, name) for name in names if counts.get(name)])


def _step(step: Difference, terminal: Terminal) -> Iterator[str]:
    mark, style = _MARKS.get(step.change, (" ", "dim"))
    indent = "  " * min(max(0, step.depth), _MAX_INDENT)
    room = terminal.width - len(indent) - 2
    words = joined(
        [
            _named(step.kind, step.name),
            _changed(step.duration_ms, duration),
            _changed(step.tokens, lambda value: f"{value:,.0f} tokens"),
            _changed(step.cost_usd, money),
        ]
    )
    shown = terminal.fit(terminal.shown(words), room)
    yield f"{terminal.paint(mark, style)} {indent}{terminal.paint(shown, style)}"
    for name, change in step.fields.items():
        yield from _field(clean(name), change, "    " + indent, terminal)


def _field(name: str, change: Any, indent: str, terminal: Terminal) -> Iterator[str]:
    """Yield the old and new value of a field, on one line if they fit; messages one by one."""
    if not isinstance(change, dict):
        return
    indent = indent[: max(0, terminal.width // 3)]
    if isinstance(messages := change.get("messages"), list):
        yield f"{indent}{name}: {terminal.shown(_messages_counted(messages))}"
        for each in messages:
            yield from _message(each, indent + "  ", terminal)
        change = change.get("others")  # what a state has beside its messages
        if not isinstance(change, dict):
            return
    was, now = (terminal.shown(text(change, side)) or "-" for side in ("a", "b"))
    arrow = " → " if terminal.unicode else " -> "
    line = f"{name}: {was}{arrow}{now}"
    if display_width(line) <= terminal.width - len(indent):
        yield indent + terminal.shown(line)
        return
    for side, value in (("-", was), ("+", now)):
        room = terminal.width - len(indent) - 2
        yield f"{indent}{side} {terminal.fit(terminal.shown(f'{name}: {value}'), room)}"


def _messages_counted(messages: list[Any]) -> str:
    """Return `12 messages the same, 1 changed`."""
    kinds = [(text(each, "change"), int(number(each, "count") or 1)) for each in messages]
    sums = {kind: sum(many for each, many in kinds if each == kind) for kind, _ in kinds}
    same = sums.pop("same", 0)
    words = [f"{same} {'message' if same == 1 else 'messages'} the same"] if same else []
    return ", ".join([*words, *(f"{many} {clean(kind)}" for kind, many in sums.items())])


def _message(change: Any, indent: str, terminal: Terminal) -> Iterator[str]:
    """Yield the message of each side that differs."""
    if not isinstance(change, dict) or change.get("change") == "same":
        return
    for side, mark, style in (("a", "-", "red"), ("b", "+", "green")):
        message = change.get(side)
        if isinstance(message, dict):
            said = terminal.shown(f"{text(message, 'role')}: {text(message, 'text')}")
            room = terminal.width - len(indent) - 2
            yield f"{indent}{terminal.paint(f'{mark} {terminal.fit(said, room)}', style)}"


def _changed(values: Mapping[str, float | None], shown: Any) -> str:
    """Return `a → b` if they differ, else the single value."""
    was, now = number(values, "a"), number(values, "b")
    if was is None and now is None:
        return ""
    if was is None or now is None or was == now:
        return str(shown(now if now is not None else was))
    return f"{shown(was)} → {shown(now)}"
