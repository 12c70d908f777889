"""Codecs for exceptions, pydantic models (such as provider responses) and numpy values.

Pydantic and numpy are used only if the program has loaded them.
"""

import base64
import sys
from typing import Any, Final

from tracereel.tape import classes
from tracereel.tape.codec import Data, Opaque, add
from tracereel.tape.codec_types import TypeRecord

_MAX_CAUSES: Final = 3
_FACTORIES: Final = (list, dict, set, tuple, str, int, float, bool, bytes)
_CONSTANTS: Final = (str, int, float, bool, bytes)
_HEAP_TYPE: Final = 1 << 9
"""Type flag of classes that are created at run time, not by the interpreter."""
_ARGS: Final[Any] = BaseException.__dict__["args"]
_CAUSE: Final[Any] = BaseException.__dict__["__cause__"]
_HELD: Final[Any] = BaseException.__dict__["__dict__"]
_OWN_ATTRIBUTES: Final = ("__tracereel_", "_tracereel_")


def _is_pydantic(given: type) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(given, pydantic.BaseModel)


def _pydantic(value: Any, pack: Any) -> dict[str, Data]:
    state = object.__getattribute__
    found: dict[str, Data] = {
        "c": classes.path_of(type(value)),
        "v": {name: pack(item) for name, item in state(value, "__dict__").items()},
        "set": sorted(state(value, "__pydantic_fields_set__")),
    }
    extra = state(value, "__pydantic_extra__")
    if extra is not None:
        found["extra"] = {name: pack(item) for name, item in extra.items()}
    private = state(value, "__pydantic_private__")
    if private:
        kept = {name: pack(item) for name, item in private.items()}
        # Private attributes are often clients or locks: those that cannot be encoded are dropped.
        found["private"] = {n: d for n, d in kept.items() if not _is_opaque(d)}
    return found


def _from_pydantic(data: dict[str, Data], unpack: Any) -> Any:
    values = {name: unpack(item) for name, item in data["v"].items()}
    extra = data.get("extra")
    extra = None if extra is None else {name: unpack(item) for name, item in extra.items()}
    kind = classes.resolve(data["c"])
    if kind is None or not _is_pydantic(kind):
        return TypeRecord(data["c"], {**values, **(extra or {})})
    made: Any = object.__new__(kind)
    put = object.__setattr__
    put(made, "__dict__", values)
    put(made, "__pydantic_fields_set__", set(data["set"]))
    put(made, "__pydantic_extra__", extra)
    private = {name: unpack(item) for name, item in data.get("private", {}).items()}
    defaults = getattr(kind, "__private_attributes__", {})
    for name, attribute in defaults.items():
        if name not in private and (default := _default_of(attribute)) is not None:
            private[name] = default
    put(made, "__pydantic_private__", private or ({} if defaults else None))
    return made


def _default_of(attribute: Any) -> Any:
    """Return the default of a private attribute; factories of the program do not run."""
    factory = attribute.default_factory
    if factory is not None:
        return factory() if factory in _FACTORIES else None
    return attribute.default if type(attribute.default) in _CONSTANTS else None


def _is_opaque(data: Data) -> bool:
    return type(data) is dict and data.get("$") == "opaque"


add("model", _is_pydantic, _pydantic, _from_pydantic, first=True)


def _exception(value: BaseException, pack: Any, depth: int = 0) -> dict[str, Data]:
    kind = type(value)
    attributes = {
        name: packed
        for name, item in getattr(value, "__dict__", {}).items()
        if name != "__notes__" and not name.startswith(_OWN_ATTRIBUTES)
        if not _is_opaque(packed := _quietly(pack, item))
    }
    found: dict[str, Data] = {
        "c": classes.path_of(kind),
        "bases": [classes.path_of(base) for base in kind.__mro__[1:-1]],
        "args": [_quietly(pack, item) for item in _arguments(value)],
        "text": _text_of(value),
    }
    if attributes:
        found["attributes"] = attributes
    if notes := getattr(value, "__notes__", None):
        found["notes"] = [str(note) for note in notes]
    if isinstance(value, BaseExceptionGroup):
        found["parts"] = [_exception(each, pack, depth + 1) for each in value.exceptions]
        found["args"] = [value.message]
    if value.__cause__ is not None and depth < _MAX_CAUSES:
        found["cause"] = _exception(value.__cause__, pack, depth + 1)
    return found


