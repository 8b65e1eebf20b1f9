"""Read the distribution that a black box states, and compare its outputs with it."""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, NamedTuple

from .frames import Frame
from .query import Refused

FLOORS = {"float16": -17.5, "bfloat16": -93.0, "float32": -104.0, "float64": -746.0}
"""Below these logarithms a probability may have been rounded to 0, by type of the numbers."""
ROUNDING = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1.2e-7, "float64": 2.3e-16}
"""Relative errors of numbers by their type."""
UNKNOWN = "float32"  # the type that numbers are taken to have if they come from no array
FORM = (
    "choices returns logarithms of probabilities: a dict of them by output, a list of such dicts "
    "for the places of an output, or an array, [outcomes] or [places, outcomes]"
)
OTHER = -1  # stands for an output that is not stated


class Stated(NamedTuple):
    """Stated choices of the places of an output, which are independent."""

    names: list[list[str] | None]
    """Outcomes of each place; None if they are the numbers 0, 1, …"""
    logs: list[list[float]]
    """Logarithms of their probabilities."""
    single: bool
    """True if the output is the only place itself."""
    rounding: float
    """Relative error of the logarithms."""


def read(answer: Any) -> Stated:
    """Read what `choices` returned; raise Refused if it has another form.

    A probability of 0 is taken as the largest that rounds to 0, because the logarithm of a small
    one may be −inf. An outcome that is missing has probability 0.
    """
    single = isinstance(answer, dict)
    answer = [answer] if single else answer
    if isinstance(answer, (list, tuple)) and answer and all(isinstance(a, dict) for a in answer):
        dtype = _type_of(next(iter(answer[0].values()), None))
        logs = [_logs(list(place.values()), FLOORS[dtype]) for place in answer]
        return Stated([_names(place) for place in answer], logs, single, ROUNDING[dtype])
    several = isinstance(answer, (list, tuple)) and len(answer) > 0  # perhaps of arrays
    dtype = _type_of(answer[0] if several else answer)
    floor, rounding = FLOORS[dtype], ROUNDING[dtype]
    values = [_plain(place) for place in answer] if several else _plain(answer)
    if not isinstance(values, (list, tuple)) or not values:
        raise Refused(f"{FORM}; it returned {type(answer).__name__}")
    if not isinstance(values[0], (list, tuple)):
        return Stated([None], [_logs(values, floor)], True, rounding)
    if not all(isinstance(place, (list, tuple)) for place in values):
        raise Refused(FORM)
    logs = [_logs(place, floor) for place in values]
    return Stated([None] * len(values), logs, False, rounding)


def frame(stated: Stated, outputs: Sequence[Any]) -> Frame:
    """Return the message of stated choices and of outputs, which are numbered by outcome."""
    codes = [
        {name: at for at, name in enumerate(names or map(_name, range(len(logs))))}
        for names, logs in zip(stated.names, stated.logs)
    ]
    draws, strange = [], None
    for output in outputs:
        places = _places(output, stated)
        if len(places) != len(codes):
            draws.append([OTHER] * len(codes))
        else:
            draws.append([known.get(_name(one), OTHER) for known, one in zip(codes, places)])
        if strange is None and OTHER in draws[-1]:
            strange = repr(output)[:200]
    sizes = [*map(len, stated.logs)]
    header = {"reply": "choices", "names": stated.names, "sizes": sizes, "draws": draws}
    content = array.array("d", [log for logs in stated.logs for log in logs])
    return Frame({**header, "rounding": stated.rounding, "other": strange}, content.tobytes())


def draw(batch: Callable[[int, int], Sequence[Any]], draws: int, seconds: float) -> list[Any]:
    """Draw outputs in growing batches, until there are enough of them or the time is over.

    `batch` takes the number of the batch and of its outputs.
    """
    outputs: list[Any] = []
    end, number = monotonic() + seconds, 0
    while len(outputs) < draws and (not outputs or monotonic() < end):
        outputs += batch(number, min(max(8, len(outputs)), draws - len(outputs)))
        number += 1
    return outputs


def _type_of(value: Any) -> str:
    name = str(getattr(value, "dtype", "")).rpartition(".")[2]
    return name if name in FLOORS else UNKNOWN


def _plain(value: Any) -> Any:
    """Return an array as lists, also a tensor of torch with a gradient."""
    if hasattr(value, "detach"):
        value = value.detach()
    return value.tolist() if hasattr(value, "tolist") else value


def _names(place: dict[Any, Any]) -> list[str]:
    names = [_name(outcome) for outcome in place]
    if len(set(names)) < len(names):
        raise Refused("choices states two outcomes that look alike: " + ", ".join(names[:8]))
    return names


def _name(outcome: Any) -> str:
    """Name an outcome by its value: equal for 3, 3.0 and scalars and arrays of one number."""
    if hasattr(outcome, "tolist"):
        outcome = outcome.tolist()
    if isinstance(outcome, (list, tuple)) and len(outcome) == 1:
        return _name(outcome[0])
    if isinstance(outcome, float) and outcome.is_integer():
        outcome = int(outcome)
    return repr(outcome)


def _logs(values: Sequence[Any], floor: float) -> list[float]:
    try:
        logs = [float(value) for value in values]
    except (TypeError, ValueError):
        raise Refused(f"{FORM}; some are not numbers") from None
    return [floor if log == float("-inf") else log for log in logs]


def _places(output: Any, stated: Stated) -> Sequence[Any]:
    """Divide an output into its places; a text is divided into words."""
    if stated.single:
        return (output,)
    if isinstance(output, str):
        return output.split()
    if hasattr(output, "tolist"):
        output = output.tolist()
    return output if isinstance(output, (list, tuple)) else (output,)
