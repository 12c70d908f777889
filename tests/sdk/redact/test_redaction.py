"""Redaction of secrets and personal data in spool, log and spans; clean text is unchanged."""

import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tracereel
from tests.support.secret_samples import CORPUS, KINDS, leaks, secret_part
from tracereel import semconv
from tracereel._redact import event_redaction, secret_patterns, values
from tracereel._redact import rules as redaction
from tracereel._redact.event_redaction import Privacy
from tracereel.errors import ConfigurationError
from tracereel.events import EVENT_MODELS, parse_event
from tracereel.redaction import Redaction, Rule, redact


def privacy(**options: Any) -> Privacy:
    captures = options.pop("capture_content", True)
    return Privacy(Redaction(**options), capture_content=captures)


def completed(**fields: Any) -> dict[str, Any]:
    return {
        "event_id": "evt_019a8c1f7f7f8a9b3c4d5e6f708192a3",
        "event_type": "agent.execution.completed",
        "timestamp": "2026-11-16T03:43:13.167715Z",
        "trace_id": "e3e70682c2094cac629f6fbed82c07cd",
        "agent_name": "parser",
        "request_id": "req_019a8c1f7f7f8a9b3c4d5e6f708192a3",
        "execution_time_ms": 12,
        "execution_time_seconds": 0.012,
        "output_type": "str",
        "output_summary": "",
        "output_size_bytes": 2,
        **fields,
    }


def test_the_corpus_is_large_enough() -> None:
    assert len(CORPUS) >= 200


@pytest.mark.parametrize("kind", KINDS)
def test_every_sample_is_hidden_in_prose_quotes_and_nested_data(kind: str) -> None:
    """The mark is present, the secret is not, and the surrounding text is kept."""
    clean = privacy()
    for _, sample in [pair for pair in CORPUS if pair[0] == kind]:
        for around in ("before {} after", "{}", "say '{}', please", "x\n{}\ny", "({})"):
            text = around.format(sample)
            event = completed(reasoning=text, extra={"deep": [{"text": text, text: 1}]})
            clean.clean(event)
            encoded = values.encode(event).decode()
            assert leaks(encoded) == [], text
            assert "[redacted:" in event["reasoning"]
            assert event["reasoning"].startswith(around.partition("{}")[0])
            parse_event(event)


@pytest.mark.parametrize(
    "kind", sorted(set(KINDS) - {"card", "iban", "phone", "password", "pem", "email"})
)
def test_a_secret_cut_by_the_end_of_a_summary_is_hidden_too(kind: str) -> None:
    """At most twelve characters of a cut secret may remain."""
    clean = privacy()
    for _, sample in [pair for pair in CORPUS if pair[0] == kind]:
        hidden = secret_part(kind, sample)
        end = sample.index(hidden) + min(14, len(hidden) - 1)
        assert hidden[:12] not in clean.text(f"the key: {sample[:end]}…"), sample


@pytest.mark.parametrize(
    "kind", sorted(set(KINDS) - {"card", "iban", "phone", "password", "pem", "email"})
)
def test_a_secret_cut_inside_a_nested_value_is_hidden_too(kind: str) -> None:
    """The cut falls within the secret, not in the brackets around it."""
    clean = privacy()
    for _, sample in [pair for pair in CORPUS if pair[0] == kind]:
        hidden = secret_part(kind, sample)
        end = sample.index(hidden) + min(14, len(hidden) - 1)
        for levels in range(1, 4):
            value: Any = [sample]
            for _ in range(1, levels):
                value = [value]
            shown = clean.text(values.summary(value, levels + 1 + end + 1))
            assert hidden[:12] not in shown, sample


SENSITIVE = ["password", "db_password", "API-Key", "client_secret", "Authorization", "cookie"]


@pytest.mark.parametrize("name", [*SENSITIVE, "private_key", "refreshToken", "X-Api-Key", "cvv"])
def test_values_under_sensitive_keys_are_hidden_whatever_they_look_like(name: str) -> None:
    event = completed(data={"headers": {name: "correct horse", "n": [{name: ["a", 7]}], "ok": 5}})
    privacy().clean(event)
    assert event["data"] == {
        "headers": {
            name: "[redacted:field]",
            "n": [{name: ["[redacted:field]", 0]}],
            "ok": 5,
        }
    }


