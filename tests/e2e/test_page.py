"""The page: nothing of it comes from elsewhere, and nothing recorded can become part of it."""

import re
from importlib import resources

import pytest

from tests.support.collector import http

WEB = resources.files("tracereel_collector").joinpath("web")


PAGES = ["/", "/docs", "/web/replay.js", "/web/docs.js", "/web/style.css"]


@pytest.mark.parametrize("path", PAGES)
def test_everything_is_served_with_a_policy_that_lets_no_foreign_code_in(collector, path):
    answer = http("GET", collector.url + path)

    assert answer.status == 200
    headers = {name.lower(): value for name, value in answer.headers.items()}
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("page", "script"), [("index.html", "replay.js"), ("docs.html", "docs.js")]
)
def test_the_script_writes_text_and_the_page_holds_no_code_or_style_of_its_own(page, script):
    script, page = (WEB.joinpath(name).read_text() for name in (script, page))

    assert "textContent" in script
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", script)
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=\"/web/)", page)
    assert not re.search(r"https?://", script + page)


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
