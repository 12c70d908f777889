"""What the collector makes of the recording of each client, field by field.

`python -m tests.clients.fields` writes `fields.json`; review the difference before committing.
"""

import json
import time
import uuid
from functools import cache
from pathlib import Path

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.engine_store import store_of_its_own
from tests.support.settling import settle_all
from tracereel.content import ModelCallContent, ToolCallContent
from tracereel_collector.ingest.otlp_mend import flatten_deep_values
from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.query.content.from_span import content_of_span
from tracereel_collector.query.content.rows import ContentSpan, logs_of
from tracereel_collector.query.run.rows import RunReader
from tracereel_collector.query.search import Search, SearchQuery
from tracereel_collector.query.store_reader import read_rows
from tracereel_collector.query.trace import Traces, document_of
from tracereel_collector.store.price_names import find_prices
from tracereel_collector.store.prices import known_prices, load_prices
from tracereel_collector.store.sql import query

HERE = Path(__file__).parent
RECORDINGS = HERE / "recordings"
FIELDS = HERE / "fields.json"
CLIENTS = sorted(path.stem for path in RECORDINGS.glob("*.json"))
FIELD_NAMES = (
    *("name", "status", "model", "provider", "tokens_in", "tokens_out", "cached", "cost"),
    *("messages", "tool_arguments", "tool_result", "error", "session", "user", "agent"),
    "first_token",
)


@cache
def recording(client):
    """Return the recording of a client."""
    return json.loads((RECORDINGS / f"{client}.json").read_text(encoding="utf-8"))


def spans_of(client):
    """Return the spans of a recording as one OTLP request, as after its arrival."""
    request = ParseDict(recording(client)["spans"], ExportTraceServiceRequest())
    flatten_deep_values(request)
    return request


def logs_of_client(client):
    """Return the log records of a recording as one OTLP request, as after its arrival."""
    request = ParseDict(recording(client).get("logs", {}), ExportLogsServiceRequest())
    flatten_deep_values(request)
    return request


def traces_of(spans):
    """Return the ids of the traces in a request."""
    return {
        span.trace_id.hex()
        for resource in spans.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }


def insert(store, kind, tenant, request, *, number=1):
    """Store one OTLP request."""
    body = QueuedBody(
        id=number,
        kind=kind,
        tenant=tenant,
        first_sequence_number=number,
        records=1,
        received_unix_nano=time.time_ns(),
        data=request.SerializeToString(),
    )
    store.insert(kind, [body], token=uuid.uuid4().hex)