@pytest.mark.parametrize(
    "text",
    [
        "evt_019a8c1f7f7f8a9b3c4d5e6f708192a3",
        "trc_main_abc123",
        "e3e70682c2094cac629f6fbed82c07cd",
        "00-e3e70682c2094cac629f6fbed82c07cd-e3e70682c2094cac-01",
        "0195f2d4-7c3e-7a1b-9f00-1234567890ab",
        "2026-01-23T10:00:00.123456+02:00 until 2026-01-24 11:30:00",
        "1763264593167715000",
        "1763264593",
        "3.141592653589793 and 1.7976931348623157e+308",
        "task-force and risk-based-approach-2026, sk-learn-based-classifier",
        "pkg@1.2.3 and @scope/pkg and git@github.com:org/repo.git",
        "a basic understanding of bearer certificates",
        "tokens: 120, max_tokens=4096, token count: 17",
        "the cookie: chocolate chip",
        "192.168.100.200:8080, v1.2.3-rc.4, ISBN 978-3-16-148410-0",
        "https://example.com/a:b@c/d?x=1",
        "order 4111111111111112",  # fails the check digit
        "{'who': 'Dr. Pérez', 'when': '10:00', 'room': 'B-12'}",
        "gpt-4o-2024-08-06 and claude-3-5-sonnet-20241022",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ],
)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    event = completed(reasoning=text, extra={"a": [text]})
    privacy().clean(event)
    assert event == completed(reasoning=text, extra={"a": [text]})


ids = st.one_of(
    st.uuids().map(str),
    st.from_regex(r"(evt|exe|req|trc|dec|emt)_[0-9a-f]{32}", fullmatch=True),
    st.from_regex(r"[0-9a-f]{32}", fullmatch=True),
    st.from_regex(r"[0-9a-f]{16}", fullmatch=True),
    st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
    st.integers(0, 2**31).map(str),
    st.integers(1_500_000_000_000_000_000, 1_999_999_999_999_999_999).map(str),
    st.floats(allow_nan=False).map(str),
)
words = st.lists(st.sampled_from(["the", "agent", "said", "that", "room", "free", "at", "ten"]))


@given(st.lists(ids | words.map(" ".join), max_size=6).map(", ".join))
def test_ids_moments_numbers_and_prose_are_never_changed(text: str) -> None:
    assert privacy().text(text) == redact(text) == text


@given(st.text())
@example("password: ")
@example("-----BEGIN PRIVATE KEY-----")
@example("eyJ" * 40)
@example("a@" * 50)
@example("cookie=" * 20)
@example("'password': '")
def test_precheck_has_no_false_negatives(text: str) -> None:
    """Text that the precheck calls clean is unchanged by the rules; redaction is idempotent."""
    if not secret_patterns.suspicious(text):
        assert redact(text) == text
    once = privacy().text(text)
    assert privacy().text(once) == once or len(once) >= 64


@pytest.mark.parametrize(("kind", "sample"), CORPUS[::3])
def test_precheck_matches_every_sample(kind: str, sample: str) -> None:
    assert secret_patterns.suspicious(sample), kind


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text()
secrets = st.sampled_from([sample for _, sample in CORPUS])
data = st.recursive(
    scalars | secrets | st.binary(max_size=5) | st.builds(object),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5) | st.sampled_from(SENSITIVE), inner, max_size=4)
        | st.tuples(inner)
    ),
    max_leaves=12,
)
actions = st.dictionaries(
    st.sampled_from(["reasoning", "agent_name", "stage", "extra", "output_summary"]),
    st.sampled_from(["drop", "hash", "keep"]),
)


@given(
    data, st.text() | secrets, st.text(min_size=1, max_size=256) | secrets, actions, st.booleans()
)
def test_cleaning_never_raises_keeps_types_and_the_contract(
    extra: object, text: str, name: str, fields: dict[str, Any], captures: bool
) -> None:
    event = completed(
        reasoning=text, output_summary=text[:200], extra=extra, agent_name=name[:256], stage=text
    )
    kinds = {field: type(value) for field, value in event.items()}
    Privacy(Redaction(fields=fields), capture_content=captures).clean(event)
    decoded = json.loads(values.encode(event))
    parse_event(decoded)
    for field, kind in kinds.items():
        if field != "extra" and event[field] is not None:
            assert type(event[field]) is kind
    assert len(event["output_summary"]) <= semconv.SUMMARY_LIMIT
    if "keep" not in fields.values():
        assert leaks(values.encode(event).decode()) == []


class _UnhashableMeta(type):
    __hash__ = None  # type: ignore[assignment]


class _Holder(metaclass=_UnhashableMeta):
    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)


_around = st.sampled_from(
    [
        lambda inside: [inside],
        lambda inside: (1, inside),
        lambda inside: {"a": inside, "b": 2},
        lambda inside: _Holder(a=inside),
        lambda inside: {"\ud800": inside},
    ]
)


