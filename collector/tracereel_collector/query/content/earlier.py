"""Comparison of a model call with the call before it: which messages it repeats."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tracereel.content import Message, Part

_SYSTEM: Final = ("system", "developer")
_IGNORED: Final = ("thinking", "citation")
"""Parts that providers and clients leave out when an answer is sent back."""


def digest(message: Message) -> bytes:
    """Return a hash of the content of a message; ids do not matter, they differ between providers."""
    role = "system" if message.role in _SYSTEM else message.role
    said = [_said(part) for part in message.parts if part.type not in _IGNORED]
    return hashlib.blake2b(msgspec.json.encode([role, said]), digest_size=16).digest()


def digests(messages: Sequence[Message]) -> list[bytes]:
    """Return the hashes of some messages."""
    return [digest(message) for message in messages]


def repeated(messages: Sequence[Message], own: Sequence[bytes], earlier: Sequence[bytes]) -> int:
    """Return how many leading messages an earlier call had too.

    A system prompt alone does not count: calls of one program share it.
    """
    same = 0
    for mine, other in zip(own, earlier, strict=False):
        if mine != other:
            break
        same += 1
    return same if any(each.role not in _SYSTEM for each in messages[:same]) else 0


def _said(part: Part) -> list[Any]:
    return [part.type, part.text or "", part.name or "", part.value, part.data or part.uri or ""]
