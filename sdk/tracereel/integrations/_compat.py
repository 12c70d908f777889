"""Private names of optional clients that have no public counterpart."""

from typing import Any

from tracereel.integrations import _packages


def google_api_client() -> Any:
    """Return the class that sends the requests of every google-genai client."""
    with _packages.needed("google"):
        from google.genai._api_client import BaseApiClient

    return BaseApiClient
