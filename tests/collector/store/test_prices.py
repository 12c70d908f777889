"""Cost of model calls: as sent, else from the price list, else unknown; never counted twice."""

import json
import types

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.collector.store.dialects.handwritten import request
from tests.support.settling import settle_all
from tracereel_collector.errors import StartupError
from tracereel_collector.model import Kind
from tracereel_collector.query.costs import UnpricedModels
from tracereel_collector.store.price_names import find_prices
from tracereel_collector.store.price_package import PACKAGE, package_version
from tracereel_collector.store.prices import COLUMNS, known_prices, load_prices, parse

HEAD = ",".join(COLUMNS)
SOURCE = f"{PACKAGE} {package_version()}"
OWN = f"""# ours
{HEAD}
openai -,house-model,2020-01-01,10,20,1,12,us
openai -,house-model,2026-01-23,100,200,,,us
openai,tuned-*,2020-01-01,1,2,,,us
"""
CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "house-model",
    "gen_ai.usage.input_tokens": 1000,
    "gen_ai.usage.output_tokens": 100,
}


@pytest.fixture
def priced(store):
    """Return a store with test prices only."""
    load_prices(store, parse(OWN, name="own"))
    return store


def insert(store, queued, token, *spans, parents=types.MappingProxyType({})):
    spans = list(spans)
    decoded = ExportTraceServiceRequest.FromString(request("prices", spans))
    made = decoded.resource_spans[0].scope_spans[0].spans
    for child, parent in parents.items():
        made[child].parent_span_id = made[parent].span_id
    body = decoded.SerializeToString()
    store.insert(Kind.SPANS, [queued(body, records=len(spans), kind=Kind.SPANS)], token=token)


def calls(store):
    find_prices(store)
    answer = store.select(
        "SELECT * FROM model_calls ORDER BY Timestamp"
        " SETTINGS output_format_json_quote_64bit_integers = 0",
        {},
        fmt="JSONEachRow",
    )
    return [json.loads(line) for line in answer.splitlines()]


def test_a_call_costs_what_its_tokens_cost_on_its_day(priced, queued, token):
    insert(priced, queued, token, CALL)

    (call,) = calls(priced)
    # The call is of 23 January 2026, the first day of the second price.
    assert call["CostUsd"] == pytest.approx((1000 * 100 + 100 * 200) / 1e6)
    assert (call["CostSource"], call["PricedAs"]) == ("prices", "house-model")


def test_cached_tokens_have_prices_of_their_own(store, queued, token):
    prices = f"{HEAD}\nopenai,house-model,2020-01-01,10,20,1,12,us\n"
    load_prices(store, parse(prices, name="own"))
    cached = {
        "gen_ai.usage.cache_read.input_tokens": 600,
        "gen_ai.usage.cache_write.input_tokens": 300,
    }

    insert(store, queued, token, {**CALL, **cached})

    (call,) = calls(store)
    assert call["CostUsd"] == pytest.approx((100 * 10 + 600 * 1 + 300 * 12 + 100 * 20) / 1e6)


def test_the_model_that_answered_is_found_by_its_name_or_not_at_all(priced, queued, token):
    said = [
        ({"gen_ai.response.model": "house-model-2026-01-01"}, "house-model"),
        ({"gen_ai.response.model": "models/house-model"}, "house-model"),
        ({"gen_ai.response.model": "us.anthropic.house-model-20260101-v1:0"}, "house-model"),
        ({"gen_ai.response.model": "house-model-latest"}, "house-model"),
        ({"gen_ai.response.model": "tuned-for-us"}, "tuned-*"),
        ({"gen_ai.provider.name": ""}, "house-model"),
        ({"gen_ai.response.model": "house-model-audio"}, ""),
        # A proxy is not who sells the model: its name alone counts.
        ({"gen_ai.provider.name": "groq"}, "house-model"),
        ({"gen_ai.provider.name": "", "gen_ai.response.model": "tuned-for-us"}, ""),
    ]

    insert(priced, queued, token, *({**CALL, **each} for each, _ in said))

    found = calls(priced)
    assert [call["PricedAs"] for call in found] == [priced_as for _, priced_as in said]
    assert [call["CostUsd"] is None for call in found] == [not priced_as for _, priced_as in said]


