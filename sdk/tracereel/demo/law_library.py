"""Small law library with the four search tools of the demo SSE agent.

Every tool is a traced retrieval, so its event has the documents with their scores, and a replay
serves its result.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from tracereel.decorators import traced_retrieval

RULES: Final = "normativa"
RULINGS: Final = "sentencias"
MAX_RULES: Final = 15
MAX_RULINGS: Final = 10
MAX_RELATED: Final = 5
TOOL_SECONDS: Final = 0.03
TOOLS: Final = ("search_normativa", "search_sentencias", "get_article", "get_related_chunks")

Chunk = dict[str, Any]


def _chunk(number: int, law: str, article: str, text: str, **more: Any) -> Chunk:
    section = f"Art. {article}"
    base = {"id": number, "law": law, "article": article, "section": section, "text": text}
    return {**base, "refs": [], "collection": RULES, **more}


CHUNKS: Final[tuple[Chunk, ...]] = (
    _chunk(48, "Workers' Statute", "48", "parental leave of each parent", refs=[177]),
    _chunk(177, "Social Security Act", "177", "benefit during parental leave"),
    _chunk(318, "Social Security Act", "318", "benefit of a self-employed parent", refs=[177]),
    _chunk(38, "Workers' Statute", "38", "annual holidays by agreement"),
    _chunk(900, "Supreme Court", "1/2024", "leave of a self-employed parent", collection=RULINGS),
)


class LawLibrary:
    """Tools by name; each returns chunks with a score from 0 to 1, best first."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self._sleep = sleep

    def call(self, tool: str, arguments: dict[str, Any]) -> list[Chunk]:
        """Call a tool by its name."""
        tools: dict[str, Callable[..., list[Chunk]]] = {
            "search_normativa": self.search_normativa,
            "search_sentencias": self.search_sentencias,
            "get_article": self.get_article,
            "get_related_chunks": self.get_related_chunks,
        }
        return tools[tool](**arguments)

    @traced_retrieval("search_normativa", collection=RULES)
    def search_normativa(self, query: str, top_k: int = 8) -> list[Chunk]:
        """Search the rules."""
        return self._search(RULES, query, min(top_k, MAX_RULES))

    @traced_retrieval("search_sentencias", collection=RULINGS)
    def search_sentencias(self, query: str, top_k: int = 5) -> list[Chunk]:
        """Search the rulings."""
        return self._search(RULINGS, query, min(top_k, MAX_RULINGS))

    @traced_retrieval("get_article", collection=RULES)
    def get_article(self, article_number: str, law_name: str) -> list[Chunk]:
        """Return one article of a law."""
        self._sleep(TOOL_SECONDS)
        wanted = (article_number, law_name.lower())
        found = (each for each in CHUNKS if (each["article"], each["law"].lower()) == wanted)
        return [{**each, "score": 1.0} for each in found]

    @traced_retrieval("get_related_chunks", collection=RULES)
    def get_related_chunks(self, chunk_id: int) -> list[Chunk]:
        """Return the chunks that a chunk refers to."""
        self._sleep(TOOL_SECONDS)
        wanted = [ref for each in CHUNKS if each["id"] == chunk_id for ref in each["refs"]]
        related = [each for each in CHUNKS if each["id"] in wanted[:MAX_RELATED]]
        return [{**each, "score": 1.0} for each in related]

    def _search(self, collection: str, query: str, top_k: int) -> list[Chunk]:
        self._sleep(TOOL_SECONDS)
        words = set(re.findall(r"[\w-]+", query.lower()))
        found = [
            {**each, "score": round(len(words & set(each["text"].split())) / len(words), 2)}
            for each in CHUNKS
            if words and each["collection"] == collection
        ]
        found.sort(key=lambda each: -each["score"])
        return [each for each in found if each["score"]][:top_k]
