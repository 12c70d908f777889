"""Reader of citations in the formats of all providers."""

from typing import Any

from tracereel.providers.base import Citation, Location
from tracereel.providers.reading import count, first_text, get, items, mapping, text

_RANGES = (
    ("start_char_index", "end_char_index", "char"),
    ("start_page_number", "end_page_number", "page"),
    ("start_block_index", "end_block_index", "block"),
    ("start_index", "end_index", "answer_char"),
)
_INDEXES = ("document_index", "search_result_index", "index")


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
    quoted = first_text(cited, "cited_text", "quote")
    if quoted is None and location is not None and location.unit == "answer_char":
        quoted = text(answer[location.start : location.end])
    title = first_text(cited, "document_title", "title", "filename")
    source = first_text(cited, "url", "source", "document_title", "title", "filename", "file_id")
    if quoted is None and source is None:
        return None
    indexes = [count(cited.get(name)) for name in _INDEXES]
    return Citation(
        text=quoted or "",
        source=source or "",
        title=title,
        document_index=next((each for each in indexes if each is not None), None),
        location=location,
    )


def _location(value: dict[str, Any]) -> Location | None:
    for first, last, unit in _RANGES:
        start, end = count(value.get(first)), count(value.get(last))
        if start is not None and end is not None:
            return Location(start=start, end=end, unit=unit)
    return None


def read_grounding(candidate: dict[str, Any]) -> tuple[Citation, ...]:
    """Return the citations of a Google candidate: grounding supports, then citation metadata."""
    found: list[Citation] = []
    grounding = mapping(get(candidate, "groundingMetadata", "grounding_metadata"))
    chunks = items(get(grounding, "groundingChunks", "grounding_chunks"))
    for support in items(get(grounding, "groundingSupports", "grounding_supports")):
        segment = mapping(mapping(support).get("segment"))
        indices = items(get(support, "groundingChunkIndices", "grounding_chunk_indices"))
        found.extend(
            _grounded(segment, mapping(chunks[number]), number)
            for index in indices
            if (number := count(index)) is not None and number < len(chunks)
        )
    metadata = mapping(get(candidate, "citationMetadata", "citation_metadata"))
    for each in items(get(metadata, "citations", "citationSources")):
        cited = mapping(each)
        source = first_text(cited, "uri", "title")
        if source is not None:
            found.append(
                Citation(
                    text="",
                    source=source,
                    title=first_text(cited, "title"),
                    location=_answer_bytes(cited),
                )
            )
    return tuple(found)


def _grounded(segment: dict[str, Any], chunk: dict[str, Any], number: int) -> Citation:
    place = mapping(chunk.get("web") or get(chunk, "retrievedContext", "retrieved_context"))
    return Citation(
        text=text(segment.get("text")) or "",
        source=first_text(place, "uri", "title") or "",
        title=first_text(place, "title"),
        document_index=number,
        location=_answer_bytes(segment),
    )


def _answer_bytes(value: dict[str, Any]) -> Location | None:
    end = count(get(value, "endIndex", "end_index"))
    # A start of 0 is omitted on the wire.
    start = count(get(value, "startIndex", "start_index")) or 0
    return None if end is None else Location(start=start, end=end, unit="answer_byte")
