"""Settings from arguments, environment and defaults; invalid ones are named."""

from dataclasses import fields
from pathlib import Path

import pytest

from tests.sdk.conftest import Child
from tests.sdk.core.test_recorder import finish
from tests.support.ingest_sink import IngestSink
from tracereel import config
from tracereel.errors import ConfigurationError


def test_defaults_without_any_environment() -> None:
    loaded = config.load({})
    assert loaded.endpoint == "http://127.0.0.1:4318"
    assert (loaded.api_key, loaded.service, loaded.enabled) == (None, None, True)
    assert loaded.max_spool_bytes == 256 * 1024 * 1024


def test_arguments_win_over_the_environment() -> None:
    env = {"TRACEREEL_ENDPOINT": "http://a:1", "TRACEREEL_EXIT_TIMEOUT": "0"}
    assert config.load(env).endpoint == "http://a:1"
    assert config.load(env).exit_timeout == 0.0
    assert config.load(env, endpoint="https://b/x/").endpoint == "https://b/x"


@pytest.mark.parametrize(
    ("env", "service"),
    [
        ({"OTEL_SERVICE_NAME": "a", "OTEL_RESOURCE_ATTRIBUTES": "service.name=b"}, "a"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "x=1, service.name=b%20c"}, "b c"),
        ({"TRACEREEL_SERVICE": "t", "OTEL_SERVICE_NAME": "a"}, "t"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "x"}, None),
    ],
)
def test_the_service_name_is_found_where_opentelemetry_has_it(
    env: dict[str, str], service: str | None
) -> None:
    assert config.load(env).service == service


def test_otel_sdk_disabled_turns_recording_off_by_default() -> None:
    env = {"OTEL_SDK_DISABLED": "true"}
    assert not config.load(env).enabled
    assert config.load(env, enabled=True).enabled
    assert config.load({**env, "TRACEREEL_ENABLED": "1"}).enabled


def test_every_bad_value_is_named_with_what_is_accepted() -> None:
    env = {"TRACEREEL_ENDPOINT": "localhost:4318", "TRACEREEL_ENABLED": "perhaps"}
    with pytest.raises(ConfigurationError) as caught:
        config.load(env, exit_timeout=-1)
    message = str(caught.value)
    assert "TRACEREEL_ENDPOINT is 'localhost:4318'; expected a URL such as" in message
    assert "TRACEREEL_ENABLED is 'perhaps'; expected one of 1, true" in message
    assert "exit_timeout is -1; expected seconds" in message


@pytest.mark.parametrize(
    "bad",
    [
        {"endpoint": "http://host:port"},
        {"endpoint": "ftp://host"},
        {"max_spool_bytes": "many"},
        {"spool_dir": "relative/path"},
        {"compression": "zip"},
        {"result_fields": "score"},
        {"result_fields": "temperature=heat"},
        {"result_fields": {"confidence": 1}},
        {"unheard_of": 1},
    ],
)
def test_bad_values_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        config.load({}, **bad)


def test_result_fields_are_given_as_text_or_mapping() -> None:
    wanted = (("confidence", ("score", "certainty")), ("decision_type", ("decision_type",)))
    wanted += (("reasoning", ()), ("outcome", ("outcome",)))
    text = "confidence = score|certainty, reasoning="
    assert config.load({"TRACEREEL_RESULT_FIELDS": text}).result_fields == wanted
    given = {"confidence": ("score", "certainty"), "reasoning": []}
    assert config.load({}, result_fields=given).result_fields == wanted


def test_a_secret_is_not_shown() -> None:
    with pytest.raises(ConfigurationError) as caught:
        config.load({}, api_key="geheim\nx")
    assert "geheim" not in str(caught.value)
    assert "sesame" not in repr(config.load({}, api_key="sesame"))


def test_destinations_differ_by_endpoint_and_key() -> None:
    ids = {
        config.load({}, endpoint=endpoint, api_key=key).destination_id
        for endpoint in ("http://a", "http://b")
        for key in (None, "k", "l")
    }
    assert len(ids) == 6


def test_the_spool_is_in_the_state_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert config.load({}).spool_dir == tmp_path / "tracereel" / "spool"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert config.load({}).spool_dir == tmp_path / ".local" / "state" / "tracereel" / "spool"


def test_every_setting_has_its_row() -> None:
    table = config.settings()
    assert set(table) == {field.name for field in fields(config.Config)}
    assert all(row.env.startswith("TRACEREEL_") and row.doc.endswith(".") for row in table.values())


def test_every_setting_is_documented_with_its_variable_and_default() -> None:
    text = (Path(config.__file__).parents[2] / "docs" / "sdk.md").read_text(encoding="utf-8")
    defaults = config.Config()
    for name, row in config.settings().items():
        (line,) = [each for each in text.splitlines() if each.startswith(f"| `{name}` |")]
        shown = line.split("|")[3].strip()
        assert f"`{row.env}`" in line
        value = getattr(defaults, name)
        if value is None:
            assert shown == "none"
        elif isinstance(value, bool):
            assert shown == f"`{str(value).lower()}`"
        elif isinstance(value, (int, float, str)):
            assert shown == f"`{value}`"


NO_HOME = """
import os, pwd

def unknown_user(_uid):
    raise KeyError("uid not found")

pwd.getpwuid = unknown_user
os.environ.pop("HOME", None)
import tracereel

tracereel.configure()
tracereel.traced_agent("a")(lambda: 1)()
print(tracereel.flush(20))
"""


def test_without_a_home_directory_events_wait_in_memory_with_one_warning(
    sink: IngestSink, child: Child
) -> None:
    log = "import logging; logging.basicConfig(format='%(message)s')"
    code, out, err = finish(
        child(log + NO_HOME, TRACEREEL_ENDPOINT=sink.url, TRACEREEL_SPOOL_DIR="", XDG_STATE_HOME="")
    )
    assert (code, out) == (0, "FlushResult(delivered=2, spooled=0, dropped=0, held=0)\n"), err
    assert err.count("events wait in memory") == 1
    assert len(err.splitlines()) == 1
    assert len(sink.events) == 2


def test_a_tilde_without_a_home_directory_is_a_configuration_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(_uid: int) -> None:
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(ConfigurationError, match="TRACEREEL_SPOOL_DIR is '~/spool'; expected an"):
        config.load({"TRACEREEL_SPOOL_DIR": "~/spool"})
