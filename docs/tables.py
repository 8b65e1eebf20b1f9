"""Tables of the website that the code knows: options, parameters, members, keys of a record."""

from __future__ import annotations

import inspect
import re
import typing
from typing import TYPE_CHECKING, Any

import typer
from pydantic import BaseModel

from dpframe import plugins
from dpframe.cli import app
from dpframe.common.text import meanings
from dpframe.interfaces import registry
from dpframe.interfaces.plugin import parameters
from dpframe.results.model import RecordPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def with_parameters(text: str) -> str:
    """Add the table of its parameters to the section of each built-in plugin."""
    builtin = [e for e in registry.load().entries if e.distribution == registry.BUILTIN]
    classes = {(entry.kind, entry.name): entry.cls for entry in builtin}
    parts, kind = [], ""
    for part in re.split(r"^(?=##)", text, flags=re.MULTILINE):
        if heading := re.match(r"## (\w+)s$", part, re.MULTILINE):
            kind = heading[1].lower()
        name = re.match(r"### `(\S+)`", part)
        listed = parameters(classes[kind, name[1]]) if name else ()
        cells = [(f"`{p.name}`", p.type, p.default, p.bounds or "–", p.meaning) for p in listed]
        head = ("parameter", "type", "default", "bounds", "meaning")
        parts.append(part + (table(head, cells) + "\n\n" if cells else ""))
    return "".join(parts)


OF_ALL_PLUGINS = {"check", "from_params", "params", "check_definition", "name", "api", "kind"}
OF_ALL_PLUGINS |= {"leaves", "may_be_parameters", "spec_names"}


def with_members(text: str) -> str:
    """Add the table of its members to the section of each base class that has none."""
    parts = []
    for part in re.split(r"^(?=##)", text, flags=re.MULTILINE):
        named = re.match(r"### `(\w+)`", part)
        lacks_one = named is not None and "| member |" not in part
        cells = list(members(getattr(plugins, named[1]))) if named and lacks_one else []
        parts.append(part + (table(("member", "meaning"), cells) + "\n\n" if cells else ""))
    return "".join(parts)


def members(cls: type) -> Iterator[tuple[str, str]]:
    """Return what a subclass may give, beside what all plugins have, and what it means."""
    told: dict[str, str] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("dpframe"):
            texts = meanings(base)
            for name in (*vars(base).get("__annotations__", ()), *vars(base)):
                if not name.startswith("_") and name not in OF_ALL_PLUGINS:
                    of = inspect.getattr_static(cls, name, None)
                    text = texts.get(name) or (inspect.getdoc(of) if _has_own_text(of) else "")
                    told[name] = told.get(name) or (text or "").partition("\n\n")[0]
    for name, meaning in filter(all, told.items()):  # the page explains what has no text
        of = getattr(cls, name, None)
        given = list(inspect.signature(of).parameters) if inspect.isfunction(of) else None
        called = "" if given is None else f"({', '.join(given[1:])})"
        yield f"`{name}{called}`", " ".join(meaning.split()).replace("<", "&lt;")


def _has_own_text(of: object) -> bool:
    return inspect.isroutine(of) or isinstance(of, property | classmethod | staticmethod)


def with_options(text: str) -> str:
    """Add the table of its options to the section of each command."""
    parts = []
    for part in re.split(r"^(?=##)", text, flags=re.MULTILINE):
        named = re.match(r"##+ `dpframe ?([^`]*)`", part)
        command: Any = typer.main.get_command(app)
        for word in named[1].split() if named else ():
            command = command.commands[word]
        shown = named is not None and (not named[1] or not hasattr(command, "commands"))
        cells = [_option(parameter) for parameter in command.params] if shown else []
        parts.append(part + (table(("option", "meaning"), cells) + "\n\n" if cells else ""))
    return "".join(parts)


def _option(parameter: Any) -> tuple[str, str]:
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`", _help(parameter)
    value = parameter.metavar or {"device": "cpu|gpu"}.get(parameter.name, "")
    names = [*parameter.opts, *parameter.secondary_opts]
    shown = ", ".join(f"`{option} {value}".rstrip() + "`" for option in names)
    return shown, _help(parameter)


def _help(parameter: Any) -> str:
    """Return the help of a parameter on one line; `<` begins no tag."""
    return " ".join((parameter.help or "").split()).replace("<", "&lt;")


def table(head: Sequence[str], cells: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join(
        "| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines
    )


def record_keys(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, str]]:
    """Return the dotted keys of a record with their meanings."""
    told: dict[str, str] = {}
    for base in reversed(model.__mro__[: model.__mro__.index(RecordPart)]):
        told |= meanings(base)
    for name, field in model.model_fields.items():
        key = f"{path}{field.alias or name}"
        yield f"`{key}`", " ".join(told.get(name, "").split())
        if inner := _model_in(field.annotation):
            yield from record_keys(inner[0], f"{key}{inner[1]}.")


def _model_in(annotation: object, path: str = "") -> tuple[type[BaseModel], str] | None:
    """Return the model that a field holds, with "[]" if in a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, path
    inner = path + "[]" if typing.get_origin(annotation) is list else path
    return next(
        filter(None, (_model_in(each, inner) for each in typing.get_args(annotation))), None
    )
