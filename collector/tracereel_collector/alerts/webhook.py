"""Sends alerts to an address over HTTP, within a bound of time."""

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import structlog

from tracereel_collector.errors import StartupError

SECONDS = 10.0
log = structlog.get_logger()


class Webhook:
    """An address that takes what Alertmanager would send it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise StartupError(
                f"TRACEREEL_ALERT_WEBHOOK={parts.scheme}://…: expected http://host/path or https://host/path"
            )
        self._url = url
        self._host = parts.hostname

    def __call__(self, message: dict[str, Any]) -> bool:
        """Send one; whether it was taken."""
        request = urllib.request.Request(  # noqa: S310 - the scheme was looked at above
            self._url,
            data=json.dumps(message).encode(),
            headers={"Content-Type": "application/json", "User-Agent": "tracereel"},
        )
        try:
            with urllib.request.urlopen(request, timeout=SECONDS):  # noqa: S310 - as above
                return True
        except (OSError, ValueError) as error:
            # The address may hold a secret: only its host is told.
            log.warning("alert_not_taken", host=self._host, reason=str(error)[:200])
            return False
