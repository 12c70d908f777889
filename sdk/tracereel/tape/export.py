"""A tape as a test: a redacted file of it, and a readable test that re-executes the run offline."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tracereel._privacy import Privacy
from tracereel.redaction import Redaction, Rule, redact
from tracereel.tape import format as tape_format
from tracereel.tape.differences import shown
from tracereel.tape.format import Tape, TapeError
from tracereel.tape.payloads import Payloads, hash_of

SUFFIX: Final = ".tape.ndjson"

_RETURNED: Final = "    tape_run.call()"
_METHOD: Final = """    # The run began with {method}, whose object is not on the tape:
    # make one like it, and name its method: tape_run.call(made.{name})
"""
_RAISED: Final = """    # The recorded run raised {raised}: the report says whether it did so again.
    with suppress(Exception):
        tape_run.call()"""
_SUPPRESSES: Final = "from contextlib import suppress\n\nimport pytest"
_TEST: Final = '''"""The run {trace_id} of {name}, recorded {started}, runs again as it did.

Made by `tracereel export`. No model, tool or network is used: everything comes from the tape beside this
file. Record anew with `pytest --tracereel-update`.
"""

{imports}


@pytest.mark.tracereel_tape("{tape}")
def test_{function}(tape_run):
{call}

    assert tape_run.report.identical, str(tape_run.report)
    assert [call.name for call in tape_run.original.boundaries()] == {calls}
'''


@dataclass(frozen=True, slots=True)
class Exported:
    """The two files of an export."""

    test: Path
    tape: Path


def redacted(tape: Tape) -> Tape:
    """The tape without secrets and personal data, whatever it was recorded with."""
    rules = [Rule(name, pattern) for name, pattern in _rules(tape)]
    privacy = Privacy(Redaction(rules=rules), capture_content=True)
    records: list[dict[str, Any]] = []
    payloads = Payloads(records.append)
    hidden = False
    for record in tape.records:
        if record["r"] == "blob":
            continue
        new = dict(record)
        for name in ("a", "v", "among"):
            if new.get(name) is not None:
                data, changed = privacy.payload(tape.data(new[name]))
                hidden = hidden or (changed and name == "v")
                new[name] = payloads.put(data)
                if name == "a":
                    new["h"] = hash_of(data)
        if new["r"] == "run":
            new, _ = privacy.payload(new)
            new["redaction"] = {"built_in": True, "rules": list(_rules(tape))}
        records.append(new)
    if hidden:
        reason = "a result holds something that was redacted for the export"
        records.append({"r": "problem", "state": "partly", "reason": reason})
    made = tape_format.parse([{"tape_id": tape.tape_id, "part": 0, "records": records}])
    for line in made.lines():
        text = line.decode()
        if redact(text) != text:
            raise TapeError(
                "the tape still holds something that looks like a secret; it was not exported."
                " Add a rule of your own with configure(redaction=…) and record the run again"
            )
    return made


def _rules(tape: Tape) -> Any:
    return (tape.header.get("redaction") or {}).get("rules", ())


def export(tape: Tape, folder: str | Path, *, name: str | None = None) -> Exported:
    """Write the tape and its test into a folder.

    Raises:
        TapeError: the run cannot be re-executed to its end from its tape alone, or holds a secret.
    """
    if tape.state == "no" or not tape.header.get("entry") or not tape.complete:
        why = "; ".join(tape.reasons) or "it began with a block, not with a function"
        raise TapeError(f"the run {tape.trace_id} cannot be made a test: {why}")
    clean = redacted(tape)
    label = re.sub(r"\W+", "_", name or f"{tape.header['name']}_{tape.trace_id[:8]}").strip("_")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = Exported(folder / f"test_{label}.py", folder / f"{label}{SUFFIX}")
    clean.save(files.tape)
    raised = _raised(clean)
    call = _RETURNED if raised is None else _RAISED.format(raised=raised)
    if (method := of_object(clean)) is not None:
        call = _METHOD.format(method=method, name=method.rpartition(".")[2]) + call
    files.test.write_text(
        _TEST.format(
            trace_id=clean.header["trace_id"],
            name=clean.header["name"],
            started=clean.header["started"],
            tape=files.tape.name,
            function=label.lower(),
            calls=_listed(clean),
            call=call,
            imports="import pytest" if raised is None else _SUPPRESSES,
        ),
        encoding="utf-8",
    )
    return files


def of_object(tape: Tape) -> str | None:
    """The method that a run began with, if it is one of an object: nobody can call it by itself."""
    if not tape.header.get("object"):
        return None
    return str(tape.header.get("entry")).partition(":")[2]


def relisted(source: str, old: Tape, new: Tape) -> str:
    """The source of a test whose tape was replaced: the calls it lists are those of the new one."""
    return source.replace(f"== {_listed(old)}", f"== {_listed(new)}")


def _listed(tape: Tape) -> str:
    names = [json.dumps(call.name, ensure_ascii=False) for call in tape.boundaries()]
    if len(names) <= 3:
        return f"[{', '.join(names)}]"
    inner = "".join(f"        {name},\n" for name in names)
    return f"[\n{inner}    ]"


def _raised(tape: Tape) -> str | None:
    """What the run raised, in a few words without line breaks; null if it did not."""
    closed = tape.closed or {}
    if closed.get("how") != "raised":
        return None
    said = shown(tape.data(closed["v"])) if closed.get("v") else "something"
    return " ".join(said[:70].split())
