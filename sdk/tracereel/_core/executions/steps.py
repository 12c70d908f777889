"""Scopes of steps and retrievals: a span and one event at the end."""

from collections.abc import Callable
from typing import Any

from tracereel import semconv
from tracereel._core import execution_fields
from tracereel._core.executions.calls import CallScope
from tracereel._core.executions.output import OutputStream
from tracereel._core.executions.scope import Spec
from tracereel._redact import safe_access, values
from tracereel._redact.content import ContentCopies


class StepScope(CallScope):
    """A step inside an agent."""

    kind = "step"

    __slots__ = ()

    @property
    def stage(self) -> str:  # type: ignore[override]
        """Stage of failures inside the step: its name."""
        return self.spec.name

    def about(self) -> dict[str, Any]:
        content = self.described_input() if self.captures else None
        return {
            "event_type": semconv.STEP_COMPLETED,
            "step_name": self.spec.name,
            "step_type": self.spec.about["step_type"],
            "confidence": self.execution.notes.get("confidence"),
            "input_summary": content.summary if content is not None else None,
            "output_summary": None,
            "input": content.data if content is not None else None,
        }

    def add_result(self, event: dict[str, Any], result: object) -> None:
        stream, succeeded = self.stream, event["status"] == semconv.SUCCESS
        if stream is not None:
            event["output_items"] = stream.items
        if self.captures and (succeeded or stream is not None):
            output = self.output_content(result)
            event["output_summary"], event["output"] = output.summary, output.data
        if stream is None and succeeded and event["confidence"] is None:
            found = self.execution.notes.get("result") or self.recorder.results.read(result)
            event["confidence"] = found.get("confidence")


class RetrievalScope(CallScope):
    """Retrieval of documents; marks empty and degraded results."""

    kind = "retrieval"
    stage = "retrieval"

    __slots__ = ()

    def about(self) -> dict[str, Any]:
        note, find, about = self.execution.notes.get, self.arguments.find, self.spec.about
        query = note("query")
        if query is None:
            query = values.label(find("query", "question", "text"), values.TEXT_LIMIT)
        top_k = note("top_k")
        if top_k is None:
            top_k = values.count(find("top_k", "k", "limit"))
        count, degraded = note("result_count"), note("degraded")
        return {
            "event_type": semconv.RETRIEVAL_COMPLETED,
            "retrieval_name": self.spec.name,
            "collection": (
                note("collection") or about["collection"] or values.label(find("collection"))
            ),
            "query": query if self.captures else None,
            "top_k": about["top_k"] if top_k is None else top_k,
            "result_count": count,
            "documents": note("documents"),
            "is_empty": None if count is None else count == 0,
            "degraded": degraded is True or note("degraded_reason") is not None,
            "degraded_reason": note("degraded_reason"),
            "input": self.input_content(),
        }

    def listen(self, kind: str) -> OutputStream:
        return _FoundDocuments(kind, self.copies)

    def add_result(self, event: dict[str, Any], result: object) -> None:
        stream, succeeded = self.stream, event["status"] == semconv.SUCCESS
        if self.captures and (succeeded or stream is not None):
            event["output"] = self.output_content(result).data
        found = execution_fields.listed(result) if stream is None and succeeded else None
        if event["documents"] is None:
            if isinstance(stream, _FoundDocuments):
                event["documents"] = stream.documents or None
            elif items := safe_access.items(found, execution_fields.MAX_DOCUMENTS):
                is_id = _may_be_shown(captures=self.captures)
                event["documents"] = [execution_fields.document(each, is_id) for each in items]
        if event["result_count"] is None:
            if stream is not None:
                event["result_count"] = stream.items
            elif succeeded:
                known = safe_access.length(result if found is None else found)
                event["result_count"] = (
                    len(event["documents"]) if known is None and event["documents"] else known
                )
        if event["result_count"] is not None:
            event["is_empty"] = event["result_count"] == 0


class _FoundDocuments(OutputStream):
    """Documents that a generator yields."""

    __slots__ = ("_is_id", "documents")

    def __init__(self, kind: str, copies: ContentCopies | None) -> None:
        super().__init__(kind, copies)
        self.documents: list[dict[str, Any]] = []
        self._is_id = _may_be_shown(captures=copies is not None)

    def add(self, item: Any) -> None:
        super().add(item)
        if len(self.documents) < execution_fields.MAX_DOCUMENTS:
            self.documents.append(execution_fields.document(item, self._is_id))


def _may_be_shown(*, captures: bool) -> Callable[[str], bool]:
    """Return a check for document ids; without content capture no bare text passes."""
    return execution_fields.looks_like_id if captures else lambda _text: False


class StepSpec(Spec):
    """Options of `traced_step`."""

    verb, named, scope = semconv.STEP, "step_name", StepScope
    __slots__ = ()


class RetrievalSpec(Spec):
    """Options of `traced_retrieval`."""

    verb, named, scope = semconv.RETRIEVAL, "retrieval_name", RetrievalScope
    __slots__ = ()
