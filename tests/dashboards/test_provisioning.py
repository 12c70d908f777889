"""Dashboard files: up to date, readable, only provisioned data sources."""

import re

import pytest
import yaml

from dashboards import build
from tests.support import grafana

PROVISIONING = grafana.FOLDER / "provisioning"
SOURCES = {
    source["uid"]: source
    for source in yaml.safe_load(
        (PROVISIONING / "datasources" / "tracereel.yaml").read_text("utf-8")
    )["datasources"]
}
BOARDS = sorted(grafana.BOARDS)


def panels(board):
    return [panel for panel in grafana.BOARDS[board]["panels"] if panel["type"] != "row"]


def test_the_committed_dashboards_are_what_the_builders_make():
    assert [file.name for file in build.stale()] == [], "run `make dashboards`"


def test_stale_dashboards_are_detected(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    for file, text in build.written().items():
        file.write_text(text, encoding="utf-8")
    assert build.stale() == []

    (tmp_path / "tracereel-agents.json").write_text("{}")
    (tmp_path / "nobody.json").write_text("{}")

    assert [file.name for file in build.stale()] == ["nobody.json", "tracereel-agents.json"]


def test_every_data_source_named_is_provisioned():
    named = {
        (query.target["datasource"]["uid"], query.target["datasource"]["type"])
        for query in grafana.QUERIES
    }

    assert named <= {(uid, source["type"]) for uid, source in SOURCES.items()}
    assert len(SOURCES) == 3


@pytest.mark.parametrize("board", BOARDS)
def test_every_panel_can_be_read_at_first_glance(board):
    """Every panel has a title, a description, a unit and its own place within the page width."""
    taken = set()
    for panel in panels(board):
        assert panel["title"], panel
        if panel["type"] != "text":
            assert len(panel["description"]) > 10, f"{panel['title']} does not say what it shows"
            assert panel["targets"], panel["title"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} covers another panel"
        taken |= cells


@pytest.mark.parametrize("board", BOARDS)
def test_every_variable_is_used(board):
    made = grafana.BOARDS[board]
    text = str(made["panels"])
    unused = [
        each["name"]
        for each in made["templating"]["list"]
        if not re.search(rf"\$\{{?{each['name']}\b", text)
    ]

    assert unused == []


def test_links_lead_to_dashboards_that_exist():
    linked = set(re.findall(r"/d/([\w-]+)", str(list(grafana.BOARDS.values()))))

    assert linked <= grafana.BOARDS.keys()
    assert {board["uid"] for board in grafana.BOARDS.values()} == grafana.BOARDS.keys()


def test_dashboards_contain_no_secret():
    for uid, source in SOURCES.items():
        for value in source.get("secureJsonData", {}).values():
            assert re.fullmatch(r"\$\{\w+\}", value), uid
