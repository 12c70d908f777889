"""One request of a command to a running collector, and what it could not do in words for people."""

import argparse
import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from tracereel.cli import connection

SECONDS = 30.0


class NoAnswerError(Exception):
    """The collector cannot be asked, or says no; the message is for the user."""


def ask(
    args: argparse.Namespace, method: str, path: str, body: bytes | None = None
) -> tuple[int, dict[str, Any]]:
    """Status and answer of the collector that `--endpoint` and `--api-key` name.

    Raises:
        NoAnswerError: none answers.
    """
    settings = connection.config_of(args)
    address = urlsplit(settings.endpoint)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    headers = {"x-api-key": settings.api_key} if settings.api_key else {}
    link = kind(address.hostname or "", address.port, timeout=SECONDS)
    try:
        link.request(method, address.path.rstrip("/") + path, body, headers)
        response = link.getresponse()
        return response.status, json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswerError(
            f"no answer from {settings.endpoint}: {error};"
            f" {connection.start_hint(settings.endpoint)}"
        ) from error
    finally:
        link.close()


def message_of(answer: dict[str, Any]) -> str:
    """What an answer says went wrong."""
    error = answer.get("error")
    return str(error.get("message")) if isinstance(error, dict) else str(answer)
