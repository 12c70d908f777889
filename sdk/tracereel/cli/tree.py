"""Tree of a run as text: branches, then a description of each step."""

from collections.abc import Iterator, Sequence
from typing import Final

from tracereel.cli.steps import duration, money, text
from tracereel.cli.terminal import Terminal, clean, display_width
from tracereel.cli.traces import STATUS_STYLES, moment
from tracereel.client import Trace, TreeStep

MAX_DEPTH: Final = 12
"""Maximum depth that is drawn, so that lines keep room for text."""
_SEPARATOR: Final = " · "
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


def render(trace: Trace, terminal: Terminal) -> Iterator[str]:
    """Yield the lines to print for a run."""
    for label, value in _header(trace):
        shown = terminal.fit(terminal.shown(value), terminal.width - 10)
        yield f"{terminal.paint(f'{label:<9}', 'dim')} {shown}"
    yield ""
    drawn = branches([step.depth for step in trace.steps], terminal)
    for step, branch in zip(trace.steps, drawn, strict=True):
        yield line_of_step(step, branch, terminal)


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


def _header(trace: Trace) -> list[tuple[str, str]]:
    summary = trace.summary
    rows = [("trace", clean(trace.trace_id))]
    rows.append(("state", _joined([trace.state or "", text(summary, "pipeline_type")])))
    rows.append(("started", moment(trace.time)))
    rows.append(("took", duration(_number(summary.get("total_time_ms")))))
    rows.append(("session", clean(trace.session_id or "")))
    rows.append(("user", clean(trace.user_id or "")))
    rows.append(("parent", clean(trace.parent_trace_id or "")))
    wasted = summary.get("wasted")
    if isinstance(wasted, dict) and wasted.get("step_count"):
        spent = [duration(_number(wasted.get("time_ms"))), money(_number(wasted.get("cost_usd")))]
        rows.append(("wasted", _joined(spent)))
    error = summary.get("fatal_error") or summary.get("first_error")
    if isinstance(error, dict):
        rows.append(("error", _error(error)))
        if isinstance(cause := error.get("cause"), dict):
            rows.append(("cause", _error(cause)))
    complete = summary.get("completeness")
    if isinstance(complete, dict):
        rows.append(("complete", text(complete, "verdict")))
    if summary.get("truncated") is True:
        rows.append(("note", f"only the first {len(trace.steps)} steps are shown"))
    return [(label, value) for label, value in rows if value]


def line_of_step(step: TreeStep, branch: str, terminal: Terminal) -> str:
    """Return one line for a step, after its branch prefix."""
    at = 0 if terminal.unicode else 1
    symbol = _SYMBOLS.get(step.kind, _OTHER)[at]
    style = STATUS_STYLES.get(step.status)
    room = terminal.width - len(branch) - display_width(symbol) - 2
    name = terminal.fit(terminal.shown(clean(step.name or step.kind)), max(8, room // 2))
    said = terminal.fit(terminal.shown(_joined(_words(step))), max(0, room - display_width(name)))
    painted = terminal.paint(symbol, style) if style else symbol
    bad = style == "red"
    return (
        f"{terminal.paint(branch, 'dim')}{painted} {terminal.paint(name, 'bold')} "
        f"{terminal.paint(said, 'red') if bad else said}"
    ).rstrip()


def _words(step: TreeStep) -> list[str]:
    return [
        step.status if step.status != "success" else "",
        duration(step.duration_ms),
        clean(step.model),
        f"{step.tokens:,} tokens" if step.tokens else "",
        money(step.cost_usd) if step.cost_usd else "",
        f"confidence {step.confidence:.2f}" if step.confidence is not None else "",
        _error(dict(step.error)) if step.error else "",
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
    return _joined([f"{what}: {chosen}" if chosen else what, text(last, "reasoning")])


def _error(error: dict[str, object]) -> str:
    parts = [text(error, key) for key in ("type", "message", "category")]
    where = text(error, "name")
    return _joined([": ".join(filter(None, parts[:2])), parts[2], f"in {where}" if where else ""])


def _number(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None  # type: ignore[arg-type]


def _joined(parts: Sequence[str]) -> str:
    return _SEPARATOR.join(clean(part) for part in parts if part)