def test_an_unknown_model_has_no_cost_and_is_counted(priced, queued, token):
    unknown = {**CALL, "gen_ai.request.model": "mystery-1"}
    told = {**unknown, "gen_ai.usage.cost.amount": 0.5}
    insert(priced, queued, token, unknown, unknown, told, CALL)

    costs = [(call["CostUsd"], call["CostSource"]) for call in calls(priced)]
    assert costs[:3] == [(None, "unknown_model"), (None, "unknown_model"), (0.5, "sent")]
    reader = UnpricedModels(priced)
    reader._read()
    assert reader.calls() == 2


def test_a_model_may_be_called_what_its_sender_likes(priced, queued, token):
    """Characters that end a line in Python but not in the engine."""
    odd = "a\x0bb\x1cd\x1de\x1ef\x85g\u2028h\u2029i"
    insert(priced, queued, token, {**CALL, "gen_ai.request.model": odd})

    reader = UnpricedModels(priced)
    reader._read()

    assert reader.calls() == 1


def test_a_call_without_usage_has_no_cost(priced, queued, token):
    insert(priced, queued, token, {**CALL, "gen_ai.usage.output_tokens": "unknown"})

    (call,) = calls(priced)
    assert (call["CostUsd"], call["CostSource"]) == (None, "no_usage")


def test_agents_and_calls_that_wrap_calls_are_not_summed_up_again(priced, queued, token):
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 100,
        "gen_ai.usage.cost.amount": 0.12,
    }
    # The agent, a traced function around a client, and the client's own instrumentation.
    insert(priced, queued, token, agent, CALL, CALL, parents={1: 0, 2: 1})
    settle_all(priced)

    (call,) = calls(priced)
    assert call["SpanName"] == "span 3"
    assert call["CostUsd"] == pytest.approx(0.12)
    sums = priced.rows("SELECT sum(TotalTokens), sum(InclusiveCostUsd) FROM otel_traces")
    assert sums == [("2200", "0.12")]


def test_response_recorded_by_two_instrumentations_is_one_call(priced, queued, token):
    insert(priced, queued, token, *[{**CALL, "gen_ai.response.id": "msg_1"}] * 2)
    settle_all(priced)

    assert len(calls(priced)) == 1


def test_new_prices_hold_for_the_past_and_the_same_are_not_loaded_again(priced, queued, token):
    insert(priced, queued, token, {**CALL, "gen_ai.request.model": "mystery-1"})
    later = parse(f"{HEAD}\nopenai,mystery-1,2020-01-01,1,1,,,us\n", name="own")

    assert calls(priced)[0]["CostUsd"] is None
    assert [load_prices(priced, later), load_prices(priced, later)] == [True, False]
    assert calls(priced)[0]["CostUsd"] == pytest.approx(1100 / 1e6)


def test_the_package_s_prices_are_loaded_with_their_version(store):
    prices = known_prices(None)

    load_prices(store, prices)

    found = store.rows("SELECT count(), uniqExact(Provider, Model) > 1000 FROM current_prices")
    assert found == [(str(len(prices.table().prices)), "1")]
    package = f"SELECT count() > 2000 FROM current_prices WHERE PriceSource = '{SOURCE}'"
    assert store.rows(package) == [("1",)]


def test_custom_price_file_overrides_its_models(tmp_path, store, queued, token):
    file = tmp_path / "prices.csv"
    file.write_text(f"{HEAD}\nopenai,gpt-4o,2020-01-01,7,8,,,contract\n")
    load_prices(store, known_prices(file))

    call = {**CALL, "gen_ai.request.model": "gpt-4o"}
    insert(store, queued, token, call, {**call, "gen_ai.provider.name": "azure"})

    assert [each["CostUsd"] for each in calls(store)] == [0.0078, 0.0035]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("model,price\n", "expected the columns providers,"),
        (f"{HEAD}\nopenai,gpt,2020-13-01,1,1,,,x\n", "row 1"),
        (f"{HEAD}\nopenai,gpt,2020-01-01,-1,1,,,x\n", "'-1' is no price"),
        (f"{HEAD}\nopenai,gpt,2020-01-01,nan,1,,,x\n", "no price"),
        (f"{HEAD}\nopenai,it's,2020-01-01,1,1,,,x\n", "expected a name"),
        (f"{HEAD}\nopenai\n", "row 1"),
    ],
)
def test_invalid_price_file_error_has_the_reason(tmp_path, text, reason):
    file = tmp_path / "prices.csv"
    file.write_text(text)

    with pytest.raises(StartupError, match=reason):
        known_prices(file)
