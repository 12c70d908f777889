"""`tracereel fleet pull`: chosen tapes of a collector in one file, which is run again."""

import gzip
import json
import uuid
from collections import Counter

import pytest

from tests.support.collector import http
from tests.support.desk import Desk
from tests.support.recorded_desk import record_into
from tracereel.fleet.file import FleetFile

NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def recorded(collector, tmp_path_factory):
    """Return the program, a name that only its runs have, and their trace ids."""
    folder = tmp_path_factory.mktemp("pulled")
    desk = Desk(folder / "program").write()
    name = f"desk-{uuid.uuid4().hex[:8]}"
    desk.change('@traced_pipeline("desk")', f'@traced_pipeline("{name}")')
    return desk, name, record_into(collector, desk, name, 12)


def pulled(desk, collector, path, *words):
    done = desk.fleet("pull", "-o", path, "--endpoint", collector.url, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout, [each.trace_id for each in FleetFile(path).runs()]


def test_pulled_runs_are_run_again(collector, recorded, tmp_path):
    desk, name, trace_ids = recorded
    path = tmp_path / "runs.fleet"

    said, runs = pulled(desk, collector, path, "--pipeline", name)

    assert sorted(runs) == sorted(trace_ids)
    assert said.startswith("12 of 12 runs, ")
    assert path.stat().st_mode & 0o777 == 0o600
    report = desk.replayed(path)
    assert (report["counts"]["same"], report["passed"]) == (12, True)
    assert not desk.counter.exists()


def test_runs_are_chosen_by_variety_and_share(collector, recorded, tmp_path):
    desk, name, trace_ids = recorded
    path = tmp_path / "runs.fleet"

    said, runs = pulled(desk, collector, path, "--pipeline", name, "--variety", "1")
    assert len(runs) == 3, "seller; clerk who refunds; clerk who does not"
    assert "3 of 12 runs on 3 paths" in said
    assert "left out, enough runs of this path: 9" in said

    _, half = pulled(desk, collector, path, "--pipeline", name, "--share", "0.5")
    _, again = pulled(desk, collector, path, "--pipeline", name, "--share", "0.5")
    assert half == again
    assert set(half) < set(trace_ids)

    none = desk.fleet("pull", "-o", path, "--endpoint", collector.url, "--pipeline", "no-such")
    assert (none.returncode, none.stdout.split(",")[0]) == (1, "0 of 0 runs")


def part_of(trace_id, number, text):
    records = [{"r": "blob", "h": f"h{number}", "v": text}]
    return {
        "event_type": "agent.tape.recorded",
        "event_id": uuid.uuid4().hex,
        "trace_id": trace_id,
        "timestamp": "2026-11-18T10:00:00Z",
        "tape_id": f"tape-{trace_id}",
        "tape_version": 1,
        "event_version": "1.0.0",
        "part": number,
        "records": records,
        "emitter_id": f"emitter-{trace_id}",
    }


def test_an_answer_is_bounded_and_names_the_rest(collector):
    trace_ids = [f"trc_{uuid.uuid4().hex}" for _ in range(4)]
    for trace_id in trace_ids:
        parts = [part_of(trace_id, number, "x" * 2_600_000) for number in range(4)]
        body = gzip.compress(b"\n".join(json.dumps(each).encode() for each in parts), 1)
        headers = {**NDJSON, "Content-Encoding": "gzip"}
        answer = http("POST", f"{collector.url}/v1/events?wait=stored", body, headers)
        assert answer.status == 200, answer.body

    def ask(ids):
        query = "&".join(f"trace_id={each}" for each in ids)
        answer = http("GET", f"{collector.url}/v1/tapes?{query}")
        assert answer.status == 200, answer.body
        *lines, last = map(json.loads, answer.body.splitlines())
        assert len(answer.body) < 33 * 1024 * 1024
        return Counter(each["trace_id"] for each in lines), last["rest"]

    first, rest = ask([*trace_ids, "trc_unknown"])
    assert len(first) == 3
    assert set(first.values()) == {4}
    assert len(rest) == 1
    second, rest = ask(rest)
    assert sorted([*first, *second]) == sorted(trace_ids)
    assert rest == []

    many = "&".join(f"trace_id=t{number}" for number in range(101))
    assert http("GET", f"{collector.url}/v1/tapes?{many}").status == 400
    assert http("GET", f"{collector.url}/v1/tapes").status == 400
