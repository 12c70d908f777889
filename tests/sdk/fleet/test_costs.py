"""Cost of changed prompts: tokens against the recorded ones, prices, and what the cache still serves."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import genai_prices
import msgspec
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from tests.sdk.fleet.test_run import PROMPT
from tests.support import replay_clients
from tests.support.desk import Desk
from tests.support.replay_trial import recording
from tracereel import replay, traced_agent
from tracereel.fleet import tokenizers
from tracereel.fleet.estimate import estimate
from tracereel.fleet.prices import EstimatePrices, PricedTokens, PricesError, read_prices
from tracereel.fleet.prompts import PromptChange, merged, prompt_changes
from tracereel.tape.format import parse

PRICES = """\
# prices of the shop
providers,model,valid_from,input,output,cache_read,cache_write,source
openai -,model-a,2020-01-01,100,1000,10,,old
openai -,model-a,2024-01-01,2,8,1,,contract
openai,ft:small:*,2024-01-01,1,1,,,contract
"""
MODEL = '@traced_llm("model-a")\ndef ask(prompt):\n'
USAGE = (
    "    from tracereel import current_execution\n"
    "    current_execution().set(llm_prompt_tokens=1000, llm_completion_tokens=50,"
    " llm_cached_tokens=500)\n"
)


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.csv"
    path.write_text(PRICES)
    return path


def test_a_report_estimates_the_cost_of_changed_prompts(
    desk: Desk, runs: Path, prices: Path, tmp_path: Path
) -> None:
    desk.change(MODEL, MODEL + USAGE)
    desk.record(runs, range(12))
    desk.change(*PROMPT)
    page, junit = tmp_path / "report.html", tmp_path / "report.xml"

    report = desk.replayed(runs, "--prices", prices, "--html", page, "--junit", junit)

    # Runs 1 and 11 ask "What about a broken lamp? Be brief.": 37 instead of 27 characters of JSON.
    expected = {
        "calls": 2,
        "uncounted": 0,
        "tokenized": 0,
        "tokens": 2000,
        "new_tokens": 2 * 1370,
        "cache_reads": 2,
        "cache_broken": 0,
        "recorded_usd": 2 * (500 * 2 + 500 * 1 + 50 * 8) / 1e6,
        "new_usd": round(2 * (870 * 2 + 500 * 1 + 50 * 8) / 1e6, 6),
        "asking_usd": round(2 * (1370 * 2 + 50 * 8) / 1e6, 6),
        "unpriced": [],
    }
    assert report["counts"]["prompt_changed"] == 2
    assert report["cost"] == expected
    assert report["groups"][0]["cost"] == expected
    line = "2 model calls, 2000 → 2740 tokens (+37.0%) by ratio; $0.0038 → $0.0053"
    shown = desk.fleet("report", f"{runs}.verdicts.ndjson", "--prices", prices).stdout
    assert f"Changed prompts: {line}" in shown
    assert f"  prompts: {line}; asking for real $0.0063; cache prefix broken in 0 of 2" in shown
    for file in (page, junit):
        assert line in file.read_text()
    unpriced = desk.fleet("report", f"{runs}.verdicts.ndjson").stdout
    assert "no price for model-a" in unpriced


def test_a_change_at_the_beginning_breaks_the_cache(desk: Desk, runs: Path) -> None:
    desk.change(MODEL, MODEL + USAGE)
    desk.record(runs, [1, 2])
    desk.change('f"What about {text}?"', 'f"Now: what about {text}?"')

    report = desk.replayed(runs)

    assert (report["cost"]["cache_reads"], report["cost"]["cache_broken"]) == (2, 2)


def test_calls_without_recorded_tokens_are_named_and_not_summed(desk: Desk, runs: Path) -> None:
    desk.record(runs, [1, 2])
    desk.change('f"What about {text}?"', 'f"Now: what about {text}?"')

    report = desk.replayed(runs)
    shown = desk.fleet("report", f"{runs}.verdicts.ndjson").stdout

    assert (report["cost"]["calls"], report["cost"]["uncounted"]) == (2, 2)
    assert report["cost"]["new_tokens"] == 0
    assert "2 model calls, of which no tokens were recorded" in shown


QUESTION = {"is": "why"}
LONGER = "why, and please answer at length " * 20


def asked_of_anthropic() -> Any:
    with replay_clients.anthropic_client() as client:
        asked = replay_clients.asked(QUESTION["is"])
        return client.messages.create(model="claude-x", max_tokens=9, messages=asked).id


def streamed_by_openai() -> Any:
    async def call() -> int:
        async with replay_clients.openai_client() as client:
            asked = replay_clients.asked(QUESTION["is"])
            options = {"include_usage": True}
            parts = await client.chat.completions.create(
                model="gpt-x", messages=asked, stream=True, stream_options=options
            )
            return len([each async for each in parts])

    return asyncio.run(call())


def asked_of_google() -> Any:
    client = replay_clients.google_client()
    return client.models.generate_content(model="gemini-x", contents=QUESTION["is"]).text


@pytest.mark.parametrize(
    ("call", "provider", "model"),
    [
        (asked_of_anthropic, "anthropic", "claude-x"),
        (streamed_by_openai, "openai", "gpt-x"),
        (asked_of_google, "google", "gemini-x"),
    ],
)
def test_tokens_of_wrapped_clients_are_those_of_the_recorded_response(
    call: Callable[[], Any], provider: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = traced_agent("asker")(call)
    replay_clients.world.begin(1)
    with replay_clients.serving(), recording() as events:
        run()
    (used,) = [each for each in events if each["event_type"] == "agent.llm.called"]
    tape = parse([each for each in events if "tape_id" in each])

    monkeypatch.setitem(QUESTION, "is", LONGER)
    with replay(tape, mode="report") as again:
        again.call(run)

    (change,) = prompt_changes(tape, again.report.divergences)
    assert (change.provider, change.model, change.calls) == (provider, model, 1)
    assert change.tokens == used["llm_prompt_tokens"]
    assert change.completion == used["llm_completion_tokens"]
    assert change.cached == (used["llm_cached_tokens"] or 0)
    assert change.new_tokens > 3 * change.tokens


def test_another_model_has_its_own_price_and_no_cache(desk: Desk, runs: Path, prices: Path) -> None:
    asks = '"model-a")\ndef ask(prompt):\n'
    desk.change(asks, asks.replace("prompt", 'prompt, model="model-a"') + USAGE)
    desk.record(runs, [2])
    desk.change('ask(f"What about {text}?")', 'ask(f"What about {text}?", model="gpt-4o")')

    cost = desk.replayed(runs, "--prices", prices)["cost"]

    assert cost["recorded_usd"] == (500 * 2 + 500 * 1 + 50 * 8) / 1e6
    published = EstimatePrices().cost("", "gpt-4o", PricedTokens(prompt=1000, completion=50))
    assert cost["new_usd"] == cost["asking_usd"] == published
    assert (cost["new_tokens"], cost["cache_reads"], cost["cache_broken"]) == (1000, 1, 1)


@pytest.fixture
def bytewise(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Encoding of tiktoken that needs no download: a token per byte."""
    ranks = {bytes([number]): number for number in range(256)}
    made = tiktoken.Encoding("o200k_base", pat_str=".", mergeable_ranks=ranks, special_tokens={})
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, "o200k_base", made)
    tokenizers._loaded.cache_clear()
    yield
    tokenizers._loaded.cache_clear()