@given(secrets, st.lists(_around, max_size=6))
def test_a_secret_is_hidden_at_every_place_of_a_value(secret: str, around: list[Any]) -> None:
    value: Any = {"text": secret, secret: [secret], "password": {"deep": ["hunter2", 1234]}}
    for enclose in around:
        value = enclose(value)
    event = completed(extra=value)
    privacy().clean(event)
    encoded = values.encode(event).decode()
    assert leaks(encoded) == []
    assert "hunter2" not in encoded
    assert "1234" not in encoded.partition('"deep"')[2]


def test_a_text_that_only_begins_like_a_mark_is_hidden() -> None:
    event = completed(extra={"password": "[redacted: hunter2]", "secret": "[redacted:email]"})
    privacy().clean(event)
    assert event["extra"] == {"password": "[redacted:field]", "secret": "[redacted:email]"}


def test_data_beyond_the_limits_is_cut_and_redacted() -> None:
    deep: Any = {"password": "hunter2"}
    for _ in range(100):
        deep = [deep]
    event = completed(extra=[deep, "ana@example.com"])
    event["itself"] = [event["extra"]]
    event["itself"].append(event["itself"])
    privacy().clean(event)
    assert event["extra"][1] == "[redacted:email]"
    assert event["itself"][1] == "<cycle>"
    assert "hunter2" not in values.encode(event).decode()


def test_the_programs_own_data_is_not_changed() -> None:
    mine = {"password": "x1234567", "list": ["ana@example.com"]}
    event = completed(extra=mine)
    privacy().clean(event)
    assert mine == {"password": "x1234567", "list": ["ana@example.com"]}
    assert event["extra"] == {"password": "[redacted:field]", "list": ["[redacted:email]"]}


def test_cycles_and_depth_in_raw_events_end() -> None:
    loop: list[Any] = ["ana@example.com"]
    loop.append(loop)
    event = completed(extra=loop)
    privacy().clean(event)
    assert event["extra"] == ["[redacted:email]", "<cycle>"]


def test_own_rules_and_fields() -> None:
    rules = [Rule("customer", r"\bKD-\d{4}\b"), Rule("pin", re.compile(r"pin (?P<hide>\d+)"))]
    fields = {"stage": "hash", "extra": "drop", "agent_version": "keep", "decision_type": "hash"}
    clean = privacy(rules=rules, fields=fields)
    before = redaction.counts["customer"]
    event = completed(
        reasoning="KD-1234 has pin 99", stage="a@example.com", extra=[1], agent_version="KD-1234"
    )
    clean.clean(event)
    assert event["reasoning"] == "[redacted:customer] has pin [redacted:pin]"
    assert re.fullmatch(r"sha256:[0-9a-f]{16}", event["stage"])
    assert event["stage"] == event_redaction.hashed("a@example.com")
    assert event["extra"] is None
    assert event["agent_version"] == "KD-1234"
    assert redaction.counts["customer"] == before + 1


def test_user_ids_are_hashed_to_distinct_values() -> None:
    one, two = completed(user_id="ana@example.com"), completed(user_id="eva@example.com")
    for event in (one, two):
        privacy().clean(event)
    assert one["user_id"] != two["user_id"]
    assert one["user_id"].startswith("sha256:")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Rule("bad name!", "x"),
        lambda: Rule("open", "("),
        lambda: Rule("empty", "x*"),
        lambda: Redaction(fields={"reasoning": "burn"}),  # type: ignore[dict-item]
        lambda: Redaction(fields={"trace_id": "drop"}),
        lambda: Redaction(fields={"retry_count": "hash"}),
        lambda: tracereel.configure(redaction="perhaps"),  # type: ignore[arg-type]
    ],
)
def test_invalid_redaction_rules_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        wrong()


def test_the_tables_agree_with_the_contract() -> None:
    """Fields required by the models cannot be dropped; content fields stay valid when empty."""
    for model in EVENT_MODELS:
        for name, about in model.model_fields.items():
            if name in event_redaction.CONTENT and event_redaction.CONTENT[name] is None:
                assert not about.is_required(), name
            if name not in redaction.IDENTITY | redaction.REQUIRED and about.is_required():
                assert about.annotation is str or name in ("timestamp", "agent_name"), (model, name)
            if about.default in (True, False, 0) and about.default is not None:
                assert name in redaction.REQUIRED, name


def test_truncated_texts_have_length_and_hash() -> None:
    """Length and hash of the original are added only where text was cut, not for omitted content."""
    long = "é" * 20_000
    event = completed(reasoning=values.text(long), stage=values.text("short"))
    privacy().clean(event)
    assert event["reasoning_truncated"] == values.about_cut(long)
    assert event["reasoning_truncated"]["length"] == 20_000
    assert type(event["reasoning"]) is str
    assert "stage_truncated" not in event
    quiet = completed(reasoning=values.text(long))
    privacy(capture_content=False).clean(quiet)
    assert "reasoning_truncated" not in quiet
