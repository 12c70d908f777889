"""Reports of a fleet replay: JSON, JUnit and one self-contained HTML file.

What a report shows was written by senders and programs: it is escaped, and characters that XML does
not know are replaced.
"""

import html
from collections.abc import Iterator
from typing import Any, Final
from xml.etree import ElementTree as ET

from tracereel.fleet.groups import CauseGroup, FleetPolicy, FleetSummary

MAX_RUNS: Final = 200
"""Runs of a group that the page lists."""
_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;"
    "color:#1c2128;background:#fff}"
    "h1{font-size:1.4rem}h2{font-size:1rem;margin:0;overflow-wrap:anywhere}"
    "article{border:1px solid #d0d7de;border-radius:6px;padding:1rem;margin:1rem 0}"
    "pre{background:#f6f8fa;padding:.75rem;overflow-x:auto;white-space:pre-wrap;"
    "overflow-wrap:anywhere}"
    "code{overflow-wrap:anywhere}.changed{border-left:4px solid #cf222e}"
    ".prompt_changed{border-left:4px solid #bf8700}.inconclusive{border-left:4px solid #6e7781}"
    "dt{font-weight:600}dd{margin:0 0 .5rem}"
    "@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}"
    "pre{background:#161b22}article{border-color:#30363d}}"
)
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def as_json(summary: FleetSummary, policy: FleetPolicy) -> dict[str, Any]:
    """Return the report as plain data."""
    failures = policy.failures(summary)
    return {
        "passed": not failures,
        "failures": failures,
        "runs": summary.total,
        "counts": summary.counts,
        "coverage": round(summary.coverage, 6),
        "groups": [each.to_json() for each in summary.groups],
        "cost": None if summary.cost is None else summary.cost.to_json(),
        "flaky": [
            {"trace_id": each.trace_id, "verdicts": list(each.flaky)} for each in summary.flaky
        ],
        "fresh_processes": list(summary.culprits),
        "network": list(summary.networks),
        "not_compared": summary.not_compared,
        "cpu_seconds": summary.cpu_seconds,
    }


def as_junit(summary: FleetSummary, policy: FleetPolicy) -> bytes:
    """Return the report as JUnit XML: a case for each group, for all equal runs and for the policy."""
    suite = ET.Element("testsuite", name="tracereel fleet")
    failed = skipped = 0
    _case(suite, f"{summary.counts['same']} runs are same")
    for group in summary.groups:
        case = _case(suite, f"{group.verdict}: {group.cause} ({len(group.runs)} runs)")
        fails = group.verdict in policy.fail_on
        failed, skipped = failed + fails, skipped + (not fails)
        found = ET.SubElement(
            case, "failure" if fails else "skipped", message=_xml(str(group.cause))
        )
        found.text = _xml(text_of(group))
    if summary.flaky:
        fails = "flaky" in policy.fail_on
        failed, skipped = failed + fails, skipped + (not fails)
        case = _case(suite, f"{len(summary.flaky)} runs are flaky")
        found = ET.SubElement(case, "failure" if fails else "skipped", message="flaky")
        found.text = _xml("\n".join(each.trace_id for each in summary.flaky))
    coverage = _case(suite, f"coverage is {summary.coverage:.1%}")
    if summary.coverage < policy.min_coverage:
        failed += 1
        ET.SubElement(coverage, "failure", message=f"expected at least {policy.min_coverage:.1%}")
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(failed))
    suite.set("skipped", str(skipped))
    text: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text


def _case(suite: ET.Element, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname="tracereel.fleet", name=_xml(name)[:500])


def text_of(group: CauseGroup) -> str:
    """Return a group as text: the report of its example and the runs it affects."""
    return "\n".join(_lines(group))


def _lines(group: CauseGroup) -> Iterator[str]:
    yield group.example.text
    yield f"example: {group.example.trace_id}"
    yield f"agents: {_counted(group.agents)}"
    yield f"pipelines: {_counted(group.pipelines)}"
    if group.cost is not None:
        yield f"prompts: {group.cost}"
    yield f"runs: {', '.join(group.runs[:MAX_RUNS])}{_more(group)}"


def _more(group: CauseGroup) -> str:
    more = len(group.runs) - MAX_RUNS
    return f" and {more} more" if more > 0 else ""


def _counted(names: dict[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in names.items()) or "none"


def _xml(text: str) -> str:
    """Return a text with the characters that XML does not know replaced."""
    return "".join(c if c in "\t\n\r" or (c.isprintable() or c == " ") else "\ufffd" for c in text)


def as_html(summary: FleetSummary, policy: FleetPolicy) -> str:
    """Return the report as one page without scripts or links."""
    failures = policy.failures(summary)
    passed = "passed" if not failures else f"failed: {'; '.join(failures)}"
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">',
        '<meta name=viewport content="width=device-width">',
        f"<title>Fleet replay: {_text(passed)}</title><style>{_STYLE}</style>",
        f"<h1>Fleet replay {_text(passed)}</h1>",
        f"<p>{_text(str(summary))}.</p>",
        *([] if summary.cost is None else [f"<p>Changed prompts: {_text(str(summary.cost))}.</p>"]),
        *(f"<p>Fresh processes: {_text(each)}.</p>" for each in summary.culprits),
        *(f"<p>No network namespace: {_text(each)}.</p>" for each in summary.networks),
        *map(_article, summary.groups),
    ]
    if summary.flaky:
        names = " ".join(
            f"<code>{_text(each.trace_id)}</code>" for each in summary.flaky[:MAX_RUNS]
        )
        parts.append(
            f"<article><h2>{len(summary.flaky)} flaky runs, set aside</h2>{names}</article>"
        )
    return "\n".join(parts) + "\n"


def _article(group: CauseGroup) -> str:
    runs = " ".join(f"<code>{_text(each)}</code>" for each in group.runs[:MAX_RUNS])
    following = "".join(
        f"<dt>then</dt><dd>{_text(str(cause))} ({count} runs)</dd>"
        for cause, count in group.following
    )
    if group.cost is not None:
        following += f"<dt>prompts</dt><dd>{_text(str(group.cost))}</dd>"
    return (
        f'<article class="{_text(group.verdict)}"><h2>{_text(group.verdict)}:'
        f" {_text(str(group.cause))}</h2>"
        f"<dl><dt>agents</dt><dd>{_text(_counted(group.agents))}</dd>"
        f"<dt>pipelines</dt><dd>{_text(_counted(group.pipelines))}</dd>{following}</dl>"
        f"<p>Example: <code>{_text(group.example.trace_id)}</code></p>"
        f"<pre>{_text(group.example.text)}</pre>"
        f"<details><summary>{len(group.runs)} runs</summary>{runs}{_more(group)}</details></article>"
    )


def _text(text: str) -> str:
    return html.escape(_xml(text))
