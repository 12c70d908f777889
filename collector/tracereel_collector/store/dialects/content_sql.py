"""SQL that extracts the messages of models and tools from a span in any dialect.

At read time `otel_content` rebuilds content as a list of messages in OpenTelemetry's schema: `role` and
`parts` (`text`, `tool_call`, `tool_call_response`; parts of other types stay unchanged).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tracereel_collector.store.dialects.content import (
    ARGUMENTS,
    EVENT_ROLES,
    INPUT,
    OUTPUT,
    RESULT,
    WHOLE_INPUT,
    WHOLE_OUTPUT,
    Numbered,
)

MAX_MESSAGES: Final = 1000
MAX_PARTS: Final = 64
"""Limits for messages and parts rebuilt from numbered attributes."""


def _first(texts: Sequence[str]) -> str:
    branches = "".join(f"{text} != '', {text}, " for text in texts)
    return f"multiIf({branches}'')"


def _first_attribute(names: Sequence[str]) -> str:
    return _first([f"SpanAttributes['{name}']" for name in names])


def _text(content: str) -> str:
    return f"""concat('{{"type":"text","content":', toJSONString({content}), '}}')"""


def _data(text: str) -> str:
    """Return SQL for JSON as it is, and for other text as a JSON string."""
    return f"if(isValidJSON({text}), {text}, toJSONString({text}))"


def _call(call_id: str, name: str, arguments: str) -> str:
    return (
        f"""concat('{{"type":"tool_call","id":', toJSONString({call_id}), ',"name":',"""
        f""" toJSONString({name}), ',"arguments":', {_data(arguments)}, '}}')"""
    )


def _answer(call_id: str, response: str) -> str:
    return (
        f"""concat('{{"type":"tool_call_response","id":', toJSONString({call_id}),"""
        f""" ',"response":', {_data(response)}, '}}')"""
    )


def _message(role: str, parts: str) -> str:
    return (
        f"""concat('{{"role":', toJSONString({role}), ',"parts":[',"""
        f""" arrayStringConcat({parts}, ','), ']}}')"""
    )


_MEANINGS: Final = (
    *("role", "content", "answers", "part_text"),
    *("call_id", "call_name", "call_arguments"),
)
"""Meanings of numbered attributes; those of one call come last."""
_ROLE, _CONTENT, _ANSWERS, _TEXT, _CALL_ID, _CALL_NAME, _CALL_ARGUMENTS = range(1, 8)
_NAME: Final = r"^([a-z_]+\\.[a-z_]+\\.)([0-9]{1,6})(\\.[a-z_.]*?)(?:\\.([0-9]{1,6})(\\..*))?$"
"""Pattern of a numbered name: prefix, message, path, and maybe a part or call and the rest."""


def _codes(styles: Mapping[int, Numbered]) -> dict[str, int]:
    """Return the code of each path: style times eight, plus its meaning."""
    return {
        style.prefix + style.paths[meaning]: number * 8 + code
        for number, style in styles.items()
        for code, meaning in enumerate(_MEANINGS, start=1)
    }


def _styles(first: int, places: Sequence[str | Numbered]) -> dict[int, Numbered]:
    return dict(enumerate((each for each in places if isinstance(each, Numbered)), start=first))


_INPUT_STYLES: Final = _styles(1, INPUT)
_OUTPUT_STYLES: Final = _styles(len(_INPUT_STYLES) + 1, OUTPUT)
_STYLES: Final = _INPUT_STYLES | _OUTPUT_STYLES


def _numbered_pairs() -> str:
    """Return SQL for the numbered attributes as `(message, code, part, value)`, in order.

    Lambdas read only their own element. One that looks attributes up in the map would hold a copy of
    the whole map for every message and part.
    """
    codes = _codes(_STYLES)
    known = " OR ".join(f"startsWith(p.1, '{each.prefix}')" for each in _STYLES.values())
    path = "concat(g.1[1], g.1[3], if(g.1[4] = '', '', '.%'), g.1[5])"
    coded = f"""arrayMap(g -> (toUInt32OrZero(g.1[2]),
            toUInt8(transform({path}, {[*codes]}, {[*codes.values()]}, 0)), toUInt32OrZero(g.1[4]), g.2),
        arrayMap(p -> (extractGroups(p.1, '{_NAME}'), p.2), arrayFilter(p -> p.2 != '' AND ({known}),
            CAST(SpanAttributes AS Array(Tuple(String, String))))))"""
    key = f"(intDiv(q.2, 8), q.1, q.2 % 8 >= {_CALL_ID}, q.3, q.2)"
    return f"arraySort(q -> {key}, arrayFilter(q -> q.2 > 0, {coded}))"


def _split(array: str, number: str) -> str:
    """Return SQL that splits an array where a number of its elements changes."""
    numbers = f"arrayMap(n -> {number}, {array})"
    changes = f"arrayMap((a, b) -> a != b, {numbers}, arrayPopBack(arrayPushFront({numbers}, 0)))"
    return f"arraySplit((n, is_new) -> is_new, {array}, {changes})"


def _numbered_groups() -> str:
    """Return SQL for `numbered_pairs` as one list for each message."""
    groups = _split("numbered_pairs", "intDiv(n.2, 8) * 16777216 + n.1 + 1")
    exists = f"arrayExists(p -> p.2 % 8 IN ({_ROLE}, {_CONTENT}), g)"
    return f"arrayFilter(g -> {exists}, {groups})"


def _numbered(styles: Mapping[int, Numbered]) -> str:
    """Return SQL for the messages of one side in `numbered_groups`, each as JSON."""

    def said(group: str, meaning: int) -> str:
        return f"arrayFirst(p -> p.2 % 8 = {meaning}, {group}).4"

    calls = _split(f"arrayFilter(p -> p.2 % 8 >= {_CALL_ID}, g)", "n.3 + 1")
    named = f"arrayFilter(c -> {said('c', _CALL_NAME)} != '', {calls})"
    call = _call(*(said("c", each) for each in (_CALL_ID, _CALL_NAME, _CALL_ARGUMENTS)))
    texts = f"arrayFilter(p -> p.2 % 8 = {_TEXT}, g)"
    answers, content = said("g", _ANSWERS), said("g", _CONTENT)
    parts = f"""arrayConcat(
        multiIf({answers} != '', [{_answer(answers, content)}],
            {content} != '', [{_text(content)}], []),
        arrayMap(p -> {_text("p.4")}, arraySlice({texts}, 1, {MAX_PARTS})),
        arrayMap(c -> {call}, arraySlice({named}, 1, {MAX_PARTS})))"""
    chosen = f"arrayFilter(g -> intDiv(g[1].2, 8) IN {[*styles]}, numbered_groups)"
    return (
        f"arrayMap(g -> {_message(said('g', _ROLE), parts)},"
        f" arraySlice({chosen}, 1, {MAX_MESSAGES}))"
    )


def _block(block: str) -> str:
    """Return SQL that converts one block of a provider's content list into a part."""

    def named(*keys: str) -> str:
        return _first([f"JSONExtractString({block}, '{key}')" for key in keys])

    def raw(*keys: str) -> str:
        return _first([f"JSONExtractRaw({block}, '{key}')" for key in keys])

    kind = f"JSONExtractString({block}, 'type')"
    # Some senders use an object for the arguments, others its text.
    arguments = _first([named("input", "args"), raw("input", "args")])
    return f"""multiIf(
        startsWith({block}, '"'), {_text(f"JSONExtractString({block})")},
        {kind} IN ('text', 'input_text', 'output_text') AND JSONHas({block}, 'text'),
        {_text(f"JSONExtractString({block}, 'text')")},
        {kind} IN ('tool_use', 'tool-call'),
        {_call(named("id", "toolCallId"), named("name", "toolName"), arguments)},
        {kind} IN ('tool_result', 'tool-result'),
        {_answer(named("tool_use_id", "toolCallId"), raw("content", "output", "result"))},
        {block})"""


