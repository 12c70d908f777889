"""Log records of coding agents, in the forms that their documentation describes; written by hand."""

SECOND = 1_000_000_000


def value_of(plain):
    kinds = {str: "stringValue", bool: "boolValue", int: "intValue", float: "doubleValue"}
    return {kinds[type(plain)]: plain}


def attributes(**fields):
    return [
        {"key": key.replace("__", "."), "value": value_of(value)} for key, value in fields.items()
    ]


def request_of(service, scope, records):
    """Return an OTLP/JSON request for log records."""
    return {
        "resourceLogs": [
            {
                "resource": {"attributes": attributes(service__name=service)},
                "scopeLogs": [{"scope": {"name": scope}, "logRecords": records}],
            }
        ]
    }


def claude_code(start, *, session="s-claude", prompts=("p-1",), text="fix the tests"):
    """Return what Claude Code sends for prompts of one session; the name has no prefix."""
    records = []

    def record(name, of, after, **fields):
        common = {"event__name": name, "session__id": session, "user__id": "u-1"}
        common |= {"prompt__id": of, "event__sequence": len(records)}
        records.append(
            {
                "timeUnixNano": str(start + after * SECOND),
                "body": {"stringValue": f"claude_code.{name}"},
                "attributes": attributes(**common, **fields),
            }
        )

    for number, prompt in enumerate(prompts):
        at = 100 * number
        record("user_prompt", prompt, at, prompt_length=13, prompt=text)
        counts = {"input_tokens": 20, "output_tokens": 30, "cache_read_tokens": 1000}
        counts |= {"cache_creation_tokens": 50, "duration_ms": 2000, "cost_usd": 0.25}
        record("api_request", prompt, at + 3, model="claude-sonnet-4-5", **counts)
        called = {"tool_name": "Bash", "tool_use_id": "toolu_1", "duration_ms": 500}
        called |= {"success": "true", "tool_parameters": '{"command": "make test"}'}
        record("tool_result", prompt, at + 5, **called)
        record(
            *("api_error", prompt, at + 6),
            model="claude-sonnet-4-5",
            error="Overloaded",
            status_code=529,
            duration_ms="100",
            attempt=1,
        )
        record("assistant_response", prompt, at + 7, response="They pass.", model="claude")
    return request_of("claude-code", "com.anthropic.claude_code.events", records)


def codex(start, *, session="s-codex"):
    """Return what Codex sends: numbers as text, no id of the prompt, a place in `eventName`."""
    records = []

    def record(name, after, **fields):
        common = {"event__name": f"codex.{name}", "conversation__id": session}
        common |= {"user__account_id": "u-2", "model": "gpt-5-codex"}
        records.append(
            {
                "observedTimeUnixNano": str(start + after * SECOND),
                "eventName": "event otel/src/events/session_telemetry.rs:230",
                "attributes": attributes(**common, **fields),
            }
        )

    record("conversation_starts", 0, provider_name="OpenAI")
    record("user_prompt", 1, prompt_length="5", prompt="[REDACTED]")
    record("api_request", 2, attempt="0", duration_ms="900", http__response__status_code="200")
    record("sse_event", 3, event__kind="response.output_item.done", duration_ms="10")
    completed = {"input_token_count": "100", "output_token_count": "40", "ttft_ms": "300"}
    completed |= {"cached_token_count": 60, "reasoning_token_count": 16, "tool_token_count": "140"}
    record("sse_event", 4, event__kind="response.completed", **completed)
    called = {"tool_name": "shell", "call_id": "call_1", "arguments": '{"command": ["ls"]}'}
    record(*("tool_result", 6), **called, duration_ms="70", success="false", output="no such file")
    record("api_request", 7, attempt="1", duration_ms="50", http__response__status_code="429")
    return request_of("codex_cli_rs", "codex_otel.log_only", records)


def gemini_cli(start, *, session="s-gemini"):
    """Return what Gemini CLI sends for one prompt."""
    records = []

    def record(name, after, **fields):
        common = {"event__name": f"gemini_cli.{name}", "session__id": session}
        common |= {"prompt_id": f"{session}########1", "installation__id": "u-3"}
        records.append(
            {
                "timeUnixNano": str(start + after * SECOND),
                "body": {"stringValue": f"{name}."},
                "attributes": attributes(**common, **fields),
            }
        )

    record("user_prompt", 0, prompt_length=9, prompt="what is it")
    counts = {"input_token_count": 200, "output_token_count": 20, "thoughts_token_count": 5}
    counts |= {"cached_content_token_count": 150, "tool_token_count": 3, "total_token_count": 228}
    record("api_response", 2, model="gemini-2.5-pro", status_code=200, duration_ms=1500, **counts)
    called = {"function_name": "read_file", "function_args": '{"path": "a.py"}'}
    record("tool_call", 3, **called, duration_ms=20, success=True, decision="auto_accept")
    return request_of("gemini-cli", "gemini-cli", records)
