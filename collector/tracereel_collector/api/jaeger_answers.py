"""What Jaeger's two surfaces share: how their parameters are described and their answers made."""

from collections.abc import Callable
from typing import Any

import msgspec
from fastapi import Request
from fastapi.responses import Response

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import caller_of
from tracereel_collector.query.jaeger.reader import Jaeger


def described(*names: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Parameters for the OpenAPI document; they are read raw, for errors in Jaeger's own words."""
    return {
        "parameters": [
            {
                "name": name,
                "in": "query",
                "required": name in required,
                "schema": {"type": "string"},
            }
            for name in names
        ]
    }


async def answered(
    request: Request, ask: Callable[[Jaeger, str], dict[str, Any]], *, status: int = 200
) -> Response:
    """The document that asking the reader for a tenant gives, as JSON, indented for those who want it."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    pretty = request.query_params.get("prettyPrint", "") not in ("", "false")

    def work() -> bytes:
        body = msgspec.json.encode(ask(parts.jaeger, tenant))
        return msgspec.json.format(body, indent=4) if pretty else body

    body = await parts.queries.run(work)
    return Response(body, status_code=status, media_type="application/json")
