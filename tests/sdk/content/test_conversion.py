"""Messages, tools and options of every provider in one form."""

import copy
import json

import pytest
from langchain_core.load import dumpd
from langchain_core.messages import messages_to_dict

from tests.support import talk
from tracereel.content import (
    ModelCallContent,
    conversation,
    messages_of,
    parameters_of,
    tools_of,
    usage_of_response,
)
from tracereel.providers.reading import as_data

SYSTEM = {"role": "system", "content": talk.SYSTEM}
INSTRUCTION = {"parts": [{"text": talk.SYSTEM}]}
FORMS = {
    "chat": (talk.chat(), talk.answer_of_chat()),
    "chat request": ({"model": "m", "messages": talk.chat()}, talk.answer_of_chat()),
    "chat as text": (json.dumps(talk.chat()), json.dumps(talk.answer_of_chat())),
    "responses": ([SYSTEM, *talk.responses()], talk.answer_of_responses()["output"]),
    "responses request": (
        {"instructions": talk.SYSTEM, "input": talk.responses()},
        talk.answer_of_responses(),
    ),
    "anthropic": ([SYSTEM, *talk.anthropic()], talk.answer_of_anthropic()),
    "anthropic request": (
        {"system": [{"type": "text", "text": talk.SYSTEM}], "messages": talk.anthropic()},
        [talk.answer_of_anthropic()],
    ),
    "google": (
        {"contents": talk.google(), "systemInstruction": INSTRUCTION},
        talk.answer_of_google(),
    ),
    "google in the SDK's events": (
        [{"role": "system", "content": {"role": "user", **INSTRUCTION}}, *talk.google()],
        [talk.answer_of_google()["candidates"][0]["content"]],
    ),
    "gen_ai": (
        talk.gen_ai(),
        [
            {
                "role": "assistant",
                "parts": [
                    {"type": "reasoning", "content": talk.LAST_THOUGHT},
                    {"type": "text", "content": talk.ANSWER},
                ],
            }
        ],
    ),
    "vercel": (
        {"system": talk.SYSTEM, "messages": talk.vercel()},
        [
            {
                "role": "assistant",
                "content": [
                    {"type": "reasoning", "text": talk.LAST_THOUGHT},
                    {"type": "text", "text": talk.ANSWER},
                ],
            }
        ],
    ),
}


def content_of(given, said):
    """Return what was sent and answered as a model call."""
    return ModelCallContent(input=messages_of(given), output=messages_of(said, role="assistant"))


@pytest.mark.parametrize("form", FORMS)
def test_every_providers_form_gives_the_same_conversation(form):
    given, said = FORMS[form]
    before = copy.deepcopy((given, said))

    found = talk.shown(content_of(given, said), thinking=True)

    assert found == talk.expected(thinking=True)
    assert (given, said) == before


@pytest.mark.parametrize(
    "form",
    [list, messages_to_dict, dumpd, as_data, lambda all_: [each.model_dump() for each in all_]],
    ids=["objects", "dictionaries", "constructors", "data", "models"],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_langchains_messages_give_the_same_conversation(form, wrapped):
    messages = form(talk.langchain())
    given = {"messages": messages} if wrapped else messages

    found = talk.shown(content_of(given, [talk.ANSWER]), thinking=True)

    assert found[:-1] == talk.expected(thinking=True)[:-1]


def test_results_have_the_names_and_ids_of_their_calls():
    messages = messages_of(talk.chat())

    results = [part for each in messages for part in each.parts if part.type == "tool_result"]

    assert [(part.id, part.name) for part in results] == [
        *(("call_1", "climate"), ("call_2", "search")),
        *(("call_3", "search"), ("call_4", "book")),
    ]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "audio", "media_type": "audio/wav", "data": "AAAA", "size": 3},
        ),
        (
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}},
            {"type": "file", "media_type": "application/pdf", "data": "AAAA", "size": 3},
        ),
        (
            {"type": "input_file", "file_id": "file-1", "filename": "a.pdf"},
            {"type": "file", "name": "a.pdf", "uri": "file-1"},
        ),
        (
            {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
            {"type": "image", "uri": "https://a.example/b.png"},
        ),
        (
            {
                "type": "document",
                "title": "Law",
                "source": {"type": "text", "media_type": "text/plain", "data": "§ 1"},
            },
            {"type": "file", "name": "Law", "media_type": "text/plain", "text": "§ 1"},
        ),
        (
            {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://a/b"}},
            {"type": "video", "media_type": "video/mp4", "uri": "gs://a/b"},
        ),
        (
            {"type": "uri", "modality": "audio", "uri": "https://a.example/c"},
            {"type": "audio", "uri": "https://a.example/c"},
        ),
        (
            {"kind": "binary", "data": "AAAA", "media_type": "image/png"},
            {"type": "image", "media_type": "image/png", "data": "AAAA", "size": 3},
        ),
        ({"type": "redacted_thinking", "data": "abcd"}, {"type": "thinking", "size": 4}),
        ({"type": "refusal", "refusal": "No."}, {"type": "refusal", "text": "No."}),
        (
            {"type": "source", "sourceType": "url", "url": "https://a.example", "title": "A"},
            {"type": "citation", "uri": "https://a.example", "name": "A"},
        ),
        (
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            {"type": "tool_call", "id": "s", "name": "web_search", "value": {"query": "q"}},
        ),
        (
            {"type": "hologram", "beam": [1]},
            {"type": "data", "value": {"type": "hologram", "beam": [1]}},
        ),
    ],
)
def test_blocks_of_all_kinds_become_parts(block, expected):
    (message,) = messages_of([{"role": "assistant", "content": [block]}])

    assert [part.model_dump(exclude_none=True) for part in message.parts] == [expected]


