"""`tracereel trace`: show a run as a tree, with branches and a description of each step."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tracereel.cli.asking import add_options, collector_command, print_json, print_lines
from tracereel.cli.content import content_lines, question_and_answer
from tracereel.cli.progress import progress
from tracereel.cli.steps import duration, joined, money, number, text, tokens
from tracereel.cli.terminal import Terminal, clean, display_width
from tracereel.cli.traces import STATUS_STYLES, moment
from tracereel.client import Client, Trace, TreeStep

MAX_DEPTH: Final = 12
"""Maximum depth that is drawn, so that lines keep room for text."""
_SYMBOLS: Final = {
    "pipeline": ("◇", "o"),
    "agent": ("▶", ">"),
    "llm": ("✦", "@"),
    "tool": ("⚙", "#"),
    "retrieval": ("⌕", "?"),
    "attempt": ("↻", "~"),
    "retry": ("↻", "~"),
    "fallback": ("↪", "^"),
}
_OTHER: Final = ("─", "-")
_TURN, _LAST, _PASS, _NONE = ("├─ ", "|- "), ("└─ ", "`- "), ("│  ", "|  "), ("   ", "   ")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("trace_id", metavar="TRACE_ID", help="The run to show.")
    add_options(parser, json_help="Print the collector's JSON.")
    parser.add_argument(
        "--step", metavar="ID", help="Only this step, what is below it, and its content."
    )
    parser.add_argument(
        "--all", action="store_true", help="With --step: also messages of the previous model call."
    )
    parser.add_argument(
        "--alone", action="store_true", help="Leave out the runs that this one started."
    )
    parser.add_argument(
        "--attempts",
        action="store_true",
        help="Also attempts, retries and fallbacks in which nothing was retried or replaced.",
    )


@collector_command
def run(args: argparse.Namespace, client: Client, terminal: Terminal) -> int:
    """Show the tree of a run, or a step and its content."""
    with progress("reading"):
        trace = client.trace(
            args.trace_id, step=args.step, linked=not args.alone, attempts=args.attempts
        )
    if args.json:
        print_json(trace.model_dump(mode="json", exclude_unset=True))
        return 0
    step = args.step or (trace.steps[0].id if trace.steps else None)
    with progress("reading"):
        content = client.content(args.trace_id, step) if step is not None else None
    said = question_and_answer(content) if content is not None and args.step is None else ()
    print_lines(render(trace, terminal, said))
    if content is not None and args.step is not None:
        print_lines(content_lines(content, terminal, everything=args.all))
    return 0


def render(trace: Trace, terminal: Terminal, said: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines to print for a run; `said` has the question and the answer."""
    yield from terminal.rows(_header(trace))
    yield from terminal.rows(zip(("asked", "answered"), said, strict=False))
    yield ""
    yield from drawn(trace.steps, [step.depth for step in trace.steps], terminal)


def drawn(steps: Sequence[TreeStep], depths: Sequence[int], terminal: Terminal) -> Iterator[str]:
    """Yield one line per step, after its branches."""
    for step, branch in zip(steps, branches(depths, terminal), strict=True):
        yield _line(step, branch, terminal)


def branches(depths: Sequence[int], terminal: Terminal) -> list[str]:
    """Return the branch prefix of each step, for depths in depth-first order."""
    at = 0 if terminal.unicode else 1
    deepest = min(MAX_DEPTH, terminal.width // 8)
    more = [False] * (MAX_DEPTH + 2)  # whether a level continues below
    drawn: list[str] = []
    for given in reversed(depths):
        depth = min(max(0, given), deepest)
        parts = [(_PASS if more[level] else _NONE)[at] for level in range(1, depth)]
        if depth:
            parts.append((_TURN if more[depth] else _LAST)[at])
        drawn.append("".join(parts))
        more[depth] = True
        more[depth + 1 :] = [False] * (len(more) - depth - 1)
    return drawn[::-1]


def _header(trace: Trace) -> Iterator[tuple[str, str]]:
    summary = trace.summary
    yield "trace", trace.trace_id
    yield "state", joined([trace.state or "", text(summary, "pipeline_type")])
    yield "started", moment(trace.time)
    took = number(summary, "duration_ms")
    yield "duration", duration(number(summary, "total_time_ms") if took is None else took)
    yield "session", trace.session_id or ""
    yield "user", trace.user_id or ""
    yield "parent", trace.parent_trace_id or ""
    wasted = summary.get("wasted")
    if isinstance(wasted, dict) and wasted.get("step_count"):
        yield (
            "wasted",
            joined([duration(number(wasted, "time_ms")), money(number(wasted, "cost_usd"))]),
        )
    error = summary.get("fatal_error") or summary.get("first_error")
    if isinstance(error, dict):
        yield "error", _error(error)
        if isinstance(cause := error.get("cause"), dict):
            yield "cause", _error(cause)
    complete = summary.get("completeness")
    if isinstance(complete, dict):
        yield "complete", text(complete, "verdict")
    if summary.get("truncated") is True:
        yield "note", f"only the first {len(trace.steps)} steps are shown"


def _line(step: TreeStep, branch: str, terminal: Terminal) -> str:
    at = 0 if terminal.unicode else 1
    symbol = _SYMBOLS.get(step.kind, _OTHER)[at]
    style = STATUS_STYLES.get(step.status)
    room = terminal.width - len(branch) - display_width(symbol) - 2
    words = clean(joined(_words(step)))
    name, shown = terminal.columns(
        clean(step.name or step.kind), words, room, most=max(8, room // 2)
    )
    painted = terminal.paint(symbol, style) if style else symbol
    return (
        f"{terminal.paint(branch, 'dim')}{painted} {terminal.paint(name, 'bold')} "
        f"{terminal.paint_failure(shown, style)}"
    ).rstrip()


def _words(step: TreeStep) -> list[str]:
    return [
        step.status if step.status != "success" else "",
        duration(step.duration_ms),
        clean(step.model),
        tokens(step.tokens),
        money(step.cost_usd) if step.cost_usd else "",
        f"confidence {step.confidence:.2f}" if step.confidence is not None else "",
        _error(step.error) if step.error else "",
        clean(step.decision) or _decided(step),
        clean(step.reasoning or step.outcome or step.output or step.input),
    ]


def _decided(step: TreeStep) -> str:
    """Describe the last decision in a step that is not a decision itself."""
    if not step.decisions:
        return ""
    last = step.decisions[-1]
    chosen = text(last, "chosen")
    what = f"decided {text(last, 'type')}"
    return joined([f"{what}: {chosen}" if chosen else what, text(last, "reasoning")])


def _error(error: Mapping[str, object]) -> str:
    parts = [text(error, key) for key in ("type", "message", "category")]
    where = text(error, "name")
    return joined([": ".join(filter(None, parts[:2])), parts[2], f"in {where}" if where else ""])
