"""Checks of `tracereel doctor`: each returns ok, warn or fail, and advice."""

import contextlib
import difflib
import json
import re
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import requires
from pathlib import Path
from typing import Final, Literal

from tracereel import config, semconv
from tracereel._export.sender import IDENTITY
from tracereel._redact.rules import Redaction
from tracereel.cli.connection import start_hint
from tracereel.cli.version import installed_version
from tracereel.client import Answer, Client, ClientError, CollectorUnavailableError
from tracereel.errors import ConfigurationError
from tracereel.metrics_server import DEFAULT_PORT, NEXT_PORTS

Status = Literal["ok", "warn", "fail"]

METRICS_SECONDS: Final = 2.0
CLOCK_WARN_SECONDS: Final = 2.0
CLOCK_FAIL_SECONDS: Final = 60.0
SHOWN_NAMES: Final = 5
"""Attributes that are named when no dialect reads them."""
"""Clock difference in seconds that is reported as a failure."""

_PREFIXES: Final = ("TRACEREEL_", "OTEL_")
_SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|HEADERS|CREDENTIAL")
_USERINFO: Final = re.compile(r"://[^/@\s]*@")
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9._-]++).*extra\s*==\s*['\"]([^'\"]+)['\"]")


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check."""

    area: str
    name: str
    status: Status
    detail: str
    advice: str = ""


def configured(given: Mapping[str, object], environ: Mapping[str, str]) -> Iterator[Check]:
    """Check all settings and report their sources; report unknown and invalid ones."""
    table = config.settings()
    for name, row in table.items():
        source = f"${row.env}" if environ.get(row.env, "").strip() else "default"
        if given.get(name) is not None:
            source = f"--{name.replace('_', '-')}"
        only = {name: given[name]} if given.get(name) is not None else {}
        relevant = {key: value for key, value in environ.items() if key == row.env}
        stand_ins = {key: value for key, value in environ.items() if key.startswith("OTEL_")}
        try:
            loaded = config.load({**stand_ins, **relevant}, **only)
        except ConfigurationError as error:
            yield Check("configured", name, "fail", str(error), f"correct or unset {row.env}")
            continue
        value = getattr(loaded, name)
        if source == "default" and value != getattr(config.load({}), name):
            source = "OpenTelemetry's variables"
        shown = _masked(str(value)) if row.secret and value is not None else value
        if isinstance(value, Redaction):
            shown = "on" if value.built_in else "off"  # as in its environment variable
        yield Check("configured", name, "ok", f"{'not set' if shown is None else shown} ({source})")
    known = {row.env for row in table.values()}
    for variable in sorted(environ):
        if variable.startswith(_PREFIXES) and variable not in known:
            yield _other_variable(variable, environ[variable], known)


def own_spans(settings: config.Config) -> Check:
    """Report in which programs spans that the program starts itself are recorded."""
    how = "a program that calls tracereel.configure() or sets a tracer provider"
    if settings.set_tracer_provider:
        how = "every program"
    elif settings.set_tracer_provider is False:
        how = "a program that sets a tracer provider"
    if not settings.other_spans:
        how = "no program (TRACEREEL_OTHER_SPANS is off)"
    return Check("configured", "own spans", "ok", f"recorded of {how}")


def reachable(
    client: Client, installed: str | None, *, events_wait: bool = False
) -> Iterator[Check]:
    """Check that the collector responds, is ready, accepts the key and agrees on the time.

    A key that may not send is a failure if events wait for it.
    """
    try:
        health = client.get("/healthz")
    except ClientError as error:
        away = isinstance(error, CollectorUnavailableError)
        hint = f"{start_hint(client.endpoint)}, or " if away else ""
        advice = f"{hint}set TRACEREEL_ENDPOINT"
        yield Check("reachable", "collector", "fail", f"unreachable: {error}", advice)
        return
    body = _shown_body(health)
    if health.status != 200:
        advice = "is this the address of a tracereel collector?"
        yield Check("reachable", "collector", "fail", f"unhealthy: {body}", advice)
        return
    yield Check("reachable", "collector", "ok", f"healthy: {client.endpoint}, {body}")
    yield from _version_agrees(health, installed)
    yield from _ready(client)
    yield from _key(client, events_wait=events_wait)
    yield from _unread_attributes(client)
    yield _clock(health)


def _unread_attributes(client: Client) -> Iterator[Check]:
    """Name attributes of agent spans that the collector stores but does not understand."""
    try:
        answer = client.get("/v1/unread-attributes", {"limit": SHOWN_NAMES})
        found = json.loads(answer.body)["attributes"] if answer.status == 200 else []
    except (ClientError, ValueError, KeyError, TypeError):
        return  # an older collector, or a key that may not read
    if found:
        names = ", ".join(f"{each['name']} ({each['scope']}, {each['spans']})" for each in found)
        advice = "if they say something of models, tools or agents, report the client"
        yield Check("reachable", "dialects", "warn", f"not understood: {names}", advice)


def metrics_servers(ports: Sequence[int] = (DEFAULT_PORT, *NEXT_PORTS)) -> Iterator[Check]:
    """Count the programs on this machine that serve the SDK's metrics, and who has the port."""
    found = {port: metrics for port in ports if (metrics := _serves_metrics(port)) is not None}
    ours = [f"127.0.0.1:{port}" for port, metrics in found.items() if metrics]
    where = f"on {', '.join(ours)}" if ours else f"on ports {', '.join(map(str, ports))}"
    yield Check("metrics", "metrics servers", "ok", f"{len(ours)} programs serve metrics {where}")
    if found.get(ports[0]) is False:
        detail = f"port {ports[0]} is another program's (Prometheus itself has 9090)"
        advice = f"start_metrics_server takes the first free port from {ports[1]} to {ports[-1]}"
        yield Check("metrics", "metrics port", "ok", detail, advice)


