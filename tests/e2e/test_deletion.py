"""Deletion from tables, queue and quarantine, including late events, for one tenant only."""

import hashlib
import json
import sqlite3

import pytest

from tests.support.two_tenants import Site

WORD = "what-must-be-forgotten"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("deletion"))
    yield made
    made.collector.stop()


def everywhere(site, word, *, optimize=False):
    """Return the tables that contain a word, read directly from the engine."""
    engine = site.engine()
    tables = [
        row[0]
        for row in engine.query(
            "SELECT name FROM system.tables WHERE database = 'tracereel' AND engine LIKE '%MergeTree'"
        ).result_rows
    ]
    assert {"agent_events", "otel_spans", "otel_logs", "score_tellings"} <= set(tables)
    found = []
    for name in tables:
        if optimize:
            engine.command(f"OPTIMIZE TABLE {name} FINAL")
        rows = engine.raw_query(f"SELECT * FROM {name} FORMAT JSONEachRow").decode()
        found += [name] if word in rows else []
    (left,) = engine.query("SELECT count() FROM system.mutations WHERE NOT is_done").result_rows[0]
    assert left == 0
    engine.close()
    return found


def in_queue(site, word):
    folder = site.collector.data_dir / "queue"
    return [file.name for file in folder.iterdir() if word.encode() in file.read_bytes()]


def otel_of(trace_id):
    """Return the OpenTelemetry trace id of a run."""
    return hashlib.md5(trace_id.encode()).digest()


def record(site, trace_id, *, word=WORD, tenant="alpha", wait=True, **fields):
    event = {"trace_id": trace_id, "reasoning": word, **fields}
    more = {
        "span_id": "0102030405060708",
        "span_name": word,
        "span_start_unix_nano": 10**18,
        "span_end_unix_nano": 10**18,
    }
    site.send(
        {**event, **more, "event_id": f"{trace_id}-1", "otel_trace_id": otel_of(trace_id).hex()},
        {**event, "event_id": f"{trace_id}-2", "user_id": None},
        tenant=tenant,
        wait=wait,
    )


def test_a_run_is_gone_from_everything(site):
    record(site, "trc-gone")
    record(site, "trc-stays", word="stays")
    record(site, "trc-gone", tenant="bravo", word="bravos-own")
    site.send_spans(otel_of("trc-gone"), WORD, "other")
    site.send_log(otel_of("trc-gone"), WORD)
    score = {"trace_id": "trc-gone", "name": "n", "comment": WORD}
    assert site.ask("POST", "/v1/scores?wait=stored&timeout=60", score).status == 200
    site.settle()
    assert {"agent_events", "otel_spans", "otel_logs"} <= set(everywhere(site, WORD))
    record(site, "trc-gone", wait=False, event_version="1.0.1")  # still in flight

    answer = site.ask("DELETE", "/v1/traces/trc-gone")

    assert answer.status == 200, answer.body
    assert answer.json()["rows"]["score_tellings"] == 1
    assert everywhere(site, WORD, optimize=True) == []
    assert in_queue(site, WORD) == []
    assert site.ask("GET", "/v1/replay/trc-gone").status == 404
    assert site.ask("GET", "/v1/replay/trc-stays").status == 200
    bravos = site.ask("GET", "/v1/replay/trc-gone", tenant="bravo")
    assert bravos.json()["summary"]["total_events"] == 2


def test_agent_without_remaining_runs_is_404(site):
    record(site, "trc-agent-1", agent_name="only-in-one-run")
    record(site, "trc-agent-2", agent_name="in-two-runs")
    record(site, "trc-agent-3", agent_name="in-two-runs")
    record(site, "trc-agent-1", agent_name="only-in-one-run", tenant="bravo")
    assert site.ask("GET", "/v1/agents/only-in-one-run").status == 200

    for run in ("trc-agent-1", "trc-agent-2"):
        assert site.ask("DELETE", f"/v1/traces/{run}").status == 200

    window = "?from=2000-01-01&points=1"
    answer = site.ask("GET", f"/v1/agents{window}").json()
    names = [each["agent"] for each in answer["agents"]]
    assert "only-in-one-run" not in names
    assert "in-two-runs" in names
    assert site.ask("GET", "/v1/agents/only-in-one-run").status == 404
    left = site.ask("GET", f"/v1/agents/in-two-runs{window}").json()
    assert left["executions"] == 2
    bravos = site.ask("GET", f"/v1/agents/only-in-one-run{window}", tenant="bravo").json()
    assert bravos["executions"] == 2


def test_spans_of_a_shared_trace_go_with_their_run_only(site):
    """Two runs in one OpenTelemetry trace: deleting one leaves the spans of the other."""
    shared = b"shared-by-two___"
    for number, run in ((1, "trc-one"), (2, "trc-two")):
        site.send(
            {"trace_id": run, "event_id": run, "otel_trace_id": shared.hex(), "reasoning": run}
            | {"span_id": bytes([number] * 8).hex()}
        )
    site.send_spans(shared, "of-one", "of-two", "of-nobody")
    site.settle()

    assert site.ask("DELETE", "/v1/traces/trc-one").status == 200

    names = site.sql("SELECT SpanName FROM otel_traces WHERE TraceId = {t:String}", t=shared.hex())
    assert sorted(row[0] for row in names.json()["rows"]) == ["of-nobody", "of-two"]


