"""Costs agree with the calculation of genai-prices: models, proxies, tiers, dates, cached tokens."""

from datetime import UTC, datetime, timedelta

import pytest
from genai_prices import Usage, calc_price
from genai_prices.data import providers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.collector.store.dialects.handwritten import request
from tests.collector.store.runs_to_find import NOW
from tracereel_collector.model import Kind
from tracereel_collector.query.search import Search, SearchQuery
from tracereel_collector.store.price_names import find_prices
from tracereel_collector.store.price_package import package_prices
from tracereel_collector.store.price_rows import THRESHOLDS
from tracereel_collector.store.prices import known_prices, load_prices

FIRST = datetime(2024, 1, 1, tzinfo=UTC)
BY_REQUEST = "requests_kcount"
"""Price that a call has beside its tokens; not covered."""
OWN_MODELS = [(each.id, model) for each in providers for model in each.models]
CALLS = 60


@pytest.fixture(scope="module")
def priced(migrated):
    load_prices(migrated, known_prices(None))
    return migrated


def names_of(clause):
    """Return the names that a clause lists."""
    if hasattr(clause, "or_"):
        return [name for each in clause.or_ for name in names_of(each)]
    return [clause.equals] if hasattr(clause, "equals") else []


@st.composite
def model_calls(draw):
    """Return a provider, a name of one of its models, token counts and a time."""
    provider, model = draw(st.sampled_from(OWN_MODELS))
    name = draw(st.sampled_from([model.id, *names_of(model.match)]))
    sent = draw(st.sampled_from([provider, provider, provider, "our-proxy"]))
    edge = draw(st.sampled_from(THRESHOLDS))
    prompt = draw(st.integers(0, 2_000_000) | st.integers(edge - 2, edge + 2))
    read = draw(st.integers(0, prompt))
    write = draw(st.integers(0, prompt - read))
    at = FIRST + timedelta(seconds=draw(st.integers(0, 3 * 366 * 86_400)))
    return sent, name, (prompt, draw(st.integers(0, 100_000)), read, write), at


def expected(sent, name, usage, at):
    """Return the package's cost of a call; None if it knows none, or charges more than tokens."""
    prompt, completion, read, write = usage
    counted = Usage(
        input_tokens=prompt,
        output_tokens=completion,
        cache_read_tokens=read,
        cache_write_tokens=write,
    )
    provider = None if sent == "our-proxy" else sent
    try:
        found = calc_price(counted, name, provider_id=provider, genai_request_timestamp=at)
    except LookupError:
        return None
    price = found.model_price
    is_of_text = price.input_mtok is not None or price.output_mtok is not None
    if not is_of_text or getattr(price, BY_REQUEST) is not None:
        return None
    return float(found.total_price)


def stored(queued, made):
    """Return a body with a span for each call, and the trace id of each."""
    spans = [
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": sent,
            "gen_ai.request.model": name,
            "gen_ai.usage.input_tokens": usage[0],
            "gen_ai.usage.output_tokens": usage[1],
            "gen_ai.usage.cache_read.input_tokens": usage[2],
            "gen_ai.usage.cache_write.input_tokens": usage[3],
            # Means that cached tokens are part of the prompt.
            "gen_ai.usage.total_tokens": usage[0] + usage[1],
        }
        for sent, name, usage, _ in made
    ]
    decoded = ExportTraceServiceRequest.FromString(request("prices", spans))
    sent_spans = decoded.resource_spans[0].scope_spans[0].spans
    for number, (span, (*_, at)) in enumerate(zip(sent_spans, made, strict=True), start=1):
        span.trace_id = number.to_bytes(16)
        span.parent_span_id = b""
        span.start_time_unix_nano = int(at.timestamp()) * 10**9
        span.end_time_unix_nano = span.start_time_unix_nano + 10**6
    return queued(decoded.SerializeToString(), records=len(spans), kind=Kind.SPANS)


@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(made=st.lists(model_calls(), min_size=CALLS, max_size=CALLS))
def test_costs_agree_with_the_package(priced, queued, made):
    for table in ("otel_spans", "trace_summaries", "model_usage"):
        priced.command(f"TRUNCATE TABLE {table}")
    body = stored(queued, made)
    priced.insert(Kind.SPANS, [body], token=f"{id(body)}-{datetime.now(UTC).timestamp()}")

    find_prices(priced)
    found = dict(priced.rows("SELECT TraceId, CostUsd FROM model_calls"))
    assert len(found) == len(made)
    for number, call in enumerate(made, start=1):
        cost = expected(*call)
        if cost is not None:
            assert float(found[f"{number:032x}"]) == pytest.approx(cost, rel=1e-6), call


def test_every_tier_of_the_package_has_a_threshold():
    above = {case.above for price in package_prices().prices for case in price.cases}

    assert above - {-1} <= set(THRESHOLDS)


def test_every_rule_of_the_package_is_understood(capsys):
    assert package_prices().rules
    assert "price_rule_left_out" not in capsys.readouterr().out


def test_lists_have_the_cost_of_tiers_and_times_of_day(priced, queued, token):
    noon, night = datetime(2026, 1, 10, 12, tzinfo=UTC), datetime(2026, 1, 10, 2, tzinfo=UTC)
    made = [
        ("anthropic", "claude-sonnet-4-5", (200_000, 100, 0, 0), noon),
        ("anthropic", "claude-sonnet-4-5", (200_001, 100, 1000, 1000), noon),
        ("google", "gemini-2.5-pro", (200_001, 100, 0, 0), noon),
        ("deepseek", "deepseek-chat", (1000, 100, 0, 0), noon),
        ("deepseek", "deepseek-chat", (1000, 100, 0, 0), night + timedelta(hours=16)),
        ("our-proxy", "gpt-5", (1000, 100, 0, 0), noon),
    ]
    for table in ("otel_spans", "trace_summaries", "model_usage"):
        priced.command(f"TRUNCATE TABLE {table}")
    priced.insert(Kind.SPANS, [stored(queued, made)], token=token)

    listed = Search(priced, lambda: NOW).answer("default", SearchQuery())["traces"]

    found = {int(each["trace_id"], 16): each["cost_usd"] for each in listed}
    for number, call in enumerate(made, start=1):
        assert found[number] == pytest.approx(expected(*call), rel=1e-6), call
