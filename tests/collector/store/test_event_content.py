"""Content of events that is stored apart: split, joined again, found, deleted."""

import json
import uuid
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.collector.store.conftest import insert_body
from tests.collector.store.runs_to_find import NOW, at, span, spans_request
from tracereel_collector.model import Kind
from tracereel_collector.query.event_contents import EventContents, StoredPayload
from tracereel_collector.query.export import Export, ExportSelection
from tracereel_collector.query.filters import TraceFilters
from tracereel_collector.query.jaeger.reader import MAX_CONTENT, Jaeger
from tracereel_collector.query.replayable import ReplayableRun, Tapes
from tracereel_collector.query.run.rows import RunReader
from tracereel_collector.query.search import Search, SearchQuery
from tracereel_collector.query.window import parse_window
from tracereel_collector.store.deletion import delete_rows, runs_of

OTEL = "ab" * 16


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def line(content, *, number=0, **facts):
    """Return an event with its content behind `content_bytes`, as the SDK writes it."""
    event = {
        "event_id": f"e{number}-{uuid.uuid4().hex[:8]}",
        "event_version": "1.0.0",
        "timestamp": at(number),
        "trace_id": "talk",
        "event_type": "agent.llm.called",
        "status": "success",
        "duration_ms": 5,
        **facts,
    }
    head, tail = compact(event), compact(content)
    return f'{head[:-1]},"content_bytes":{len(tail.encode())},{tail[1:]}'


@pytest.fixture
def lines(migrated, sequence, tenant):
    """Store lines as they are."""

    def insert(*texts):
        data = "\n".join(texts).encode()
        insert_body(migrated, Kind.EVENTS, data, len(texts), tenant, sequence)

    return insert


def stored(store, tenant, table, columns):
    answer = store.select(
        f"SELECT {columns} FROM {table} WHERE tenant = {{tenant:String}} ORDER BY hlc",
        {"tenant": tenant},
        fmt="JSONCompactEachRow",
    )
    return [json.loads(row) for row in answer.splitlines()]


@pytest.fixture
def search(migrated, tenant):
    """Return the ids of the runs that meet filters."""

    def found(**filters):
        window = parse_window(None, None, now=NOW)
        question = SearchQuery(filters=TraceFilters(**filters), window=window)
        answer = Search(migrated, lambda: NOW).answer(tenant, question)
        return [each["trace_id"] for each in answer["traces"]]

    return found


def said(text, role="user"):
    return {"role": role, "content": text}


def test_content_leaves_the_event_and_comes_back_as_it_was_sent(lines, migrated, tenant):
    sent = [line({"input_messages": [said(f"question {n}")]}, number=n) for n in range(3)]
    lines(*sent)

    heads = stored(migrated, tenant, "agent_events", "payload, content_bytes")
    assert all("question" not in head and size > 0 for head, size in heads)
    rows = RunReader(migrated).read(tenant, "talk", whole=True)
    assert [row.payload for row in rows.events] == sent
    without = RunReader(migrated).read(tenant, "talk", whole=True, content=False)
    assert [row.payload for row in without.events] == [head for head, _ in heads]


@pytest.mark.parametrize(
    "event",
    [
        {"nested": {"a": 1, "content_bytes": 5, "b": 2}},
        {"content_bytes": "x,y", "after": 1},
        {"content_bytes": {"a": 1, "b": 2}},
        {"content_bytes": 7},
        {"note": ',"content_bytes":5,'},
        {"list": [{"content_bytes": 1, "x": [2, 3]}]},
    ],
)
def test_line_with_the_marker_elsewhere_stays_whole(lines, migrated, tenant, event):
    base = {"event_id": "e", "timestamp": at(0), "trace_id": "talk", "event_type": "custom.x"}
    sent = compact(base | event)
    lines(sent)

    assert stored(migrated, tenant, "agent_events", "payload, content_bytes") == [[sent, 0]]
    assert stored(migrated, tenant, "event_content", "content") == []


