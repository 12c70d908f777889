"""Small travel desk whose runs the page tests show: models, tools, retries, turns.

`python -m tests.support.page_program ENDPOINT SPOOL_DIR TURNS`
"""

import sys
import time

import tracereel
from tracereel.resilience import fallback, fixed_delay, retry

PACE = 0.012
"""Minimum seconds of a step, so that bars are visible."""


class RateLimitError(Exception):
    """Rate limit of the model."""


@tracereel.traced_llm("gpt-4o-mini", provider="openai")
def think(messages: list[dict[str, str]], tokens: int) -> str:
    """Model that always succeeds."""
    time.sleep(PACE * 3)
    tracereel.current_execution().set(
        llm_prompt_tokens=tokens, llm_completion_tokens=tokens // 4, finish_reason="stop"
    )
    return f"plan for {messages[-1]['content']}"


@tracereel.traced_tool("flights")
def flights(to: str, tool_call_id: str) -> list[str]:
    """List flights."""
    time.sleep(PACE * 2)
    return [f"MEX-{to} 08:10", f"MEX-{to} 17:45"]


@tracereel.traced_tool("weather")
def weather(place: str, tool_call_id: str) -> str:
    """Return the weather; fails for Atlantis."""
    time.sleep(PACE)
    if place == "Atlantis":
        raise LookupError("no such place: Atlantis")
    return "24 °C, dry"


@tracereel.traced_retrieval("handbook", collection="travel-policy", top_k=3)
def look_up(query: str) -> list[str]:
    """Search the handbook."""
    time.sleep(PACE)
    return ["economy below six hours", "book two weeks ahead"]


@tracereel.traced_agent("planner", version="2.1.0", llm_model="gpt-4o-mini", llm_provider="openai")
def plan(prompt: str, place: str) -> str:
    """Plan the trip."""
    look_up(f"rules for {place}")
    wanted = think([{"role": "user", "content": prompt}], 220)
    tracereel.record_decision(
        "destination",
        reasoning=f"The request names {place}, and nothing else that is a place",
        confidence=0.91,
        candidates=[place, "Mérida", "Oaxaca"],
        chosen=place,
    )
    flights(place, tool_call_id="call_1")
    weather(place, tool_call_id="call_2")
    think([{"role": "user", "content": wanted}], 340)
    tracereel.current_execution().set(confidence=0.91, decision_type="itinerary")
    return f"fly to {place} at 08:10"


@tracereel.traced_agent("regex_pricing_agent", version="1.0.0")
def price_by_table(plan: str) -> float:
    """Price from a table."""
    time.sleep(PACE)
    tracereel.current_execution().set(confidence=0.55)
    return 210.0


@fallback(price_by_table)
@retry(attempts=2, on=RateLimitError, strategy=fixed_delay(PACE * 2))
@tracereel.traced_agent("pricing_agent", version="1.4.0", llm_model="gpt-4o-mini")
def price(plan: str) -> float:
    """Price from the model, which may be rate-limited."""
    time.sleep(PACE)
    if "Lima" in plan:
        raise RateLimitError("429: 10 requests per minute")
    think([{"role": "user", "content": plan}], 90)
    tracereel.current_execution().set(confidence=0.83)
    return 199.5


@tracereel.traced_agent("review_agent", version="1.0.2")
def review(price: float) -> bool:
    """Approve the price."""
    time.sleep(PACE * 2)
    tracereel.record_decision("approval", reasoning="below the limit of 500", chosen="approve")
    tracereel.current_execution().set(confidence=0.97)
    return True


@tracereel.traced_pipeline("travel_desk", agents=["planner", "pricing_agent", "review_agent"])
def book(prompt: str, place: str, user_id: str, session_id: str) -> str:
    """One turn of a conversation."""
    made = plan(prompt, place)
    review(price(made))
    tracereel.current_execution().set(outcome="booked", confidence=0.83)
    return f"booked: {made}"


PLACES = ("Bogotá", "Lima", "Madrid", "Atlantis", "Lisbon", "Quito")


def main() -> None:
    """Run some turns and deliver every event."""
    endpoint, spool, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
    tracereel.configure(endpoint=endpoint, spool_dir=spool, service="travel-desk")
    for turn in range(turns):
        place = PLACES[turn % len(PLACES)]
        try:
            book(
                f"A flight to {place} next week, please",
                place,
                user_id=f"user_{turn // 3}",
                session_id=f"session_{turn // 3}",
            )
        except LookupError:
            continue
    tracereel.shutdown(timeout=20)


if __name__ == "__main__":
    main()
