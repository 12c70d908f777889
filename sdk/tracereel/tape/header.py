"""Header of a tape, sampling of runs, and the sink for tape parts."""

import hashlib
import inspect
import os
import platform
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from tracereel import semconv
from tracereel._core import envelope, framework_entries
from tracereel._core.context import Execution
from tracereel._core.recorder import Recorder
from tracereel._redact.event_redaction import CONTENT
from tracereel._runtime.clock import rfc3339
from tracereel.tape import classes
from tracereel.tape import format as tape_format
from tracereel.tape.gate import ResultGate
from tracereel.tape.run_tape import RunTape, TapeNode
from tracereel.tape.text import printable

ENVIRONMENT: Final = ("LANG", "LC_ALL", "TZ", "PYTHONHASHSEED", "TRACEREEL_SERVICE")
"""Recorded environment variables; `TRACEREEL_TAPE_ENVIRONMENT` adds more, separated by commas."""
LIBRARIES: Final = {
    "openai": "openai",
    "anthropic": "anthropic",
    "google-genai": "google.genai",
    "langchain-core": "langchain_core",
    "langgraph": "langgraph",
    "pydantic": "pydantic",
}
"""Packages whose versions are recorded, each with the module that shows that it is in use."""
_SPAN: Final = 2**64


@dataclass(frozen=True, slots=True)
class TapeSettings:
    """Recording settings of one recorder."""

    recorder: "Recorder"
    mode: str
    rate: float
    gate: ResultGate | None
    forked_from: dict[str, Any] | None = None
    parts: list[dict[str, Any]] | None = None
    """List that also receives the parts of the tapes."""

    def tape_for(self, execution: "Execution") -> "RunTape | None":
        """Return a new tape for a run, or `None` if it is not recorded."""
        if self.mode == "sampled" and not _chosen(execution.trace.trace_id, self.rate):
            return None
        config = self.recorder.config
        tape = RunTape(
            _Events(self, execution),
            self.recorder.spans.privacy
            if config.redaction.built_in or config.redaction.rules
            else None,
            held=self.mode == "errors",
        )
        if not config.capture_content:
            tape.problem("no", "capture_content is off: arguments and results are not recorded")
        else:
            for name, action in config.redaction.fields.items():
                if name in CONTENT and action != "keep":
                    tape.problem("no", f"the redaction of this program does {action} {name}")
        if tape.refused:
            tape.begin(self._record(execution))
            tape.write()
            return None
        return tape

    def describe(
        self, tape: "RunTape", node: "TapeNode", execution: "Execution", function: Any, form: str
    ) -> None:
        """Write the header of the tape."""
        record = self._record(execution)
        record["n"] = node.number
        record["form"] = form
        if function is not None:
            record["entry"] = classes.function_path(function)
            record["code"] = source_hash(function)
            if needs_object(function):
                record["object"] = True
        elif (entry := framework_entries.current.get()) is not None:
            record["entry"] = _importable(entry.path)
            record["framework"] = entry.call
        if record.get("entry") and (folder := classes.folder_of_program()):
            record["folder"] = folder
        tape.begin(record)
        if reason := _not_callable(execution.kind, function, record):
            tape.problem("partly", reason)
        tape.write()

    def _record(self, execution: "Execution") -> dict[str, Any]:
        config = self.recorder.config
        return {
            "r": "run",
            "version": tape_format.VERSION,
            "trace_id": execution.trace.trace_id,
            "kind": execution.kind,
            "name": execution.name,
            "started": rfc3339(time.time_ns()),
            "exact": self.gate is not None,
            "redaction": {
                "built_in": config.redaction.built_in,
                "rules": [[rule.name, _source(rule.pattern)] for rule in config.redaction.rules],
            },
            "environment": _environment(),
            **about(),
            **({"forked_from": self.forked_from} if self.forked_from else {}),
        }


@dataclass(frozen=True, slots=True)
class _Events:
    """Sink that writes parts as events of the run."""

    settings: TapeSettings
    execution: "Execution"

    def write(self, tape_id: str, part: int, records: list[dict[str, Any]]) -> None:
        """Write a part."""
        if self.settings.parts is not None:
            self.settings.parts.append({"tape_id": tape_id, "part": part, "records": list(records)})
        envelope.record_tape(
            {
                "event_type": semconv.TAPE_RECORDED,
                "tape_id": tape_id,
                "tape_version": tape_format.VERSION,
                "part": part,
                "records": records,
            },
            self.execution,
            self.settings.recorder,
        )


