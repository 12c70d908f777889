"""`/`, `/docs` and `/web/…`: static files of the web page, read from the package."""

import hashlib
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from fastapi import Request
from fastapi.responses import Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.errors import UnknownResourceError
from tracereel_collector.http.scoped_router import ScopedRouter

router = ScopedRouter(KeyScope.PUBLIC)

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def _files(folder: Traversable, prefix: str = "") -> dict[str, tuple[bytes, dict[str, str]]]:
    """Read all files with a known type below a folder; return their content and headers."""
    found: dict[str, tuple[bytes, dict[str, str]]] = {}
    for each in folder.iterdir():
        if each.is_dir():
            found |= _files(each, f"{prefix}{each.name}/")
        elif media_type := _TYPES.get(each.name.rpartition(".")[2]):
            body = each.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
            found[prefix + each.name] = body, {**_HEADERS, "Content-Type": media_type, "ETag": tag}
    return found


_FILES: Final = _files(resources.files("tracereel_collector").joinpath("web"))


def _serve(request: Request, path: str) -> Response:
    if path not in _FILES:
        raise UnknownResourceError(f"the page has no file {path[:80]!r}")
    body, headers = _FILES[path]
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers)


@router.get("/", include_in_schema=False)
async def index(request: Request) -> Response:
    """Return the page."""
    return _serve(request, "index.html")


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """Return the API documentation page."""
    return _serve(request, "docs.html")


@router.get("/web/{path:path}", include_in_schema=False)
async def web(request: Request, path: str) -> Response:
    """Return a static file of the pages."""
    return _serve(request, path)
