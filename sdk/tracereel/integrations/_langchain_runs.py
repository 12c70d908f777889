"""Mapping of LangChain callbacks to executions, steps, tools, retrievals and model calls."""

import time
from dataclasses import dataclass
from typing import Any, Final

from tracereel._core import context
from tracereel._core.executions.agent import AgentSpec
from tracereel._core.executions.arguments import given
from tracereel._core.executions.calls import ToolSpec
from tracereel._core.executions.scope import Spec
from tracereel._core.executions.steps import RetrievalSpec, StepSpec
from tracereel._core.recorder import Recorder
from tracereel._redact import values
from tracereel._runtime import gevent_compat
from tracereel.integrations import _langchain_served
from tracereel.integrations._dialects import LANGCHAIN
from tracereel.integrations._model_call import ModelCall, framework_tells_of, framework_told
from tracereel.integrations._runs import (
    FailedToolError,
    FrameworkRun,
    FrameworkRuns,
    open_scope,
    recorded,
)
from tracereel.integrations._tool_memory import ToolMemory
from tracereel.providers.base import Approval, NormalizedEvent, StreamTimings, Usage
from tracereel.providers.emission import message_fields
from tracereel.providers.names import provider_named, provider_of_model
from tracereel.providers.normalizer import BatchResultNormalizer
from tracereel.providers.reading import as_data, get, items, mapping, plain_text, text
from tracereel.providers.waiting import read_answers, read_interrupts
from tracereel.resilience.attempt_loop import count_retry, retry_event
from tracereel.resilience.backoff import EXPONENTIAL
from tracereel.resilience.policy import ERROR, TIMEOUT, is_timeout
from tracereel.resilience.wrapped_functions import error_text

WAITING: Final = "waiting_for_a_person"
"""Stage of an execution that ends with a question to a person."""
MAX_WAITING_THREADS: Final = 1_000
_NODE: Final = "graph:step:"
_HIDDEN: Final = "langsmith:hidden"


@dataclass(frozen=True, slots=True)
class About:
    """Metadata of a run in a callback."""

    parent_id: Any
    tags: list[Any]
    metadata: dict[str, Any]
    settings: dict[str, Any]
    """Parameters of a model call."""

    @classmethod
    def of(cls, about: dict[str, Any]) -> "About":
        tags = about.get("tags")
        return cls(
            about.get("parent_run_id"),
            tags if isinstance(tags, list) else [],
            mapping(about.get("metadata")),
            mapping(about.get("invocation_params")),
        )

    @property
    def is_node(self) -> bool:
        """Whether the run is a node of a graph."""
        return "langgraph_node" in self.metadata and any(
            isinstance(tag, str) and tag.startswith(_NODE) for tag in self.tags
        )


def name_of(serialized: Any, about: dict[str, Any]) -> str:
    """Return the name of a run."""
    found = text(about.get("name")) or text(get(serialized, "name"))
    path = get(serialized, "id")
    if found is None and isinstance(path, list) and path:
        found = text(path[-1])
    return values.text(found or "unnamed", values.SHORT_LIMIT)