def test_late_events_of_a_deleted_run_are_dropped_and_counted(site):
    record(site, "trc-late", word="late-word")
    assert site.ask("DELETE", "/v1/traces/trc-late").status == 200
    before = site.collector.metric(
        "tracereel_records_rejected_total", kind="events", reason="deleted"
    )

    answer = site.send(
        {"trace_id": "trc-late", "event_id": "late-1", "reasoning": "late-word"},
        {"trace_id": "trc-other", "event_id": "late-2"},
    )
    site.ask("POST", "/v1/scores", {"trace_id": "trc-late", "name": "n", "comment": "late-word"})
    site.settle()

    assert answer["accepted"] == 1
    assert everywhere(site, "late-word") == []
    assert in_queue(site, "late-word") == []
    assert site.ask("GET", "/v1/replay/trc-other").status == 200
    after = site.collector.metric(
        "tracereel_records_rejected_total", kind="events", reason="deleted"
    )
    assert after == before + 1
    values = {
        name: site.collector.metric(f"tracereel_records_{name}_total", kind="events")
        for name in ("received", "rejected", "appended", "stored", "duplicate", "quarantined")
    }
    assert values["received"] == values["rejected"] + values["appended"]
    assert values["appended"] == values["stored"] + values["duplicate"] + values["quarantined"]


def test_late_spans_of_a_deleted_trace_are_dropped_too(site):
    late = b"late-otel-trace_"
    site.send_spans(late, "early-span")
    site.settle()
    assert site.ask("DELETE", f"/v1/traces/{late.hex()}").status == 200

    site.send_spans(late, "late-span")
    site.send_spans(b"another-trace___", "kept-span")
    site.settle()

    assert everywhere(site, "early-span") == []
    assert everywhere(site, "late-span") == []
    assert {"otel_spans", "span_names"} <= set(everywhere(site, "kept-span"))


def test_a_user_is_gone_with_every_run_that_names_them(site):
    word = "of-the-forgotten-user"
    for number in range(3):
        record(site, f"trc-user-{number}", word=word, user_id="ana/é")
    record(site, "trc-of-bob", word="of-bob", user_id="ana")
    # A trace shared by two runs, in which only a span names the user.
    for run in ("trc-half-1", "trc-half-2"):
        site.send({"trace_id": run, "event_id": run, "otel_trace_id": b"half-and-half___".hex()})
    site.send_spans(b"half-and-half___", word, user__id="ana/é")
    site.send_spans(b"span-of-the-user", word, user__id="ana/é")
    site.settle()

    answer = site.ask("DELETE", "/v1/users/ana%2F%C3%A9")

    assert answer.status == 200, answer.body
    assert answer.json()["traces"] >= 4
    assert everywhere(site, word) == []
    assert in_queue(site, word) == []
    for run in ("trc-of-bob", "trc-half-1", "trc-half-2"):
        assert site.ask("GET", f"/v1/replay/{run}").status == 200
    late = site.send({"trace_id": "trc-new", "event_id": "new", "user_id": "ana/é"})
    assert late["accepted"] == 0
    assert site.ask("DELETE", "/v1/users/ana%2F%C3%A9").json()["rows"] == {}


def test_quarantined_records_are_deleted_too(site):
    """Even a record that the store could not read is found by its id."""
    folder = site.collector.data_dir / "queue" / "queue.sqlite"
    with sqlite3.connect(folder) as queue:
        for trace, word in (("trc-aside", "set-aside"), ("trc-aside-2", "other")):
            line = json.dumps({"trace_id": trace, "reasoning": word}).encode()
            queue.execute(
                "INSERT INTO quarantine (kind, tenant, sequence_number, records, reason,"
                " quarantined_unix_nano, data) VALUES ('events', 'alpha', 1, 1, 'poison', 1, ?)",
                (line,),
            )
    queue.close()

    assert site.ask("DELETE", "/v1/traces/trc-aside").json()["quarantined"] == 1

    assert in_queue(site, "set-aside") == []
    left = site.ask("GET", "/v1/quarantine").json()["entries"]
    assert len(left) == 1


def test_deleting_an_unknown_or_foreign_resource_is_404(site):
    record(site, "trc-bravos", tenant="bravo", user_id="bea")
    for path in ("/v1/traces/trc-bravos", "/v1/traces/nobody", "/v1/users/bea", "/v1/users/nobody"):
        assert site.ask("DELETE", path).status == 404
    assert site.ask("GET", "/v1/replay/trc-bravos", tenant="bravo").status == 200


def test_deletions_are_in_the_audit_log_without_the_users_name(site):
    record(site, "trc-audited", user_id="carla-the-user")
    site.ask("DELETE", "/v1/users/carla-the-user")

    text = (site.collector.data_dir / "audit" / "audit.ndjson").read_text()
    acts = [json.loads(line) for line in text.splitlines()]
    assert {"trace.deletion", "trace.deleted", "user.deletion", "user.deleted"} <= {
        each["event"] for each in acts
    }
    assert "carla-the-user" not in text


@pytest.mark.fault
def test_marks_are_remembered_across_kill_9(site):
    record(site, "trc-killed")
    assert site.ask("DELETE", "/v1/traces/trc-killed").status == 200
    site.collector.kill()
    site.collector.start()

    assert site.send({"trace_id": "trc-killed", "event_id": "late"})["accepted"] == 0
    assert site.send({"trace_id": "trc-here", "event_id": "here"})["accepted"] == 1
