"""`boundary`: lets client wrappers record external calls on tapes and serve them in replays."""

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tracereel._core import context, replay_guard
from tracereel._core import recorder as _recorder
from tracereel._core.tape_session import Live, check, run, run_async, stream, stream_async
from tracereel.errors import NotAllowedError

if TYPE_CHECKING:
    from tracereel._core.context import Execution


def boundary(
    name: str,
    kind: str,
    arguments: Mapping[str, Any],
    call: Callable[[], Any],
    *,
    form: str = "sync",
    effect: str = "read",
    around: "Execution | None" = None,
) -> Any:
    """Make an external call that a tape records and a replay serves instead.

    For wrappers of clients. Without a tape session it only calls `call()`.

    Args:
        name: name on the tape, such as `openai.chat.completions.create`.
        kind: `llm`, `tool` or `retrieval`.
        arguments: identify the call together with the name; leave out values that differ in each run.
        call: makes the call; its return value is returned. If it takes keyword arguments, a fork can
            change them.
        form: what `call` returns: `sync` a result (or a coroutine), `async` a coroutine, `generator` or
            `async_generator` an iterator over a stream.
        effect: `pure`, `read`, `write` or `irreversible`; see the side effects of tools.
        around: the enclosing execution; default: the current one.
    """
    recorder = _recorder.active()
    session = recorder.tape if recorder is not None else None
    around = around if around is not None else context.current_execution()
    if session is None:
        if replay_guard.engaged:
            replay_guard.check_tool(kind, name, effect, around)
        return call()
    begun = session.begin(
        None,
        around=around,
        kind=kind,
        name=name,
        function=None,
        arguments=arguments,
        form=form,
        effect=effect,
    )
    if replay_guard.engaged:
        check(begun, kind, name, effect, around)
    _check_changes(name, begun, call)
    if form == "async":
        return run_async(begun, call, (), {})
    if form == "generator":
        return stream(begun, call, (), {})
    if form == "async_generator":
        return stream_async(begun, call, (), {})
    return run(begun, call, (), {})


def _check_changes(name: str, begun: Any, call: Callable[..., Any]) -> None:
    """Reject changed arguments for a call that does not accept them."""
    if not isinstance(begun, Live) or not begun.changes or not (given := begun.changed((), {})[1]):
        return
    taken = inspect.signature(call).parameters
    if set(given) <= set(taken) or any(each.kind is each.VAR_KEYWORD for each in taken.values()):
        return
    raise NotAllowedError(
        f"{name} can be called in one way only: a fork cannot change its"
        f" {', '.join(given)}. Change it in the program, or say what the call gives"
        f" (Override({name!r}, result=…), --result {name}=JSON)"
    )
