"""Queries of every panel, rule and alert, run against a real Prometheus and a real collector."""

import re

import pytest
import yaml

from tests.support import grafana
from tests.support.collector import http
from tests.support.prometheus import FOLDER, labels_in, metrics_in
from tests.support.waiting import wait_until

RULES = [
    rule
    for file in sorted((FOLDER / "rules").glob("*.yml"))
    for group in yaml.safe_load(file.read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
OF_PROMETHEUS = {"up", "ALERTS"}
MAY_BE_EMPTY = {
    "Alerts firing": "nothing may be wrong",
    "Alerts firing over time": "nothing may be wrong",
    "goals:event_emit_rate:B": "the goal may be kept",
}
NOT_UNDER_LOAD = {
    "tracereel_sdk_events_dropped_total": "nothing is dropped while the disk has room",
    "tracereel_insert_retries_total": "the store takes what it is given",
    "tracereel_unknown_refusals_total": "the store takes what it is given",
    "tracereel_connections_ended_total": "clients behave",
    "tracereel_audit_lines_lost_total": "the disk has room",
}
"""Metrics without samples while everything works, with the reason."""


def _name(rule):
    return rule.get("record") or rule["alert"]


def _comes(prometheus, expression):
    return wait_until(
        lambda: prometheus.values(expression), timeout=25, message=f"no data: {expression}"
    )


def _expressions():
    yield from (
        (str(query), grafana.promql(query.target["expr"], query.board))
        for query in grafana.of("prometheus")
    )
    yield from ((_name(rule), rule["expr"]) for rule in RULES)


def _without_thresholds(expression):
    return re.sub(r"\s(==|!=|>=|<=|>|<) -?[\d.]+(?![\w.])", "", expression)


@pytest.fixture(scope="module")
def exported(stack):
    """Return the metrics that the two processes declare, with or without samples."""
    pages = [
        http("GET", f"http://127.0.0.1:{stack.agents_port}/metrics").body,
        http("GET", f"{stack.collector.url}/metrics").body,
    ]
    names = set(OF_PROMETHEUS)
    for name, kind in re.findall(r"(?m)^# TYPE (\S+) (\w+)", b"\n".join(pages).decode()):
        parts = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        names |= {name + part for part in parts}
    return names


@pytest.mark.parametrize("query", grafana.of("prometheus"), ids=str)
def test_a_panel_of_prometheus_shows_something(prometheus, query):
    if {query.panel["title"], str(query)} & MAY_BE_EMPTY.keys():
        expression = re.sub(r"\{alertstate=\"firing\"\}", "", query.target["expr"])
        assert prometheus.get("query", query=expression)["result"] is not None
        return
    _comes(prometheus, grafana.promql(query.target["expr"], query.board))


@pytest.mark.parametrize("rule", [rule for rule in RULES if "record" in rule], ids=_name)
def test_a_recording_rule_records_something(prometheus, rule):
    _comes(prometheus, rule["expr"])
    _comes(prometheus, rule["record"])


@pytest.mark.parametrize("rule", [rule for rule in RULES if "alert" in rule], ids=_name)
def test_an_alert_without_its_threshold_sees_something(prometheus, rule):
    """The condition need not hold, but the series it reads must exist."""
    _comes(prometheus, _without_thresholds(rule["expr"]))


@pytest.mark.parametrize(
    ("name", "expression"),
    [(name, text) for name, text in _expressions() if "or vector(0)" in text],
    ids=lambda value: value if " " not in value or ":" in value.split(" ")[0] else "",
)
def test_parts_with_a_zero_default_match_existing_series(prometheus, name, expression):
    """`or vector(0)` would hide a series that never exists."""
    parts = re.findall(
        r"(sum(?: by \([^)]*\))? ?\([^()]*(?:\([^()]*\))?[^()]*\)) or vector\(0\)", expression
    )
    for part in parts:
        if not metrics_in(part) & NOT_UNDER_LOAD.keys():
            _comes(prometheus, part)


def test_every_metric_named_exists(exported):
    """Exported by one of the two processes, or defined by a recording rule."""
    unknown = {
        (name, metric)
        for name, expression in _expressions()
        for metric in metrics_in(expression)
        if metric not in exported | RECORDED
    }

    assert sorted(unknown) == []


def test_every_label_asked_for_exists(prometheus):
    wanted = {pair for _, expression in _expressions() for pair in labels_in(expression)}
    missing = [
        (metric, label)
        for metric, label in sorted(wanted)
        if metric not in NOT_UNDER_LOAD.keys() | {"ALERTS"}
        and label not in prometheus.get("labels", **{"match[]": metric})
    ]

    assert missing == []


@pytest.mark.parametrize("board", sorted(grafana.BOARDS))
def test_every_variable_has_values(stack, prometheus, board):
    for variable in grafana.BOARDS[board]["templating"]["list"]:
        if variable["type"] != "query":
            continue
        if variable["datasource"]["type"] == "prometheus":
            metric, label = re.fullmatch(
                r"label_values\((\w+), (\w+)\)", variable["query"]["query"]
            ).groups()
            assert prometheus.get(f"label/{label}/values", **{"match[]": metric}), variable["name"]
        else:
            assert stack.rows(stack.filled(variable["query"]["rawSql"], {})), variable["name"]


@pytest.mark.parametrize("query", grafana.of("grafana-clickhouse-datasource"), ids=str)
def test_a_panel_of_clickhouse_has_rows(stack, query):
    text = query.target["rawSql"]
    rows = wait_until(lambda: stack.sql_rows(query.board, text), message=f"no rows: {text}")

    columns = set(rows[0])
    named = {each["matcher"]["options"] for each in query.panel["fieldConfig"]["overrides"]}
    assert named - columns == set(), "the panel formats columns that the query does not give"


@pytest.mark.parametrize("query", grafana.of("jaeger"), ids=str)
def test_a_panel_of_traces_shows_the_run_that_is_chosen(stack, query):
    (run,) = stack.sql_rows(query.board, "SELECT ${run:sqlstring} AS run")

    found = stack.ask(f"/api/traces/{query.target['query'].replace('$run', run['run'])}")

    assert found.status == 200
    assert found.json()["data"][0]["spans"]


def test_exemplars_lead_to_traces(stack, prometheus):
    """The link of a chart point leads to a trace of the collector."""
    from tests.dashboards.test_provisioning import SOURCES

    (to,) = SOURCES["tracereel-prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert to["datasourceUid"] == "tracereel-jaeger"

    def exemplars():
        found = prometheus.get(
            "query_exemplars",
            query="agent_execution_duration_seconds_bucket",
            start=stack.began,
            end=stack.began + 3600,
        )
        return [each["labels"] for series in found for each in series["exemplars"]]

    labels = wait_until(exemplars, message="no exemplars")
    found = wait_until(
        lambda: (
            (answer := stack.ask(f"/api/traces/{labels[0][to['name']]}")).status == 200 and answer
        )
    )
    assert found.json()["data"][0]["spans"]
