"""Checks that docs/architecture.md matches the packages that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
HALVES = {"the SDK": "sdk/tracereel", "the collector": "collector/tracereel_collector"}


def test_every_named_module_exists():
    named = set(re.findall(r"(?:sdk/tracereel|collector/tracereel_collector)/[\w/]+\.py", PAGE))

    assert len(named) > 50
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_every_named_path_exists():
    named = set(re.findall(r"`((?:sdk|collector)/[\w/.*-]+)`", PAGE))

    assert len(named) > 50
    assert [name for name in sorted(named) if not list(ROOT.glob(name.rstrip("/")))] == []


@pytest.mark.parametrize("half", HALVES)
def test_every_room_is_described_and_every_described_room_exists(half):
    package = ROOT / HALVES[half]
    rooms = {
        str(init.parent.relative_to(package))
        for init in package.rglob("__init__.py")
        if init.parent != package
    }
    section = re.search(rf"(?ms)^## Rooms of {half}$(.*?)^Modules beside", PAGE)

    assert section
    assert set(re.findall(r"(?m)^\| `([\w/]+)` \|", section.group(1))) == rooms


@pytest.mark.parametrize("half", HALVES)
def test_the_layers_are_those_of_import_linter(half):
    contracts = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contract = re.search(rf'(?ms)name = "Layers of {half}".*?^layers = \[(.*?)^\]', contracts)
    section = re.search(rf"(?ms)^## Rooms of {half}$.*?^Layers, top to bottom: `(.*?)`", PAGE)

    assert contract
    assert section
    layers = re.findall(r'"([^"]+)"', contract.group(1))
    assert [each.strip("()") for each in section.group(1).split(" → ")] == layers
