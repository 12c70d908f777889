"""What OTLP senders are answered: partial success, in the encoding of the request."""

import json
from typing import Any

from tracereel_collector.ingest.accept import OtlpAnswer
from tracereel_collector.ingest.otlp_schema import Signal

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
MAX_MESSAGE = 2_000
"""Characters of an error message; senders read at most 4 MiB of an answer."""


def response_of(signal: Signal, answer: OtlpAnswer) -> Any:
    """The response message; `partial_success` is unset where there is nothing to say."""
    response = signal.response()
    if answer.refused or answer.message:
        setattr(response.partial_success, signal.rejected_field, answer.refused)
        response.partial_success.error_message = answer.message[:MAX_MESSAGE]
    return response


def encoded(signal: Signal, answer: OtlpAnswer, *, is_json: bool) -> bytes:
    """The body of a successful answer."""
    response = response_of(signal, answer)
    if not is_json:
        return bytes(response.SerializeToString())
    document: dict[str, Any] = {}
    if response.HasField("partial_success"):
        said = response.partial_success
        head, *rest = signal.rejected_field.split("_")
        name = head + "".join(word.capitalize() for word in rest)
        # 64-bit integers are strings in OTLP's JSON.
        document["partialSuccess"] = {
            name: str(getattr(said, signal.rejected_field)),
            "errorMessage": said.error_message,
        }
    return json.dumps(document).encode()
