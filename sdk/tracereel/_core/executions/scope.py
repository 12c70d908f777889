"""One traced call from start to end: its span, its events, its place in the run.

The wrapper (`tracereel._core.wrapping`) opens a scope, attaches it while code of the call runs, and
completes or fails it. Functions, coroutines, generators and `with` blocks share this code.
"""

import time
from collections.abc import Callable
from typing import Any, ClassVar

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from tracereel import semconv
from tracereel._core import (
    closed_runs,
    envelope,
    error_details,
    external_retries,
    listeners,
    remote_identity,
)
from tracereel._core import context as _context
from tracereel._core.context import Attachment, Execution, Kind
from tracereel._core.error_details import Origin
from tracereel._core.executions import message_texts
from tracereel._core.executions.arguments import Arguments, Ids
from tracereel._core.executions.options import CallOptions
from tracereel._core.executions.output import OutputStream
from tracereel._core.recorder import Recorder
from tracereel._core.run_state import Tally
from tracereel._redact import values
from tracereel._redact.content import ContentCopies, Described
from tracereel._runtime import guard
from tracereel._runtime.clock import sortable_suffix
from tracereel._runtime.process_exit import too_late
from tracereel._telemetry import spans


class Spec(CallOptions):
    """Options of a decorator with the kind of scope that its calls open."""

    scope: ClassVar["type[ExecutionScope]"]

    __slots__ = ()

    def open(self, recorder: Recorder, arguments: Arguments) -> "ExecutionScope":
        """Open the scope of a call."""
        return self.scope(recorder, self, arguments)


