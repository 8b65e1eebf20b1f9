"""Check and convert the estimate of an estimator."""

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, get_args

from dpframe.common.text import shown
from dpframe.errors import CellError
from dpframe.interfaces.estimator import Contrast, Estimate, Evidence, UpperOf
from dpframe.results.strict_json import profile_problem, text

MOST_POINTS = 1_000_000
MOST_NOTES = 1_000
LONGEST_NOTE = 10_000  # characters of a note

SAME_NUMBER = 1e-6  # relative difference of two numbers that count as equal

_LOSS = "a loss is at least 0"
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "epsilon": (lambda loss: not loss < 0, _LOSS),
    "epsilon_lower": (lambda loss: loss >= 0, _LOSS),
    "epsilon_upper": (lambda loss: loss >= 0, _LOSS),
    "epsilon_upper_of": (
        lambda scope: isinstance(scope, str) and scope in get_args(UpperOf),
        f"it must be one of {', '.join(map(repr, get_args(UpperOf)))}",
    ),
    "interval": (lambda ends: ends[0] <= ends[1], "it must ascend"),
    "p_value": (lambda p: 0 < p <= 1, "it must be in (0, 1]"),
    "p_resolved": (lambda p: 0 < p <= 1, "it must be in (0, 1]"),
    "contrast": (lambda numbers: not any(map(math.isnan, numbers)), "NaN is not accepted"),
    "wealth": (
        lambda points: (
            all(t >= 0 and t % 1 == 0 and w < math.inf for t, w in points)
            and [t for t, _ in points] == sorted(t for t, _ in points)
        ),
        "trials are whole and ascend, and a logarithm of wealth is a number",
    ),
}
"""Rules for fields that are not None, each with its message."""


def checked(estimate: Any, *, certified: bool, tested: bool) -> Estimate:
    """Return the result of `Estimator.estimate` with plain Python numbers.

    `certified` says that the estimator promises a valid bound, `tested` that the cell gets a
    verdict. Raises CellError if the estimate contradicts itself or is not an `Estimate`.
    """
    if not isinstance(estimate, Estimate):
        raise CellError(f"estimate returned {shown(estimate)}; it must return an Estimate")
    fields = estimate._asdict()
    for name in ("epsilon", "epsilon_lower", "epsilon_upper", "p_value", "p_resolved"):
        if fields[name] is not None or name == "epsilon":
            fields[name] = _number(name, fields[name])
    for name, size in (("interval", 2), ("contrast", 3)):
        if fields[name] is not None:
            fields[name] = _numbers(name, fields[name], size)
    for name in ("tradeoff", "profile", "profile_lower", "wealth"):
        points = _sequence(name, fields[name])
        fields[name] = tuple(_numbers(f"a point of {name}", point, 2) for point in points)
    if fields["evidence"] is not None:
        fields["evidence"] = _evidence(fields["evidence"])
    for name, (holds, rule) in _RULES.items():
        if fields[name] is not None and not holds(fields[name]):
            raise CellError(f"estimate gave {shown(fields[name])} for {name}; {rule}")
    if (problem := profile_problem(fields["profile_lower"])) is not None:
        raise CellError(f"estimate gave a profile_lower that {problem}")
    fields["contrast"] = fields["contrast"] and Contrast(*fields["contrast"])
    fields["wealth"] = tuple((int(trials), wealth) for trials, wealth in fields["wealth"])
    fields["notes"] = _notes(fields["notes"])
    return _without_contradiction(Estimate(**fields), certified, tested)


def _without_contradiction(estimate: Estimate, certified: bool, tested: bool) -> Estimate:
    lower, upper = estimate.epsilon_lower, estimate.epsilon_upper
    if lower is not None and upper is not None and lower > upper * (1 + SAME_NUMBER):
        raise CellError(f"estimate gave the bound {lower}, which is above the limit {upper}")
    if certified and (lower is None or not math.isfinite(lower)):
        raise CellError(
            f"estimate gave the bound {lower}; a certifying estimator must give a number"
        )
    p_value, p_resolved = estimate.p_value, estimate.p_resolved
    if tested and (p_value is None or p_resolved is None):
        raise CellError(
            f"estimate gave the p-values {p_value} and {p_resolved}; a certifying "
            "estimator gives p_value and p_resolved in (0, 1], as estimate_from_boxes does"
        )
    if p_value is None or p_resolved is None or p_value <= p_resolved:
        return estimate
    # Raising the error rates cannot make the claim easier to reject.
    if p_value > p_resolved * (1 + SAME_NUMBER):
        raise CellError(f"estimate gave p_resolved {p_resolved}, which is below p_value {p_value}")
    return estimate._replace(p_resolved=p_value)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise CellError(f"estimate gave {shown(value)} for {name}; it must be a number")
    try:
        return float(value)
    except Exception as error:  # an integer too large for a float, or a number class of a plugin
        raise CellError(
            f"estimate gave {shown(value)} for {name}; it is too large for a float"
        ) from error


def _numbers(name: str, value: Any, count: int) -> tuple[float, ...]:
    values = _sequence(name, value)
    if len(values) != count:
        raise CellError(f"estimate gave {shown(value)} for {name}; {count} numbers are required")
    return tuple(_number(name, each) for each in values)


def _sequence(name: str, value: Any, most: int = MOST_POINTS) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise CellError(f"estimate gave {shown(value)} for {name}; it must be a tuple")
    if len(value) > most:
        raise CellError(f"estimate gave {len(value):,} values for {name}; {most:,} is the most")
    return value


def _evidence(value: Any) -> Evidence:
    if not isinstance(value, Evidence) or not isinstance(value.theorem, str):
        raise CellError(f"estimate gave {shown(value)} for evidence; it must be an Evidence")
    terms, design = (
        tuple(tuple(_sequence("evidence", row)) for row in _sequence("evidence", rows))
        for rows in (value.terms, value.design)
    )
    for number in (number for row in (*terms, *design) for number in row):
        if not math.isfinite(_number("evidence", number)):
            raise CellError(f"estimate gave {number} in its evidence, which is not finite")
    return Evidence(text(value.theorem), terms, design)


def _notes(value: Any) -> tuple[str, ...]:
    notes = _sequence("notes", value, MOST_NOTES)
    for note in notes:
        if not isinstance(note, str):
            raise CellError(f"estimate gave {shown(note)} among its notes; notes must be texts")
    return tuple(text(note[:LONGEST_NOTE]) for note in notes)
