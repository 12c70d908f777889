"""Export of a tape as a regression test that replays it offline."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tracereel._redact.event_redaction import Privacy
from tracereel._redact.rules import Redaction, redact
from tracereel.tape import format as tape_format
from tracereel.tape import rules
from tracereel.tape.differences import shown
from tracereel.tape.format import Tape, TapeError
from tracereel.tape.payloads import Payloads, hash_of
from tracereel.tape.text import literal, name_of, printable

SUFFIX: Final = ".tape.ndjson"

MADE_BY: Final = "Made by `tracereel test-from`."
_RETURNED: Final = "    tape_run.call()"
_METHOD: Final = """    # The run began with {method}, whose object is not on the tape:
    # make one like it, and name its method: tape_run.call(made.{name})
"""
_RAISED: Final = """    # The recorded run raised {raised}: the report says whether it did so again.
    with suppress(Exception):
        tape_run.call()"""
_SUPPRESSES: Final = "from contextlib import suppress\n\nimport pytest"
# Names in the docstring and comments contain no quotes, backslashes or line breaks; other values
# are literals.
_TEST: Final = '''"""The run {trace_id} of {name}, recorded {started}, runs again as it did.

{made_by} No model, tool or network is used: everything comes from the tape beside this
file. Record it again with `pytest --tracereel-update`.
"""

{imports}


@pytest.mark.tracereel_tape({tape})
def test_{function}(tape_run):
{call}

    assert tape_run.report.identical, str(tape_run.report)
    assert [call.name for call in tape_run.original.boundaries()] == {calls}
'''
_LISTS: Final = "tape_run.original.boundaries()] == "
_MAX_LABEL: Final = 80


@dataclass(frozen=True, slots=True)
class ExportedTest:
    """The two files of an export."""

    test: Path
    tape: Path


def redacted(tape: Tape) -> Tape:
    """Return a copy of the tape without secrets and personal data."""
    privacy = Privacy(Redaction(rules=rules.local_rules()), capture_content=True)
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
            new["redaction"] = {**(record.get("redaction") or {}), "built_in": True}
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


def export(tape: Tape, folder: str | Path, *, name: str | None = None) -> ExportedTest:
    """Write the tape and its test into a folder."""
    if tape.state == "no" or not tape.header.get("entry") or not tape.complete:
        why = "; ".join(tape.reasons) or "it began with a block, not with a function"
        raise TapeError(f"the run {tape.trace_id} cannot be made a test: {why}")
    try:
        clean = redacted(tape)
    except ValueError as error:
        raise TapeError(f"the run {tape.trace_id} cannot be made a test: {error}") from error
    label = _label(name or f"{tape.header.get('name')}_{tape.trace_id[:8]}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = ExportedTest(folder / f"test_{label}.py", folder / f"{label}{SUFFIX}")
    _check_free(files.test)
    clean.save(files.tape)
    files.test.write_text(_source(clean, label, files.tape.name), encoding="utf-8")
    return files


def _label(text: str) -> str:
    """Return text for file and function names, with only letters, digits and `_`."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:_MAX_LABEL] or "run"


def _check_free(test: Path) -> None:
    """Refuse to overwrite a file that is not an export, because senders choose run names."""
    if test.is_symlink() or (
        test.exists() and MADE_BY not in test.read_text(encoding="utf-8", errors="replace")
    ):
        raise TapeError(
            f"{test} is there and is no export; give the test another name: --name NAME"
        )


def _source(tape: Tape, label: str, tape_file: str) -> str:
    raised = _raised(tape)
    call = _RETURNED if raised is None else _RAISED.format(raised=raised)
    if (method := of_object(tape)) is not None:
        name = name_of(method)
        call = _METHOD.format(method=name, name=name.rpartition(".")[2]) + call
    return _TEST.format(
        trace_id=name_of(tape.trace_id),
        name=name_of(tape.header.get("name")),
        started=name_of(tape.header.get("started")),
        made_by=MADE_BY,
        tape=literal(tape_file),
        function=label.lower(),
        calls=_listed(tape),
        call=call,
        imports="import pytest" if raised is None else _SUPPRESSES,
    )


def of_object(tape: Tape) -> str | None:
    """Return the entry method if it needs an object, which the tape does not contain."""
    if not tape.header.get("object"):
        return None
    return str(tape.header.get("entry")).partition(":")[2]


def relisted(source: str, old: Tape, new: Tape) -> str:
    """Return the source of a test with the call list of a new tape."""
    return source.replace(f"{_LISTS}{_listed(old)}", f"{_LISTS}{_listed(new)}")


def _listed(tape: Tape) -> str:
    names = [literal(call.name) for call in tape.boundaries()]
    if len(names) <= 3:
        return f"[{', '.join(names)}]"
    inner = "".join(f"        {name},\n" for name in names)
    return f"[\n{inner}    ]"


def _raised(tape: Tape) -> str | None:
    """Return a short one-line text of the exception that ended the run, or `None`."""
    closed = tape.closed or {}
    if closed.get("how") != "raised":
        return None
    text = shown(tape.data(closed["v"])) if closed.get("v") else "something"
    return printable(" ".join(text[:70].split()))
