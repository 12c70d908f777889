"""Empty and error states of the page in a real browser: login, no data, no collector."""

import os
import re
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE_MS, ended, started, tool
from tests.support.clickhouse_server import new_database
from tests.support.collector import CollectorProcess, http
from tests.support.engine_store import store_at
from tests.support.keys import keys_command, make_key, secret_of
from tests.support.waiting import wait_until
from tracereel_collector.store.clickhouse import StoreAddress
from tracereel_collector.store.migrate import migrate

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """Return a collector with keys: one with read, one with write only, one of an empty tenant."""
    folder = tmp_path_factory.mktemp("guarded")
    keys = {
        name: make_key(folder, tenant=tenant, scope=scope)
        for name, tenant, scope in (
            ("reader", "busy", "read,write"),
            ("writer", "busy", "write"),
            ("newcomer", "empty", "read,write"),
        )
    }
    running = CollectorProcess(folder).start()
    running.keys = keys
    sent = running.post_events(
        [started("trc_of_busy")], headers={"x-api-key": keys["reader"]["key"]}
    )
    assert sent.status == 200
    yield running
    if running.process.poll() is None:
        running.stop()


def log_in(page, key):
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Log in").click()


def session(collector, key):
    """Return the cookie of a new session, as a browser sends it."""
    sent = http("POST", f"{collector.url}/v1/login", b"", {"x-api-key": key})
    assert sent.status == 200, sent.body
    return sent.headers["set-cookie"].partition(";")[0]


def own_page(cookie):
    return {"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}


def test_a_person_logs_in_once_and_the_key_is_nowhere_a_script_can_read(visits, guarded):
    visit = visits(guarded)
    page = visit.open("#/runs")
    log_in(page, "trk_wrong")
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    log_in(page, guarded.keys["reader"]["key"])
    expect(page.locator(".runlist tbody tr")).to_have_count(1)

    page.reload()
    expect(page.locator(".runlist tbody tr")).to_have_count(1)
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    key = guarded.keys["reader"]["key"]
    readable = page.evaluate(
        "document.cookie + JSON.stringify(localStorage) + location.href + document.body.innerText"
    )
    assert key not in readable
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in with a key")).to_be_visible()
    assert page.context.cookies() == []


def test_key_without_read_scope_shows_an_alert(visits, guarded):
    page = visits(guarded).open("#/runs")
    log_in(page, guarded.keys["writer"]["key"])

    expect(page.get_by_role("alert")).to_contain_text("read is needed")


def test_page_without_runs_shows_how_to_record(visits, guarded, tmp_path):
    page = visits(guarded).open("#/runs")
    log_in(page, guarded.keys["newcomer"]["key"])

    expect(page.get_by_role("heading", name="No run has been recorded yet")).to_be_visible()
    install, program = page.locator(".state pre code").all_inner_texts()
    assert install == "pip install tracereel"
    assert len(program.splitlines()) == 5
    environ = {**os.environ, "TRACEREEL_API_KEY": guarded.keys["newcomer"]["key"]}
    environ |= {"TRACEREEL_SPOOL_DIR": str(tmp_path), "TRACEREEL_EXIT_TIMEOUT": "60"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.endswith("Hello, world\n"), done.stderr
    expect(page.locator(".runlist tbody tr")).to_contain_text("greeter")
    page.get_by_role("link", name="Sessions").click()
    expect(page.get_by_text("No conversation in this window")).to_be_visible()


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://elsewhere.example"},
        {"Referer": "https://elsewhere.example/page"},
    ],
    ids=str,
)
def test_cookie_is_not_accepted_from_other_sites(guarded, headers):
    cookie = {"Cookie": f"theme=dark; {session(guarded, guarded.keys['reader']['key'])}"}
    path = f"{guarded.url}/v1/traces"

    assert http("GET", path, headers={**cookie, "Sec-Fetch-Site": "same-origin"}).status == 200
    assert http("GET", path, headers={**cookie, **headers}).status in (401, 403)
    event = b'{"event_type": "x.y"}'
    sent = http("POST", f"{guarded.url}/v1/events", event, {**cookie, **headers})
    assert sent.status in (401, 403)


