"""Report of a fleet replay on a terminal."""

from collections.abc import Iterator
from typing import Final

from tracereel.cli.terminal import Terminal, clean
from tracereel.fleet.groups import CauseGroup, FleetPolicy, FleetSummary

MAX_GROUPS: Final = 50
MAX_EXAMPLE: Final = 12
"""Lines of an example."""
_STYLES: Final = {"changed": "red", "prompt_changed": "yellow", "inconclusive": "dim"}


def lines_of(summary: FleetSummary, policy: FleetPolicy, terminal: Terminal) -> Iterator[str]:
    """Yield the lines of a report."""
    yield str(summary)
    if summary.cost is not None:
        yield f"Changed prompts: {clean(str(summary.cost))}."
    for each in summary.culprits:
        yield f"A fresh process for each run: {clean(each)}."
    for each in summary.networks:
        yield (
            f"No network namespace ({clean(each)}): sockets that are not Python's can reach the"
            " network."
        )
    for what, count in summary.not_compared.items():
        yield f"Not compared in {count} runs: {clean(what)}."
    for number, group in enumerate(summary.groups[:MAX_GROUPS], 1):
        yield ""
        yield from _group(number, group, terminal)
    if len(summary.groups) > MAX_GROUPS:
        yield f"… and {len(summary.groups) - MAX_GROUPS} more groups: --json, --html"
    if summary.flaky:
        names = ", ".join(clean(each.trace_id) for each in summary.flaky[:10])
        more = " …" if len(summary.flaky) > 10 else ""
        yield ""
        yield f"{len(summary.flaky)} flaky, set aside: {names}{more}"
    yield ""
    failures = policy.failures(summary)
    yield f"failed: {'; '.join(failures)}" if failures else "passed"


def _group(number: int, group: CauseGroup, terminal: Terminal) -> Iterator[str]:
    style = _STYLES.get(group.verdict, "dim")
    head = f"{number}. {len(group.runs)} {group.verdict}: {clean(str(group.cause))}"
    yield terminal.paint(terminal.shown(head), style)
    for label, names in (("agents", group.agents), ("pipelines", group.pipelines)):
        if names:
            listed = ", ".join(
                f"{clean(name)} ({count})" for name, count in list(names.items())[:8]
            )
            yield terminal.fit(terminal.shown(f"  {label}: {listed}"), terminal.width)
    if group.cost is not None:
        yield f"  prompts: {clean(str(group.cost))}"
    for cause, count in group.following:
        yield terminal.fit(
            terminal.shown(f"  then, in {count}: {clean(str(cause))}"), terminal.width
        )
    yield f"  example {clean(group.example.trace_id)}"
    for line in group.example.text.splitlines()[:MAX_EXAMPLE]:
        indent = " " * (len(line) - len(line.lstrip()))
        yield terminal.fit(terminal.shown(f"    {indent}{clean(line)}"), terminal.width)
