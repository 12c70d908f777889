"""Base of the client: requests, and responses parsed as models."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

from pydantic import ValidationError

from tracereel.client.errors import (
    InvalidRequestError,
    NotFoundError,
    TraceNotFoundError,
    UnexpectedAnswerError,
)
from tracereel.client.models import Model
from tracereel.client.transport import DEFAULT_TIMEOUT, Answer, Params, ResponseStream, Transport

Found = TypeVar("Found", bound=Model)
_TRACE_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
STEP_NOT_FOUND: Final = "step_not_found"
STREAM_SILENCE: Final = 60.0
"""Seconds without data after which a stream is dead; the collector sends every few seconds."""


class Asking:
    """Requests to a collector and parsing of responses."""

    def __init__(
        self,
        endpoint: str | None = None,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self.transport = Transport(endpoint, api_key, timeout)
        self.endpoint = self.transport.endpoint

    def fetch(self, method: str, path: str, params: Params | None = None) -> Answer:
        """Send a request and return its successful response."""
        return self.transport.fetch(method, path, params=params)

    def of_trace(self, path: str, trace_id: str, params: Params | None = None) -> Answer:
        """Request something of one trace."""
        return self.of_traces(path, (trace_id,), params)

    def of_traces(self, path: str, ids: Sequence[str], params: Params | None = None) -> Answer:
        """Request something of traces; name those that are missing."""
        try:
            return self.fetch("GET", path, params)
        except NotFoundError as error:
            if error.code == STEP_NOT_FOUND:
                raise TraceNotFoundError(str(error), code=error.code) from error
            named = [each for each in ids if repr(each) in str(error)] or ids
            raise TraceNotFoundError(
                f"no events of trace {' or '.join(map(repr, named))} at {self.endpoint}"
                " (a run shows up once it is delivered and stored)"
            ) from error

    def stream(self, path: str, params: Params, seen: str | None) -> ResponseStream:
        """Open an event stream behind the last seen event."""
        headers = {"Accept": "text/event-stream"}
        if seen:
            headers["Last-Event-ID"] = seen
        opened = self.transport.stream(
            "GET", path, params=params, headers=headers, silence=STREAM_SILENCE
        )
        if not opened.headers.get("content-type", "").startswith("text/event-stream"):
            opened.close()
            raise UnexpectedAnswerError(
                f"{self.endpoint} does not stream {path}; is it a collector of this version?"
            )
        return opened

    def post_json(self, path: str, document: Any) -> Mapping[str, Any]:
        """Send a JSON document and return the JSON response."""
        answer = self.transport.fetch(
            "POST",
            path,
            body=json.dumps(document).encode(),
            headers={"Content-Type": "application/json"},
        )
        return self.document(answer.body)

    def document(self, body: bytes) -> dict[str, Any]:
        """Parse a response as a JSON object."""
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise UnexpectedAnswerError(
                f"{self.endpoint} sent something that is not a JSON object;"
                " is it a tracereel collector?"
            )
        return document

    def parsed(self, kind: type[Found], body: bytes) -> Found:
        """Parse a response as a model."""
        return self.validated(kind, self.document(body))

    def validated(self, kind: type[Found], document: Any) -> Found:
        """Check a document as a model."""
        try:
            return kind.model_validate(document)
        except (ValidationError, RecursionError) as error:
            where = error.errors()[0]["loc"] if isinstance(error, ValidationError) else ()
            raise UnexpectedAnswerError(
                f"{self.endpoint} sent something that is not a {kind.__name__}"
                f" ({'.'.join(map(str, where))}); is it a tracereel collector of this version?"
            ) from error


def path_of(trace_id: str) -> str:
    """Return a trace id as a path segment."""
    if _TRACE_ID.fullmatch(trace_id) is None:
        raise InvalidRequestError(
            f"trace_id: {trace_id!r} is not one; expected 1 to 128 letters, digits and _ . : -"
        )
    return quote(trace_id, safe="")
