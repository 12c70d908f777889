"""Golden results of our views for the fixtures: written to `golden.json`, read by tests and docs.

python -m tests.collector.store.dialects.golden        (review the diff before committing)
"""

import json
import uuid
from pathlib import Path

from tests.collector.store.dialects import handwritten
from tests.support.engine_store import store_of_its_own
from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.store.dialects.columns import COLUMNS

FIXTURES = Path(__file__).parent / "fixtures"
GOLDEN = FIXTURES / "golden.json"
CONTENT = ("InputMessages", "OutputMessages", "SystemInstructions", "ToolCalls")
TOOL_CONTENT = ("ToolArguments", "ToolResult")


def bodies():
    """Return every fixture as an OTLP request, by name."""
    recorded = {path.stem: path.read_bytes() for path in sorted(FIXTURES.glob("*.pb"))}
    return recorded | handwritten.bodies()


def translated(store):
    """Return the spans of each fixture as the store shows them, without empty fields."""
    run = uuid.uuid4().hex
    queued = [
        QueuedBody(
            id=number,
            kind=Kind.SPANS,
            tenant=f"{run} {name}",
            first_sequence_number=number,
            records=1,
            received_unix_nano=handwritten.START,
            data=body,
        )
        for number, (name, body) in enumerate(bodies().items(), start=1)
    ]
    store.insert(Kind.SPANS, queued, token=run)
    columns = ", ".join(f"t.{column}" for column in COLUMNS)
    content = ", ".join(f"c.{column}" for column in (*CONTENT, *TOOL_CONTENT))
    answer = store.select(
        f"SELECT t.TenantId, t.SpanName, {columns}, {content} FROM otel_traces AS t"
        " LEFT JOIN (SELECT * FROM otel_content WHERE startsWith(TenantId, {run:String})) AS c"
        " USING (TenantId, TraceId, SpanId) WHERE startsWith(t.TenantId, {run:String})"
        " ORDER BY t.TenantId, t.Timestamp, t.SpanId"
        " SETTINGS output_format_json_quote_64bit_integers = 0,"
        " output_format_json_escape_forward_slashes = 0",
        {"run": run},
        fmt="JSONEachRow",
    )
    found = {}
    for line in answer.splitlines():
        row = json.loads(line)
        tenant = row.pop("t.TenantId", None) or row.pop("TenantId")
        found.setdefault(tenant.removeprefix(f"{run} "), []).append(_shown(row))
    return found


def _shown(row):
    shown = {}
    for name, value in row.items():
        name = name.removeprefix("t.").removeprefix("c.")
        if name in CONTENT and value:
            value = json.loads(value)
        if value not in ("", None, []):
            shown[name] = value
    return shown


def main():
    with store_of_its_own() as store:
        golden = translated(store)
    GOLDEN.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