class ExecutionScope:
    """Traced call; created when it begins."""

    kind: ClassVar[Kind] = "agent"
    span_kind: ClassVar[SpanKind] = SpanKind.INTERNAL
    adopts: ClassVar[bool] = False
    """Whether this is an agent or pipeline: an execution of its own.

    Only these read run ids from the arguments; a tool's may belong to another run.
    """

    __slots__ = (
        "_start_ns",
        "_tick",
        "arguments",
        "attachment",
        "captures",
        "execution",
        "parent_trace_id",
        "recorder",
        "span_context",
        "spec",
        "stream",
    )

    def __init__(self, recorder: Recorder, spec: Spec, arguments: Arguments) -> None:
        self.recorder = recorder
        self.spec = spec
        self.arguments = arguments
        self.captures = recorder.config.capture_content
        """Whether inputs and outputs may be recorded."""
        self.stream: OutputStream | None = None
        self.attachment: Attachment | None = None
        self._start_ns = time.time_ns()
        self._tick = time.perf_counter_ns()
        ids: Ids = spec.ids
        if self.adopts and (found := arguments.ids()):
            ids = {**ids, **found}
        self.parent_trace_id = ids.get("parent_trace_id")
        parent = _context.current.get()
        self.execution = execution = self._begin(parent, ids)
        self.opened()
        event = self.opening()
        if event is not None:
            if execution.repeats is not None:
                event["repeats_execution_id"] = execution.repeats.execution_id
            if recorder.choice and (parent is None or parent.trace is not execution.trace):
                event.update(recorder.choice)
            self._emit(event, self._start_ns)

    @property
    def copies(self) -> ContentCopies | None:
        """Copies of inputs and outputs; None if they may not be recorded."""
        return self.recorder.content if self.captures else None

    def input_content(self) -> dict[str, Any] | None:
        """Return the arguments as content."""
        given = self.arguments.pairs() if self.captures else None
        return self.recorder.content.arguments(given) if given else None

    def described_input(self) -> Described:
        """Return the arguments: as content, their size and their summary."""
        given = self.arguments.pairs()
        if not self.captures or not given:
            return Described(None, sum([values.size(value) for _, value in given]), "")
        found = self.recorder.content.described_arguments(given)
        asked = message_texts.question_in(found.data)
        return found if asked is None else found._replace(summary=asked)

    def output_content(self, result: object) -> Described:
        """Return the output of a call that returned: as content, its size and its summary."""
        if (stream := self.stream) is not None:
            return Described(stream.output(), stream.size, stream.summary())
        if (output := self.execution.notes.get("output")) is not None:
            described: Described = output[1]
            return described if self.captures else Described(None, described.size, "")
        if self.captures:
            found = self.recorder.content.described(result)
            answer = message_texts.answer_in(found.data)
            return found if answer is None else found._replace(summary=answer)
        return Described(None, values.size(result), "")

    def _begin(self, parent: Execution | None, ids: Ids) -> Execution:
        """Start the span and return the execution, in the parent's run or in one of its own."""
        recorder, spec = self.recorder, self.spec
        context: Context | None = None
        again: tuple[closed_runs.ClosedRun, int] | None = None
        beside: Context | None = None
        suffix = sortable_suffix() if parent is None or self.adopts else None
        if parent is None:
            context = remote_identity.parent_context()
            if (caller := remote_identity.remote_identity()) is not None:
                ids = {**caller.ids(), **ids}
                if caller.hlc is not None:
                    recorder.clock.observe(caller.hlc)
            if closed_runs.watching:
                again = external_retries.continued(self.kind, spec.name, ids.get("trace_id"))
                if again is not None and (beside := again[0].around(context)) is not None:
                    context = beside
            execution_id = f"exe_{suffix}"
            # The request id of the run, if the program does not set one.
            made = f"req_{suffix}"
        else:
            execution_id = parent.state.execution_id if suffix is None else f"exe_{suffix}"
            made = parent.trace.request_id
        view = spec.view(recorder.spans.privacy)
        started = recorder.spans.start(
            view.span_name,
            view.attributes,
            self._start_ns,
            context,
            self.span_kind,
            execution_id,
            made,
        )
        self.span_context = started.context
        if again is not None and beside is not None:
            # Attempts are siblings.
            started = started._replace(parent_span_id=again[0].last.parent_span_id)
        trace_id = ids.get("trace_id")
        if again is not None:
            trace = again[0].last.trace
            recorder.reopen(trace)
        elif parent is None:
            trace = recorder.trace(trace_id or started.otel_trace_id, suffix)
        elif trace_id is None or trace_id == parent.trace.trace_id:
            trace = parent.trace
        else:
            trace = recorder.trace(trace_id)
            self.parent_trace_id = self.parent_trace_id or parent.trace.trace_id
        if parent is None or trace is not parent.trace:
            trace.over = trace.is_closed = False
        tally = parent.tally if parent is not None else None
        # Positional arguments: keyword arguments of a class cost an extra dictionary.
        execution = Execution(
            self.kind,
            spec.name,
            trace,
            execution_id,
            started,
            parent,
            Tally(tally) if self.kind == "pipeline" else tally,
            ids.get("request_id"),
            ids.get("session_id"),
            ids.get("user_id"),
        )
        execution.arguments = self.arguments
        if spec.on_event is not None:
            execution.listeners += (spec.on_event,)
        if listeners.injectable:
            passed = self.arguments.find(listeners.NAME)
            execution.listeners += listeners.injected(passed, self.arguments.owner)
        if execution.state.tick is None:
            execution.state.tick = self._tick
        if spec.module is not None:
            execution.module = spec.module
        if again is not None:
            execution.repeats, execution.attempt = again[0].ended, again[1]
            execution.earlier = execution.retry_count = again[0].ended.earlier + 1
        if started.records:
            self._identify(execution, made)
        return execution

    def _identify(self, execution: Execution, made: str) -> None:
        """Add the ids that were not known at the start of the span."""
        ids: dict[str, str] = {}
        if execution.request_id != made:
            request_id = self.recorder.owner("request_id", execution.request_id)
            ids[semconv.SPAN_REQUEST_ID] = request_id
        if execution.session_id is not None:
            session_id = self.recorder.owner("session_id", execution.session_id)
            ids[semconv.SPAN_SESSION_ID] = ids[semconv.SPAN_CONVERSATION_ID] = session_id
        if execution.user_id is not None:
            ids[semconv.SPAN_USER_ID] = self.recorder.owner("user_id", execution.user_id)
        if ids:
            # Ids that the privacy rules drop are empty.
            shown = {name: value for name, value in ids.items() if value}
            spans.write_clean(execution.span, shown)

    def opened(self) -> None:
        """Prepare the execution before its first event is recorded."""

    def opening(self) -> dict[str, Any] | None:
        """Return the opening event, or `None` if this kind has none."""
        return None

    def listen(self, kind: str) -> OutputStream:
        """Return the object that counts and summarises a generator's items."""
        return OutputStream(kind, self.copies)

    def closing(self, result: object, milliseconds: int) -> dict[str, Any] | None:
        """Return the event of a call that returned; `None` drops it."""
        raise NotImplementedError

    def closing_failed(self, error: BaseException, milliseconds: int) -> dict[str, Any] | None:
        """Return the event of a call that raised."""
        raise NotImplementedError

    def closing_cancelled(
        self, error: BaseException | None, milliseconds: int
    ) -> dict[str, Any] | None:
        """Return the event of a cancelled call; the error is `None` for a closed generator."""
        raise NotImplementedError

    def attach(self) -> None:
        """Make this call the current one until `detach`."""
        self.attachment = _context.attach(self.execution, self.span_context)

    def detach(self) -> None:
        """Restore the previously current call."""
        if self.attachment is not None:
            _context.detach(self.attachment)
            self.attachment = None

    def complete(self, result: object) -> None:
        """End a call that returned."""
        try:
            self.detach()
            if too_late():
                return
            self._end(self.closing, result, None)
            if closed_runs.watching and self.execution.parent is None:
                closed_runs.remember(self.execution, semconv.SUCCESS, None)
        except Exception as trouble:  # noqa: BLE001 - cheaper than a Guard
            guard.report("complete", trouble)

    def cancel(self) -> None:
        """End a generator that was closed early without an error."""
        with guard.Guard("cancel"):
            self.detach()
            if too_late():
                return
            self._end(self.closing_cancelled, None, None)

    def fail(self, error: BaseException) -> None:
        """End a call that raised; the wrapper re-raises the error unchanged."""
        with guard.Guard("fail"):
            self.detach()
            if too_late():
                return
            cause = error if not error_details.cancels(error) else self.too_slow(error)
            if cause is None:
                self._end(self.closing_cancelled, error, None)
            else:
                self._end(self.closing_failed, cause, cause)
            if closed_runs.watching and self.execution.parent is None:
                status = semconv.CANCELLED if cause is None else semconv.FAILED
                closed_runs.remember(self.execution, status, error)

    def too_slow(self, error: BaseException) -> TimeoutError | None:  # noqa: ARG002
        """Return a timeout error if a time limit caused the cancellation, else `None`."""
        return None

    def failure_fields(self, error: BaseException, stage: str | None = None) -> dict[str, Any]:
        """Return the error fields of a closing event; mark the error for the enclosing call."""
        execution = self.execution
        note = execution.notes.get
        failure = error_details.describe(error)
        origin = error_details.origin_of(error, execution.span_id)
        ours = first = execution.state.execution_id
        stage = failure.stage or stage
        if origin is not None:
            first, stage = origin.execution_id, origin.stage or stage
        stage = note("stage") or stage
        if execution.parent is not None:
            error_details.mark_origin(error, Origin(first, stage, execution.parent.span_id))
        fields: dict[str, Any] = {
            "error_type": failure.error_type,
            "error_message": failure.error_message,
            "error_code": note("error_code") or failure.error_code,
            "error_category": failure.error_category,
            "stage": stage or self.kind,
            "propagated": first != ours,
            "origin_execution_id": first if first != ours else None,
        }
        if self.adopts:
            fields["stack_trace"] = error_details.stack_trace(error)
            fields["timeout_seconds"] = note("timeout_seconds") or failure.timeout_seconds
        return fields

    def judge(self, result: object) -> None:
        """Fill in confidence, decision type, reasoning and outcome that were not set.

        They are those of the result, else of the last decision.
        """
        notes, decision = self.execution.notes, self.execution.state.decision
        found = notes.get("result")
        if found is None:
            found = self.recorder.results.read(result)
        for field, value in found.items():
            notes.setdefault(field, value)
        if decision is not None:
            for field, value in decision.items():
                notes.setdefault(field, value)

    def since_begin_ms(self, tick: int) -> int:
        """Return the milliseconds from the start to a performance counter value."""
        return max(0, tick - self._tick) // 1_000_000

    def _end(
        self,
        closing: Callable[[Any, int], dict[str, Any] | None],
        outcome: object,
        error: BaseException | None,
    ) -> None:
        """Write the closing event of an outcome and end the span, as failed if there is an error."""
        # Start plus elapsed time: changes of the wall clock have no effect.
        elapsed = time.perf_counter_ns() - self._tick
        end_ns, seconds = self._start_ns + elapsed, elapsed / 1e9
        try:
            event = closing(outcome, elapsed // 1_000_000)
        except Exception:
            # There is no closing event, but the span must end and the loss is counted.
            self._close(None, error, end_ns, seconds)
            self.recorder.drop("internal_error")
            raise
        self._close(event, error, end_ns, seconds)

    def _close(
        self,
        event: dict[str, Any] | None,
        error: BaseException | None,
        end_ns: int,
        seconds: float,
    ) -> None:
        execution = self.execution
        # A task that outlives the call must not keep them alive.
        execution.arguments = None
        try:
            if event is not None:
                event["span_name"] = self.spec.view(self.recorder.spans.privacy).span_name
                event["span_start_unix_nano"] = self._start_ns
                event["span_end_unix_nano"] = end_ns
                if "execution_time_seconds" in event:
                    event["execution_time_seconds"] = round(seconds, 6)
                if execution.attempt is not None:
                    event["attempt"] = execution.attempt
                if (former := execution.repeats) is not None:
                    # Agents set these fields themselves, including inner retries.
                    event.setdefault("was_retried", True)
                    event.setdefault("retry_count", execution.retry_count)
                    event["repeats_execution_id"] = former.execution_id
                    event["repeats_status"] = former.status
                closes = self.closes_run()
                if closes and self.recorder.choice:
                    # Repeated here, because a call outside of agents has no opening event.
                    event.update(self.recorder.choice)
                self._emit(event, end_ns, closes_run=closes, seconds=seconds)
            else:
                execution.ended = True
        finally:
            # After the event, which redacts the values that go onto the span.
            try:
                spans.finish(
                    execution.span,
                    event or {},
                    error,
                    trace_id=execution.trace.trace_id,
                    end_ns=end_ns,
                    failed=error is not None,
                )
            except Exception as trouble:  # noqa: BLE001
                guard.report("span", trouble)

    def closes_run(self) -> bool | None:
        """Return whether the next event closes the run.

        `None` while the run is open: the event still closes it if another thread ends it first.
        """
        execution = self.execution
        parent, trace = execution.parent, execution.trace
        execution.ended = True
        if parent is None or parent.trace is not trace:
            trace.over = True
            return True
        if not trace.over:
            return None
        # A task that outlives the run: the count that closed it is no longer final.
        if parent.continues():
            return False
        self.recorder.reopen(trace)
        return True

    def _emit(
        self,
        event: dict[str, Any],
        now_ns: int,
        *,
        closes_run: bool | None = False,
        seconds: float | None = None,
    ) -> None:
        envelope.record_all(
            [event],
            self.execution,
            self.recorder,
            now_ns,
            closes_run=closes_run,
            seconds=seconds,
            copied_by=self.recorder.privacy,
        )


def cancel_reason(error: BaseException | None) -> str:
    """Return the exception class that stopped a call; a closed generator has no exception."""
    return values.type_name(error) if error is not None else "GeneratorExit"
