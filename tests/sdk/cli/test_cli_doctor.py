"""`tracereel doctor` as a process: findings, advice and verdict."""

import json
import socket

import pytest
from prometheus_client import CollectorRegistry

from tests.sdk.cli.answering_server import AnsweringServer
from tests.sdk.cli.test_cli_ship import leave_events, spool_of
from tracereel._export import destinations
from tracereel._telemetry.metrics import metrics_of
from tracereel.cli import checks
from tracereel.config import load
from tracereel.metrics_server import start_metrics_server


@pytest.fixture
def examine(run_cli):
    """Return the exit status and the findings by name."""

    def run(*words, **env):
        done = run_cli("doctor", "--json", *words, **env)
        assert done.stderr == ""
        document = json.loads(done.stdout)
        assert document["usable"] == (done.returncode == 0)
        return done.returncode, {check["name"]: check for check in document["checks"]}

    return run


def test_a_working_set_up_is_usable(examine, collector):
    """Collector up, spool writable: status 0."""
    status, found = examine("--endpoint", collector.url)

    assert status == 0
    assert all(check["status"] != "fail" for check in found.values())
    assert found["collector"]["status"] == "ok"
    assert '"version": "0.1.0"' in found["collector"]["detail"]
    assert "store" in found["ready"]["detail"]
    assert found["api key"]["detail"] == "accepted"
    assert found["clock"]["detail"] == "agrees with the collector's"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, "a program that calls tracereel.configure() or sets a tracer provider"),
        ({"TRACEREEL_SET_TRACER_PROVIDER": "1"}, "every program"),
        ({"TRACEREEL_SET_TRACER_PROVIDER": "0"}, "a program that sets a tracer provider"),
        ({"TRACEREEL_OTHER_SPANS": "0"}, "no program (TRACEREEL_OTHER_SPANS is off)"),
    ],
)
def test_the_condition_for_spans_of_a_program_is_shown(examine, collector, env, expected):
    _, found = examine("--endpoint", collector.url, **env)

    assert found["own spans"]["detail"] == f"recorded of {expected}"


def test_unreachable_collector_is_a_failure_with_advice(examine):
    """Status 1, with the command that starts it."""
    with AnsweringServer() as gone:
        url = gone.url

    status, found = examine("--endpoint", url)

    assert status == 1
    assert found["collector"]["status"] == "fail"
    assert "tracereel serve" in found["collector"]["advice"]


def test_unready_collector_is_a_failure(examine, collector):
    """The body of /readyz is shown."""
    collector.answer("/readyz", {"queue": "disk full"}, status=503)

    status, found = examine("--endpoint", collector.url)

    assert status == 1
    assert "disk full" in found["ready"]["detail"]


def test_held_clock_jump_is_a_warning(examine, collector):
    clock = {"state": "jumped", "jump_seconds": 31536000.0, "hint": "tracereel clock --confirm"}
    collector.answer("/readyz", {"status": "ready", "clock": clock})

    status, found = examine("--endpoint", collector.url)

    assert (status, found["collector's clock"]["status"]) == (0, "warn")
    assert "+31536000 s" in found["collector's clock"]["detail"]
    assert found["collector's clock"]["advice"] == clock["hint"]


def test_a_store_that_does_not_answer_is_a_warning(examine, collector):
    """Events are still accepted, so the setup is usable."""
    collector.answer("/readyz/query", {"status": "not_ready"}, status=503)

    status, found = examine("--endpoint", collector.url)

    assert (status, found["queries"]["status"]) == (0, "warn")


def test_a_refused_key_is_a_failure(examine, collector):
    """The key is sent to the collector, not only printed."""
    refusal = {"error": {"message": "unknown key"}}
    collector.answer("/v1/replay/tracereel-doctor", refusal, status=401)

    status, found = examine("--endpoint", collector.url)

    assert (status, found["api key"]["status"]) == (1, "fail")


def test_a_key_that_may_only_write_is_a_warning(examine, collector):
    """Write access is enough for most programs."""
    refusal = {"error": {"message": "this key has the scopes write; read is needed"}}
    collector.answer("/v1/replay/tracereel-doctor", refusal, status=403)

    status, found = examine("--endpoint", collector.url)

    assert (status, found["api key"]["status"]) == (0, "warn")


def test_settings_show_their_origin_and_hide_secrets(examine, collector, run_cli):
    """Option, variable, OpenTelemetry's variable or default."""
    env = {
        "TRACEREEL_API_KEY": "hunter2",
        "OTEL_SERVICE_NAME": "booking",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=hunter2",
        "TRACEREEL_STORE": "clickhouse://me:hunter2@db:8123/x",
        "TRACEREEL_ENDPIONT": "http://typo",
    }
    _, found = examine("--endpoint", collector.url, **env)

    assert f"{collector.url} (--endpoint)" == found["endpoint"]["detail"]
    assert found["api_key"]["detail"] == "set, 7 characters ($TRACEREEL_API_KEY)"
    assert found["service"]["detail"] == "booking (OpenTelemetry's variables)"
    assert found["exit_timeout"]["detail"] == "1.5 (default)"
    assert found["TRACEREEL_ENDPIONT"]["advice"] == "did you mean TRACEREEL_ENDPOINT?"
    assert "hunter2" not in run_cli("doctor", "--endpoint", collector.url, **env).stdout


