"""A traced search records its query and its documents, whatever their type."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.ingest_sink import IngestSink
from tracereel import current_execution, traced_retrieval
from tracereel.testing import EventRecorder

Deliver = Callable[[], list[dict[str, Any]]]


def subset(event: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    return {key: event[key] for key in expected}


@dataclass
class Hit:
    id: str
    score: float


def test_a_search_shows_what_it_found(recorded: Deliver, sink: IngestSink) -> None:
    results: list[Any] = [
        [Hit("d1", 0.9), Hit("d2", 0.5)],
        [("d3", 0.4)],
        [{"document_id": 7, "similarity": 0.1}],
        ["d4"],
        [],
        None,
    ]

    @traced_retrieval("semantic_search", collection="files")
    def search(query: str, top_k: int = 5) -> Any:
        result = results.pop(0)
        if not result:
            current_execution().set(degraded_reason="index away")
        return result

    for _ in range(6):
        search("invoices", 3)
    recorded()
    events = sink.of_type("agent.retrieval.completed")
    expected = {
        "retrieval_name": "semantic_search",
        "collection": "files",
        "query": "invoices",
        "top_k": 3,
        "result_count": 2,
        "documents": [{"id": "d1", "score": 0.9}, {"id": "d2", "score": 0.5}],
        "is_empty": False,
        "degraded": False,
        "agent_name": None,
        "span_name": "retrieval semantic_search",
        "trace_event_count": 1,
    }
    assert subset(events[0], expected) == expected
    assert [event["documents"] for event in events[1:]] == [
        [{"id": "d3", "score": 0.4}],
        [{"id": "7", "score": 0.1}],
        [{"id": "d4", "score": None}],
        None,
        None,
    ]
    assert [event["is_empty"] for event in events] == [False, False, False, False, True, None]
    assert [event["degraded"] for event in events] == [False] * 4 + [True] * 2


PASSAGE = "Ana Pérez, 41, is allergic to penicillin"


@pytest.mark.parametrize(
    ("result", "count", "documents"),
    [
        ({"ids": [["a", "b"]], "distances": [[0.1, 0.2]]}, 2, [("a", None), ("b", None)]),
        ({"ids": [[]], "documents": [[]]}, 0, None),
        ({"matches": [{"id": "m", "score": 0.5}], "namespace": "n"}, 1, [("m", 0.5)]),
        ({"hits": {"total": 1, "hits": [{"_id": "e", "_score": 2.5}]}}, 1, [("e", 2.5)]),
        ({"results": []}, 0, None),
        ({"one": 1, "two": 2}, 2, None),
        ([PASSAGE, ("d1", 0.5), (PASSAGE, 0.25)], 3, [(None, None), ("d1", 0.5), (None, 0.25)]),
    ],
)
def test_a_search_is_understood_whatever_holds_its_documents(
    recorded: Deliver, sink: IngestSink, result: Any, count: int, documents: Any
) -> None:
    @traced_retrieval("search")
    def search(query: str) -> Any:
        return result

    @traced_retrieval("search")
    def one_by_one(query: str) -> Iterator[Any]:
        yield from result

    search("q")
    if isinstance(result, list):
        list(one_by_one("q"))
    recorded()
    for event in sink.of_type("agent.retrieval.completed"):
        assert (event["result_count"], event["is_empty"]) == (count, count == 0)
        shown = event["documents"] and [(each["id"], each["score"]) for each in event["documents"]]
        assert shown == documents


def test_without_content_a_text_is_never_the_name_of_a_document() -> None:
    @traced_retrieval("search")
    def search(query: str) -> Any:
        return ["penicillin", PASSAGE, {"id": "d1", "score": 0.5}, 7]

    with EventRecorder(capture_content=False) as events:
        search("q")
    (event,) = events.events
    assert [each["id"] for each in event["documents"]] == [None, None, "d1", "7"]
    assert event["result_count"] == 4


def test_search_uses_its_default_limit(recorded: Deliver, sink: IngestSink) -> None:
    @traced_retrieval("r")
    def search(query: str, top_k: int = 7, collection: str | None = None) -> list[str]:
        return []

    search("q")
    search("q", 2)
    recorded()
    assert [event["top_k"] for event in sink.of_type("agent.retrieval.completed")] == [7, 2]
