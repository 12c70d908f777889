"""`/` and `/docs`: the pages, served from the package itself."""

from importlib import resources

from fastapi.responses import Response

from tracereel_collector.api.surface import Surface
from tracereel_collector.auth import Scope

router = Surface(scope=Scope.PUBLIC)

_WEB = resources.files("tracereel_collector").joinpath("web")
_FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "docs": ("docs.html", "text/html; charset=utf-8"),
    "docs.js": ("docs.js", "text/javascript; charset=utf-8"),
    "replay.js": ("replay.js", "text/javascript; charset=utf-8"),
    "style.css": ("style.css", "text/css; charset=utf-8"),
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def _serve(name: str) -> Response:
    file, media_type = _FILES[name]
    return Response(_WEB.joinpath(file).read_bytes(), media_type=media_type, headers=_HEADERS)


@router.get("/", include_in_schema=False)
async def index() -> Response:
    """The page itself."""
    return _serve("")


@router.get("/docs", include_in_schema=False)
async def docs() -> Response:
    """The API, listed from its OpenAPI document."""
    return _serve("docs")


@router.get("/web/docs.js", include_in_schema=False)
async def docs_script() -> Response:
    """What lists it."""
    return _serve("docs.js")


@router.get("/web/replay.js", include_in_schema=False)
async def script() -> Response:
    """What makes it move."""
    return _serve("replay.js")


@router.get("/web/style.css", include_in_schema=False)
async def style() -> Response:
    """What makes it readable."""
    return _serve("style.css")
