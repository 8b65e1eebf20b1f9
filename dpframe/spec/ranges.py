"""Parameters of a mechanism that a search varies together with its pairs."""

import contextlib
import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpframe.interfaces.plugin_files import SpecFile, beside

Setting = tuple[tuple[str, str], ...]
"""Values by key, each as JSON; empty for the parameters of the spec."""

GROUP = "mechanism."


class Range(NamedTuple):
    """The values that a parameter may take."""

    key: str  # as in "mechanism.C", or "mechanism.params.C" inside of a table
    values: tuple[str, ...]  # each as JSON; values between two ends are drawn at random
    ends: tuple[float, float] | None = None
    log: bool = False
    whole: bool = False

    def by_chance(self, rng: np.random.Generator, near: str | None = None) -> str:
        """Return a random value; with `near`, the middle between it and `near`."""
        if self.ends is None:
            return self.values[int(rng.integers(len(self.values)))]
        low, high = map(math.log, self.ends) if self.log else self.ends
        number = float(rng.uniform(low, high))
        if near is not None:
            old = float(json.loads(near))
            number = (number + (math.log(old) if self.log else old)) / 2
        return self.at(math.exp(number) if self.log else number)

    def at(self, number: float) -> str:
        """Return a number as a value, clipped to the ends."""
        low, high = self.ends or (number, number)
        number = min(max(number, low), high)
        return json.dumps(round(number) if self.whole else number)


def read_ranges(tables: Mapping[str, Any]) -> list[Range]:
    """Return the ranges of `[search.parameters]`; quoted and nested keys are equal.

    Raises:
        ValueError: the message is for the user.
    """
    found = []
    for key, value in _flat(tables, ""):
        if not key.startswith(GROUP) or not key.removeprefix(GROUP):
            raise ValueError(f'{key}: must name a parameter of the mechanism, as in "mechanism.C"')
        if isinstance(value, list):
            if not value:
                raise ValueError(f"{key}: is an empty list")
            found.append(Range(key, tuple(map(json.dumps, value))))
            continue
        found.append(_range(key, value))
    if len({one.key for one in found}) < len(found):
        raise ValueError("a parameter is there twice")
    return found


def _flat(tables: Mapping[str, Any], before: str) -> list[tuple[str, Any]]:
    found = []
    for name, value in tables.items():
        is_table = isinstance(value, dict) and not {"low", "high", "log"} & set(value)
        found += _flat(value, f"{before}{name}.") if is_table else [(f"{before}{name}", value)]
    return found


def _range(key: str, value: Any) -> Range:
    wanted = f"{key}: should be a list of values, or {{ low = …, high = …, log = true }}"
    if not isinstance(value, dict) or not {"low", "high"} <= set(value) <= {"low", "high", "log"}:
        raise ValueError(wanted)
    low, high, log = value["low"], value["high"], value.get("log", False)
    numbers = [one for one in (low, high) if type(one) in (int, float) and math.isfinite(one)]
    if len(numbers) < 2 or type(log) is not bool:
        raise ValueError(wanted)
    if not low < high or (log and low <= 0):
        raise ValueError(f"{key}: low must be below high, and above 0 with log = true")
    plain = Range(key, (), (float(low), float(high)), log, type(low) is type(high) is int)
    middle = math.sqrt(low) * math.sqrt(high) if log else low / 2 + high / 2
    return plain._replace(values=tuple(map(plain.at, (low, high, middle))))


def planned(ranges: Sequence[Range]) -> list[Setting]:
    """Return the first settings: as given, each parameter alone, all together."""
    found: list[Setting] = [()]
    most = max((len(one.values) for one in ranges), default=0)
    for at in range(most):
        found += [((one.key, one.values[at]),) for one in ranges if at < len(one.values)]
    if len(ranges) > 1:
        found += [tuple((one.key, one.values[at]) for one in ranges) for at in (0, -1)]
    return list(dict.fromkeys(found))


def by_chance(
    ranges: Sequence[Range], rng: np.random.Generator, near: Setting | None = None
) -> Setting:
    """Return a setting of all parameters; with `near`, one of them changes."""
    if near is None:
        return tuple((one.key, one.by_chance(rng)) for one in ranges)
    values = dict(near)
    one = ranges[int(rng.integers(len(ranges)))]
    values[one.key] = one.by_chance(rng, values.get(one.key))
    return tuple(sorted(values.items()))


def varied(mechanism: Any, setting: Setting) -> Any:
    """Return a mechanism with other values of its parameters.

    Raises:
        pydantic.ValidationError, ValueError: it refuses them.
    """
    if not setting:
        return mechanism
    params = mechanism.params()
    for key, value in setting:
        *around, name = key.removeprefix(GROUP).split(".")
        table = params
        for step in around:
            table = table.setdefault(step, {})
        table[name] = json.loads(value)
    fields = {field.name: getattr(mechanism, field.name) for field in dataclasses.fields(mechanism)}
    files = [value for value in fields.values() if isinstance(value, SpecFile)]
    with beside(files[0].folder) if files else contextlib.nullcontext():
        return type(mechanism).from_params(params)
