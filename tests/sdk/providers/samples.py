"""Complete sample responses of each provider."""

from typing import Any

ANTHROPIC: dict[str, Any] = {
    "id": "msg_01",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5-20250929",
    "content": [
        {"type": "thinking", "thinking": "The law says two weeks.", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "ZW5jcnlwdGVk"},
        {
            "type": "text",
            "text": "Two weeks, as the law says.",
            "citations": [
                {
                    "type": "char_location",
                    "cited_text": "two weeks",
                    "document_index": 1,
                    "document_title": "The law",
                    "start_char_index": 10,
                    "end_char_index": 19,
                }
            ],
        },
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "paternity"},
        },
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [
                {
                    "type": "web_search_result",
                    "title": "BOE",
                    "url": "https://boe.es",
                    "encrypted_content": "c2VjcmV0",
                    "page_age": None,
                }
            ],
        },
        {"type": "tool_use", "id": "toolu_1", "name": "book", "input": {"day": "ñandú", "n": 2}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 100,
        "cache_read_input_tokens": 40,
        "cache_creation_input_tokens": 10,
        "output_tokens": 50,
        "output_tokens_details": {"thinking_tokens": 20},
    },
}

OPENAI: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-4o-2024-08-06",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Let me look.",
                "refusal": None,
                "tool_calls": [
                    {
                        "id": "call_a",
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"where": "here"}'},
                    },
                    {
                        "id": "call_b",
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"where": "thére"}'},
                    },
                ],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {
        "prompt_tokens": 30,
        "completion_tokens": 12,
        "total_tokens": 42,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 4},
    },
}

RESPONSES: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "model": "gpt-5-2025-08-07",
    "status": "completed",
    "output": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Looked it up."}],
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [
                {
                    "type": "output_text",
                    "text": "It is in the docs.",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url": "https://docs.example",
                            "title": "Docs",
                            "start_index": 6,
                            "end_index": 17,
                        }
                    ],
                }
            ],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "open",
            "arguments": '{"page": 3}',
            "status": "completed",
        },
    ],
    "usage": {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 5},
        "output_tokens": 15,
        "output_tokens_details": {"reasoning_tokens": 9},
        "total_tokens": 35,
    },
}

GOOGLE: dict[str, Any] = {
    "responseId": "resp-g",
    "modelVersion": "gemini-2.5-pro",
    "candidates": [
        {
            "index": 0,
            "content": {
                "role": "model",
                "parts": [
                    {"text": "They ask about rain.", "thought": True},
                    {"text": "It rains in Galicia."},
                    {"functionCall": {"name": "forecast", "args": {"place": "Lugo"}}},
                ],
            },
            "finishReason": "STOP",
            "groundingMetadata": {
                "groundingChunks": [{"web": {"uri": "https://aemet.es", "title": "AEMET"}}],
                "groundingSupports": [
                    {
                        "segment": {"endIndex": 8, "text": "It rains"},
                        "groundingChunkIndices": [0],
                    }
                ],
            },
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 25,
        "cachedContentTokenCount": 5,
        "candidatesTokenCount": 10,
        "thoughtsTokenCount": 6,
        "toolUsePromptTokenCount": 3,
        "totalTokenCount": 44,
    },
}

APPENDIX_A: dict[str, Any] = {
    "messages": [
        {"type": "human", "content": "Create a sales order for customer X"},
        {
            "type": "ai",
            "content": [
                {"type": "thinking", "thinking": "I need to..."},
                {"type": "text", "text": "I will create the order."},
                {
                    "type": "tool_use",
                    "id": "toolu_01",
                    "name": "create_order",
                    "input": {"customer": "X"},
                },
            ],
            "response_metadata": {
                "stop_reason": "tool_use",
                "usage": {"input_tokens": 10, "output_tokens": 5},
            },
        },
        {"type": "tool", "content": "Order created: SO-001"},
        {
            "type": "ai",
            "content": [{"type": "text", "text": "Done! Order SO-001 created."}],
            "response_metadata": {
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 20, "output_tokens": 7},
            },
        },
    ],
    "toolExecutions": [
        {
            "toolUseId": "toolu_01",
            "toolName": "create_order",
            "result": "Order created: SO-001",
            "success": True,
        }
    ],
}
"""Complete example of the normaliser's specification."""