def _serves_metrics(port: int) -> bool | None:
    """Return whether a local port serves the SDK's metrics; None if nothing listens."""
    try:
        socket.create_connection(("127.0.0.1", port), METRICS_SECONDS).close()
    except OSError:
        return None
    try:
        answer = Client(f"http://127.0.0.1:{port}", "", METRICS_SECONDS).get("/metrics")
    except ClientError:
        return False
    return answer.status == 200 and semconv.SDK_EVENTS.encode() in answer.body


def data_dir(path: Path | None) -> Iterator[Check]:
    """Check that the collector's data directory, if given, is writable and private."""
    if path is not None:
        found = writable("data directory", path, "choose another --data-dir or change its owner")
        yield found
        if found.status == "ok" and path.is_dir():
            yield from _private(path)


def _private(path: Path) -> Iterator[Check]:
    """Warn if group or others may access a directory."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        detail = f"{path}: other users may access it (mode {mode:04o})"
        yield Check("private", "data directory mode", "warn", detail, f"chmod 700 {path}")


def writable(name: str, path: Path, advice: str) -> Check:
    """Check that files can be created in a directory, or the directory itself."""
    try:
        existing = next(place for place in (path, *path.parents) if place.exists())
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        return Check("writable", name, "fail", f"{path}: cannot write ({reason})", advice)
    state = "writable" if existing == path else "will be made when needed"
    return Check("writable", name, "ok", f"{path}: {state}")


def installed_parts() -> Iterator[Check]:
    """Report the installed version and which extras are complete."""
    current = installed_version("tracereel")
    if current is None:
        advice = "pip install tracereel (or pip install -e . in a clone)"
        yield Check("installed", "tracereel", "warn", "runs from source, not installed", advice)
        return
    yield Check("installed", "tracereel", "ok", current)
    for extra, packages in sorted(_extras().items()):
        missing = [package for package in packages if installed_version(package) is None]
        if not missing:
            yield Check("installed", f"extra {extra}", "ok", "complete")
            continue
        detail = f"not installed (missing: {', '.join(missing)})"
        advice = f"only if needed here: pip install 'tracereel[{extra}]'"
        status: Status = "ok" if len(missing) == len(packages) else "warn"
        yield Check("installed", f"extra {extra}", status, detail, advice)


def _extras() -> dict[str, list[str]]:
    extras: dict[str, list[str]] = {}
    for line in requires("tracereel") or ():
        if match := _REQUIREMENT.match(line):
            extras.setdefault(match[2], []).append(match[1])
    return extras


def _other_variable(variable: str, value: str, known: set[str]) -> Check:
    shown = _masked(value) if _SECRET_NAME.search(variable) else _USERINFO.sub("://***@", value)
    meant = difflib.get_close_matches(variable, known, n=1, cutoff=0.85)
    if meant and variable.startswith("TRACEREEL_"):
        return Check("configured", variable, "warn", shown, f"did you mean {meant[0]}?")
    return Check("configured", variable, "ok", f"{shown} (${variable})")


def _masked(secret: str) -> str:
    return f"set, {len(secret)} characters"


def _version_agrees(health: Answer, installed: str | None) -> Iterator[Check]:
    theirs = re.search(rb'"version"\s*:\s*"([0-9A-Za-z.+-]{1,40})"', health.body)
    if theirs is None or installed is None:
        return
    if theirs[1].decode() == installed:
        yield Check("reachable", "version", "ok", f"collector and SDK are both {installed}")
        return
    detail = f"the collector is {theirs[1].decode()}, the SDK {installed}"
    yield Check("reachable", "version", "warn", detail, "upgrade the older one")


def _ready(client: Client) -> Iterator[Check]:
    try:
        ready, queries = client.get("/readyz"), client.get("/readyz/query")
    except ClientError as error:
        yield Check("reachable", "ready", "fail", str(error), "look at the collector's log")
        return
    if ready.status == 200:
        yield Check("reachable", "ready", "ok", f"takes events: {_shown_body(ready)}")
        yield from _trusted_clock(ready)
    else:
        advice = "events wait in the spool until it is; look at the collector's log"
        yield Check("reachable", "ready", "fail", f"/readyz: {_shown_body(ready)}", advice)
    if queries.status == 200:
        yield Check("reachable", "queries", "ok", "the store answers")
    else:
        advice = "events are kept meanwhile; look at the collector's log"
        yield Check("reachable", "queries", "warn", _shown_body(queries), advice)


def _key(client: Client, *, events_wait: bool) -> Iterator[Check]:
    """Check what the key may do: send events, and read them."""
    try:
        # The identity needs the scope write, as sending does.
        sending, reading = client.get(IDENTITY), client.get("/v1/replay/tracereel-doctor")
    except ClientError as error:
        yield Check("reachable", "api key", "fail", str(error), "look at the collector's log")
        return
    if 401 in (sending.status, reading.status):
        refusal = sending if sending.status == 401 else reading
        advice = "pass --api-key or set TRACEREEL_API_KEY to a key the collector knows"
        yield Check("reachable", "api key", "fail", f"refused: {_shown_body(refusal)}", advice)
    elif sending.status == 403:
        advice = "events stay in the spool until the key has the scope write"
        status: Status = "fail" if events_wait else "warn"
        detail = f"may not send events: {_shown_body(sending)}"
        yield Check("reachable", "api key", status, detail, advice)
    elif reading.status == 403:
        advice = "it can still send; replay needs the scope read"
        yield Check("reachable", "api key", "warn", f"may not read: {_shown_body(reading)}", advice)
    else:
        yield Check("reachable", "api key", "ok", "accepted")


def _trusted_clock(ready: Answer) -> Iterator[Check]:
    """Check that the collector trusts its own wall clock."""
    try:
        clock = json.loads(ready.body)["clock"]
        state, jump, hint = clock["state"], float(clock["jump_seconds"]), clock.get("hint", "")
    except (ValueError, KeyError, TypeError):
        return  # older collectors do not report it
    if state != "following":
        detail = f"the collector does not believe its wall clock ({jump:+.0f} s); retention pauses"
        yield Check("clock", "collector's clock", "warn", detail, str(hint))


def _clock(answer: Answer) -> Check:
    theirs: datetime | None = None
    with contextlib.suppress(ValueError, TypeError):
        theirs = parsedate_to_datetime(answer.headers.get("date", ""))
    if theirs is None:
        return Check("clock", "clock", "ok", "not compared: the collector sends no date")
    theirs = theirs.replace(tzinfo=theirs.tzinfo or UTC)
    apart = abs((datetime.now(UTC) - theirs).total_seconds())
    detail = f"{apart:.0f} s apart from the collector"
    advice = "synchronise both clocks (NTP)"
    if apart > CLOCK_FAIL_SECONDS:
        return Check("clock", "clock", "fail", detail, advice)
    if apart > CLOCK_WARN_SECONDS:
        return Check("clock", "clock", "warn", detail, advice)
    return Check("clock", "clock", "ok", "agrees with the collector's")


def _shown_body(answer: Answer) -> str:
    body = answer.body[:500].decode("utf-8", "replace").strip()
    return body if answer.status == 200 and body else f"{answer.status} {body}".strip()
