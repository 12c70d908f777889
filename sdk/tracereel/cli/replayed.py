"""Lines about re-execution for `tracereel replay`: feasibility, results and branches."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tracereel.cli.diff import override_text
from tracereel.cli.steps import count
from tracereel.cli.terminal import Terminal, clean
from tracereel.client import Replayable

MAX_SHOWN: Final = 5
_SAID: Final = {"yes": "can be run again", "partly": "can be run again in part"}


def lines(found: Replayable, terminal: Terminal, there: str = "") -> Iterator[str]:
    """Yield the lines below a run that has a tape; none otherwise.

    `there` is the endpoint option for suggested commands.
    """
    if not found.recorded:
        return
    yield ""
    said = _SAID.get(found.replayable, "cannot be run again")
    row = _row("tape", f"{said} \u00b7 {count(found.calls, 'call', 'calls')}", terminal)
    yield row
    for reason in found.reasons[:MAX_SHOWN]:
        yield _row("", reason, terminal)
    if found.command:
        yield _row("", f"{found.command}{there}", terminal)
    # Forks are shown below as branches.
    replays = [each for each in found.replays if not each.get("branch")]
    for replay in replays[-MAX_SHOWN:]:
        yield from _replay(replay, terminal)
    if found.branches:
        yield from _branches(found.branches, found.trace_id, terminal, 0)


def _row(label: str, value: str, terminal: Terminal) -> str:
    shown = terminal.fit(terminal.shown(clean(value)), terminal.width - 10)
    return f"{terminal.paint(f'{label:<9}', 'dim')} {shown}"


def _replay(replay: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    said = "as recorded" if replay.get("identical") else "another way"
    yield _row("replayed", f"{str(replay.get('time'))[:19]} \u00b7 {said}", terminal)
    for each in (replay.get("divergences") or ())[:MAX_SHOWN]:
        where = f" at {each['location']}" if each.get("location") else ""
        yield _row("", f"{each.get('kind')}: {each.get('path')}{where}", terminal)
        for difference in each.get("differences") or ():
            yield _row("", f"  {difference}", terminal)


def _branches(node: Mapping[str, Any], here: str, terminal: Terminal, depth: int) -> Iterator[str]:
    mark = " (this run)" if node.get("trace_id") == here else ""
    at = f" from call {node['at']} on" if node.get("at") else ""
    changes = "; ".join(map(override_text, node.get("overrides") or ()))
    text = f"{'  ' * depth}{node.get('trace_id')}{mark}{at}{': ' if changes else ''}{changes}"
    yield _row("branches" if depth == 0 else "", text, terminal)
    for each in node.get("branches") or ():
        yield from _branches(each, here, terminal, depth + 1)