class Shown:
    """What the collector shows of all recordings, which are stored under one tenant."""

    def __init__(self, store):
        load_prices(store, known_prices(None))
        self.tenant = uuid.uuid4().hex
        self.store = store
        self.of_trace = {}
        spans, logs = ExportTraceServiceRequest(), ExportLogsServiceRequest()
        for client in CLIENTS:
            sent = spans_of(client)
            self.of_trace |= dict.fromkeys(traces_of(sent), client)
            spans.MergeFrom(sent)
            logs.MergeFrom(logs_of_client(client))
        insert(store, Kind.SPANS, self.tenant, spans)
        insert(store, Kind.LOGS, self.tenant, logs)
        settle_all(store)
        find_prices(store)
        self._reader = RunReader(store)
        self._spans = self._content_spans()

    def _content_spans(self):
        of_all = query("step_spans").replace("AND SpanId IN {span_ids:Array(String)}", "")
        rows = read_rows(
            self.store,
            of_all,
            ContentSpan,
            tenant=self.tenant,
            trace_ids=sorted(self.of_trace),
        )
        return {(row.trace_id, row.span_id): row for row in rows}

    def runs(self):
        """Return the runs of each client, the first first, as the list shows them."""
        found = Search(self.store, time.time_ns).answer(self.tenant, SearchQuery(limit=500))
        by_client = {client: [] for client in CLIENTS}
        for run in sorted(found["traces"], key=lambda run: run["started_at"]):
            by_client[self.of_trace[run["trace_id"]]].append(run)
        return by_client

    def page(self, run):
        """Return a run as its page shows it."""
        return document_of(Traces(self._reader).analysis(self.tenant, run["trace_id"]))

    def content(self, trace, span_id):
        """Return the content of a step."""
        return content_of_span(
            self._spans[trace, span_id],
            lambda: logs_of(self.store, self.tenant, [trace], span_id),
        )

    def called(self):
        """Return calls, tokens and cost of each trace, of the view for SQL."""
        answer = self.store.select(
            "SELECT TraceId, toUInt32(count()), toUInt32(ifNull(sum(TotalTokens), 0)),"
            " round(ifNull(sum(CostUsd), 0), 9)"
            " FROM model_calls WHERE TenantId = {tenant:String} GROUP BY TraceId",
            {"tenant": self.tenant},
            fmt="JSONCompactEachRow",
        )
        return {trace: said for trace, *said in map(json.loads, answer.splitlines())}

    def agents(self):
        """Return the agents of each client with their calls and tokens."""
        answer = self.store.select(
            "SELECT trace, agent, toUInt32(sum(model_calls)), toUInt32(sum(call_tokens)) FROM ("
            "SELECT TraceId AS trace, AgentName AS agent, toUInt32(1) AS model_calls, Tokens AS call_tokens"
            " FROM settled_calls FINAL WHERE TenantId = {tenant:String} AND NOT Repeated)"
            " WHERE agent != '' GROUP BY trace, agent ORDER BY agent, trace",
            {"tenant": self.tenant},
            fmt="JSONCompactEachRow",
        )
        by_client = {client: {} for client in CLIENTS}
        for trace, agent, calls, tokens in map(json.loads, answer.splitlines()):
            known = by_client[self.of_trace[trace]].get(agent, (0, 0))
            by_client[self.of_trace[trace]][agent] = (known[0] + calls, known[1] + tokens)
        return {
            client: [[agent, *said] for agent, said in sorted(known.items())]
            for client, known in by_client.items()
        }

    def all(self):
        """Return the distinct values of each field, and the totals of each run, by client."""
        called, agents = self.called(), self.agents()
        found = {}
        for client, runs in self.runs().items():
            values = {name: [] for name in FIELD_NAMES}
            totals = []
            for run in runs:
                page = self.page(run)
                self._add(values, run, page["steps"])
                summary = page["summary"]
                totals.append(
                    {
                        "list": [
                            *(run["model_calls"], run["tokens"]),
                            *(run["cost_usd"] or 0, run["errors"]),
                        ],
                        "page": [
                            summary["llm_tokens_used"] or 0,
                            round(summary["llm_cost_usd"] or 0, 9),
                            summary["errors"],
                        ],
                        "model_calls": called.get(run["trace_id"], [0, 0, 0]),
                    }
                )
            found[client] = {name: _distinct(said) for name, said in values.items()}
            found[client] |= {"totals": totals, "agents": agents[client]}
        return found

    def _add(self, found, run, steps):
        found["name"].append(run["name"])
        found["status"].append(run["status"])
        found["cost"].append(run["cost_usd"])
        found["session"].append(run["session_id"])
        found["user"].append(run["user_id"])
        found["agent"] += run["agents"]
        found["model"] += run["models"]
        for step in steps:
            if step.error:
                found["error"].append(_cut(step.error.get("message") or step.error.get("type")))
            content = self.content(run["trace_id"], step.id)
            if isinstance(content, ModelCallContent):
                found["provider"].append(content.provider)
                found["tokens_in"].append(content.usage.input)
                found["tokens_out"].append(content.usage.output)
                found["cached"].append(content.usage.cache_read)
                found["first_token"].append(content.first_token_ms is not None or None)
                found["messages"] += _messages(content)
            elif isinstance(content, ToolCallContent):
                found["tool_arguments"].append(content.arguments)
                found["tool_result"].append(content.result)


def _messages(content):
    """Return the first words of each message, by role."""
    for message in (*content.input, *content.output):
        for part in message.parts:
            said = part.text or part.value or part.name
            yield f"{message.role}: {_cut(said if isinstance(said, str) else json.dumps(said))}"


def _cut(text):
    return text[:60] if isinstance(text, str) else text


def _distinct(values):
    known = {
        json.dumps(each, sort_keys=True): each for each in values if each not in (None, "", [], {})
    }
    return [known[key] for key in sorted(known)]


def main():
    with store_of_its_own() as store:
        found = Shown(store).all()
    FIELDS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