class LangChainRuns:
    """Runs in progress, and approvals that are not resolved."""

    def __init__(self) -> None:
        self._runs = FrameworkRuns()
        self._memory = ToolMemory()
        self._waiting: dict[str, list[Approval]] = {}
        self._lock = gevent_compat.RLock()

    def get(self, run_id: Any) -> FrameworkRun | None:
        """Return a run in progress, or `None`."""
        return self._runs.get(run_id)

    def chain_starts(self, run_id: Any, name: str, inputs: Any, about: About) -> None:
        """Start a chain.

        A graph, or a chain without an enclosing execution, is an agent. A node, or an outermost
        chain inside an execution, is a step. Other chains are not recorded.
        """
        parent = self._runs.get(about.parent_id)
        thread = text(about.metadata.get("thread_id"))
        run = FrameworkRun(parent, name, inputs=inputs, session_id=thread)
        if about.is_node:
            if parent is not None and parent.scope is None:
                self._open_agent(parent)  # a run with nodes is a graph
            self._open(run, _step(name, "node"), _inputs(inputs))
            if run.scope is not None:
                run.scope.attach()
        elif parent is None and _HIDDEN not in about.tags:
            around = context.current_execution()
            if around is None or about.metadata.get("ls_integration") == "langgraph":
                self._open_agent(run)
            else:
                self._open(run, _step(name, "chain"), _inputs(inputs))
            if thread is not None and type(inputs).__name__ == "Command":
                self._resumes(run, thread, inputs)
            elif thread is not None and inputs:
                # The graph starts over, so its open questions are obsolete.
                with self._lock:
                    self._waiting.pop(thread, None)
        self._runs.add(run_id, run)

    def ends(self, run_id: Any, output: Any) -> None:
        """Complete a chain."""
        run = self._runs.end(run_id)
        if run is not None and run.scope is not None:
            run.scope.complete(output)

    def fails(self, run_id: Any, error: BaseException) -> None:
        """Fail a chain, tool or retriever."""
        run = self._runs.end(run_id)
        if run is None or run.scope is None:
            return
        bases = {each.__name__ for each in type(error).__mro__}
        if "GraphInterrupt" in bases:
            self._waits(run, error)
        elif "GraphBubbleUp" in bases:  # a command for the enclosing graph
            run.scope.complete(None)
        else:
            run.scope.fail(error)

    def model_starts(self, run_id: Any, name: str, asked: Any, about: About) -> None:
        """Start a model call."""
        parent = self._runs.get(about.parent_id)
        metadata, settings = about.metadata, about.settings
        model = text(metadata.get("ls_model_name")) or text(get(settings, "model", "model_name"))
        named = text(metadata.get("ls_provider"))
        provider = (provider_named(named) if named else None) or provider_of_model(model) or named
        temperature = get(metadata, "ls_temperature")
        limit = get(metadata, "ls_max_tokens")
        body = {
            "messages": as_data(asked),
            "temperature": get(settings, "temperature") if temperature is None else temperature,
            "max_tokens": get(settings, "max_tokens") if limit is None else limit,
        }

        def made(recorder: Recorder) -> ModelCall:
            return ModelCall(
                recorder,
                LANGCHAIN,
                body,
                model=model or name,
                provider=provider or "langchain",
                memory=self._memory,
            )

        call = recorded(made, parent)
        if call is not None:
            framework_tells_of(call)
        self._runs.add(run_id, FrameworkRun(parent, name, call=call))

    def token(self, run_id: Any) -> None:
        """Record the arrival of a stream chunk."""
        run = self._runs.get(run_id)
        if run is not None:
            if not run.tokens and run.call is not None:
                # Between the chunks of a stream the program's code runs in the same context.
                framework_told(run.call)
            run.token()

    def model_ends(self, run_id: Any, result: Any) -> None:
        """Complete a model call."""
        run = self._runs.end(run_id)
        if run is None or run.call is None:
            return
        call = run.call
        framework_told(call)
        data = as_data(result)
        answer = BatchResultNormalizer(model=call.model, keep_raw=False).normalize_data(data)
        if answer.provider != "langchain" and call.provider == "langchain":
            call.provider = answer.provider
        call.told(answer, {"messages": _messages(data)}, timings=_timings(run, answer.usage))

    def model_fails(self, run_id: Any, error: BaseException) -> None:
        """Fail a model call."""
        run = self._runs.end(run_id)
        if run is not None and run.call is not None:
            framework_told(run.call)
            if run.tokens:
                run.call.streams()
            run.call.failed(error)

    def retries(self, run_id: Any, state: Any) -> None:
        """Record a failed attempt that will be retried."""
        run = self._runs.get(run_id)
        error = state.outcome.exception() if state.outcome is not None else None
        if run is None or error is None:
            return
        reason = TIMEOUT if is_timeout(error) else ERROR
        delay = state.next_action.sleep if state.next_action is not None else 0.0
        if run.call is not None:
            run.call.retried(
                error=error_text(error),
                reason=reason,
                strategy=EXPONENTIAL,
                delay=delay,
                attempts=None,
            )
        elif (execution := run.execution) is not None:
            event = retry_event(
                agent=execution.agent.name,
                attempt=state.attempt_number,
                error=error_text(error),
                reason=reason,
                strategy=EXPONENTIAL,
                delay=delay,
                now_ns=time.time_ns(),
            )
            count_retry(execution)
            execution.emit(event)

    def tool_starts(
        self, run_id: Any, name: str, inputs: dict[str, Any], call_id: Any, about: About
    ) -> None:
        """Start a tool call."""
        spec = ToolSpec(name, tool_type="function", tool_call_id=text(call_id), ids={}, inputs=None)
        self._open_call(run_id, name, spec, inputs, about)

    def tool_ends(self, run_id: Any, output: Any) -> None:
        """Complete a tool call; a result with an error status is a failure."""
        run = self._runs.end(run_id)
        if run is None or run.scope is None:
            return
        call_id = text(get(output, "tool_call_id"))
        if call_id is not None:
            run.scope.execution.notes.setdefault("tool_call_id", call_id)
        content = get(output, "content") if call_id is not None else output
        if call_id is not None and get(output, "status") == "error":
            run.scope.fail(FailedToolError(plain_text(as_data(content)) or "the tool failed"))
        else:
            run.scope.complete(content)

    def retriever_starts(self, run_id: Any, name: str, query: str, about: About) -> None:
        """Start a retrieval."""
        spec = RetrievalSpec(name, collection=None, top_k=None, ids={}, inputs=None)
        self._open_call(run_id, name, spec, {"query": query}, about)

    def retriever_ends(self, run_id: Any, documents: Any) -> None:
        """Complete a retrieval."""
        run = self._runs.end(run_id)
        if run is not None and run.scope is not None:
            run.scope.complete(documents)

    def _open_call(
        self, run_id: Any, name: str, spec: Spec, inputs: dict[str, Any], about: About
    ) -> None:
        run = FrameworkRun(self._runs.get(about.parent_id), name)
        self._open(run, spec, inputs)
        if run.scope is not None:
            run.scope.attach()
            _langchain_served.opened(run.scope)
        self._runs.add(run_id, run)

    def _open(self, run: FrameworkRun, spec: Spec, inputs: dict[str, Any]) -> None:
        run.scope = open_scope(spec, run.parent, inputs)

    def _open_agent(self, run: FrameworkRun) -> None:
        spec = AgentSpec(
            run.name,
            version=None,
            llm_provider=None,
            llm_model=None,
            temperature=None,
            max_tokens=None,
            ids=given({"session_id": run.session_id}),
            inputs=None,
        )
        self._open(run, spec, _inputs(run.inputs))

    def _waits(self, run: FrameworkRun, error: BaseException) -> None:
        """Complete a run that waits for a person; this is not a failure."""
        scope, now = run.scope, time.time()
        if scope is None:
            return
        raised = error.args[0] if error.args else ()
        interrupts = [
            {"id": get(each, "id"), "value": as_data(get(each, "value"))} for each in raised or ()
        ]
        asked = [
            Approval(id=each.id, tool_name=each.tool_name, question=each.question, requested_at=now)
            for each in read_interrupts(interrupts)
        ]
        thread = self._thread_of(run)
        if thread is not None:
            asked = self._still_waits(thread, asked)
        for index, approval in enumerate(asked):
            _tell(scope.execution, "approval_requested", index, approval)
        if isinstance(scope.spec, StepSpec):
            scope.execution.set_output(WAITING)
        scope.execution.agent.notes["stage"] = WAITING
        scope.complete(None)

    def _still_waits(self, thread: str, asked: list[Approval]) -> list[Approval]:
        """Remember pending approvals of a thread and return the new ones."""
        with self._lock:
            waiting = self._waiting.get(thread, [])
            known = {each.id for each in waiting}
            new = [each for each in asked if each.id not in known]
            if new:
                self._waiting[thread] = waiting + new
                while len(self._waiting) > MAX_WAITING_THREADS:
                    del self._waiting[next(iter(self._waiting))]
        return new

    def _resumes(self, run: FrameworkRun, thread: str, command: Any) -> None:
        """Record approvals that a person has resolved."""
        answer = get(command, "resume")
        if answer is None or (execution := run.execution) is None:
            return
        with self._lock:
            asked = self._waiting.pop(thread, [])
            told = read_answers(asked, answer, at=time.time())
            known = {each.id for each in told}
            if rest := [each for each in asked if each.id not in known]:
                self._waiting[thread] = rest
        for index, each in enumerate(told):
            _tell(execution, "approval_resolved", index, each)

    @staticmethod
    def _thread_of(run: FrameworkRun | None) -> str | None:
        while run is not None:
            if run.session_id is not None:
                return run.session_id
            run = run.parent
        return None


