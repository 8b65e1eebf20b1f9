"""Promises of every plugin, whatever its kind."""

import dataclasses
import inspect
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

import cloudpickle
import numpy as np
import tomli
from pydantic import ValidationError

from dpframe.common.text import error_message, toml, toml_key
from dpframe.common.types import Floats, HostArray
from dpframe.errors import CellError, DpframeError
from dpframe.interfaces.pair import same
from dpframe.interfaces.plugin import (
    Plugin,
    json_schema,
    names_in_specs,
    parameters,
    problems_of,
    unreadable,
)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One promise and its result."""

    promise: str  # the promise of every plugin of the kind
    # "left out": it does not apply, or cannot be tried.
    result: Literal["kept", "broken", "left out"]
    detail: str  # the mistake and its remedy, or why it was left out; empty if it is kept


class LeftOut(Exception):  # noqa: N818  # it is no error
    """Raised, with the reason, by a trial that does not apply or cannot be run."""


# A promise, and a function of the subject that raises if it is broken: AssertionError or CellError
# with the mistake, anything else if the author's code raised it.
Trial = tuple[str, "Callable[[Any], None]"]


def examine(subject: Any, trials: Sequence[Trial]) -> list[Finding]:
    """Try every promise, independently of the results of others."""
    return [_examined(subject, *trial) for trial in trials]


def _examined(subject: Any, promise: str, trial: Callable[[Any], None]) -> Finding:
    try:
        trial(subject)
    except LeftOut as reason:
        return Finding(promise, "left out", str(reason))
    except (AssertionError, CellError) as wrong:
        return Finding(promise, "broken", str(wrong) or "an assertion failed")
    except Exception as error:
        return Finding(promise, "broken", error_message(error))
    return Finding(promise, "kept", "")


class NotKeptError(AssertionError):
    """A plugin breaks promises of its kind.

    Attributes:
        findings: all promises with their results.
    """

    def __init__(self, what: str, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        broken = [finding for finding in findings if finding.result == "broken"]
        lines = [f"* {finding.promise}: {finding.detail}" for finding in broken]
        super().__init__("\n".join([f"{what} breaks {len(broken)} of {len(findings)}:", *lines]))


def demand(plugin: Any, findings: list[Finding]) -> list[Finding]:
    """Return the findings, or raise NotKeptError if a promise is broken."""
    if any(finding.result == "broken" for finding in findings):
        raise NotKeptError(f"{plugin.kind} {plugin.name!r}", findings)
    return findings


ERROR = 1e-6  # probability that one test of random outputs accuses a correct plugin
COORDINATES = 8  # number of tested coordinates of an output


def demand_same_law(one: HostArray, other: HostArray, how: str) -> None:
    """Assert that two samples, [n, *dims] and [m, *dims], are of one distribution by coordinate.

    `how` says how the first was made.
    """
    pairs = list(zip(_columns(one), _columns(other), strict=True))
    log = math.log(4 * len(pairs) / ERROR)
    limit = math.sqrt(log / (2 * len(one))) + math.sqrt(log / (2 * len(other)))
    for number, (x, y) in enumerate(pairs):
        points = np.sort(np.concatenate([x, y]))
        below = [np.searchsorted(np.sort(part), points, "right") / len(part) for part in (x, y)]
        gap = float(np.abs(below[0] - below[1]).max())
        assert gap <= limit, (
            f"{how}  its outputs follow a different distribution than together: their "
            "distribution functions "
            f"are {gap:.2f} apart in coordinate {number}"
        )


def demand_ratio(on_zero: HostArray, on_one: HostArray) -> None:
    """Assert that log-ratios of densities match the outputs at which they are evaluated.

    With r = p′/p and any set B of values of r, E[min(1, r); r ∈ B] over D is E[min(1, 1/r); r ∈ B]
    over D′. This is tested for r above and below some values, by Hoeffding's inequality for means
    within [0, 1] [Hoeffding1963, theorem 1]. The log-ratios have shape [n], at outputs on D and D′.
    """
    ratios = [np.asarray(ratio, np.float64) for ratio in (on_zero, on_one)]
    for ratio, name in zip(ratios, ("D", "D′"), strict=True):
        assert not np.isnan(ratio).any(), f"log_density is NaN at an output on {name}"
    weights = [np.exp(np.minimum(0, ratio)) for ratio in (ratios[0], -ratios[1])]
    zero, one = (
        np.bincount(np.digitize(ratio, EDGES), weight, len(EDGES) + 1) / len(ratio)
        for ratio, weight in zip(ratios, weights, strict=True)
    )
    gaps = [np.cumsum(zero - one), np.cumsum((zero - one)[::-1])]
    log = math.log(4 * 2 * len(zero) / ERROR)
    limit = sum(math.sqrt(log / (2 * len(ratio))) for ratio in ratios)
    worst = float(np.abs(gaps).max())
    assert worst <= limit, (
        "log_density does not match the outputs: at large or small likelihood ratios, outputs on "
        f"D and on D′ give overlaps of D and D′ that differ by {worst:.2f}"
    )


def demand_distribution(ordered: HostArray, cdf: HostArray) -> None:
    """Assert that a distribution function is that of a sample.

    The test is that of [Massart1990, corollary 1], at half of the error for each of two datasets.
    With a few thousand numbers it detects differences of more than .05.

    Args:
        ordered: the sample, ascending with NaN last, shape [n].
        cdf: P(output ≤ x) at these numbers, shape [n]; not looked at where they are NaN.
    """
    shape = np.shape(cdf)
    assert shape == ordered.shape, f"cdf gave shape {shape} for {len(ordered)} numbers"
    numbers = ordered[~np.isnan(ordered)]
    share = np.searchsorted(numbers, numbers, "right") / len(ordered)
    limit = math.sqrt(math.log(4 / ERROR) / (2 * len(ordered)))
    gap = float(np.abs(share - np.asarray(cdf)[: len(numbers)]).max(initial=0.0))
    assert gap <= limit, (
        f"cdf does not match the outputs: it differs by {gap:.2f} from the share of them"
    )


# Values of ln r; not round numbers, because r is constant on sets of outputs for some mechanisms.
EDGES = (-2.9, -1.618, -0.731, -1e-4, 1e-4, 0.731, 1.618, 2.9)


def close(one: HostArray, other: HostArray) -> HostArray:
    """Mark the rows that are equal up to rounding."""
    x, y = (_flat(part) for part in (one, other))
    return np.asarray(np.isclose(x, y, rtol=1e-4, atol=1e-6, equal_nan=True).all(axis=1))


def _flat(outputs: HostArray) -> Floats:
    return np.asarray(outputs, np.float64).reshape(len(outputs), -1)


def _columns(outputs: HostArray) -> Iterator[Floats]:
    """Yield some coordinates, evenly spread over all; NaN becomes −inf."""
    flat = _flat(outputs)
    chosen = np.unique(np.linspace(0, flat.shape[1] - 1, COORDINATES).astype(int))
    for column in chosen if flat.shape[1] else ():
        yield np.nan_to_num(flat[:, column], nan=-np.inf, posinf=np.inf, neginf=-1e300)


def instance(plugin: Plugin | type[Plugin]) -> Any:
    """Return the plugin itself, or one of a class with example values; raises as `made` does."""
    return made(plugin, {}) if isinstance(plugin, type) else plugin


def made(cls: type[Plugin], params: Mapping[str, Any]) -> Any:
    """Make a plugin, with example values for required parameters that are not given.

    Raises:
        DpframeError: no example is found, or the values are refused; says which.
    """
    try:
        return cls.from_params({**example(cls, params), **params})
    except ValidationError as error:
        reason = "; ".join(
            f"{'.'.join([cls.kind, *map(str, place)])}: {message}"
            for place, _, message in problems_of(error)
        )
    except ValueError as error:  # `check`
        reason = str(error)
    raise DpframeError(f"{cls.kind} {cls.name!r} cannot be tried: {reason}; give it parameters")


def example(cls: type[Plugin], given: Collection[str] = ()) -> dict[str, Any]:
    """Return values for required parameters not given: 1 if it is allowed, else the nearest value.

    Raises:
        DpframeError: a required parameter is not a number, a boolean or a choice.
    """
    described = json_schema(cls)
    properties, definitions = described.get("properties", {}), described.get("$defs", {})
    values, names = {}, names_in_specs(cls)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # made a dataclass by Plugin
        required = field.default is field.default_factory is dataclasses.MISSING
        name = names[field.name]
        if required and name not in given:
            values[name] = _example(cls, name, properties[name], definitions)
    return values


def _example(cls: type[Plugin], name: str, schema: dict[str, Any], known: dict[str, Any]) -> Any:
    if reference := schema.get("$ref"):
        return _example(cls, name, known[reference.rpartition("/")[2]], known)
    if choices := schema.get("anyOf"):
        return _example(cls, name, choices[0], known)
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    match schema.get("type"):
        case "boolean":
            return False
        case "integer" | "number" as kind:
            return _number(schema, whole=kind == "integer")
    raise DpframeError(f"{cls.kind} {cls.name!r} requires the parameter {name!r}: give it a value")


def _number(schema: dict[str, Any], *, whole: bool) -> float:
    """Return a number inside its bounds: 1 if it can be."""
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    ends = [end for end in (low, high) if end is not None]
    near = [end + step for end in ends for step in (0, 1, -1)]
    candidates = [1, *near, *([sum(ends) / 2] if ends and not whole else [])]
    number = next((value for value in candidates if _allowed(value, schema)), 1)
    return int(number) if whole else float(number)


def _allowed(value: float, schema: dict[str, Any]) -> bool:
    return bool(
        value >= schema.get("minimum", -math.inf)
        and value > schema.get("exclusiveMinimum", -math.inf)
        and value <= schema.get("maximum", math.inf)
        and value < schema.get("exclusiveMaximum", math.inf)
    )


def _described(plugin: Plugin) -> None:
    cls = type(plugin)
    assert inspect.cleandoc(cls.__doc__ or ""), (
        f"{cls.__name__} has no docstring; `dpframe plugins` shows its first line"
    )
    try:
        inspect.getsource(cls)
    except (OSError, TypeError):
        return  # strings under fields are only found in a file
    silent = [row.name for row in parameters(cls) if not row.meaning]
    assert not silent, f"no string under {', '.join(silent)} explains its meaning"


def _through_toml(plugin: Plugin) -> None:
    cls: Any = type(plugin)
    if problem := unreadable(cls):
        raise AssertionError(problem)
    given = {name: value for name, value in plugin.params().items() if value is not None}
    text = "".join(f"{toml_key(name)} = {toml(value)}\n" for name, value in given.items())
    back = cls.from_params(tomli.loads(text))
    assert back == plugin, f"written as TOML and read again, it is {back} instead of {plugin}"


def _hashable(plugin: Plugin) -> None:
    assert hash(plugin) == hash(type(plugin).from_params(plugin.params())), (
        "two plugins with equal parameters have different hashes"
    )


def _pickles(plugin: Plugin) -> None:
    back = cloudpickle.loads(cloudpickle.dumps(plugin))  # as worker processes get it
    assert same(back.params(), plugin.params()), "pickling changes its parameters"


TRIALS: tuple[Trial, ...] = (
    ("describes itself and its parameters", _described),
    ("parameters survive TOML", _through_toml),
    ("equal parameters, equal hash", _hashable),
    ("can be sent to a worker process", _pickles),
)
