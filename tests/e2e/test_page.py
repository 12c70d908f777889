"""The page: nothing of it comes from elsewhere, and nothing recorded can become part of it."""

import re
from importlib import resources

import pytest

from tests.support.collector import http

WEB = resources.files("tracereel_collector").joinpath("web")


@pytest.mark.parametrize("path", ["/", "/web/replay.js", "/web/style.css"])
def test_everything_is_served_with_a_policy_that_lets_no_foreign_code_in(collector, path):
    answer = http("GET", collector.url + path)

    assert answer.status == 200
    headers = {name.lower(): value for name, value in answer.headers.items()}
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"


def test_the_script_writes_text_and_the_page_holds_no_code_or_style_of_its_own():
    script, page = (WEB.joinpath(name).read_text() for name in ("replay.js", "index.html"))

    assert "textContent" in script
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", script)
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=\"/web/)", page)
    assert not re.search(r"https?://", script + page)
