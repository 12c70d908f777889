"""Runs the program of one client and writes what it sent; `tests.clients.record` starts it.

python -m tests.clients.programs.play CLIENT FILE
"""

import json
import sys
from importlib import metadata
from pathlib import Path

from tests.clients.programs import frameworks, instrumentations, platforms
from tests.clients.standin import StandIn

PROGRAMS = instrumentations.PROGRAMS | platforms.PROGRAMS | frameworks.PROGRAMS

KEPT = ("service.name",)
"""Attributes of the resource without those of the recording machine."""


def document(bodies, kind):
    """Return OTLP requests as one JSON document, without data about the recording machine."""
    from google.protobuf.json_format import MessageToDict

    whole = kind()
    for body in bodies:
        whole.MergeFromString(body)
    for resource in [*getattr(whole, "resource_spans", ()), *getattr(whole, "resource_logs", ())]:
        kept = [each for each in resource.resource.attributes if each.key in KEPT]
        del resource.resource.attributes[:]
        resource.resource.attributes.extend(kept)
        for scope in getattr(resource, "scope_spans", ()):
            for span in scope.spans:
                _without_paths(span)
    return MessageToDict(whole)


def _without_paths(span):
    """Cut stack traces and paths: they are long and name the machine's folders."""
    for event in span.events:
        for attribute in event.attributes:
            if attribute.key == "exception.stacktrace":
                attribute.value.string_value = "Traceback …"
            elif attribute.key == "exception.message":
                said = attribute.value.string_value
                attribute.value.string_value = said.partition("Traceback")[0]
    span.status.message = span.status.message.partition("Traceback")[0]
    kept = [each for each in span.attributes if not each.key.startswith(_OF_THE_MACHINE)]
    for each in kept:
        if sys.prefix in each.value.string_value:
            each.value.string_value = each.value.string_value.replace(sys.prefix, "/venv")
    del span.attributes[:]
    span.attributes.extend(kept)


_OF_THE_MACHINE = ("code.", "telemetry.", "error.stack_trace", "langsmith.metadata.revision_id")


def main():
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    name, file, *packages = sys.argv[1:]
    server = StandIn()
    PROGRAMS[name](server)
    versions = dict(each.split("@npm:") for each in packages if "@npm:" in each)
    versions |= {each: metadata.version(each) for each in packages if "@npm:" not in each}
    made = {"packages": versions, "spans": document(server.received, ExportTraceServiceRequest)}
    if server.logs:
        made["logs"] = document(server.logs, ExportLogsServiceRequest)
    text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
    text = text.replace(server.url, "http://127.0.0.1:4000").replace(f"{Path.cwd()}/", "")
    Path(file).write_text(text, encoding="utf-8")
    print(f"{name}: {len(text)} characters")


if __name__ == "__main__":
    main()
