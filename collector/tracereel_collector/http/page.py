"""`/`, `/docs` and `/web/DIGEST/…`: static files of the web page, read from the package.

The address of a file has the digest of its content, so that a browser may keep it forever.
"""

import gzip
import hashlib
import re
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from fastapi import Request
from fastapi.responses import Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.errors import UnknownResourceError
from tracereel_collector.http.page_bundle import join_modules, join_styles
from tracereel_collector.http.scoped_router import ScopedRouter

router = ScopedRouter(KeyScope.PUBLIC)

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none';"
    " form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
}
_ENTRIES: Final = ("content/lexer_worker.js", "app.js")
"""Modules that are joined with those they import; workers before the module that starts them."""
_FOREVER: Final = "public, max-age=31536000, immutable"
_LINKED: Final = re.compile(r'(?<=(?:src|ref)=")/web/([^"]+)(?=")')


def _read(folder: Traversable, prefix: str = "") -> dict[str, str]:
    """Return the text of all files with a known type below a folder."""
    found: dict[str, str] = {}
    for each in folder.iterdir():
        if each.is_dir():
            found |= _read(each, f"{prefix}{each.name}/")
        elif each.name.rpartition(".")[2] in _TYPES:
            found[prefix + each.name] = each.read_text(encoding="utf-8")
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _served() -> dict[str, str]:
    """Return the files by address below `/web/`, and the pages by name."""
    files = _read(resources.files("tracereel_collector").joinpath("web"))

    def address(path: str) -> str:
        return f"{_digest(files[path])}/{path}"

    for entry in _ENTRIES:
        files[entry] = join_modules(files, entry, lambda path: f"/web/{address(path)}")
    files["style/page.css"] = join_styles(files, "style/page.css")
    pages = {path: text for path, text in files.items() if path.endswith(".html")}
    linked = {
        path: _LINKED.sub(lambda found: f"/web/{address(found[1])}", text)
        for path, text in pages.items()
    }
    return linked | {address(path): files[path] for path in files.keys() - pages.keys()}


SERVED: Final = _served()


@cache
def _body(address: str, compressed: bool) -> tuple[bytes, dict[str, str]]:
    """Return content and headers; each file is compressed once."""
    text = SERVED[address]
    headers = {
        **_HEADERS,
        "Content-Type": _TYPES[address.rpartition(".")[2]],
        "Cache-Control": "no-cache" if address.endswith(".html") else _FOREVER,
        "ETag": f'"{_digest(text)}{"-gzip" if compressed else ""}"',
    }
    if not compressed:
        return text.encode(), headers
    return gzip.compress(text.encode(), mtime=0), {**headers, "Content-Encoding": "gzip"}


def _serve(request: Request, address: str) -> Response:
    if address not in SERVED:
        raise UnknownResourceError(f"the page has no file {address[:80]!r}")
    accepted = request.headers.get("accept-encoding", "")
    body, headers = _body(
        address, re.search(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))", accepted) is not None
    )
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
    if path.endswith(".html"):
        raise UnknownResourceError("the pages are `/` and `/docs`")
    return _serve(request, path)
