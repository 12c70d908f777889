"""One traced call from begin to end: its span, its events, its place in the run.

What wraps the call (`tracereel._wrapping`) opens a scope, attaches it while code of the call runs, and
completes or fails it; functions, coroutines, generators and `with` blocks share it all.
"""

import time
from dataclasses import dataclass
from typing import Any, ClassVar

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from tracereel import (
    _context,
    _emission,
    _failures,
    _guard,
    _recorder,
    _remote,
    _spans,
    semconv,
)
from tracereel._clock import sortable_suffix
from tracereel._context import Attachment, Execution, Kind, Tally
from tracereel._exits import too_late
from tracereel._failures import Failure, Origin
from tracereel._privacy import Privacy
from tracereel._recorder import Recorder
from tracereel._scopes.arguments import Arguments, Ids
from tracereel._scopes.output import Stream
from tracereel.resilience import _announced, _closed_runs


@dataclass(frozen=True, slots=True)
class SpanView:
    """How the spans of a decorator begin under one configuration's rules of privacy."""

    privacy: Privacy
    span_name: str
    attributes: dict[str, Any]


class Spec:
    """What a decorator was given; made once, read by every call."""

    __slots__ = ("_fields", "_named", "_verb", "_view", "ids", "inputs", "name")

    def __init__(
        self,
        name: str,
        *,
        verb: str,
        named: str,
        about: dict[str, Any],
        ids: Ids,
        inputs: Any = None,
    ) -> None:
        self.name = name
        self.ids = ids
        self.inputs = inputs
        self._verb = verb
        self._named = named
        self._fields = about
        self._view: SpanView | None = None

    def view(self, privacy: Privacy) -> SpanView:
        """The name and first attributes of the spans, as a configuration lets them be seen."""
        view = self._view
        if view is None or view.privacy is not privacy:
            shown = privacy.shown(self._fields)
            name = f"{shown.get('operation', self._verb)} {shown[self._named] or ''}".rstrip()
            view = self._view = SpanView(privacy, name, _spans.attributes_of(shown))
        return view

    def open(self, recorder: Recorder, arguments: Arguments) -> "Scope":
        """Begin a call."""
        raise NotImplementedError