def test_line_that_names_its_run_behind_the_marker_stays_whole(lines, migrated, tenant):
    facts = {"event_id": "e", "timestamp": at(0), "event_type": "custom.x"}
    sent = f'{compact(facts)[:-1]},"content_bytes":5,"trace_id":"talk","x":1}}'
    lines(sent)

    assert stored(migrated, tenant, "agent_events", "payload, trace_id") == [[sent, "talk"]]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    fields=st.dictionaries(
        st.sampled_from(["input_messages", "output_messages", "arguments", "result", "output"]),
        values,
        min_size=1,
    ),
    session=st.none() | st.text(min_size=1, max_size=20).filter(str.isprintable),
)
def test_any_content_round_trips(migrated, sequence, fields, session):
    tenant = f"tenant-{uuid.uuid4().hex}"
    sent = line(fields, session_id=session)
    insert_body(migrated, Kind.EVENTS, sent.encode(), 1, tenant, sequence)

    (row,) = RunReader(migrated).read(tenant, "talk", whole=True).events
    assert row.payload == sent


def test_content_beyond_the_limit_of_an_answer_is_marked(lines, migrated, tenant):
    sent = [line({"input_messages": [said("x" * 500)]}, number=n) for n in range(3)]
    lines(*sent)
    rows = stored(migrated, tenant, "agent_events", "sequence_number, payload")
    heads = [StoredPayload(*row) for row in rows]

    found = EventContents(migrated, max_bytes=1_200).whole(tenant, heads)

    assert found[:2] == sent[:2]
    assert json.loads(found[2])["content_omitted"] is True


def test_sessions_and_runs_without_one_are_conversations(lines, migrated, tenant):
    content = {"output_messages": [said("hello", "assistant")]}
    lines(line(content, session_id="s1"), line(content, number=1, trace_id="other"))

    rows = stored(migrated, tenant, "event_content", "conversation, trace_id")
    assert rows == [["s1", "talk"], ["other", "other"]]


def test_repeated_history_takes_almost_no_space(lines, migrated, tenant, sequence):
    history, sent = [], []
    for turn in range(60):
        history.append(said(" ".join(uuid.uuid4().hex for _ in range(30))))
        sent.append(
            line({"input_messages": history}, number=turn, trace_id=f"run-{turn}").replace(
                '"status"', '"session_id":"long talk","status"', 1
            )
        )
    lines(*sent)
    migrated.command("OPTIMIZE TABLE event_content FINAL")

    size = migrated.select(
        "SELECT sum(column_data_compressed_bytes) FROM system.parts_columns"
        " WHERE database = currentDatabase() AND table = 'event_content' AND active"
        " AND column = 'content'",
        {},
        fmt="TabSeparated",
    )
    # Other tests of this store add their content: the sum of all turns is 30 times the last one.
    assert int(size) < 4 * len(sent[-1]) < sum(map(len, sent)) / 5


def test_words_of_new_messages_are_found_without_indexing_the_history_again(lines, search):
    talk = [said("beginning"), said("first reply", "assistant"), said("zebra crossing")]
    filler = [said("y" * 3_000, "assistant"), said("walrus")]
    lines(
        line({"input_messages": talk}),
        line(
            {"input_messages": [*talk, *filler], "output_messages": [said("ocelot", "assistant")]},
            number=1,
        ),
    )
    for words in ("beginning", "zebra crossing", "walrus", "ocelot"):
        assert search(text=words) == ["talk"], words
    assert search(text="dodo") == []


@pytest.mark.parametrize("long", [False, True])
def test_words_behind_breaks_and_quotes_are_found(lines, search, long):
    text = f'first\nzebra\twalrus "ocelot" señal C:\\new\\file {"y" * 5_000 * long}'
    lines(line({"input_messages": [said(text)], "input": text}))
    for words in ("zebra", "walrus", "ocelot", "señal", "new", "file"):
        assert search(text=words) == ["talk"], words


def test_export_gives_whole_events(lines, migrated, tenant):
    sent = [line({"input_messages": [said("z" * 3_000)]}, number=n) for n in range(4)]
    lines(*sent)

    export = Export(migrated, slice_bytes=7_000)
    pieces = list(export.ndjson(tenant, ExportSelection()))

    found = [json.loads(text) for piece in pieces for text in piece.data.splitlines()]
    assert [each["input_messages"] for each in found] == [[said("z" * 3_000)]] * 4
    assert len(pieces) == 2, "the size of content counts in a slice"


