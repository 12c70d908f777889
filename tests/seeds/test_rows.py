"""Conformance with the seeds: one test per row, against the public API."""

import re
from pathlib import Path

import pytest

from tests.seeds.checks import CHECKS, WITH_COLLECTOR
from tests.seeds.document import document
from tests.seeds.rows import all_rows, seeds, words

EXPECTED = {"000": 85, "001": 83, "002": 23, "003": 73, "004": 217, "card": 21}


def _marks(row):
    if row.check in WITH_COLLECTOR:
        yield pytest.mark.e2e


def _parameters():
    for row in all_rows():
        if row.check is not None:
            yield pytest.param(row, id=row.id, marks=tuple(_marks(row)))


@pytest.mark.parametrize("row", list(_parameters()))
def test_row(row, evidence):
    CHECKS[row.check](row, evidence)


def test_every_row_of_every_seed_is_listed_once():
    assert {seed.name: len(seed.rows) for seed in seeds()} == EXPECTED
    for seed in seeds():
        numbers = [int(row.id.rpartition(".")[2]) for row in seed.rows]
        assert numbers == list(range(1, len(seed.rows) + 1))


def test_every_row_has_a_check_or_a_reason():
    for row in all_rows():
        assert row.check in CHECKS if row.check else row.why, row.id
        assert row.status == "works" or row.why, row.id
        assert row.status != "deviates" or row.ours, row.id


def test_every_check_is_used_by_a_row():
    assert CHECKS.keys() == {row.check for row in all_rows() if row.check}


def test_words_of_the_seeds_are_listed_once():
    listed = [word for entry in words()["word"] for word in re.findall(r"`(.+?)`", entry["seed"])]
    assert len(listed) == len(set(listed))
    assert len(listed) > 100
    named = " ".join(listed)
    for word in (
        *("MockEventCollector", "AnthropicAdapter", "BatchAdapterFactory"),
        *("normalizeMessage", "get_events_by_trace"),
    ):
        assert re.search(rf"\b{word}\b", named)


def test_words_and_deviations_are_on_the_page_of_the_seeds():
    page = (Path(__file__).parents[2] / "docs" / "seeds.md").read_text(encoding="utf-8")
    assert page == document()
    for entry in words()["word"]:
        assert f"| {entry['seed']} | {entry['ours']} |" in page