def _normal(message: str, role: str) -> str:
    """Return SQL that converts a message of any shape into the common schema."""
    content = f"JSONExtractRaw({message}, 'content')"
    said = f"JSONExtractString({message}, 'content')"
    answers = f"JSONExtractString({message}, 'tool_call_id')"
    name = _first(["JSONExtractString(t, 'function', 'name')", "JSONExtractString(t, 'name')"])
    arguments = _first(
        [
            "JSONExtractString(t, 'function', 'arguments')",
            "JSONExtractString(t, 'arguments')",
            "JSONExtractRaw(t, 'arguments')",
        ]
    )
    calls = f"JSONExtractArrayRaw({message}, 'tool_calls')"
    parts = f"""arrayConcat(
        multiIf({answers} != '', [{_answer(answers, said)}],
            startsWith({message}, '"'), [{_text(f"JSONExtractString({message})")}],
            startsWith({content}, '"'), if({said} = '', [], [{_text(said)}]),
            startsWith({content}, '['), arrayMap(b -> {_block("b")}, JSONExtractArrayRaw({content})),
            notEmpty({calls}), [],
            [{_text(message)}]),
        arrayMap(t -> {_call("JSONExtractString(t, 'id')", name, arguments)}, {calls}))"""
    said_role = f"JSONExtractString({message}, 'role')"
    return f"""if(JSONHas({message}, 'parts'), {message},
        {_message(f"if({said_role} = '', '{role}', {said_role})", parts)})"""


