"""A tool whose decorator a refactor has removed or moved stops a replay."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tracereel.tape import Tape, TapeError
from tracereel.tape.recorded_tools import check_tools

NAME = "refactored_program"
PROGRAM = """
import functools
from functools import partial

from tracereel import traced_agent, traced_tool


def retry(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)

    return call


def tool(name):
    def decorate(function):
        return traced_tool(name, effect="irreversible")(function)

    return decorate


charging = partial(traced_tool, effect="irreversible")


def made():
    {nested}
    def charge(amount):
        return amount

    return charge


{top}
def send(amount):
    return amount


{after}


@traced_agent("clerk")
def clerk():
    return made()(1), {send}(2)
"""
NESTED = '@traced_tool("charge", effect="irreversible")'
TOP = '@traced_tool("send", effect="irreversible")'
BESIDE = 'sending = traced_tool("send", effect="irreversible")(send)'


@pytest.fixture
def written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Callable[[], Any]]]:
    """Write the program and load it; return its entry."""
    monkeypatch.chdir(tmp_path)

    def write(nested: str = NESTED, top: str = TOP, after: str = "", send: str = "send") -> Any:
        path = tmp_path / f"{NAME}.py"
        path.write_text(PROGRAM.format(nested=nested, top=top, after=after, send=send))
        spec = importlib.util.spec_from_file_location(NAME, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[NAME] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.clerk

    yield write
    sys.modules.pop(NAME, None)


@pytest.fixture
def tape(written: Any, taped: Any, monkeypatch: pytest.MonkeyPatch) -> Tape:
    found: Tape = taped(written())[1]
    _forget(monkeypatch)
    return found


def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the decorated functions, as a new process has none."""
    monkeypatch.setattr("tracereel._core.wrapping._paths", {})


@pytest.mark.parametrize(
    "nested",
    [
        NESTED,
        f"@retry\n    {NESTED}",
        '@tool("charge")',
        '@charging("charge")',
        "@tool(CHARGE)",
        "@unknown.decorator",
    ],
)
def test_a_nested_tool_that_may_be_decorated_is_accepted(
    written: Any, tape: Tape, nested: str
) -> None:
    written(nested=nested)
    check_tools(tape, loaded=True)


@pytest.mark.parametrize(
    "nested", ["", "@retry", "@functools.lru_cache", "@functools.wraps(retry)"]
)
def test_a_nested_tool_without_its_decorator_is_refused(
    written: Any, tape: Tape, nested: str
) -> None:
    written(nested=nested)
    with pytest.raises(TapeError, match=r"charge .* has no decorator any more"):
        check_tools(tape, loaded=True)


def test_a_tool_that_is_only_traced_beside_its_name_is_refused(written: Any, tape: Tape) -> None:
    written(top="", after=BESIDE)
    with pytest.raises(TapeError, match=r"send .* has no decorator any more"):
        check_tools(tape, loaded=True)


def test_a_tool_that_was_traced_beside_its_name_is_accepted(written: Any, taped: Any) -> None:
    clerk = written(top="", after=BESIDE, send="sending")
    _, tape = taped(clerk)

    assert [call.apart for call in tape.boundaries()] == [0, 1]
    check_tools(tape, loaded=True)
