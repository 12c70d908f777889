"""Private names of optional clients that have no public counterpart."""

from typing import Any

from tracereel.integrations import _packages


def google_api_client() -> Any:
    """Return the class that sends the requests of every google-genai client."""
    with _packages.needed("google"):
        from google.genai._api_client import BaseApiClient

    return BaseApiClient


def google_api(client: Any) -> Any:
    """Return the object that sends the requests of one google-genai client, or `None`."""
    return getattr(client, "_api_client", None)


def google_http(api: Any, *, is_async: bool) -> Any:
    """Return the httpx client of a google-genai client, or `None`."""
    return vars(api).get("_async_httpx_client" if is_async else "_httpx_client")


def google_decisions() -> tuple[type, type] | None:
    """Return the sync and async class of google-genai's decisions, or `None` in old versions."""
    try:
        from google.genai._gaos import google_genai

        return google_genai.GeminiNextGenDecisions, google_genai.AsyncGeminiNextGenDecisions
    except (ImportError, AttributeError):
        return None


def stainless_http(client: Any) -> Any:
    """Return the httpx client of an Anthropic or OpenAI client, or `None`."""
    return vars(client).get("_client")


def is_agent_tool(tool: Any) -> bool:
    """Return whether a tool of the Agents SDK runs an agent."""
    return bool(getattr(tool, "_is_agent_tool", False))


def is_registered(processor: Any, provider: Any) -> bool:
    """Return whether a trace provider of the Agents SDK has a processor, if it can be known."""
    several = getattr(provider, "_multi_processor", None)
    known = getattr(several, "_processors", None)
    return known is None or processor in known


def pydantic_ai_outputs() -> tuple[Any, tuple[str, ...]]:
    """Return the module of pydantic-ai that runs output functions, and its functions that do.

    Raises:
        AttributeError: this version runs them elsewhere.
    """
    from pydantic_ai import _output

    known = ("execute_output_function", "execute_traced_output_function", "execute_choice_action")
    found = tuple(name for name in known if callable(getattr(_output, name, None)))
    if not found:
        raise AttributeError(f"pydantic_ai._output has none of {', '.join(known)}")
    return _output, found
