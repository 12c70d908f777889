"""Bulk export: complete, without duplicates, in both formats, filtered, and by command."""

import io
import json
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest

from tests.support.collector import http
from tests.support.contract import example
from tests.support.waiting import wait_until
from tracereel_collector.query.export import TABLES, Export, ExportSelection


@pytest.fixture(scope="module")
def agent(collector):
    """Return an agent with two hundred events in twenty runs, some of them large."""
    name = "exported_agent"
    events = [
        {**example("agent.execution.completed"), "agent_name": name, "event_id": f"exp-{number}"}
        | {
            "trace_id": f"trc-exp-{number % 20}",
            "timestamp": f"2025-03-{1 + number % 28:02}T00:00:00Z",
        }
        | {"reasoning": "ñ\n" * (1 + 2_000 * (number % 10 == 0))}
        for number in range(200)
    ]
    assert collector.post_events(events).status == 200
    return name


def export(collector, **asked):
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    answer = http("GET", f"{collector.url}/v1/export?{query}")
    assert answer.status == 200, answer.body
    return answer


def test_events_come_as_they_were_sent(collector, agent):
    answer = export(collector, agent=agent)

    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["x-total-count"] == "200"
    assert sorted(line["event_id"] for line in lines) == sorted(f"exp-{n}" for n in range(200))
    first = next(line for line in lines if line["event_id"] == "exp-0")
    assert first["reasoning"] == "ñ\n" * 2001
    assert first["sequence_number"] > 0


def test_parquet_holds_the_same_rows(collector, agent):
    answer = export(collector, agent=agent, format="parquet")

    table = pq.read_table(io.BytesIO(answer.body))
    assert table.num_rows == 200
    assert {"trace_id", "agent_name", "payload", "timestamp"} <= set(table.column_names)


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_table_comes_in_both_forms(collector, agent, table):
    lines = export(collector, table=table).body.splitlines()
    rows = pq.read_table(io.BytesIO(export(collector, table=table, format="parquet").body))

    assert rows.num_rows == len(lines)


def test_export_filters(collector, agent):
    run = export(collector, trace_id="trc-exp-3").body.splitlines()
    days = export(collector, agent=agent, since="2025-03-02", until="2025-03-04T00:00:00Z")
    nothing = export(collector, agent="nobody")

    assert len(run) == 10
    moments = {json.loads(line)["timestamp"][:10] for line in days.body.splitlines()}
    assert moments == {"2025-03-02", "2025-03-03"}
    assert nothing.body == b""
    assert http("GET", f"{collector.url}/v1/export?since=yesterday").status == 400


def test_times_are_given_as_everywhere_else(collector, agent):
    """Absolute and relative times."""
    assert export(collector, agent=agent, since="99999d").headers["x-total-count"] == "200"
    assert export(collector, agent=agent, until="1d").headers["x-total-count"] == "200"
    assert export(collector, agent=agent, since="1d").body == b""
    for asked, said in (
        (
            "since=whenever",
            "Invalid filter: since: 'whenever' is no moment; expected 2026-11-16T02:00:00Z, or",
        ),
        ("since=1h&until=2h", "Invalid filter: until: '2h' is not after since: '1h'"),
    ):
        refused = http("GET", f"{collector.url}/v1/export?{asked}")
        assert (refused.status, refused.json()["error"]["message"][: len(said)]) == (400, said)


@pytest.mark.parametrize("kind", ["ndjson", "parquet"])
def test_export_reports_its_estimated_size(collector, agent, kind):
    answer = export(collector, agent=agent, format=kind)

    assert int(answer.headers["x-estimated-bytes"]) == pytest.approx(len(answer.body), rel=0.2)
    nothing = export(collector, agent="nobody", format=kind)
    assert (nothing.headers["x-total-count"], nothing.headers["x-estimated-bytes"]) == ("0", "0")


def test_abandoned_exports_release_their_slots(collector, agent):
    """More than the concurrency limit, each abandoned after its first bytes."""
    address = urlsplit(collector.url)

    def left_early():
        with socket.create_connection((address.hostname, address.port), timeout=30) as left:
            left.sendall(b"GET /v1/export HTTP/1.1\r\nHost: x\r\n\r\n")
            return left.recv(12)

    for _ in range(4):
        wait_until(lambda: left_early() == b"HTTP/1.1 200")


class Watched:
    """Store wrapper that records the size of each slice."""

    def __init__(self, client):
        self.client = client
        self.sizes = []

    def select(self, statement, parameters, *, fmt):
        data = bytes(self.client.raw_query(statement, parameters=parameters, fmt=fmt))
        self.sizes.append(len(data))
        return data


@pytest.mark.parametrize(("rows", "size"), [(3, 1 << 30), (1_000, 6_000), (3, 1)])
def test_slices_are_bounded_and_lose_nothing(collector, agent, sql, rows, size):
    """Limited by rows and bytes; a row larger than a slice is its own slice."""
    store = Watched(sql)
    made = Export(store, slice_rows=rows, slice_bytes=size)
    wanted = ExportSelection(trace_id="trc-exp-0")

    written = list(made.ndjson("default", wanted))
    lines = b"".join(piece.data for piece in written).splitlines()
    pieces = list(made.parquet("default", wanted))
    table = pq.ParquetFile(io.BytesIO(b"".join(piece.data for piece in pieces)))

    assert len({json.loads(line)["event_id"] for line in lines}) == len(lines) == 10
    assert table.metadata.num_rows == 10
    assert sum(piece.rows for piece in written) == sum(piece.rows for piece in pieces) == 10
    assert table.num_row_groups == (4 if size > 6_000 else 10)
    assert max(store.sizes) < (70_000 if size > 6_000 else 25_000)


def test_the_command_writes_a_file(collector, agent, tmp_path):
    for kind in ("ndjson", "parquet"):
        file = tmp_path / f"out.{kind}"
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tracereel",
                "export",
                "--endpoint",
                collector.url,
                "--agent",
                agent,
                "--format",
                kind,
                "-o",
                str(file),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith("200 rows")
    assert len((tmp_path / "out.ndjson").read_bytes().splitlines()) == 200
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 200
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out.ndjson", "out.parquet"]


def test_export_command_errors(collector, tmp_path):
    for arguments, why in (
        (["--endpoint", "http://127.0.0.1:1"], "no collector answers"),
        (["--endpoint", collector.url, "--since", "yesterday"], "since: 'yesterday' is no moment"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "tracereel", "export", *arguments, "-o", str(tmp_path / "x")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2
        assert why in done.stderr
    assert list(tmp_path.iterdir()) == []