def test_parquet_export_has_whole_payloads(lines, migrated, tenant):
    import io

    import pyarrow.parquet as pq

    sent = [line({"arguments": {"q": "z" * 50}}, number=n) for n in range(2)]
    lines(*sent)

    data = b"".join(piece.data for piece in Export(migrated).parquet(tenant, ExportSelection()))

    found = [
        each if isinstance(each, str) else each.decode()
        for each in pq.read_table(io.BytesIO(data))["payload"].to_pylist()
    ]
    assert found == sent


def test_large_tape_is_stored_apart_and_read_whole(lines, migrated, tenant):
    records = [{"r": "run", "version": 1}, {"r": "open", "k": "llm", "c": "call", "q": "x" * 5_000}]
    facts = {"event_type": "agent.tape.recorded", "tape_id": "t", "part": 0, "emitter_id": "em"}
    sent = line({"records": records}, **facts)
    lines(sent)

    assert Tapes(migrated).lines(tenant, "talk").decode() == f"{sent}\n"
    found = json.loads(ReplayableRun(migrated).document(tenant, "talk"))
    assert (found["recorded"], found["calls"]) == (True, 1)
    (row,) = RunReader(migrated).read(tenant, "talk", whole=True).events
    assert "records" not in row.payload, "opening a run does not read its tape"


def test_deleted_run_leaves_no_content(lines, migrated, tenant):
    content = {"input_messages": [said("private")]}
    lines(line(content, session_id="s"), line(content, trace_id="kept", session_id="s"))

    delete_rows(migrated, runs_of(migrated, tenant, ["talk"]))

    assert stored(migrated, tenant, "event_content", "trace_id") == [["kept"]]


def test_jaeger_spans_have_the_content_of_their_event(lines, migrated, tenant):
    span = {"otel_trace_id": OTEL, "span_id": "cd" * 8, "span_name": "chat m"}
    times = {"span_start_unix_nano": NOW, "span_end_unix_nano": NOW + 1000}
    content = {"input_messages": [said("hello")], "output_messages": "x" * (MAX_CONTENT + 10)}
    lines(line(content, **span, **times))

    (trace,) = Jaeger(migrated, lambda: NOW).traces(tenant, [OTEL])

    attributes = trace.spans[0].attributes
    assert attributes["gen_ai.input.messages"] == compact([said("hello")])
    assert attributes["gen_ai.output.messages"].endswith("… [12 bytes more]")


def long_span(number, text, **attributes):
    return span(number, name="chat m", **{"gen_ai.operation.name": "chat"}, **attributes) | {
        "gen_ai.input.messages": compact([said(text)])
    }


def test_long_attributes_of_spans_are_stored_apart_and_read_as_before(
    spans, migrated, tenant, search
):
    text = "walrus " * 1_000
    spans(spans_request(long_span(1, text, short="kept"), long_span(2, "small", note="n" * 150)))

    rows = migrated.select(
        "SELECT SpanId, mapKeys(ContentAttributes) FROM otel_spans WHERE TenantId = {tenant:String}"
        " ORDER BY SpanId",
        {"tenant": tenant},
        fmt="JSONCompactEachRow",
    )
    assert [json.loads(row)[1] for row in rows.splitlines()] == [["gen_ai.input.messages"], []]
    found = RunReader(migrated).read(tenant, OTEL, whole=True).spans
    attributes = json.loads(found[0].attributes)
    assert attributes["gen_ai.input.messages"] == compact([said(text)])
    assert attributes["short"] == "kept"
    (trace,) = Jaeger(migrated, lambda: NOW).traces(tenant, [OTEL])
    assert trace.spans[0].attributes["gen_ai.input.messages"] == compact([said(text)])
    public = migrated.select(
        "SELECT SpanAttributes['gen_ai.input.messages'] FROM otel_traces"
        " WHERE TenantId = {tenant:String} AND SpanAttributes['short'] = 'kept'",
        {"tenant": tenant},
        fmt="JSONCompactEachRow",
    )
    assert json.loads(public) == [compact([said(text)])]
    assert search(text="walrus") == search(attributes=(("short", "kept"),)) == [OTEL]
    assert search(attributes=(("note", "n" * 150),)) == [OTEL]
    assert search(attributes=(("gen_ai.input.messages", compact([said(text)])),)) == [OTEL]