@pytest.mark.usefixtures("bytewise")
def test_a_tokenizer_counts_where_it_knows_the_model() -> None:
    assert tokenizers.tokens_of("openai/gpt-4o", "twelve bytes") == 12
    assert tokenizers.tokens_of("claude-x", "twelve bytes") is None
    assert tokenizers.tokens_of("gpt-4o", "x" * (tokenizers.MAX_TEXT + 1)) is None


def test_the_latest_row_of_a_price_file_applies(prices: Path) -> None:
    table = read_prices(prices)
    million = PricedTokens(prompt=1_000_000, completion=1_000_000, cached=500_000)

    assert table.cost("openai", "model-a", million) == 1 + 0.5 + 8
    assert table.cost("", "shop/model-a", million) == 9.5
    assert table.cost("openai", "ft:small:ours", million) == 2
    assert table.cost("anthropic", "model-a", million) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,price\n", "with the columns providers,model"),
        ("", "with the columns providers,model"),
        (f"{PRICES}-,x,2024-01-01,-1,1,,,\n", "row 4: '-1' is no price"),
        (f"{PRICES}-,x,soon,1,1,,,\n", "row 4: Invalid isoformat"),
        (f"{PRICES}-,x\n", "row 4: "),
    ],
)
def test_a_wrong_price_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(text)

    with pytest.raises(PricesError, match=message):
        read_prices(path)
    with pytest.raises(PricesError, match="cannot be read"):
        read_prices(tmp_path / "missing.csv")


@given(
    st.sampled_from(
        (("openai", "gpt-4o"), ("anthropic", "claude-sonnet-4-5"), ("", "gpt-4o-mini"))
    ),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
)
def test_published_prices_are_those_of_the_package(
    named: tuple[str, str], prompt: int, completion: int, cached: int
) -> None:
    provider, model = named
    usage = genai_prices.Usage(
        input_tokens=prompt + cached, output_tokens=completion, cache_read_tokens=cached
    )
    expected = genai_prices.calc_price(usage, model, provider_id=provider or None).total_price

    tokens = PricedTokens(prompt=prompt + cached, completion=completion, cached=cached)
    assert EstimatePrices().cost(provider, model, tokens) == float(expected)


COUNTS = [each.name for each in msgspec.structs.fields(PromptChange) if each.type is int]
CHANGES = st.lists(
    st.builds(
        PromptChange,
        model=st.sampled_from(("gpt-4o", "unknown-model")),
        **dict.fromkeys(COUNTS, st.integers(0, 1_000)),
    ),
    min_size=1,
    max_size=8,
)


@given(CHANGES)
def test_sums_do_not_depend_on_the_order_and_lose_no_call(changes: list[PromptChange]) -> None:
    sums = {each.model: each for each in merged(changes)}

    assert sums == {each.model: each for each in merged(reversed(changes))}
    for name in COUNTS:
        total = sum(getattr(each, name) for each in changes)
        assert sum(getattr(each, name) for each in sums.values()) == total
    found = estimate(changes, EstimatePrices())
    assert found is not None
    assert found.new_tokens == sum(each.new_tokens for each in changes)