def _listed(text: str, role: str) -> str:
    """Return SQL for the messages in a text, each as JSON in any shape."""
    return f"""multiIf(
        {text} = '', [],
        startsWith({text}, '['), JSONExtractArrayRaw({text}),
        JSONHas({text}, 'messages'), JSONExtractArrayRaw({text}, 'messages'),
        JSONHas({text}, 'message'), [JSONExtractRaw({text}, 'message')],
        JSONHas({text}, 'choices'), arrayMap(c -> JSONExtractRaw(c, 'message'),
            JSONExtractArrayRaw({text}, 'choices')),
        JSONHas({text}, 'role'), [{text}],
        [{_message(f"'{role}'", f"[{_text(text)}]")}])"""


def _events(names: Sequence[str], role: str, whole: str, content: Sequence[str]) -> str:
    """Return SQL for the messages in the span's events; `whole` names a complete message."""
    text = _first([f"e.2['{key}']" for key in content])
    return f"""arrayMap(e -> if(e.2['{whole}'] != '', e.2['{whole}'], {_message(role, f"[{_text(text)}]")}),
        arrayFilter(e -> e.1 IN {[*names]}, arrayZip(
            arrayMap(n -> toString(n), `Events.Name`), `Events.Attributes`)))"""


def _texts_of(places: Sequence[str | Numbered]) -> str:
    """Return SQL for the first non-empty text attribute with messages, except the best one."""
    return _first_attribute([place for place in places[1:] if isinstance(place, str)])


def _chosen(side: str, role: str) -> str:
    """Return SQL for the messages of one side, each as JSON, from the best source."""
    return f"""multiIf(
        best_{side} != '', {_listed(f"best_{side}", role)},
        notEmpty(numbered_{side}), numbered_{side},
        notEmpty(event_{side}), event_{side},
        {_listed(f"other_{side}", role)})"""


FRAGMENTS: Final = {
    "numbered_pairs": _numbered_pairs(),
    "numbered_groups": _numbered_groups(),
    "numbered_input": _numbered(_INPUT_STYLES),
    "numbered_output": _numbered(_OUTPUT_STYLES),
    "other_input": _texts_of(INPUT),
    "other_output": _first(
        [
            # The Vercel AI SDK's response has text and tool calls in separate attributes.
            """if(SpanAttributes['ai.response.text'] = '' AND SpanAttributes['ai.response.toolCalls'] = '',
                '', concat('[{"role":"assistant","content":[',
                if(SpanAttributes['ai.response.text'] = '', '', concat('{"type":"text","text":',
                    toJSONString(SpanAttributes['ai.response.text']), '}')),
                if(SpanAttributes['ai.response.text'] = '' OR SpanAttributes['ai.response.toolCalls'] = '',
                    '', ','),
                arrayStringConcat(arrayMap(c -> concat('{"type":"tool-call",', substring(c, 2)),
                    JSONExtractArrayRaw(SpanAttributes['ai.response.toolCalls'])), ','), ']}]'))""",
            "SpanAttributes['ai.response.object']",
            _texts_of(OUTPUT),
        ]
    ),
    "event_input": _events(
        [*EVENT_ROLES, "gen_ai.content.prompt"],
        f"transform(e.1, {[*EVENT_ROLES]}, {[*EVENT_ROLES.values()]}, 'user')",
        "gen_ai.prompt",
        ("content", "gen_ai.event.content"),
    ),
    "event_output": _events(
        ["gen_ai.choice", "gen_ai.content.completion"],
        "'assistant'",
        "gen_ai.completion",
        ("message", "content", "gen_ai.event.content"),
    ),
    "chosen_input": _chosen("input", "user"),
    "chosen_output": _chosen("output", "assistant"),
    "normal_input": _normal("m", "user"),
    "normal_output": _normal("m", "assistant"),
    "tool_arguments": _first_attribute(ARGUMENTS),
    "tool_result": _first_attribute(RESULT),
    "whole_input": _first_attribute(WHOLE_INPUT),
    "whole_output": _first_attribute(WHOLE_OUTPUT),
}
"""Values of `$name` in the `.sql` files."""
