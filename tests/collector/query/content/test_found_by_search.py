"""What the content of recorded steps shows is found by the search for words."""

import json
import re

import pytest

from tests.collector.query.content.recorded import NAMES, RECEIVED, reader, stored
from tracereel.content import ModelCallContent, ToolCallContent
from tracereel_collector.query.filters import TraceFilters
from tracereel_collector.query.search import Search, SearchQuery

WORD = re.compile(r"[0-9A-Za-z\x80-\U0010ffff]+")
"""Words as the index splits them: what is neither ASCII nor a letter or digit does not separate."""


def words(*values):
    texts = (each if isinstance(each, str) else _json(each) for each in values if each is not None)
    return {word.lower() for text in texts for word in WORD.findall(text)}


def _json(value):
    # Breaks in texts separate words.
    return re.sub(r"\\[nrt]", " ", json.dumps(value, ensure_ascii=False))


def shown(content):
    """Return the words that a step shows as new: the end of its input, and its output."""
    if isinstance(content, ModelCallContent):
        parts = [part for each in (*content.input[-1:], *content.output) for part in each.parts]
        return words(*(part.text for part in parts), *(part.value for part in parts))
    if isinstance(content, ToolCallContent):
        return words(content.arguments, content.result)
    return words(content.asked, content.answered)


@pytest.mark.parametrize("recording", NAMES)
def test_what_recorded_steps_show_is_found(store, recording):
    tenant, spans = stored(store, recording)
    query = reader(store)
    said = {name: shown(query.content(tenant, trace, span_id)) for name, trace, span_id in spans}
    answer = store.select(
        "SELECT text FROM trace_texts WHERE tenant = {tenant:String}",
        {"tenant": tenant},
        fmt="JSONCompactEachRow",
    )
    indexed = words(*(json.loads(row)[0] for row in answer.splitlines()))

    assert {name: each - indexed for name, each in said.items() if each - indexed} == {}
    longest = max((word for each in said.values() for word in each if word.isascii()), key=len)
    asked = SearchQuery(filters=TraceFilters(text=longest))
    found = Search(store, lambda: RECEIVED).answer(tenant, asked)["traces"]
    assert {trace for _, trace, _ in spans} & {each["trace_id"] for each in found}
