"""Client that posts alerts to a webhook with a timeout."""

import json
from typing import Any
from urllib.parse import urlsplit

import structlog

from tracereel._export.http_client import HTTP_ERRORS, HttpConnection
from tracereel_collector.errors import StartupError

SECONDS = 10.0
log = structlog.get_logger()


class Webhook:
    """Webhook that accepts Alertmanager messages."""

    def __init__(self, url: str) -> None:
        self._origin, self._target = _split(url)

    def __call__(self, message: dict[str, Any]) -> bool:
        """Post a message and return whether it was accepted; a redirect is a failure."""
        body = json.dumps(message).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "tracereel"}
        connection = HttpConnection(self._origin, headers=headers, timeout=SECONDS)
        try:
            answer = connection.stream("POST", self._target, body)
        except HTTP_ERRORS as error:
            reason = str(error)[:200]
        else:
            answer.close()  # the response body is not needed
            if 200 <= answer.status < 300:
                return True
            reason = f"HTTP {answer.status}"
        # Log only the host: the URL may contain a secret.
        log.warning("alert_not_taken", host=connection.host, reason=reason)
        return False


def _split(url: str) -> tuple[str, str]:
    """Return origin and request target of a URL; credentials in URLs are not supported.

    Raises:
        StartupError: the URL cannot be used; it is not shown because it may contain a secret.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError for an invalid port
    except ValueError:
        parts = urlsplit("")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    is_plain = target.isascii() and target.isprintable() and " " not in target
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or "@" in parts.netloc
        or not is_plain
    ):
        raise StartupError(
            "TRACEREEL_ALERT_WEBHOOK cannot be used; expected http://host/path or https://host/path"
        )
    return f"{parts.scheme}://{parts.netloc}", target
