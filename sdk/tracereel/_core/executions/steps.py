"""Scopes of steps and retrievals: a span and one event at the end."""

from collections.abc import Callable
from typing import Any

from tracereel import semconv
from tracereel._core import execution_fields
from tracereel._core.executions.arguments import Arguments, Ids
from tracereel._core.executions.calls import CallScope
from tracereel._core.executions.output import OutputStream
from tracereel._core.executions.scope import ExecutionScope, Spec
from tracereel._core.recorder import Recorder
from tracereel._redact import safe_access, values


class StepSpec(Spec):
    """Options of `traced_step`."""

    __slots__ = ("step_type",)

    def __init__(self, name: str, *, step_type: str | None, ids: Ids, inputs: Any) -> None:
        self.step_type = values.label(step_type)
        super().__init__(
            name,
            verb=semconv.STEP,
            named="step_name",
            about={"step_name": name, "step_type": self.step_type},
            ids=ids,
            inputs=inputs,
        )

    def open(self, recorder: Recorder, arguments: Arguments) -> ExecutionScope:
        return StepScope(recorder, self, arguments)


class StepScope(CallScope):
    """A step inside an agent."""

    kind = "step"
    spec: StepSpec

    __slots__ = ()

    @property
    def stage(self) -> str:  # type: ignore[override]
        """Stage of failures inside the step: its name."""
        return self.spec.name

    def about(self, status: str, milliseconds: int) -> dict[str, Any]:
        return {
            "event_type": semconv.STEP_COMPLETED,
            "agent_name": self.agent_name(),
            "request_id": self.execution.request_id,
            "step_name": self.spec.name,
            "step_type": self.spec.step_type,
            "status": status,
            "duration_ms": milliseconds,
            "confidence": self.execution.notes.get("confidence"),
            "input_summary": values.call_summary(self.arguments.pairs()) if self.captures else None,
            "output_summary": None,
        }

    def told(self, event: dict[str, Any], result: object) -> None:
        if self.stream is not None:
            event["output_items"] = self.stream.items
            event["output_summary"] = self.stream.summary() if self.captures else None
        elif event["status"] == semconv.SUCCESS and self.captures:
            said = self.execution.notes.get("output")
            event["output_summary"] = said[1] if said is not None else values.summary(result)


class RetrievalSpec(Spec):
    """Options of `traced_retrieval`."""

    __slots__ = ("collection", "top_k")

    def __init__(
        self, name: str, *, collection: str | None, top_k: int | None, ids: Ids, inputs: Any
    ) -> None:
        self.collection = values.label(collection)
        self.top_k = values.count(top_k)
        super().__init__(
            name,
            verb=semconv.RETRIEVAL,
            named="retrieval_name",
            about={
                "operation": semconv.RETRIEVAL,
                "retrieval_name": name,
                "collection": self.collection,
                "top_k": self.top_k,
            },
            ids=ids,
            inputs=inputs,
        )

    def open(self, recorder: Recorder, arguments: Arguments) -> ExecutionScope:
        return RetrievalScope(recorder, self, arguments)


class RetrievalScope(CallScope):
    """Retrieval of documents; marks empty and degraded results."""

    kind = "retrieval"
    stage = "retrieval"
    spec: RetrievalSpec

    __slots__ = ()

    def about(self, status: str, milliseconds: int) -> dict[str, Any]:
        note, find, spec = self.execution.notes.get, self.arguments.find, self.spec
        query = note("query")
        if query is None:
            query = values.label(find("query", "question", "text"), values.TEXT_LIMIT)
        top_k = note("top_k")
        if top_k is None:
            top_k = values.count(find("top_k", "k", "limit"))
        count, degraded = note("result_count"), note("degraded")
        return {
            "event_type": semconv.RETRIEVAL_COMPLETED,
            "agent_name": self.agent_name(),
            "request_id": self.execution.request_id,
            "retrieval_name": spec.name,
            "collection": note("collection") or spec.collection or values.label(find("collection")),
            "query": query if self.captures else None,
            "top_k": spec.top_k if top_k is None else top_k,
            "result_count": count,
            "documents": note("documents"),
            "is_empty": None if count is None else count == 0,
            "degraded": degraded is True or note("degraded_reason") is not None,
            "degraded_reason": note("degraded_reason"),
            "status": status,
            "duration_ms": milliseconds,
        }

    def listen(self, kind: str) -> OutputStream:
        return _FoundDocuments(kind, captures=self.captures)

    def told(self, event: dict[str, Any], result: object) -> None:
        stream, succeeded = self.stream, event["status"] == semconv.SUCCESS
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

    def __init__(self, kind: str, *, captures: bool) -> None:
        super().__init__(kind, captures=captures)
        self.documents: list[dict[str, Any]] = []
        self._is_id = _may_be_shown(captures=captures)

    def add(self, item: Any) -> None:
        super().add(item)
        if len(self.documents) < execution_fields.MAX_DOCUMENTS:
            self.documents.append(execution_fields.document(item, self._is_id))


def _may_be_shown(*, captures: bool) -> Callable[[str], bool]:
    """Return a check for document ids; without content capture no bare text passes."""
    return execution_fields.looks_like_id if captures else lambda _text: False
