"""Generator of almost valid bodies, checked by ingest validation; a seed repeats them."""

import json
import random
from collections import Counter
from pathlib import Path

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.contract import EXAMPLES
from tracereel_collector.errors import BadRequestError
from tracereel_collector.ingest.check import EventCheck
from tracereel_collector.ingest.events import split_events
from tracereel_collector.ingest.otlp import OtlpCheck
from tracereel_collector.ingest.otlp_schema import SIGNALS, TRACES

FIXTURES = Path(__file__).parents[1] / "collector" / "store" / "dialects" / "fixtures"
ODD = [b"\x00", b"\xff" * 4, b"\x80" * 10, b"\xed\xa0\x80", b'"', b"\\u0000", b"[" * 60, b"{" * 9]
ODD += [b"1e999", b"-0", b"NaN", b"null", b"18446744073709551616", b"\r\n", b",", b"\xef\xbb\xbf"]

_events = EventCheck(max_event_bytes=1 << 20)
_otlp = OtlpCheck(why_no_event=lambda *_: "not asked")


def _requests():
    """Return single spans of real instrumentations."""
    for file in sorted(FIXTURES.glob("*.pb")):
        whole = ExportTraceServiceRequest.FromString(file.read_bytes())
        for resource in whole.resource_spans:
            for scope in resource.scope_spans[:2]:
                for span in scope.spans[:2]:
                    one = ExportTraceServiceRequest()
                    into = one.resource_spans.add(resource=resource.resource)
                    into.scope_spans.add(scope=scope.scope).spans.add().CopyFrom(span)
                    if one.ByteSize() < 6_000:
                        yield one


class Corpus:
    """Valid bodies of every ingest route, to be mutated."""

    def __init__(self):
        requests = list(_requests())
        self.protobuf = [each.SerializeToString() for each in requests]
        self.json = [json_format.MessageToJson(each, indent=None).encode() for each in requests]
        self.events = [json.dumps(each).encode() for each in EXAMPLES]
        self.events += [b"\n".join(self.events[:3]), b"[" + b",".join(self.events[:2]) + b"]"]


def mutated(rnd, data, others):
    """Return a body with one to four mutations."""
    made = bytearray(data)
    for _ in range(rnd.randint(1, 4)):
        at = rnd.randrange(len(made) + 1)
        match rnd.randrange(7):
            case 0 if made:
                made[at % len(made)] ^= 1 << rnd.randrange(8)
            case 1:
                del made[at : at + rnd.choice([1, 2, 8, 100])]
            case 2:
                made[at:at] = rnd.choice(ODD)
            case 3:
                made[at:at] = made[at : at + rnd.choice([1, 10, 200])]
            case 4:
                other = rnd.choice(others)
                start = rnd.randrange(len(other))
                made[at : at + 50] = other[start : start + rnd.choice([5, 50, 500])]
            case 5:
                del made[at:]
            case _ if made:
                made[at % len(made)] = rnd.randrange(256)
    return bytes(made)


def one(rnd, corpus):
    """Run one case; return its outcome. Only expected refusals may be raised."""
    door = rnd.choice(["protobuf", "json", "events"])
    seeds = getattr(corpus, door)
    data = mutated(rnd, rnd.choice(seeds), seeds)
    try:
        if door == "events":
            lines, _ = split_events(data, content_type=rnd.choice(["application/json", ""]))
            checked = _events.check(lines, tenant="default")
            for line in checked.lines:
                assert isinstance(json.loads(line), dict)
                assert b"\n" not in line
            return "taken" if checked.lines else "refused"
        signal = TRACES if rnd.random() < 0.8 else rnd.choice(SIGNALS)
        check = _otlp.protobuf if door == "protobuf" else _otlp.json
        checked = check(signal, data, tenant="default")
        request = signal.request.FromString(checked.data)
        if signal is TRACES:
            spans = [
                span
                for resource in request.resource_spans
                for scope in resource.scope_spans
                for span in scope.spans
            ]
            assert len(spans) == checked.records
            assert all(len(span.trace_id) == 16 and len(span.span_id) == 8 for span in spans)
    except BadRequestError:
        return "refused"
    return "mended" if checked.mended or checked.refused else "taken"


def run(seed, until):
    """Run cases until `until(number)`; count them by outcome."""
    rnd, corpus, done = random.Random(seed), Corpus(), Counter()
    while not until(done.total()):
        state = rnd.getstate()
        try:
            done[one(rnd, corpus)] += 1
        except Exception as error:
            rnd.setstate(state)
            raise AssertionError(f"seed {seed}, case {done.total()}") from error
    return done