def _arguments(value: BaseException) -> tuple[Any, ...]:
    if isinstance(value, OSError) and type(value).__module__ == "builtins":
        # `args` omits file names.
        given: tuple[Any, ...] = value.__reduce__()[1]  # type: ignore[assignment]
        return given
    return value.args


def _quietly(pack: Any, item: Any) -> Data:
    """Encode a value attached to an exception; an opaque one keeps the run replayable."""
    owner = getattr(pack, "__self__", None)
    before = len(owner.problems) if owner is not None else 0
    data = pack(item)
    if owner is not None:
        del owner.problems[before:]
    return data


def _text_of(value: BaseException) -> str:
    try:
        return str(value)[:10_000].encode("utf-8", "replace").decode()
    except Exception:  # noqa: BLE001 - its `__str__` may raise
        return ""


def _from_exception(data: dict[str, Data], unpack: Any) -> BaseException:
    args = tuple(unpack(item) for item in data["args"])
    kind = _class_of(data)
    made: Any
    if "parts" in data:
        parts = [_from_exception(each, unpack) for each in data["parts"]]
        text = args[0] if type(args[0]) is str else data["text"]
        made = BaseExceptionGroup(text, parts)
        if kind.__module__ != "builtins" and issubclass(kind, BaseExceptionGroup):
            made = BaseExceptionGroup.__new__(kind, text, parts)
    elif kind.__module__ == "builtins" and issubclass(kind, (UnicodeError, OSError)):
        made = _built(kind, args)
    else:
        made = _native(kind).__new__(kind, *args)
        _ARGS.__set__(made, args)
    # A class may have a `__getattribute__` of its own.
    held = _HELD.__get__(made)
    for name, item in data.get("attributes", {}).items():
        held[name] = unpack(item)
    if notes := [note for note in data.get("notes", ()) if type(note) is str]:
        held["__notes__"] = notes
    if "cause" in data:
        _CAUSE.__set__(made, _from_exception(data["cause"], unpack))
    found: BaseException = made
    return found


def _native(kind: type[BaseException]) -> type[BaseException]:
    """Return the nearest built-in base; its `__new__` runs no code of the program."""
    return next(each for each in kind.__mro__ if not each.__flags__ & _HEAP_TYPE)


def _built(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    try:
        return kind(*args)
    except Exception:  # noqa: BLE001 - arguments of an older subclass
        return kind.__new__(kind, *args)


def _class_of(data: dict[str, Data]) -> type[BaseException]:
    """Return the exception class, or a substitute with its name and nearest loaded base."""
    found = classes.resolve(data["c"], BaseException)
    if found is not None:
        return found
    bases = (classes.resolve(path, BaseException) for path in data["bases"])
    base = next((each for each in bases if each is not None and _may_derive(each)), Exception)
    module, _, name = data["c"].partition(":")
    text = data["text"]
    return type(
        name.rpartition(".")[2], (base,), {"__module__": module, "__str__": lambda _self: text}
    )


def _may_derive(base: type) -> bool:
    """Return whether a class can be subclassed without running its code."""
    return type(base) is type and classes.defines(base, "__init_subclass__") is object


add(
    "exception",
    lambda given: issubclass(given, BaseException),
    _exception,
    _from_exception,
    first=True,
)


def _is_numpy(given: type) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and (given is numpy.ndarray or issubclass(given, numpy.generic))


def _numpy(value: Any, _pack: Any) -> dict[str, Data]:
    numpy = sys.modules["numpy"]
    if value.dtype.hasobject:
        raise TypeError("arrays of objects are not kept")
    array = numpy.asarray(value)
    body = base64.b64encode(numpy.ascontiguousarray(array).tobytes()).decode()
    dtype = array.dtype.str if array.dtype.names is None else [list(p) for p in array.dtype.descr]
    scalar = not isinstance(value, numpy.ndarray)
    return {"d": dtype, "s": list(array.shape), "b": body, **({"x": 1} if scalar else {})}


def _from_numpy(data: dict[str, Data], _unpack: Any) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return Opaque("numpy:ndarray", "numpy is not loaded here")
    given = data["d"]
    dtype = numpy.dtype(given if isinstance(given, str) else [tuple(part) for part in given])
    array = numpy.frombuffer(base64.b64decode(data["b"]), dtype=dtype).reshape(data["s"]).copy()
    return array[()] if data.get("x") else array


add("numpy", _is_numpy, _numpy, _from_numpy, first=True)
