"""Bodies with one small object or an array of them: parsing and rejections."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tracereel_collector.errors import BadRequestError, TooLargeError
from tracereel_collector.ingest.check import Rejection
from tracereel_collector.ingest.explain import explain_field, json_name
from tracereel_collector.ingest.objects import has_more_json

VALUES_PER_OBJECT = 100


@dataclass(frozen=True, slots=True)
class CheckedObjects:
    """Accepted lines with their ids, and rejections."""

    lines: list[bytes] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallBody:
    """Limits of a body; `kind` names its objects, `id_field` identifies one."""

    kind: str
    id_field: str
    max_bytes: int
    max_objects: int

    def check(self, data: bytes, accept: Callable[[Any], tuple[str, bytes]]) -> CheckedObjects:
        """Split the objects of a body; `accept` returns id and line, or raises ValidationError.

        Raises:
            BadRequestError: the body is neither an object nor an array.
            TooLargeError: it is too large or has too many objects.
        """
        checked = CheckedObjects()
        for index, value in enumerate(self.split(data)):
            try:
                name, line = accept(value)
            except (msgspec.ValidationError, UnicodeEncodeError) as error:
                checked.rejected.append(self._rejection(index, value, error))
            else:
                checked.ids.append(name)
                checked.lines.append(line)
        return checked

    def split(self, data: bytes) -> list[Any]:
        """Return the objects of a body without checking their fields."""
        if len(data) > self.max_bytes:
            raise TooLargeError(
                f"the body has {len(data)} bytes; at most {self.max_bytes} are accepted"
            )
        most = VALUES_PER_OBJECT * self.max_objects
        if has_more_json(data, most):
            raise TooLargeError(f"the body holds more than {most} JSON values")
        hint = f"expected one {self.kind} as a JSON object, or a JSON array of them"
        try:
            found = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadRequestError(f"the body is not valid JSON: {error}", hint=hint) from error
        if isinstance(found, dict):
            return [found]
        if not isinstance(found, list) or not found:
            got = "an empty array" if found == [] else json_name(found)
            raise BadRequestError(f"the body is {got}", hint=hint)
        if len(found) > self.max_objects:
            raise TooLargeError(
                f"the body holds {len(found)} {self.kind}s; at most {self.max_objects} are accepted"
            )
        return found

    def _rejection(self, index: int, value: Any, error: Exception) -> Rejection:
        known = value if isinstance(value, dict) else {}
        if known:
            reason = explain_field(str(error), known)
        else:
            got = json_name(value) if value != {} else "an empty one"
            reason = f"expected a JSON object, got {got}"
        name = known.get(self.id_field)
        return Rejection(index, name if isinstance(name, str) else None, reason)