class Scope:
    """A call being traced; made when it begins."""

    kind: ClassVar[Kind] = "agent"
    span_kind: ClassVar[SpanKind] = SpanKind.INTERNAL
    adopts: ClassVar[bool] = False
    """Whether ids among the arguments are those of the run; a tool may take another run's."""

    __slots__ = (
        "_span_context",
        "_start_ns",
        "_tick",
        "arguments",
        "attachment",
        "execution",
        "parent_trace_id",
        "recorder",
        "spec",
        "stream",
    )

    def __init__(self, recorder: Recorder, spec: Spec, arguments: Arguments) -> None:
        self.recorder = recorder
        self.spec = spec
        self.arguments = arguments
        self.stream: Stream | None = None
        self.attachment: Attachment | None = None
        self._start_ns = time.time_ns()
        self._tick = time.perf_counter_ns()
        self._begin(spec, _context.current_execution())

    def _begin(self, spec: Spec, parent: Execution | None) -> None:
        ids: Ids = spec.ids
        if self.adopts and (found := self.arguments.ids()):
            ids = {**ids, **found}
        kind = self.kind
        own = parent is None or kind in ("agent", "pipeline")
        suffix = None
        if own or parent is None:
            suffix = sortable_suffix()
            execution_id = f"exe_{suffix}"
        else:
            execution_id = parent.state.execution_id
        view = spec.view(self.recorder.spans.privacy)
        context: Context | None = None
        trace_id = request_id = session_id = user_id = self.parent_trace_id = None
        if ids:
            get = ids.get
            trace_id, request_id = get("trace_id"), get("request_id")
            session_id, user_id = get("session_id"), get("user_id")
            self.parent_trace_id = get("parent_trace_id")
        if parent is None:
            context = _remote.parent_context()
            if (caller := _remote.remote_identity()) is not None:
                trace_id, request_id = trace_id or caller.trace_id, request_id or caller.request_id
                session_id, user_id = session_id or caller.session_id, user_id or caller.user_id
                if caller.hlc is not None:
                    self.recorder.observe_clock(caller.hlc)
        again = beside = None
        if parent is None and _closed_runs.watching:
            again = _announced.continued(kind, spec.name, trace_id)
            if again is not None and (around_it := again[0].around(context)) is not None:
                context, beside = around_it, again[0]
        # The request id that it will have, unless the program gives one.
        made = f"req_{suffix}" if parent is None else parent.trace.request_id
        started = self.recorder.spans.start(
            view.span_name,
            view.attributes,
            self._start_ns,
            context,
            self.span_kind,
            execution_id,
            made,
        )
        if again is not None:
            trace = again[0].trace
            self.recorder.reopen(trace)
        elif parent is None:
            trace = self.recorder.trace(trace_id or started.otel_trace_id, suffix)
        elif trace_id is None or trace_id == parent.trace.trace_id:
            trace = parent.trace
        else:
            trace = self.recorder.trace(trace_id)
            self.parent_trace_id = self.parent_trace_id or parent.trace.trace_id
        if parent is None or trace is not parent.trace:
            trace.over = trace.told = False
        around = parent.tally if parent is not None else None
        # Without their names: for a class Python makes a dictionary of them, and takes it apart again.
        self.execution = execution = Execution(
            kind,
            spec.name,
            trace,
            execution_id,
            started.span,
            started.otel_trace_id,
            started.span_id,
            # Attempts stand beside each other.
            started.parent_span_id if beside is None else beside.parent_span_id,
            parent,
            Tally(around) if kind == "pipeline" else around,
            _emission.emit,
            request_id,
            session_id,
            user_id,
        )
        if again is not None:
            former, execution.attempt = again[0].ended, again[1]
            execution.repeats = former
            execution.earlier = execution.retry_count = former.earlier + 1
        self._span_context = started.context
        if started.records:
            self._identify(execution, made)
        self.opened()
        event = self.opening()
        if event is not None:
            if execution.repeats is not None:
                event["repeats_execution_id"] = execution.repeats.execution_id
            if (parent is None or parent.trace is not trace) and self.recorder.choice:
                event.update(self.recorder.choice)
            self._emit(event, self._start_ns)

    def _identify(self, execution: Execution, made: str) -> None:
        """Put on the span what is not there since its beginning of the ids that it is found by."""
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
            # What the program wants dropped is empty.
            shown = {name: value for name, value in ids.items() if value}
            _spans.write_clean(execution.span, shown)

    def opened(self) -> None:
        """The execution is there, nothing is recorded yet."""

    def opening(self) -> dict[str, Any] | None:
        """The event of the beginning, for kinds that have one."""
        return None

    def listen(self, kind: str) -> Stream:
        """What takes note of the items of a generator."""
        return Stream(kind, captures=self.captures)

    def closing(self, result: object, milliseconds: int) -> dict[str, Any] | None:
        """The event of a call that returned; null for one that is not to be recorded."""
        raise NotImplementedError

    def closing_failed(self, error: BaseException, milliseconds: int) -> dict[str, Any] | None:
        """The event of a call that raised."""
        raise NotImplementedError

    def closing_cancelled(
        self, error: BaseException | None, milliseconds: int
    ) -> dict[str, Any] | None:
        """The event of a call that was cancelled; without an error, a generator left early."""
        raise NotImplementedError

    def attach(self) -> None:
        """Make this call the current one, until `detach`."""
        self.attachment = _context.attach(self.execution, self._span_context)

    def detach(self) -> None:
        """Make current again what was before."""
        if self.attachment is not None:
            _context.detach(self.attachment)
            self.attachment = None

    def complete(self, result: object) -> None:
        """The call has returned."""
        try:
            self.detach()
            if too_late():
                return
            end_ns, milliseconds, seconds = self._now()
            try:
                event = self.closing(result, milliseconds)
            except Exception:
                # The end cannot be told, but the span ends all the same, and the loss is counted.
                self._close(None, None, end_ns, seconds)
                self.recorder.drop("internal_error")
                raise
            self._close(event, None, end_ns, seconds)
            self.leave_word(semconv.SUCCESS, None)
        except Exception as trouble:  # noqa: BLE001 - a guard, without the price of one
            _guard.report("complete", trouble)

    def cancel(self) -> None:
        """A generator was closed before its end, and took it well."""
        with _guard.Guard("cancel"):
            self.detach()
            if too_late():
                return
            end_ns, milliseconds, seconds = self._now()
            self._close(self.closing_cancelled(None, milliseconds), None, end_ns, seconds)

    def fail(self, error: BaseException) -> None:
        """The call has raised; the caller raises it further, unchanged."""
        with _guard.Guard("fail"):
            self.detach()
            if too_late():
                return
            end_ns, milliseconds, seconds = self._now()
            cause = error if not _failures.cancels(error) else self.too_slow(error)
            if cause is None:
                event = self.closing_cancelled(error, milliseconds)
            else:
                event = self.closing_failed(cause, milliseconds)
            self._close(event, cause, end_ns, seconds)
            self.leave_word(semconv.CANCELLED if cause is None else semconv.FAILED, error)

    def too_slow(self, error: BaseException) -> TimeoutError | None:  # noqa: ARG002
        """The timeout that a cancellation stands for, where it is one for having taken too long."""
        return None

    @property
    def captures(self) -> bool:
        """Whether what goes in and out may be recorded."""
        return self.recorder.config.capture_content

    def describe(
        self, error: BaseException, stage: str | None = None
    ) -> tuple[Failure, str | None, str | None]:
        """What a failure is: its description, its stage, and the execution it comes from if not ours.

        Leaves word on the exception for the call around this one.
        """
        execution = self.execution
        failure = _failures.describe(error)
        origin = _failures.origin_of(error, execution.span_id)
        stage = execution.notes.get("stage") or (
            origin.stage
            if origin is not None and origin.stage is not None
            else failure.stage or stage
        )
        ours = execution.state.execution_id
        first = origin.execution_id if origin is not None else ours
        if execution.parent is not None:
            _failures.mark_origin(error, Origin(first, stage, execution.parent.span_id))
        return failure, stage, first if first != ours else None

    def _now(self) -> tuple[int, int, float]:
        # The end is the start plus elapsed time: a wall clock set meanwhile changes nothing.
        elapsed = time.perf_counter_ns() - self._tick
        return self._start_ns + elapsed, elapsed // 1_000_000, elapsed / 1e9

    @property
    def span_context(self) -> Context:
        """The context in which the span of this call is current."""
        return self._span_context

    def since_begin_ms(self, tick: int) -> int:
        """Milliseconds from the beginning to a reading of the performance counter."""
        return max(0, tick - self._tick) // 1_000_000

    def _close(
        self,
        event: dict[str, Any] | None,
        error: BaseException | None,
        end_ns: int,
        seconds: float,
    ) -> None:
        execution = self.execution
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
                    # Agents say so themselves, with what was retried inside them.
                    event.setdefault("was_retried", True)
                    event.setdefault("retry_count", execution.retry_count)
                    event["repeats_execution_id"] = former.execution_id
                    event["repeats_status"] = former.status
                closes = self.closes_run()
                if closes and self.recorder.choice:
                    # Again: a call outside of every agent has no event of its beginning.
                    event.update(self.recorder.choice)
                self._emit(event, end_ns, closes_run=closes, seconds=seconds)
            else:
                execution.ended = True
        finally:
            # After the event, which has cleaned what goes onto the span as well.
            try:
                _spans.finish(
                    execution.span,
                    event or {},
                    error,
                    trace_id=execution.trace.trace_id,
                    end_ns=end_ns,
                    failed=error is not None,
                )
            except Exception as trouble:  # noqa: BLE001
                _guard.report("span", trouble)

    def closes_run(self) -> bool | None:
        """Whether the event of the end, written next, is the last of its run, as far as is known.

        Null while the run goes on: if it ends before this is written, in another thread, it still is.
        """
        execution = self.execution
        parent, trace = execution.parent, execution.trace
        execution.ended = True
        if parent is None or parent.trace is not trace:
            trace.over = True
            return True
        if not trace.over:
            return None
        # A task that outlives the run: the count that closed it is not the final one.
        if parent.goes_on():
            return False
        self.recorder.reopen(trace)
        return True

    def leave_word(self, status: str, error: BaseException | None) -> None:
        """For the hook of a loop around this call, where nothing traced is."""
        if _closed_runs.watching and self.execution.parent is None:
            _closed_runs.remember(self.execution, status, error)

    def _emit(
        self,
        event: dict[str, Any],
        now_ns: int,
        *,
        closes_run: bool | None = False,
        seconds: float | None = None,
    ) -> None:
        recorder = self.recorder
        if recorder.closed:
            # Configured anew while this call ran: its end belongs to the recorder of now.
            recorder = _recorder.active() or recorder
        _emission.record(
            event, self.execution, recorder, now_ns, closes_run=closes_run, seconds=seconds
        )
