"""Loader of the templates of SQL and protobuf schemas."""

from importlib import resources
from string import Template


def rendered(name: str, **values: object) -> str:
    """Return a file of `templates/` with its `$name` placeholders replaced."""
    file = resources.files(__package__).joinpath("templates", name)
    return Template(file.read_text(encoding="utf-8").removesuffix("\n")).substitute(values)
