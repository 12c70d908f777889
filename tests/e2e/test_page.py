"""The page loads nothing from other sites, and recorded data cannot become code."""

import gzip
import re
from importlib import resources
from pathlib import Path

import pytest

from tests.support.collector import http
from tests.support.vendored import VENDORED

WEB = Path(str(resources.files("tracereel_collector").joinpath("web")))
FILES = sorted(path for path in WEB.rglob("*") if path.is_file() and path not in VENDORED)
LINK = re.compile(r'(?:src|href)="(/web/[^"]+)"')
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
NAMES = [str(path.relative_to(WEB)) for path in SCRIPTS]


def linked(collector, page):
    """Return the addresses of the files that a page loads."""
    return LINK.findall(http("GET", collector.url + page).body.decode())


def lower(headers):
    return {name.lower(): value for name, value in headers.items()}


def test_everything_is_served_with_a_policy_that_lets_no_foreign_code_in(collector):
    for path in ["/", "/docs", *linked(collector, "/"), *linked(collector, "/docs")]:
        answer = http("GET", collector.url + path)

        assert answer.status == 200, path
        headers = lower(answer.headers)
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        again = http("GET", collector.url + path, headers={"If-None-Match": headers["etag"]})
        assert again.status == 304


def test_a_few_files_load_the_page_and_a_browser_keeps_them(collector):
    files = linked(collector, "/")

    assert [path.rpartition("/")[2] for path in files] == ["icon.svg", "page.css", "app.js"]
    for path in files:
        assert re.fullmatch(r"/web/[0-9a-f]{20}/[a-z./]+", path)
        kept = lower(http("GET", collector.url + path).headers)["cache-control"]
        assert kept == "public, max-age=31536000, immutable"
    assert lower(http("GET", collector.url).headers)["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [("gzip", True), ("br, gzip;q=0.5", True), ("br", False), ("gzip;q=0", False), ("", False)],
)
def test_files_are_compressed_for_those_that_accept_it(collector, accepted, compressed):
    path = linked(collector, "/")[-1]
    plain = http("GET", collector.url + path, headers={"Accept-Encoding": ""}).body
    answer = http("GET", collector.url + path, headers={"Accept-Encoding": accepted})

    assert (lower(answer.headers).get("content-encoding") == "gzip") is compressed
    assert (gzip.decompress(answer.body) if compressed else answer.body) == plain
    assert len(answer.body) < len(plain) / 3 or not compressed


@pytest.mark.parametrize(
    "path",
    [
        *("/web/../app.py", "/web/%2e%2e/app.py", "/web/nothing.js", "/web/"),
        *("/web/index.html", "/web/app.js", "/web/00000000000000000000/app.js"),
    ],
)
def test_only_files_of_the_page_are_served(collector, path):
    assert http("GET", collector.url + path).status == 404


@pytest.mark.parametrize("script", SCRIPTS, ids=NAMES)
def test_scripts_write_text_and_never_markup(script):
    text = script.read_text()

    markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|Function\("
    assert not re.search(markup, text)
    assert not re.search(r"https?://|setAttribute\(\"(style|on)", text)


@pytest.mark.parametrize("page", ["index.html", "docs.html"])
def test_pages_hold_no_code_or_style_of_their_own(page):
    text = (WEB / page).read_text()

    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=\"/web/)", text)
    assert not re.search(r"https?://", text)


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_no_file_of_the_page_is_long(path):
    assert len(path.read_text().splitlines()) <= 500


@pytest.mark.parametrize(
    "path", ["/openapi.json", "/healthz", "/readyz", "/metrics", "/v1/replay/nobody", "/nowhere"]
)
def test_no_answer_may_be_taken_for_another_type(collector, path):
    headers = {k.lower(): v for k, v in http("GET", collector.url + path).headers.items()}

    assert headers["x-content-type-options"] == "nosniff"
    posted = http("POST", f"{collector.url}/v1/events", b"[]")
    assert {k.lower(): v for k, v in posted.headers.items()}["x-content-type-options"] == "nosniff"


def test_every_address_in_the_description_of_the_api_is_the_collectors_own(collector):
    assert http("GET", f"{collector.url}/redoc").status == 404
    page = http("GET", f"{collector.url}/docs").body.decode()
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page)

    assert any(each.endswith("/docs.js") for each in addresses)
    assert [each for each in addresses if not each.startswith(("/", "data:"))] == []
    assert all(
        http("GET", collector.url + each).status == 200 for each in addresses if each[0] == "/"
    )


def luminance(colour):
    """Return the relative luminance of a colour as defined by WCAG."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["paper", "raised", "accent-soft"])
@pytest.mark.parametrize("ink", ["ink", "quiet", "pale", "accent", "good", "bad", "warn", "live"])
def test_text_has_contrast_enough_to_be_read(theme, ground, ink):
    tokens = (WEB / "style" / "base.css").read_text()
    pairs = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", tokens))
    over, under = sorted(luminance(pairs[name].split(", ")[theme]) for name in (ink, ground))

    assert (under + 0.05) / (over + 0.05) >= 4.5