def test_a_session_keeps_the_scopes_of_its_key_and_ends_with_it(guarded):
    made = make_key(guarded.data_dir, tenant="busy", scope="read")
    sent = http("POST", f"{guarded.url}/v1/login", headers={"x-api-key": made["key"]})
    assert sent.status == 200
    assert sent.json() == {"tenant": "busy", "scopes": ["read"]}
    assert re.search("HttpOnly; SameSite=Strict", sent.headers["set-cookie"])
    assert secret_of(made["key"]) not in sent.headers["set-cookie"]
    cookie = own_page(session(guarded, made["key"]))

    assert http("GET", f"{guarded.url}/v1/traces", headers=cookie).status == 200
    assert http("POST", f"{guarded.url}/v1/events", b"[]", cookie).status == 403
    renewed = http("POST", f"{guarded.url}/v1/login", headers=cookie)
    assert renewed.status == 200
    assert "set-cookie" not in renewed.headers, "a session must not prolong itself"
    keys_command(guarded.data_dir, "revoke", made["id"])

    def refused():
        return http("GET", f"{guarded.url}/v1/traces", headers=cookie).status == 401

    wait_until(refused)


def test_logout_ends_the_session_on_every_worker(new_collector, tmp_path):
    key = make_key(tmp_path / "data", tenant="busy", scope="read")["key"]
    workers = new_collector(arguments=("--workers", "2")).start()
    cookie = own_page(session(workers, key))

    def statuses():
        return {http("GET", f"{workers.url}/v1/traces", headers=cookie).status for _ in range(20)}

    assert statuses() == {200}
    assert http("POST", f"{workers.url}/v1/logout", b"", cookie).status == 200
    assert statuses() == {401}
    lines = (workers.data_dir / "audit" / "audit.ndjson").read_text
    wait_until(lambda: "session.ended" in lines())
    assert cookie["Cookie"].partition("=")[2] not in lines()


def test_cookie_is_secure_behind_a_tls_proxy(new_collector, tmp_path):
    key = make_key(tmp_path / "data", tenant="busy", scope="read")["key"]
    proxied = new_collector(environ={"TRACEREEL_PUBLIC_URL": "https://traces.example"}).start()
    assert "page at https://traces.example" in "\n".join(proxied.output)
    origin = {"Origin": "https://traces.example"}

    sent = http("POST", f"{proxied.url}/v1/login", b"", {"x-api-key": key, **origin})

    assert sent.status == 200
    assert sent.headers["set-cookie"].startswith("__Host-tracereel_session=")
    assert sent.headers["set-cookie"].endswith("; Secure")
    cookie = own_page(sent.headers["set-cookie"].partition(";")[0])
    assert http("GET", f"{proxied.url}/v1/traces", headers={**cookie, **origin}).status == 200


