"""The page loads nothing from other sites, and recorded data cannot become code."""

import re
from importlib import resources
from pathlib import Path

import pytest

from tests.support.collector import http

WEB = Path(str(resources.files("tracereel_collector").joinpath("web")))
FILES = sorted(path for path in WEB.rglob("*") if path.is_file())
PAGES = ["/", "/docs", *(f"/web/{path.relative_to(WEB)}" for path in FILES)]
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
NAMES = [str(path.relative_to(WEB)) for path in SCRIPTS]


@pytest.mark.parametrize("path", PAGES)
def test_everything_is_served_with_a_policy_that_lets_no_foreign_code_in(collector, path):
    answer = http("GET", collector.url + path)

    assert answer.status == 200
    headers = {name.lower(): value for name, value in answer.headers.items()}
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    again = http("GET", collector.url + path, headers={"If-None-Match": headers["etag"]})
    assert again.status == 304


@pytest.mark.parametrize(
    "path", ["/web/../app.py", "/web/%2e%2e/app.py", "/web/nothing.js", "/web/"]
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


def test_modules_of_the_first_views_are_asked_for_at_once():
    asked = re.findall(r'rel="modulepreload" href="/web/([^"]+)"', (WEB / "index.html").read_text())

    wanted = [name for name in NAMES if name.startswith(("shell/", "runs/", "run/"))]
    assert sorted(asked) == wanted


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

    assert "/web/docs.js" in addresses
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