def _tell(execution: Any, kind: Any, index: int, approval: Approval) -> None:
    event = NormalizedEvent(
        type=kind, original_index=index, provider="langchain", approval=approval
    )
    fields = message_fields(event)
    fields["agent_name"] = execution.agent.name
    execution.emit(fields)


def _step(name: str, kind: str) -> StepSpec:
    return StepSpec(name, step_type=kind, ids={}, inputs=None)


def _inputs(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"input": value}


def _messages(result: Any) -> list[Any]:
    found = []
    for group in items(mapping(result).get("generations")):
        for each in items(group) or [group]:
            generation = mapping(each)
            found.append(generation.get("message") or generation.get("text"))
    return found


def _timings(run: FrameworkRun, usage: Usage | None) -> StreamTimings | None:
    call = run.call
    if call is None or run.first_token is None:
        return None
    call.streams()
    began = call.start_tick / 1e9
    gaps, since_first = run.tokens - 1, run.last_token - run.first_token
    rate = None
    if usage is not None and usage.output_tokens and since_first > 0:
        rate = usage.output_tokens / since_first
    return StreamTimings(
        first_token_seconds=run.first_token - began,
        duration_seconds=time.perf_counter() - began,
        longest_gap_seconds=run.longest_gap if gaps > 0 else None,
        mean_gap_seconds=since_first / gaps if gaps > 0 else None,
        token_chunks=run.tokens,
        tokens_per_second=rate,
    )
