"""Reader of citations in the formats of all providers."""

from typing import Any

from tracereel.providers.base import Citation, Location
from tracereel.providers.reading import count, items, mapping, text

_RANGES = (
    ("start_char_index", "end_char_index", "char"),
    ("start_page_number", "end_page_number", "page"),
    ("start_block_index", "end_block_index", "block"),
    ("start_index", "end_index", "answer_char"),
)


def read_citation(value: Any, answer: str = "") -> Citation | None:
    """Read a citation of Anthropic, OpenAI or LangChain.

    Return `None` if it has neither text nor source. `answer` is the text that contains the
    citation: OpenAI returns a range of the response instead of the cited words.
    """
    if not isinstance(value, dict):
        return None
    inner = value.get("url_citation") or value.get("file_citation")
    cited = inner if isinstance(inner, dict) else value
    location = _location(cited)
    said = text(cited.get("cited_text")) or text(cited.get("quote"))
    if said is None and location is not None and location.unit == "answer_char":
        said = text(answer[location.start : location.end])
    title = _named(cited, "document_title", "title", "filename")
    source = _named(cited, "url", "source", "document_title", "title", "filename", "file_id")
    if said is None and source is None:
        return None
    position = next(
        (
            found
            for name in ("document_index", "search_result_index", "index")
            if (found := count(cited.get(name))) is not None
        ),
        None,
    )
    return Citation(
        text=said or "",
        source=source or "",
        title=title,
        document_index=position,
        location=location,
    )


def _named(value: dict[str, Any], *names: str) -> str | None:
    return next((found for name in names if (found := text(value.get(name))) is not None), None)


def _location(value: dict[str, Any]) -> Location | None:
    for first, last, unit in _RANGES:
        start, end = count(value.get(first)), count(value.get(last))
        if start is not None and end is not None:
            return Location(start=start, end=end, unit=unit)
    return None


def read_grounding(candidate: dict[str, Any]) -> tuple[Citation, ...]:
    """Return the citations of a Google candidate: grounding supports, then citation metadata."""
    found: list[Citation] = []
    grounding = mapping(_either(candidate, "groundingMetadata", "grounding_metadata"))
    chunks = items(_either(grounding, "groundingChunks", "grounding_chunks"))
    for support in items(_either(grounding, "groundingSupports", "grounding_supports")):
        segment = mapping(mapping(support).get("segment"))
        indices = items(_either(support, "groundingChunkIndices", "grounding_chunk_indices"))
        found.extend(
            _grounded(segment, mapping(chunks[number]), number)
            for index in indices
            if (number := count(index)) is not None and number < len(chunks)
        )
    metadata = mapping(_either(candidate, "citationMetadata", "citation_metadata"))
    for each in items(_either(metadata, "citations", "citationSources")):
        cited = mapping(each)
        source = _named(cited, "uri", "title")
        if source is not None:
            found.append(
                Citation(
                    text="",
                    source=source,
                    title=_named(cited, "title"),
                    location=_answer_bytes(cited),
                )
            )
    return tuple(found)


def _grounded(segment: dict[str, Any], chunk: dict[str, Any], number: int) -> Citation:
    place = mapping(
        chunk.get("web") or _either(chunk, "retrievedContext", "retrieved_context") or {}
    )
    return Citation(
        text=text(segment.get("text")) or "",
        source=_named(place, "uri", "title") or "",
        title=_named(place, "title"),
        document_index=number,
        location=_answer_bytes(segment),
    )


def _answer_bytes(value: dict[str, Any]) -> Location | None:
    end = count(_either(value, "endIndex", "end_index"))
    # A start of 0 is omitted on the wire.
    start = count(_either(value, "startIndex", "start_index")) or 0
    return None if end is None else Location(start=start, end=end, unit="answer_byte")


def _either(value: Any, first: str, second: str) -> Any:
    found = mapping(value)
    one = found.get(first)
    return found.get(second) if one is None else one
