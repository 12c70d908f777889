"""Helpers that read recorded calls."""

MESSAGES = "agent.message.normalized"
LLM = "agent.llm.called"
RETRY = "agent.retry.attempted"
STEP = "agent.step.completed"


def only_call(events):
    """Return the only recorded model call."""
    (call,) = events.get_events(LLM)
    return call


def told(events):
    """Return the types of the normalised messages, in order."""
    return [event["message_type"] for event in events.get_events(MESSAGES)]


def of_the_client(event):
    """Return the fields of a call that do not depend on streaming."""
    left_out = {"was_streamed", "time_to_first_token_ms", "output_items", "longest_gap_ms"}
    left_out |= {"tokens_per_second", "duration_ms", "timestamp", "event_id", "event_index", "hlc"}
    left_out |= {"span_id", "span_start_unix_nano", "span_end_unix_nano", "response_id"}
    left_out |= {"emitter_seq", "trace_seq", "trace_event_count", "trace_id", "otel_trace_id"}
    left_out |= {"execution_id", "request_id", "parent_span_id", "output_messages"}
    return {name: value for name, value in event.items() if name not in left_out}