def chat_span(form, messages, answer, number):
    """Return a model call of a session in its own trace, with the whole history."""
    if form == "gen_ai":
        content = {"gen_ai.input.messages": compact(messages)}
    elif form == "state":
        content = {"input.value": compact({"messages": messages}), "output.value": answer}
    else:
        place, within = {
            "openinference": ("llm.input_messages", ".message"),
            "openllmetry": ("gen_ai.prompt", ""),
        }[form]
        content = {
            f"{place}.{at}{within}.{name}": value
            for at, each in enumerate(messages)
            for name, value in each.items()
        }
    about = {"gen_ai.operation.name": "chat", "session.id": "long talk"}
    return span(number, name="chat m", **about) | content


SPAN_FORMS = ("gen_ai", "state", "openinference", "openllmetry")


def test_spans_with_content_lie_by_session_and_others_by_trace(spans, migrated, tenant):
    history, requests = [said("w" * 5_000)], []
    for number in range(1, 25):
        talk = chat_span("gen_ai", history, "", 2 * number) | {"session.id": f"s{number % 3}"}
        other = span(2 * number + 1, **{"session.id": f"s{number % 3}"})
        requests.append(spans_request(talk, other, trace=uuid.uuid4().bytes))
    spans(b"".join(requests))  # one request: fields of protobuf messages add up

    rows = migrated.select(
        "SELECT notEmpty(ContentAttributes), SessionId, TraceId FROM otel_spans"
        " WHERE TenantId = {tenant:String} ORDER BY _part, _part_offset",
        {"tenant": tenant},
        fmt="JSONCompactEachRow",
    )
    found = [json.loads(row) for row in rows.splitlines()]
    others, talks = found[:24], found[24:]
    assert [each[0] for each in found] == [0] * 24 + [1] * 24
    assert [each[1] for each in talks] == ["s0"] * 8 + ["s1"] * 8 + ["s2"] * 8
    assert [each[2] for each in others] == sorted(each[2] for each in others)
    for _, _, trace in talks:
        assert len(RunReader(migrated).read(tenant, trace, whole=True).spans) == 2


@pytest.mark.parametrize("form", SPAN_FORMS)
def test_history_of_spans_is_not_indexed_again(spans, migrated, tenant, form):
    history = [said("y" * 3_000, role) for _ in range(60) for role in ("user", "assistant")]
    spans(spans_request(chat_span(form, [*history, said("walrus")], "", 1)))

    answer = migrated.select(
        "SELECT sum(length(text)) FROM trace_texts WHERE tenant = {tenant:String}",
        {"tenant": tenant},
        fmt="TabSeparated",
    )
    assert int(answer) < 10_000


@pytest.mark.parametrize("form", SPAN_FORMS)
def test_new_messages_of_spans_are_found_behind_a_long_history(spans, search, form):
    history = [said("beginning"), said("y" * 20_000, "assistant"), said("z" * 9_000)]
    history += [said("w" * 20_000, "assistant"), said(f"zebra {'x' * 9_000} walrus")]
    spans(spans_request(chat_span(form, history, "ocelot", 1)))

    for words in ("beginning", "zebra", "walrus", *(["ocelot"] if form == "state" else [])):
        assert search(text=words) == [OTEL], words
    assert search(text="dodo") == []


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("form", SPAN_FORMS)
def test_words_of_spans_behind_breaks_and_quotes_are_found(
    spans, search, monkeypatch, form, ascii_only
):
    monkeypatch.setattr(f"{__name__}.compact", partial(json.dumps, ensure_ascii=ascii_only))
    text = 'first\nzebra\twalrus "ocelot" señal C:\\new\\file'
    spans(spans_request(chat_span(form, [said(text)], "", 1)))
    for words in ("zebra", "walrus", "ocelot", "señal", "new", "file"):
        assert search(text=words) == [OTEL], words
