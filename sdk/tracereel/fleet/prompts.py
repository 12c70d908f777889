"""Tokens of changed prompts, compared with the recorded ones.

Tokens of a new prompt are counted by a tokenizer where there is one, else by the ratio of recorded
tokens to characters. A cache of the provider serves the beginning of a prompt that it has seen, so
it is broken if the first difference comes before the end of what was read from it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from tracereel.fleet import tokenizers
from tracereel.providers.base import Usage
from tracereel.providers.usage import usage_of
from tracereel.tape.divergence import Divergence
from tracereel.tape.format import Call, Tape
from tracereel.tape.payloads import hash_of, text_of

MAX_MODELS: Final = 20
"""Models of a run; calls of others are counted as `uncounted`."""
MAX_NAME: Final = 200
_FIRST: Final = ("tools", "system", "instructions", "systemInstruction")
"""Fields that providers put before the messages."""
_NO_PROMPT: Final = frozenset({"model", "method", "path"})
_MODEL_IN_PATH: Final = re.compile(r"models/([^/:]+)")


class PromptChange(msgspec.Struct, frozen=True, kw_only=True):
    """Changed prompts of one model."""

    model: str
    """Model that is called now."""
    provider: str = ""
    recorded_model: str = ""
    """Model that was called; empty if it is the same."""
    calls: int = 0
    uncounted: int = 0
    """Calls without recorded tokens and without a tokenizer; they are in none of the sums."""
    tokenized: int = 0
    """Calls that a tokenizer has counted."""
    tokens: int = 0
    """Prompt tokens as recorded."""
    new_tokens: int = 0
    cached: int = 0
    """Of the recorded tokens, those read from a cache."""
    kept: int = 0
    """Of these, those before the first difference."""
    written: int = 0
    """Of the recorded tokens, those written to a cache."""
    completion: int = 0
    cache_reads: int = 0
    """Calls that had read from a cache."""
    broken: int = 0
    """Calls of these whose first difference is in the part that was read."""


def merged(changes: Iterable[PromptChange]) -> tuple[PromptChange, ...]:
    """Return one sum per model."""
    sums: dict[tuple[str, ...], PromptChange] = {}
    for each in changes:
        before = sums.get(_models(each))
        sums[_models(each)] = each if before is None else _sum(before, each)
    return tuple(sums.values())


def _models(change: PromptChange) -> tuple[str, ...]:
    return change.provider, change.model, change.recorded_model


def _sum(one: PromptChange, other: PromptChange) -> PromptChange:
    counts = {
        name: getattr(one, name) + value
        for name, value in msgspec.structs.asdict(other).items()
        if isinstance(value, int)
    }
    return msgspec.structs.replace(one, **counts)


def prompt_changes(tape: Tape, divergences: Iterable[Divergence]) -> tuple[PromptChange, ...]:
    """Return the changed prompts of a replay."""
    found: list[PromptChange] = []
    taken: set[int] = set()
    for each in divergences:
        if each.kind != "changed" or each.call_kind != "llm" or each.arguments is None:
            continue
        recorded, now = each.arguments
        call = _recorded_call(tape, each.name, recorded, taken)
        if call is not None and _failed(tape, call):
            continue  # an attempt that was repeated costs nothing
        change = _change(each.name, recorded, now, None if call is None else _usage(tape, call))
        known = set(map(_models, found))
        if _models(change) not in known and len(known) >= MAX_MODELS:
            change = PromptChange(model="further models", calls=1, uncounted=1)
        found = list(merged([*found, change]))
    return tuple(found)


def _change(name: str, recorded: Any, now: Any, used: Usage | None) -> PromptChange:
    (provider, model), (_, before_it) = _model(name, now), _model(name, recorded)
    other = "" if before_it == model else before_it
    about = PromptChange(
        model=model[:MAX_NAME],
        provider=provider[:MAX_NAME],
        recorded_model=other[:MAX_NAME],
        calls=1,
    )
    old, new = _prompt(recorded), _prompt(now)
    counted_old, counted_new = (tokenizers.tokens_of(model, each) for each in (old, new))
    before = used.input_tokens if used is not None else 0
    tokenized = counted_old is not None and counted_new is not None
    if counted_old is not None and counted_new is not None:
        # The provider counts more than the texts: what is around the messages stays the same.
        new_tokens = max(0, (before or counted_old) + counted_new - counted_old)
        before = before or counted_old
    elif before and old:
        new_tokens = round(before * len(new) / len(old))
    else:
        return msgspec.structs.replace(about, uncounted=1)
    cached = min(before, (used.cached_tokens if used is not None else None) or 0)
    # Each model has a cache of its own.
    same = round(before * _alike(old, new) / len(old)) if old and not other else 0
    return msgspec.structs.replace(
        about,
        tokenized=int(tokenized),
        tokens=before,
        new_tokens=new_tokens,
        cached=cached,
        kept=min(cached, same),
        written=(used.cache_creation_tokens if used is not None else None) or 0,
        completion=used.output_tokens if used is not None else 0,
        cache_reads=int(cached > 0),
        broken=int(same < cached),
    )


def _model(name: str, arguments: Any) -> tuple[str, str]:
    """Return provider and model of a call; a wrapped client has them in its request."""
    given = arguments if isinstance(arguments, dict) else {}
    body = given.get("body")
    if isinstance(body, dict):
        in_path = _MODEL_IN_PATH.search(str(given.get("path")))
        model = body.get("model") or (in_path and in_path[1])
        return name.partition(" ")[0], str(model or name)
    return "", str(given.get("model") or name)


def _prompt(arguments: Any) -> str:
    """Return the parts of a request that make its prompt, in the order of the provider."""
    given = arguments if isinstance(arguments, dict) else {"prompt": arguments}
    fields = given["body"] if isinstance(given.get("body"), dict) else given
    texts = {
        name: text_of(value)
        for name, value in fields.items()
        if isinstance(value, str | list | dict) and name not in _NO_PROMPT
    }
    first = [texts.pop(name) for name in _FIRST if name in texts]
    return "\n".join([*first, *texts.values()])


def _alike(old: str, new: str) -> int:
    """Return the number of characters before the first difference."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[:middle] == new[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _recorded_call(tape: Tape, name: str, arguments: Any, taken: set[int]) -> Call | None:
    """Return the first call with these arguments that no earlier change is about."""
    wanted = hash_of(arguments) if isinstance(arguments, dict) else ""
    for call in tape.calls.values():
        alike = call.kind == "llm" and call.name == name and call.arguments_hash == wanted
        if alike and call.number not in taken:
            taken.add(call.number)
            return call
    return None


