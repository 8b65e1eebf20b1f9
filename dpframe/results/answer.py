"""Check and convert the answer of an estimator."""

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, TypeVar, cast, get_args

from dpframe.common.text import shown
from dpframe.errors import CellError
from dpframe.interfaces.estimator import Contrast, Estimate, Evidence, UpperOf
from dpframe.results.strict_json import profile_problem, text

MOST_POINTS = 1_000_000
MOST_NOTES = 1_000
LONGEST_NOTE = 10_000  # characters of a note

ROUNDING = 1e-6  # relative difference of two numbers that count as equal


def checked(estimate: Any, *, certified: bool, tested: bool) -> Estimate:
    """Return the answer of `Estimator.estimate` with plain Python numbers.

    `certified` says that the estimator promises a valid bound, `tested` that the cell gets a
    verdict. Raises CellError if the answer contradicts itself or is not an `Estimate`.
    """
    if not isinstance(estimate, Estimate):
        raise CellError(f"estimate returned {shown(estimate)}; it must return an Estimate")
    found = estimate._replace(
        epsilon=_loss("epsilon", estimate.epsilon),
        epsilon_lower=_given(_known_loss, "epsilon_lower", estimate.epsilon_lower),
        epsilon_upper=_given(_known_loss, "epsilon_upper", estimate.epsilon_upper),
        epsilon_upper_of=_upper_of(estimate.epsilon_upper_of),
        interval=_given(_interval, "interval", estimate.interval),
        p_value=_given(_p_value, "p_value", estimate.p_value),
        p_resolved=_given(_p_value, "p_resolved", estimate.p_resolved),
        contrast=_given(_contrast, "contrast", estimate.contrast),
        tradeoff=_points("tradeoff", estimate.tradeoff),
        profile=_points("profile", estimate.profile),
        profile_lower=_profile_lower(estimate.profile_lower),
        notes=_notes(estimate.notes),
        wealth=_wealth(estimate.wealth),
        evidence=_given(_evidence, "evidence", estimate.evidence),
    )
    lower, upper = found.epsilon_lower, found.epsilon_upper
    if lower is not None and upper is not None and lower > upper * (1 + ROUNDING):
        raise CellError(f"estimate gave the bound {lower}, which is above the limit {upper}")
    if certified and (lower is None or not math.isfinite(lower)):
        raise CellError(
            f"estimate gave the bound {lower}; a certifying estimator must give a number"
        )
    if tested and (found.p_value is None or found.p_resolved is None):
        raise CellError(
            f"estimate gave the p-values {found.p_value} and {found.p_resolved}; a certifying "
            "estimator gives p_value and p_resolved in (0, 1], as estimate_from_boxes does"
        )
    p_value, p_resolved = found.p_value, found.p_resolved
    if p_value is None or p_resolved is None or p_value <= p_resolved:
        return found
    # Raising the error rates cannot make the claim easier to reject.
    if p_value > p_resolved * (1 + ROUNDING):
        raise CellError(f"estimate gave p_resolved {p_resolved}, which is below p_value {p_value}")
    return found._replace(p_resolved=p_value)


T = TypeVar("T")


def _given(check: Callable[[str, Any], T], name: str, value: Any) -> T | None:
    """Check a value that may be None."""
    return None if value is None else check(name, value)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise CellError(f"estimate gave {shown(value)} for {name}; it must be a number")
    try:
        return float(value)
    except Exception as error:  # an integer too large for a float, or a number class of a plugin
        raise CellError(
            f"estimate gave {shown(value)} for {name}; it is too large for a float"
        ) from error


def _loss(name: str, value: Any) -> float:
    loss = _number(name, value)
    if loss < 0:
        raise CellError(f"estimate gave {loss} for {name}; a loss is at least 0")
    return loss


def _known_loss(name: str, value: Any) -> float:
    loss = _loss(name, value)
    if math.isnan(loss):
        raise CellError(f"estimate gave nan for {name}")
    return loss


def _upper_of(value: Any) -> UpperOf:
    for known in get_args(UpperOf):
        if value == known:
            return cast("UpperOf", known)
    known = ", ".join(map(repr, get_args(UpperOf)))
    raise CellError(f"estimate gave {shown(value)} for epsilon_upper_of; it must be one of {known}")


def _p_value(name: str, value: Any) -> float:
    p_value = _number(name, value)
    if not 0 < p_value <= 1:
        raise CellError(f"estimate gave {p_value} for {name}, which is not in (0, 1]")
    return p_value


def _interval(name: str, value: Any) -> tuple[float, float]:
    low, high = _numbers(name, value, 2)
    if low > high or math.isnan(low + high):
        raise CellError(f"estimate gave the interval from {low} to {high}")
    return low, high


def _contrast(name: str, value: Any) -> Contrast:
    contrast = Contrast(*_numbers(name, value, len(Contrast._fields)))
    if any(map(math.isnan, contrast)):
        raise CellError(f"estimate gave {tuple(contrast)} for contrast")
    return contrast


def _points(name: str, value: Any) -> tuple[tuple[float, float], ...]:
    points = _sequence(name, value, MOST_POINTS)
    return tuple((x, y) for x, y in (_numbers(f"a point of {name}", p, 2) for p in points))


def _wealth(value: Any) -> tuple[tuple[int, float], ...]:
    points = _points("wealth", value)
    if any(math.isnan(w) or w == math.inf for _, w in points):
        raise CellError("estimate gave a wealth that is not a number")
    trials = [t for t, _ in points]
    if trials != sorted(trials) or any(t < 0 or t % 1 for t in trials):
        raise CellError("estimate gave a wealth whose trials do not increase")
    return tuple((int(t), w) for t, w in points)


def _evidence(name: str, value: Any) -> Evidence:
    if not isinstance(value, Evidence) or not isinstance(value.theorem, str):
        raise CellError(f"estimate gave {shown(value)} for evidence; it must be an Evidence")
    both = [_sequence(name, rows, MOST_POINTS) for rows in (value.terms, value.design)]
    for number in (
        each for rows in both for row in rows for each in _sequence(name, row, MOST_POINTS)
    ):
        if not math.isfinite(_number(name, number)):
            raise CellError(f"estimate gave {number} in its evidence, which is not finite")
    terms, design = (tuple(map(tuple, rows)) for rows in both)
    return Evidence(text(value.theorem), terms, design)


def _profile_lower(value: Any) -> tuple[tuple[float, float], ...]:
    points = _points("profile_lower", value)
    if (problem := profile_problem(points)) is not None:
        raise CellError(f"estimate gave a profile_lower that {problem}")
    return points


def _notes(value: Any) -> tuple[str, ...]:
    notes = _sequence("notes", value, MOST_NOTES)
    for note in notes:
        if not isinstance(note, str):
            raise CellError(f"estimate gave {shown(note)} among its notes; notes must be texts")
    return tuple(text(note[:LONGEST_NOTE]) for note in notes)


def _numbers(name: str, value: Any, count: int) -> list[float]:
    values = _sequence(name, value, count)
    if len(values) != count:
        raise CellError(f"estimate gave {shown(value)} for {name}; {count} numbers are required")
    return [_number(name, each) for each in values]


def _sequence(name: str, value: Any, most: int) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise CellError(f"estimate gave {shown(value)} for {name}; it must be a tuple")
    if len(value) > most:
        raise CellError(f"estimate gave {len(value):,} values for {name}; {most:,} is the most")
    return value
