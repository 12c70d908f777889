"""Pages of other sites in a real browser can neither read nor change anything; links still work."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE_MS, started
from tests.support.collector import CollectorProcess

expect.set_options(timeout=PATIENCE_MS)
PAGE = """<!doctype html><title>another site</title>
<a href="{url}/#/run/trc_linked">a run</a>
<script>
const url = "{url}";
const element = (tag, name, path) => new Promise((done) => {{
  const made = document.createElement(tag);
  made.onload = () => done("loaded");
  made.onerror = () => done("failed");
  made.rel = "stylesheet";
  made[name] = url + path;
  document.body.append(made);
}});
const form = (path) => new Promise((done) => {{
  const frame = document.createElement("iframe");
  frame.name = "target";
  document.body.append(frame);
  const made = document.createElement("form");
  made.method = "post"; made.action = url + path; made.target = "target"; made.enctype = "text/plain";
  document.body.append(made);
  frame.onload = () => done("sent");
  made.submit();
}});
const ask = (path, options) => fetch(url + path, options).then((answer) => answer.type, () => "failed");
window.attack = async () => ({{
  image: await element("img", "src", "/v1/traces"),
  script: await element("script", "src", "/v1/traces"),
  style: await element("link", "href", "/v1/traces"),
  opaque: await ask("/v1/traces", {{ mode: "no-cors" }}),
  cors: await ask("/v1/traces", {{ mode: "cors" }}),
  posted: await ask("/v1/events", {{ mode: "no-cors", method: "POST", body: "{{}}" }}),
  form: await form("/v1/events"),
}});
</script>"""


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    """Return a collector without keys, as on a developer's machine."""
    running = CollectorProcess(tmp_path_factory.mktemp("victim")).start()
    assert running.post_events([started("trc_linked")]).status == 200
    yield running
    running.stop()


@pytest.fixture(scope="module")
def elsewhere(victim):
    """Return addresses of a page on another site: another port, and another name."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE.format(url=victim.url).encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    yield {"same-site": f"http://127.0.0.1:{port}/", "cross-site": f"http://localhost:{port}/"}
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
def test_requests_embedded_by_other_sites_are_refused(browser, victim, elsewhere, site):
    def answered():
        routes = ("/v1/traces", "/v1/events")
        refused = sum(
            victim.metric("tracereel_http_requests_total", route=route, code="403")
            for route in routes
        )
        every = sum(victim.metric("tracereel_http_requests_total", route=route) for route in routes)
        return refused, every

    refused_before, every_before = answered()
    context = browser.new_context()
    page = context.new_page()
    page.goto(elsewhere[site])
    found = page.evaluate("attack()")
    context.close()

    assert found["image"] == found["script"] == found["cors"] == "failed"
    refused, every = answered()
    assert every - every_before == len(found), "the browser sent them all"
    assert refused - refused_before == len(found)
    assert victim.metric("tracereel_access_refused_total", reason="origin") == refused


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
def test_a_link_on_another_site_leads_to_a_run(browser, victim, elsewhere, site):
    context = browser.new_context()
    page = context.new_page()
    page.goto(elsewhere[site])
    page.get_by_role("link", name="a run").click()

    expect(page.get_by_text("hand_made").first).to_be_visible()
    assert page.url.startswith(victim.url)
    context.close()