def test_a_setting_that_cannot_be_used_is_a_failure_that_names_it(examine, collector):
    """Names the variable, the given value and the accepted values."""
    status, found = examine(
        "--endpoint", collector.url, TRACEREEL_EXIT_TIMEOUT="soon", TRACEREEL_COMPRESSION="zip"
    )

    assert status == 1
    assert "TRACEREEL_EXIT_TIMEOUT is 'soon'" in found["exit_timeout"]["detail"]
    assert "TRACEREEL_COMPRESSION is 'zip'" in found["compression"]["detail"]


def test_events_left_by_ended_processes_are_counted(examine, cli_env, collector):
    """Reported as a warning with the advice `tracereel ship`."""
    leave_events(spool_of(cli_env, collector.url), 4)

    status, found = examine("--endpoint", collector.url)

    left = found["spool, ended processes"]
    assert (status, left["status"]) == (0, "warn")
    assert left["detail"].startswith("4 events (")
    assert left["advice"] == "run: tracereel ship"


def test_events_left_for_another_destination_are_counted_apart(examine, cli_env, collector):
    """A changed endpoint or key does not hide earlier events."""
    elsewhere = load({}, endpoint="http://elsewhere:4318", spool_dir=cli_env["TRACEREEL_SPOOL_DIR"])
    leave_events(elsewhere.destination_dir, 2)
    destinations.remember(elsewhere)

    _, found = examine("--endpoint", collector.url)

    assert found["spool, ended processes"]["detail"] == "nothing waits"
    other = found["spool, other destination"]
    assert other["detail"].startswith("2 events (")
    assert "tracereel ship --endpoint http://elsewhere:4318" in other["advice"]


def test_a_spool_without_a_record_is_named_as_stranded(examine, cli_env, collector):
    """Its owner is unknown: the advice is to ship it by hand."""
    directory = spool_of(cli_env, "http://elsewhere:4318")
    leave_events(directory, 2)

    _, found = examine("--endpoint", collector.url)

    stranded = found["spool, stranded"]
    assert stranded["detail"].startswith("2 events (")
    assert stranded["advice"] == f"run: tracereel ship --from {directory}"


def test_a_directory_that_cannot_be_written_is_a_failure(examine, collector):
    """Spool and data directory are tested; in /proc not even root can create files."""
    status, found = examine(
        "--endpoint", collector.url, "--data-dir", "/proc", TRACEREEL_SPOOL_DIR="/proc/spool"
    )

    assert status == 1
    assert {"fail"} == {found["spool"]["status"], found["data directory"]["status"]}


def test_a_directory_that_is_a_file_is_a_failure(examine, collector, tmp_path):
    """The reason is named."""
    (tmp_path / "file").write_text("")

    status, found = examine("--endpoint", collector.url, "--data-dir", str(tmp_path / "file"))

    assert (status, found["data directory"]["status"]) == (1, "fail")


def test_people_get_one_line_per_finding_with_the_advice_below(run_cli, collector):
    """Grouped by area, without colour in a pipe."""
    shown = run_cli("doctor", "--endpoint", collector.url)

    lines = shown.stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "configured",
        "reachable",
        "clock",
        "writable",
        "metrics",
        "installed",
    ]
    assert f"  ok    endpoint: {collector.url} (--endpoint)" in lines
    assert "\x1b" not in shown.stdout


def test_a_read_only_key_is_a_failure_while_events_wait(examine, cli_env, collector):
    refusal = {"error": {"message": "this key has the scopes read; write is needed"}}
    collector.answer("/v1/identity", refusal, status=403)

    status, found = examine("--endpoint", collector.url)
    assert (status, found["api key"]["status"]) == (0, "warn")

    leave_events(spool_of(cli_env, collector.url), 4)
    status, found = examine("--endpoint", collector.url)
    assert (status, found["api key"]["status"]) == (1, "fail")
    assert "may not send events" in found["api key"]["detail"]


def test_programs_that_serve_metrics_are_counted():
    registry = CollectorRegistry()
    metrics_of(registry)
    with AnsweringServer() as prometheus, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        free = unused.getsockname()[1]
        with (
            start_metrics_server(0, registry=registry) as one,
            start_metrics_server(0, registry=registry) as two,
        ):
            ports = (int(prometheus.url.rpartition(":")[2]), one.port, free, two.port)
            servers, port = checks.metrics_servers(ports)
    assert servers.detail == (
        f"2 programs serve metrics on 127.0.0.1:{one.port}, 127.0.0.1:{two.port}"
    )
    assert port.detail.startswith(f"port {ports[0]} is another program's")


def test_no_metrics_server_is_no_problem(examine, collector):
    _, found = examine("--endpoint", collector.url)
    assert found["metrics servers"]["status"] == "ok"