def _failed(tape: Tape, call: Call) -> bool:
    """Return whether a call raised, or a wrapped client got an error."""
    if call.end is None or call.end.how == "raised":
        return True
    try:
        whole = tape.data((call.chunks[0] if call.chunks else call.end).value)
    except ValueError:
        return False
    status = whole.get("status") if isinstance(whole, dict) else None
    return isinstance(status, int) and status >= HTTPStatus.BAD_REQUEST


def _usage(tape: Tape, call: Call) -> Usage | None:
    """Return the usage that a call has noted, or that its response has."""
    if call.end is None:
        return None
    noted = [call.end.usage] if call.end.usage.get("llm_prompt_tokens") else []
    noted = noted or [each.get("usage", {}) for each in call.end.used]
    found = [_as_usage(each) for each in noted]
    if not any(each.input_tokens for each in found):
        found = [_highest(_usages(_responses(tape, call)))]
    total = sum(found, Usage())
    return total if total.input_tokens else None


def _as_usage(noted: Mapping[str, int | float]) -> Usage:
    def count(*names: str) -> int:
        return int(next((noted[name] for name in names if noted.get(name)), 0))

    return Usage(
        input_tokens=count("llm_prompt_tokens", "prompt_tokens"),
        output_tokens=count("llm_completion_tokens", "completion_tokens"),
        cached_tokens=count("llm_cached_tokens"),
        cache_creation_tokens=count("llm_cache_creation_tokens"),
    )


def _usages(responses: Iterable[Any]) -> Iterator[Usage]:
    for event in responses:
        if isinstance(event, dict):
            for part in (event, event.get("message"), event.get("response")):
                if isinstance(part, dict) and (found := usage_of(part)) is not None:
                    yield found


def _highest(usages: Iterable[Usage]) -> Usage:
    """Return the highest counts; a stream reports them in several events."""
    found = Usage()
    for each in usages:
        found = Usage(
            input_tokens=max(found.input_tokens, each.input_tokens),
            output_tokens=max(found.output_tokens, each.output_tokens),
            cached_tokens=max(found.cached_tokens or 0, each.cached_tokens or 0),
            cache_creation_tokens=max(
                found.cache_creation_tokens or 0, each.cache_creation_tokens or 0
            ),
        )
    return found


def _responses(tape: Tape, call: Call) -> Iterator[Any]:
    """Yield the response of a wrapped client, or the events of its stream."""
    try:
        if call.chunks:
            pieces = [tape.data(each.value) for each in call.chunks]
            text = "".join(each for each in pieces if isinstance(each, str))
            for line in text.splitlines():
                if line.startswith("data:"):
                    yield _decoded(line[5:])
        elif call.end is not None and isinstance(whole := tape.data(call.end.value), dict):
            body = whole.get("body")
            yield body.get("json") if isinstance(body, dict) and "json" in body else whole
    except ValueError:
        return  # what was not kept is not counted


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