def test_a_run_that_is_not_there_and_a_bad_question_are_explained(visit):
    page = visit.open("#/run/nobody")
    expect(page.get_by_role("heading", name="Run not found")).to_be_visible()
    visit.open("#/session/nobody")
    expect(page.get_by_role("heading", name="Session not found")).to_be_visible()
    visit.open("#/runs?from=yesterdayish")
    expect(page.get_by_role("heading", name="Invalid filter")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("is no moment")
    for unknown in ("nowhere", "constructor"):
        visit.open(f"#/{unknown}")
        expect(page.get_by_role("alert")).to_contain_text(f"Unknown view: {unknown}")


@pytest.mark.parametrize(
    ("fragment", "title"),
    [("run", "Runs"), ("agent", "Agents"), ("session/", "Sessions"), ("fleet", "Fleet replays")],
)
def test_an_address_without_an_id_shows_the_list(visit, fragment, title):
    page = visit.open(f"#/{fragment}")

    expect(page).to_have_title(f"{title} · tracereel")
    expect(page.get_by_text("This page has a bug")).to_have_count(0)


def test_query_timeout_shows_advice(visit):
    slow = {
        "error": {"code": "store_unavailable", "message": "Timeout exceeded: 30 s", "hint": None}
    }
    page = visit.page
    page.route("**/v1/sessions?*", lambda route: route.fulfill(status=503, json=slow))
    visit.open("#/sessions")

    expect(page.get_by_role("heading", name="That took too long")).to_be_visible()
    page.unroute("**/v1/sessions?*")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()


@pytest.mark.parametrize(
    ("fragment", "asked", "shown"),
    [
        ("#/sessions", "**/v1/sessions?*", "Sessions"),
        ("#/agents", "**/v1/agents?*", "Agents"),
        ("#/runs?live=off", "**/v1/traces?*", "Runs"),
    ],
)
def test_another_window_of_a_collector_that_is_away_is_shown_when_it_is_back(
    visit, seeded, fragment, asked, shown
):
    page = visit.open(fragment)
    expect(page.get_by_role("heading", name=shown, exact=True)).to_be_attached()
    expect(page.locator("tbody tr").first).to_be_visible()
    for path in (asked, "**/readyz"):
        page.route(path, lambda route: route.abort())
    visit.open(f"{fragment}{'&' if '?' in fragment else '?'}from=24h")

    expect(page.get_by_role("heading", name="The collector is unreachable")).to_be_visible()
    expect(page.locator("#health")).to_have_text("Collector unreachable")
    page.unroute_all()
    expect(page.locator("tbody tr").first).to_be_visible()
    window = page.locator("[aria-label='Window of time']")
    expect(window.locator("[aria-pressed=true], option:checked")).to_have_text(
        re.compile("24 h|day|24 hours")
    )


def test_invalid_window_is_explained_in_every_view(visit, seeded):
    page = visit.open("#/agents")
    expect(page.locator("tbody tr").first).to_be_visible()
    visit.open("#/agents?from=yesterdayish")

    expect(page.get_by_role("alert")).to_contain_text("is no moment")
    page.go_back()
    expect(page.locator("tbody tr").first).to_be_visible()


def test_stale_collector_figures_show_their_age(visit, seeded):
    page = visit.open("#/collector")
    first = page.locator(".notice").first
    expect(page.locator(".flow-box").first).to_be_visible()
    page.route("**/metrics", lambda route: route.abort())

    expect(first).to_contain_text("The collector is unreachable.")
    expect(first).to_contain_text(re.compile(r"figures below are of \d\d:\d\d:\d\d"))
    expect(page.locator(".flow-box").first).to_be_visible()
    page.unroute("**/metrics")
    expect(first).not_to_contain_text("away")


def test_a_step_that_could_not_be_read_is_read_when_the_collector_is_back(
    visit, collector, trace_id
):
    calls = [tool(trace_id, f"call_{n}", 2 - n / 3000, arguments={"nth": n}) for n in range(2100)]
    assert collector.post_events([started(trace_id, 3), *calls, ended(trace_id)]).status == 200
    page = visit.open(f"#/run/{trace_id}")
    expect(page.get_by_role("tab", name="Events 2,102")).to_be_visible()
    expect(page.locator(".panel-body")).to_contain_text("by hand")
    page.route(re.compile("/(readyz|v1/)"), lambda route: route.abort())
    page.locator(".step-row").nth(5).click()

    expect(page.get_by_role("heading", name="The collector is unreachable")).to_be_visible()
    expect(page.locator("#health")).to_have_text("Collector unreachable")
    page.unroute_all()
    expect(page.locator(".panel-body")).to_contain_text("nth: 4")


@pytest.fixture(scope="module")
def with_jaeger(tmp_path_factory):
    """Return a collector with a configured Jaeger URL."""
    environ = {"TRACEREEL_JAEGER_URL": "http://127.0.0.1:9/jaeger/"}
    running = CollectorProcess(tmp_path_factory.mktemp("with_jaeger"), environ).start()
    yield running
    running.stop()


def test_a_search_that_is_stopped_leaves_the_means_to_narrow_it(visit):
    said = "Query memory limit exceeded: would use 97.66 KiB" + " (while reading column)" * 10
    stopped = {"error": {"code": "store_unavailable", "message": said, "hint": None}}
    page = visit.page
    # Simulated, because the store may not stop such a small search.
    page.route("**/v1/traces?*from=30d*", lambda route: route.fulfill(status=503, json=stopped))
    visit.open("#/runs?from=30d")

    expect(page.get_by_role("heading", name="That took too long")).to_be_visible()
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    page.get_by_text("Message of the store").click()
    expect(page.get_by_role("alert")).to_contain_text("memory limit exceeded")
    page.keyboard.press("/")
    expect(page.get_by_role("combobox", name="Search runs")).to_be_focused()
    page.get_by_label("Window of time").select_option("15m")
    page.wait_for_url(re.compile("from=15m"))


def test_a_run_leads_to_the_jaeger_that_the_operator_has_named(visits, with_jaeger):
    with_jaeger.post_events([ended("trc_of_jaeger")])
    page = visits(with_jaeger).open("#/run/trc_of_jaeger")
    expect(page.get_by_role("link", name="Jaeger")).to_be_visible()
    asked = HTTPConnection(urlsplit(with_jaeger.url).netloc, timeout=30)
    with closing(asked):
        asked.request("GET", f"/v1/traces/{'ab' * 16}/jaeger")
        answer = asked.getresponse()

        assert answer.status == 307
        assert answer.headers["location"] == f"http://127.0.0.1:9/jaeger/trace/{'ab' * 16}"


def test_store_that_cannot_be_used_is_reported_with_what_to_do(visits, new_collector, new_server):
    """A server that becomes available after the collector, and was used by a newer version."""
    server = new_server().start()
    dsn = new_database(server.dsn)
    store = store_at(StoreAddress.parse(server.dsn), dsn.rpartition("/")[2])
    store.prepare()
    migrate(store)
    store.command(
        "INSERT INTO schema_migrations (number, name, checksum) SELECT 9999, 'later', 'x'"
    )
    store.close()
    server.kill()
    collector = new_collector(arguments=("--store", dsn)).start()
    page = visits(collector).open("#/collector")
    expect(page.locator("#health")).to_have_text("Store is not responding")

    server.start()
    assert collector.post_events([started("trc_waits")], wait=False).status == 200

    wait_until(
        lambda: (
            "newer" in http("GET", f"{collector.url}/readyz").json()["store"].get("problem", "")
        ),
        timeout=60,
    )
    ready = http("GET", f"{collector.url}/readyz").json()
    assert (ready["status"], ready["store"]["answers"]) == ("ready", True)
    assert ready["store"]["problem"] == (
        "the store has migrations [9999] that this version of tracereel does not know (install the"
        " newer tracereel that wrote it, or restore a backup from before)"
    )
    answer = http("GET", f"{collector.url}/readyz/query")
    assert (answer.status, answer.json()["status"]) == (503, "not_ready")
    expect(page.locator("#health")).to_have_text("Store cannot be used yet")
    expect(page.locator(".notice").first).to_contain_text("install the newer tracereel")


def test_page_reports_a_lost_collector_and_reconnects(visits, guarded):
    """Must run last: it kills the collector and starts another in its place."""
    page = visits(guarded).open("#/runs")
    log_in(page, guarded.keys["reader"]["key"])
    expect(page.locator(".runlist tbody tr")).to_have_count(1)
    watching = page.context.new_page()
    watching.goto(f"{guarded.url}/#/runs")
    expect(watching.locator(".runlist tbody tr")).to_have_count(1)
    guarded.kill()

    expect(page.locator("#health")).to_have_text("Collector unreachable")
    expect(page.locator(".runlist tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Agents", exact=True).click()
    expect(page.get_by_role("heading", name="The collector is unreachable")).to_be_visible()

    guarded.port = int(guarded.url.rsplit(":", 1)[1])
    guarded.start()
    expect(page.locator("#health")).to_have_text("Collector healthy")
    expect(page.get_by_role("heading", name="The collector is unreachable")).to_have_count(0)
    expect(page.get_by_role("heading", name="Agents", exact=True)).to_be_visible()
    key = {"x-api-key": guarded.keys["reader"]["key"]}
    assert guarded.post_events([started("trc_after_it")], headers=key).status == 200
    watching.get_by_role("button", name="1 new run").click()
    expect(watching.locator(".runlist tbody tr")).to_have_count(2)