def test_citations_follow_their_text():
    cited = {"type": "char_location", "cited_text": "§ 1", "document_title": "Law"}
    block = {"type": "text", "text": "So it is.", "citations": [cited]}

    (message,) = messages_of([{"role": "assistant", "content": [block]}])

    assert [(part.type, part.text, part.name) for part in message.parts] == [
        ("text", "So it is.", None),
        ("citation", "§ 1", "Law"),
    ]


def test_an_item_of_a_tool_that_the_provider_ran_is_call_and_result():
    item = {"type": "mcp_call", "id": "m", "name": "look", "arguments": '{"a": 1}', "output": "x"}

    (message,) = messages_of([item], role="assistant")

    assert message.role == "assistant"
    assert [(part.type, part.id, part.value) for part in message.parts] == [
        ("tool_call", "m", {"a": 1}),
        ("tool_result", "m", "x"),
    ]


def test_a_failed_tool_is_marked_and_its_images_stay_with_its_result():
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AA=="},
    }
    result = {"type": "tool_result", "tool_use_id": "t", "is_error": True}
    content = [
        {**result, "content": [{"type": "text", "text": "no"}, image]},
        {"type": "text", "text": "Go on."},
    ]

    tool, user = messages_of([{"role": "user", "content": content}])

    assert (tool.role, user.role) == ("tool", "user")
    assert [(part.type, part.value, part.is_error) for part in tool.parts] == [
        ("tool_result", "no", True),
        ("image", None, None),
    ]


def test_alternative_answers_stay_messages_of_their_own():
    choices = [
        {
            "index": number,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": said},
        }
        for number, said in enumerate(("one", "two"))
    ]

    found = messages_of({"choices": choices}, role="assistant")

    assert [message.parts[0].text for message in found] == ["one", "two"]


def test_pydantic_ais_messages_are_split_by_role():
    request = {
        "kind": "request",
        "instructions": "Be brief.",
        "parts": [
            {
                "part_kind": "user-prompt",
                "content": ["hi", {"kind": "image-url", "url": "https://a"}],
            },
            {
                "part_kind": "tool-return",
                "tool_name": "f",
                "tool_call_id": "c",
                "content": {"a": 1},
            },
            {"part_kind": "retry-prompt", "tool_name": "f", "tool_call_id": "d", "content": "bad"},
        ],
    }

    found = messages_of([request])

    assert [message.role for message in found] == ["system", "user", "tool", "tool"]
    assert [part.type for part in found[1].parts] == ["text", "image"]
    assert found[3].parts[0].is_error


def test_messages_that_were_removed_are_counted_with_their_place():
    removed = {"role": "tracereel", "content": "", "removed_messages": 7, "removed_bytes": 900}

    found = conversation(
        [{"role": "user", "content": "a"}, removed, {"role": "user", "content": "b"}]
    )

    assert [message.parts[0].text for message in found.messages] == ["a", "b"]
    assert found.cut is not None
    assert (found.cut.length, found.cut.removed, found.cut.at) == (9, 7, 1)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"content": "ab…[1000 characters removed]…yz"}, (1004, 1000, 2)),
        ({"content": "ab", "content_truncated": {"length": 12, "sha256": "0"}}, (12, 10, 2)),
        ({"content": "ab… [cut: 12 bytes, sha256 00ff]"}, (12, 10, 2)),
    ],
)
def test_cuts_of_texts_are_known(message, expected):
    (found,) = messages_of([{"role": "user", **message}])

    cut = found.parts[0].cut
    assert cut is not None
    assert (cut.length, cut.removed, cut.at) == expected


def test_a_conversation_of_very_many_messages_is_bounded_and_says_so():
    found = conversation(["x"] * 10_005)

    assert len(found.messages) == 10_000
    assert found.cut is not None
    assert found.cut.removed == 5


@pytest.mark.parametrize(
    "tools",
    [talk.chat_tools(), talk.responses_tools(), talk.anthropic_tools(), talk.google_tools()],
    ids=["chat", "responses", "anthropic", "google"],
)
@pytest.mark.parametrize("form", [lambda t: t, json.dumps, lambda t: {"tools": t, "model": "m"}])
def test_tool_definitions_of_every_provider_have_name_and_schema(tools, form):
    found = tools_of(form(tools))

    assert {tool.name: tool.parameters for tool in found} == {
        name: talk.schema(name) for name in talk.TOOLS
    }


def test_tools_of_the_provider_are_named_by_their_type():
    found = tools_of(
        [{"type": "web_search"}, {"googleSearch": {}}, {"type": "bash_1", "name": "bash"}]
    )

    assert [tool.name for tool in found] == ["web_search", "googleSearch", "bash"]


def test_request_options_have_common_names_and_no_content():
    google = {"contents": [], "generationConfig": {"maxOutputTokens": 5, "topP": 0.5}}
    openai = {"messages": ["x"], "model": "m", "max_completion_tokens": 5, "stop": ["a"], "n": None}

    assert parameters_of(google) == {"max_tokens": 5, "top_p": 0.5}
    assert parameters_of(openai) == {"max_tokens": 5, "stop_sequences": ["a"]}


def test_usage_is_read_with_its_details():
    found = usage_of_response(talk.answer_of_chat()["usage"])

    assert found.model_dump(exclude_none=True) == {
        "input": 820,
        "output": 40,
        "total": 860,
        "cache_read": 512,
        "reasoning": 12,
    }