def _chosen(trace_id: str, rate: float) -> bool:
    """Return whether a trace is sampled; the result is the same in every process."""
    digest = hashlib.blake2b(b"tape" + trace_id.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < rate * _SPAN


def _source(pattern: Any) -> str:
    return pattern if isinstance(pattern, str) else str(pattern.pattern)


def _variables() -> tuple[str, ...]:
    more = os.environ.get("TRACEREEL_TAPE_ENVIRONMENT", "")
    return (*ENVIRONMENT, *(name.strip() for name in more.split(",") if name.strip()))


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _variables() if name in os.environ}


@lru_cache(maxsize=1)
def about() -> dict[str, Any]:
    """Return the versions of this process."""
    found = {}
    for name, module in LIBRARIES.items():
        # Look up only packages that are in use, because each lookup is slow.
        if module in sys.modules:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue
    try:
        sdk = version("tracereel")
    except PackageNotFoundError:
        sdk = "unknown"
    return {
        "sdk": sdk,
        "python": platform.python_version(),
        "libraries": found,
        "commit": _commit(),
    }


def other_than(recorded: Mapping[str, Any]) -> list[str]:
    """Return notes on differences from the recording that may explain a divergence."""
    now = about()
    origin = recorded.get("forked_from") or {}
    found = [
        f"Note: in this branch the decision {each['target']} was forced, and is not so by itself:"
        f" --choose {shlex.quote(printable('{target}={chosen}'.format_map(each)))}."
        for each in origin.get("overrides") or ()
        if "chosen" in each and "target" in each
    ]
    was, here = str(recorded.get("python", "")), str(now["python"])
    if was and was.split(".")[:2] != here.split(".")[:2]:
        found.append(f"Note: it was recorded with Python {was}; this is {here}.")
    for name, version_then in (recorded.get("libraries") or {}).items():
        version_now = now["libraries"].get(name)
        if version_now is not None and version_now != version_then:
            found.append(
                f"Note: it was recorded with {name} {version_then}; here is {version_now}."
            )
    for name, value in (recorded.get("environment") or {}).items():
        # A tape must not reveal variables that this process does not record itself.
        if name in _variables() and os.environ.get(name) != value:
            set_to = "not set" if name not in os.environ else repr(os.environ[name])
            found.append(f"Note: {name} was {value!r} when it was recorded; here it is {set_to}.")
    return found


def _commit() -> str | None:
    """Return the git commit of the working directory, read without starting a process."""
    for directory in (Path.cwd(), *Path.cwd().parents):
        head = directory / ".git" / "HEAD"
        try:
            reference = head.read_text(encoding="utf-8").strip()
            if not reference.startswith("ref: "):
                return reference[:40]
            return (directory / ".git" / reference[5:]).read_text(encoding="utf-8").strip()[:40]
        except OSError:
            if head.exists():
                return None
    return None


def _importable(path: str) -> str:
    module, _, name = path.partition(":")
    return f"{classes.importable(module)}:{name}" if path else ""


def _not_callable(kind: str, function: Any, record: Mapping[str, Any]) -> str:
    """Return why a replay cannot call the beginning of a run by itself, or an empty string."""
    if function is None and record.get("framework"):
        call, path = record["framework"], record["entry"]
        return (
            "" if path else f"the run began with {call} of an object that no module's variable has"
        )
    if function is None:
        return f"the run began with a block of {kind}, which cannot be called again"
    return ""


@lru_cache(maxsize=1024)
def needs_object(function: Any) -> bool:
    """Return whether a function is an instance method; a tape contains no instances."""
    inner = inspect.unwrap(function)
    code = getattr(inner, "__code__", None)
    named = "." in getattr(inner, "__qualname__", "").rpartition("<locals>.")[2]
    return named and code is not None and code.co_varnames[: code.co_argcount][:1] == ("self",)


@lru_cache(maxsize=1024)
def source_hash(function: Any) -> str | None:
    """Return a hash of a function's source, to detect changed code."""
    try:
        source = inspect.getsource(inspect.unwrap(function))
    except (OSError, TypeError):
        return None
    return hashlib.blake2b(source.encode("utf-8", "replace"), digest_size=8).hexdigest()
