"""Provider streams, generated from whole responses as documented."""

import json
from itertools import pairwise
from random import Random
from typing import Any


def pieces(value: str, chance: Random) -> list[str]:
    """Split a text at random places."""
    if not value:
        return []
    cuts = sorted({chance.randrange(len(value) + 1) for _ in range(chance.randrange(5))})
    edges = [0, *cuts, len(value)]
    return [value[start:end] for start, end in pairwise(edges)]


def anthropic_events(message: dict[str, Any], chance: Random) -> list[dict[str, Any]]:
    start = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
    start["usage"] = {**message["usage"], "output_tokens": 1}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(message["content"]):
        opening, deltas = _anthropic_block(block, chance)
        events.append({"type": "content_block_start", "index": index, "content_block": opening})
        events += [{"type": "content_block_delta", "index": index, "delta": d} for d in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append(
        {
            "type": "message_delta",
            "delta": {
                "stop_reason": message["stop_reason"],
                "stop_sequence": message.get("stop_sequence"),
            },
            "usage": message["usage"],
        }
    )
    return [*events, {"type": "message_stop"}]


def _anthropic_block(block: dict[str, Any], chance: Random) -> tuple[dict[str, Any], list[Any]]:
    kind = block["type"]
    if kind == "text":
        opening = {key: value for key, value in block.items() if key != "citations"}
        deltas = [{"type": "text_delta", "text": part} for part in pieces(block["text"], chance)]
        deltas += [
            {"type": "citations_delta", "citation": each} for each in block.get("citations", [])
        ]
        return {**opening, "text": ""}, deltas
    if kind == "thinking":
        deltas = [
            {"type": "thinking_delta", "thinking": part}
            for part in pieces(block["thinking"], chance)
        ]
        deltas += [
            {"type": "signature_delta", "signature": part}
            for part in pieces(block["signature"], chance)
        ]
        return {**block, "thinking": "", "signature": ""}, deltas
    if kind in ("tool_use", "server_tool_use"):
        text = json.dumps(block["input"])
        deltas = [{"type": "input_json_delta", "partial_json": p} for p in pieces(text, chance)]
        return {**block, "input": {}}, deltas
    return block, []


def openai_chunks(response: dict[str, Any], chance: Random) -> list[dict[str, Any]]:
    common = {key: response[key] for key in ("id", "model")} | {"object": "chat.completion.chunk"}

    def chunk(index: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "finish_reason": finish}
        return {**common, "choices": [choice], "usage": None}

    chunks = []
    for index, choice in enumerate(response["choices"]):
        message = choice["message"]
        chunks.append(chunk(index, {"role": "assistant", "content": ""}))
        for name in ("reasoning_content", "content", "refusal"):
            chunks += [
                chunk(index, {name: part}) for part in pieces(message.get(name) or "", chance)
            ]
        for number, call in enumerate(message.get("tool_calls") or []):
            function = call["function"]
            opening = {"index": number, "id": call["id"], "type": "function"}
            opening["function"] = {"name": function["name"], "arguments": ""}
            chunks.append(chunk(index, {"tool_calls": [opening]}))
            for part in pieces(function["arguments"], chance):
                grown = {"index": number, "function": {"arguments": part}}
                chunks.append(chunk(index, {"tool_calls": [grown]}))
        if message.get("annotations"):
            chunks.append(chunk(index, {"annotations": message["annotations"]}))
        chunks.append(chunk(index, {}, choice["finish_reason"]))
    return [*chunks, {**common, "choices": [], "usage": response["usage"]}]


def responses_events(response: dict[str, Any], chance: Random) -> list[dict[str, Any]]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for number, item in enumerate(response["output"]):
        where = {"output_index": number, "item_id": item.get("id")}
        opening = {**item, "content": [], "summary": [], "arguments": ""}
        events.append({"type": "response.output_item.added", **where, "item": opening})
        for part_index, part in enumerate(item.get("content") or []):
            place = {**where, "content_index": part_index}
            kind = "refusal" if part["type"] == "refusal" else "output_text"
            field = "refusal" if kind == "refusal" else "text"
            events.append({"type": "response.content_part.added", **place, "part": part})
            events += [
                {"type": f"response.{kind}.delta", **place, "delta": each}
                for each in pieces(part[field], chance)
            ]
            events += [
                {
                    "type": "response.output_text.annotation.added",
                    **place,
                    "annotation_index": order,
                    "annotation": each,
                }
                for order, each in enumerate(part.get("annotations") or [])
            ]
            events.append({"type": f"response.{kind}.done", **place, field: part[field]})
        for part_index, part in enumerate(item.get("summary") or []):
            place = {**where, "summary_index": part_index}
            events += [
                {"type": "response.reasoning_summary_text.delta", **place, "delta": each}
                for each in pieces(part["text"], chance)
            ]
        if item["type"] == "function_call":
            events += [
                {"type": "response.function_call_arguments.delta", **where, "delta": each}
                for each in pieces(item["arguments"], chance)
            ]
        events.append({"type": "response.output_item.done", **where, "item": item})
    end = {"completed": "completed", "incomplete": "incomplete", "failed": "failed"}
    events.append({"type": f"response.{end[response['status']]}", "response": response})
    return events


def google_chunks(response: dict[str, Any], chance: Random) -> list[dict[str, Any]]:
    common = {key: response[key] for key in ("modelVersion", "responseId")}
    counts = response["usageMetadata"]
    so_far = {"promptTokenCount": counts["promptTokenCount"], "candidatesTokenCount": 1}

    def chunk(index: int, part: dict[str, Any]) -> dict[str, Any]:
        candidate = {"index": index, "content": {"role": "model", "parts": [part]}}
        return {**common, "candidates": [candidate], "usageMetadata": so_far}

    chunks = []
    last = []
    for index, candidate in enumerate(response["candidates"]):
        for part in candidate["content"]["parts"]:
            if "text" in part:
                cut = pieces(part["text"], chance)
                chunks += [chunk(index, {**part, "text": each}) for each in cut]
            else:
                chunks.append(chunk(index, part))
        rest = {key: value for key, value in candidate.items() if key != "content"}
        last.append({**rest, "index": index, "content": {"role": "model", "parts": [{"text": ""}]}})
    return [*chunks, {**common, "candidates": last, "usageMetadata": counts}]


def sse(events: list[dict[str, Any]], *, named: bool = False, done: bool = False) -> bytes:
    """Encode events as the body of a `text/event-stream` response."""
    frames = []
    for event in events:
        name = f"event: {event['type']}\n" if named else ""
        frames.append(f"{name}data: {json.dumps(event, ensure_ascii=False)}\n\n")
    if done:
        frames.append("data: [DONE]\n\n")
    return "".join(frames).encode()


def cut_bytes(body: bytes, chance: Random) -> list[bytes]:
    """Split bytes at random places, also within characters."""
    cuts = sorted({chance.randrange(len(body) + 1) for _ in range(chance.randrange(12))})
    edges = [0, *cuts, len(body)]
    return [body[start:end] for start, end in pairwise(edges)]
