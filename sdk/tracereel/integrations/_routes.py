"""Route templates of FastAPI and Starlette applications, matched before the request is served."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MAX_DEPTH: Final = 16
"""Mounted applications inside one another that are followed."""


@dataclass(frozen=True, slots=True)
class MatchedRoute:
    """Route of a request; the template never contains values of the request."""

    template: str
    path_params: Mapping[str, Any] = field(default_factory=dict)


def find_route(app: object, scope: Mapping[str, Any], depth: int = 0) -> MatchedRoute | None:
    """Return the route that will serve a request, or `None` if the application shows none."""
    if depth > MAX_DEPTH:
        return None
    for route in _routes(app):
        # A copy: matching is free to write into the scope.
        matched, inner = route.matches(dict(scope))
        if matched.name != "FULL":
            continue
        prefix = str(getattr(route, "path", ""))
        params = inner.get("path_params") or {}
        if getattr(route, "routes", None) is None:
            return MatchedRoute(prefix, params)
        below = find_route(route, {**scope, **inner}, depth + 1)
        if below is not None:
            return MatchedRoute(prefix + below.template, below.path_params)
        return MatchedRoute(f"{prefix}/{{path}}", params)
    return None


def _routes(app: object) -> Iterator[Any]:
    for route in getattr(app, "routes", None) or ():
        # FastAPI keeps an included router as one entry, whose routes have the whole path.
        included = getattr(route, "effective_route_contexts", None)
        if not callable(included):
            yield route
            continue
        for context in included():
            yield getattr(context, "starlette_route", None) or context
