"""Types of the seeds as predicates over JSON values."""

from datetime import datetime


def is_of_type(value: object, wanted: str) -> bool:
    """Return whether a JSON value has a type of the contract, such as `Optional[int]`."""
    if wanted.startswith("Optional["):
        return value is None or is_of_type(value, wanted[len("Optional[") : -1])
    if wanted == "datetime":
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    if wanted == "List[str]":
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if wanted == "float":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if wanted == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    known = {"str": str, "bool": bool, "dict": dict}
    return isinstance(value, known[wanted])
