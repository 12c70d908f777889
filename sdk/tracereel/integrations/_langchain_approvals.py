"""Approvals of LangGraph runs: questions to a person, and their resolution in a later run."""

import time
from typing import Any, Final

from msgspec import structs

from tracereel._core.context import Execution
from tracereel._runtime import gevent_compat
from tracereel.integrations._runs import FrameworkRun
from tracereel.providers.base import Approval, EventType, NormalizedEvent
from tracereel.providers.emission import message_fields
from tracereel.providers.reading import as_data, get
from tracereel.providers.waiting import read_answers, read_interrupts

WAITING: Final = "waiting_for_a_person"
"""Stage of an execution that ends with a question to a person."""
MAX_WAITING_THREADS: Final = 1_000


class PendingApprovals:
    """Approvals of each thread that are not resolved."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Approval]] = {}
        self._lock = gevent_compat.RLock()

    def ask(self, run: FrameworkRun, execution: Execution, error: BaseException) -> None:
        """Record the questions of an interrupt that were not asked before."""
        raised = error.args[0] if error.args else ()
        interrupts = [
            {"id": get(each, "id"), "value": as_data(get(each, "value"))} for each in raised or ()
        ]
        now = time.time()
        asked = [structs.replace(each, requested_at=now) for each in read_interrupts(interrupts)]
        thread = next((each.session_id for each in run.line() if each.session_id is not None), None)
        if thread is not None:
            asked = self._remember(thread, asked)
        _emit(execution, "approval_requested", asked)
        execution.agent.notes["stage"] = WAITING

    def _remember(self, thread: str, asked: list[Approval]) -> list[Approval]:
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

    def forget(self, thread: str) -> None:
        """Forget the questions of a thread whose graph starts over."""
        with self._lock:
            self._waiting.pop(thread, None)

    def resolve(self, execution: Execution | None, thread: str, command: Any) -> None:
        """Record approvals that a person has resolved."""
        answer = get(command, "resume")
        if answer is None or execution is None:
            return
        with self._lock:
            asked = self._waiting.pop(thread, [])
            resolved = read_answers(asked, answer, at=time.time())
            known = {each.id for each in resolved}
            if rest := [each for each in asked if each.id not in known]:
                self._waiting[thread] = rest
        _emit(execution, "approval_resolved", resolved)


def _emit(execution: Execution, kind: EventType, approvals: list[Approval]) -> None:
    for index, approval in enumerate(approvals):
        event = NormalizedEvent(
            type=kind, original_index=index, provider="langchain", approval=approval
        )
        execution.emit({**message_fields(event), "agent_name": execution.agent.name})
