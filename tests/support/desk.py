"""A small program in a folder of its own, its recorded runs as a fleet file, and the command."""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.replay_trial import recording
from tracereel.fleet import file as fleet_file

PROGRAM = """
import os
from pathlib import Path

from tracereel import traced_agent, traced_decision, traced_llm, traced_pipeline, traced_tool


@traced_llm("model-a")
def ask(prompt):
    return "refund" if "broken" in prompt else "keep"


@traced_tool("find_order", effect="read")
def find_order(number, fields):
    return {"number": number, "total": 42.5 + number}


@traced_tool("refund", effect="irreversible")
def refund(number, amount):
    with Path(os.environ["DESK_COUNTER"]).open("a") as counter:
        counter.write("x")
    return f"{amount} for {number}"


@traced_decision("route")
def route(answer):
    return answer


@traced_agent("clerk")
def clerk(number, text):
    found = find_order(number, ["total"])
    answer = ask(f"What about {text}?")
    if route(answer) == "refund":
        return refund(number, found["total"])
    return "kept"


@traced_agent("seller")
def seller(number, text):
    ask(f"Sell something for {text}")
    return find_order(number, ["number", "total"])["total"]


@traced_pipeline("desk")
def desk(number, text):
    said = seller(number, text) if number % 3 == 0 else clerk(number, text)
    return {"number": number, "said": said}
"""


def text_of(number: int) -> str:
    return "a broken lamp" if number % 2 else "a chair"


@dataclass
class Desk:
    """Folder with the program."""

    folder: Path
    name: str = "desk"

    @property
    def source(self) -> Path:
        return self.folder / f"{self.name}.py"

    def write(self, text: str = PROGRAM) -> "Desk":
        self.folder.mkdir(parents=True, exist_ok=True)
        self.source.write_text(text)
        return self

    def change(self, old: str, new: str) -> None:
        text = self.source.read_text()
        assert text.count(old) == 1, old
        self.source.write_text(text.replace(old, new))

    @property
    def counter(self) -> Path:
        return self.folder.parent / "counter"

    def record(self, path: Path, numbers: Any) -> dict[int, str]:
        """Run the program while recording, write a fleet file; return the trace ids by number."""
        spec = importlib.util.spec_from_file_location(self.name, self.source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        before, sys.modules[self.name] = sys.modules.get(self.name), module
        os.environ["DESK_COUNTER"] = str(self.counter)
        found: dict[int, str] = {}
        try:
            spec.loader.exec_module(module)
            with fleet_file.writing(path, {}) as writer:
                for number in numbers:
                    # A run that fails is recorded as well.
                    with recording() as events, contextlib.suppress(LookupError):
                        module.desk(number, text_of(number))
                    parts = [each for each in events if "tape_id" in each]
                    found[number] = parts[0]["trace_id"]
                    writer.add(found[number], parts)
        finally:
            sys.modules.pop(self.name)
            if before is not None:
                sys.modules[self.name] = before
            os.environ.pop("DESK_COUNTER")
        self.counter.unlink(missing_ok=True)
        return found

    def fleet(self, *words: Any, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run `tracereel fleet` in the folder."""
        return self.command("fleet", *words, **environment)

    def command(self, *words: Any, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of tracereel in the folder."""
        return subprocess.run(
            [sys.executable, "-m", "tracereel", *map(str, words)],
            cwd=self.folder,
            env={**os.environ, "DESK_COUNTER": str(self.counter), "COLUMNS": "200", **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def pytest(self, *words: Any) -> "subprocess.CompletedProcess[str]":
        """Run tests in the folder."""
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, words)],
            cwd=self.folder,
            env={**os.environ, "DESK_COUNTER": str(self.counter), "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def replayed(self, path: Path, *words: Any) -> dict[str, Any]:
        """Return the report of `fleet run` as JSON."""
        done = self.fleet("run", path, "--json", *words)
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return {**found, "status": done.returncode}
