"""What every plugin must do, whatever its kind."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import cloudpickle
import tomli

from dpframe.alike import same
from dpframe.parameters import parameters, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.plugin import Plugin
    from dpframe.testing.findings import Trial


def _described(plugin: Plugin) -> None:
    cls = type(plugin)
    assert inspect.cleandoc(cls.__doc__ or ""), (
        f"{cls.__name__} has no docstring: its first line is what `dpframe plugins` says of it"
    )
    try:
        inspect.getsource(cls)
    except (OSError, TypeError):
        return  # strings under fields are only found in a file
    silent = [row.name for row in parameters(cls) if not row.meaning]
    assert not silent, f"no string under {', '.join(silent)} says what it means"


def _through_toml(plugin: Plugin) -> None:
    cls = type(plugin)
    if problem := unreadable(cls):
        raise AssertionError(problem)
    given = {name: value for name, value in plugin.params().items() if value is not None}
    back = cls.from_params(tomli.loads(_as_toml(given)))
    assert back == plugin, f"written as TOML and read again it is {back}, and was {plugin}"


def _hashable(plugin: Plugin) -> None:
    assert hash(plugin) == hash(type(plugin).from_params(plugin.params())), (
        "two with equal parameters have different hashes"
    )


def _pickles(plugin: Plugin) -> None:
    back = cloudpickle.loads(cloudpickle.dumps(plugin))  # as worker processes get it
    assert same(back.params(), plugin.params()), "after pickling its parameters are others"


def _as_toml(values: dict[str, Any]) -> str:
    """Plain values as TOML; None has no word there."""
    return "".join(f"{json.dumps(name)} = {_value(value)}\n" for name, value in values.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, float):
        return repr(value)  # inf and nan too
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    return json.dumps(value)  # numbers, booleans and basic strings are written alike


TRIALS: tuple[Trial, ...] = (
    ("says what it is and what its parameters mean", _described),
    ("parameters survive TOML", _through_toml),
    ("equal parameters, equal hash", _hashable),
    ("can be sent to a worker process", _pickles),
)


def of(part: str) -> tuple[Trial, ...]:
    """The same trials, for a subject that has the plugin as an attribute.

    Args:
        part: name of the attribute.
    """

    def aimed(trial: Callable[[Any], None]) -> Callable[[Any], None]:
        return lambda subject: trial(getattr(subject, part))

    return tuple((promise, aimed(trial)) for promise, trial in TRIALS)
