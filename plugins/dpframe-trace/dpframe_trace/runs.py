"""Runs with recorded noise, and differences between them that noise does not hide."""

from __future__ import annotations

import copy
import functools
import math
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpframe_trace import active, frameworks
from dpframe_trace.noise import Call, Key, Site, Tape, is_noise, plain
from dpframe_trace.report import Finding, Trace

MOST_LEAVES = 10_000
"""Compared parts of an output."""
OTHERS = 8
"""Repeats after a difference, if the trace follows all noise."""
MOST_OTHERS = 500
"""Most repeats if it does not."""
OTHER_NOISE = 1 << 20
"""Seed of the first repeat."""


class Run(NamedTuple):
    """One call of the traced function."""

    tape: Tape
    leaves: dict[str, Any]
    """The parts of the output, by path."""


class TracedPair(NamedTuple):
    """Neighbouring datasets, and their description."""

    d0: Any
    d1: Any
    words: str


def run(call: Callable[[Any], Any], data: Any, tape: Tape) -> Run:
    """Call a function on a copy of the data, with its noise on a tape.

    An exception counts as an output.
    """
    data = copy.deepcopy(data)
    with warnings.catch_warnings(), active.recording(tape), frameworks.following(tape):
        warnings.simplefilter("ignore")
        try:
            output: Any = call(data)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            name = Path(place.filename).name
            output = Raised(f"raises {type(error).__name__} at {name}:{place.lineno}")
    leaves: dict[str, Any] = {}
    for path, leaf in _leaves(output, "output", 0):
        # Noise that is released alone is noise that was added to 0.
        parts = _leaves(plain(leaf + 0.0), path, 0) if is_noise(leaf) else ((path, leaf),)
        leaves.update(parts)
        if len(leaves) >= MOST_LEAVES:
            break
    return Run(tape, leaves)


class Raised(str):
    """An exception, in words."""


def _leaves(  # noqa: PLR0912  # one for each kind of value
    value: Any, path: str, depth: int
) -> Iterator[tuple[str, Any]]:
    """Yield the parts of an output, each a number, a text or the name of a type."""
    value = frameworks.as_numpy(value)
    if isinstance(value, np.generic):  # also float64, which is a float
        yield path, value.item()
    elif is_noise(value) or isinstance(value, bool | int | float | complex | str | bytes | None):
        yield path, value
    elif depth > 8:
        yield path, type(value).__name__
    elif isinstance(value, dict):
        yield f"keys of {path}", repr(list(value))
        for key, each in value.items():
            yield from _leaves(each, f"{path}[{key!r}]", depth + 1)
    elif isinstance(value, list | tuple):
        yield f"length of {path}", len(value)
        for at, each in enumerate(value):
            yield from _leaves(each, f"{path}[{at}]", depth + 1)
    elif isinstance(value, np.ndarray):
        yield f"shape of {path}", value.shape
        for at, each in enumerate(value.ravel().tolist()[:MOST_LEAVES]):
            yield f"{path}[{at}]", each
    elif hasattr(value, "to_dict") and hasattr(value, "columns"):
        for name in value.columns:
            yield from _leaves(np.asarray(value[name]), f"{path}[{name!r}]", depth + 1)
    else:
        yield f"type of {path}", type(value).__name__
        if callable(getattr(value, "state_dict", None)):
            yield from _leaves(dict(value.state_dict()), path, depth + 1)
        public = {n: v for n, v in getattr(value, "__dict__", {}).items() if not n.startswith("_")}
        for name, each in public.items():
            if not callable(each):
                yield from _leaves(each, f"{path}.{name}", depth + 1)


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the paths at which two outputs differ, those of both first."""
    shared = [p for p in one if p in other and not _equal(one[p], other[p])]
    return shared or [p for p in (*one, *other) if (p in one) != (p in other)]


def _equal(one: Any, other: Any) -> bool:
    if type(one) is type(other) is float and math.isnan(one) and math.isnan(other):
        return True
    return type(one) is type(other) and bool(one == other)


# Differences that no noise hides.


class _Difference(NamedTuple):
    kind: str
    text: str
    read: Callable[[Run], Any]
    """Reads the differing value from a run."""
    doubt: str
    """Added to the report if noise that is not followed may hide the difference."""
    file: str = ""
    line: int = 0
    judged: bool = True
    """False if the difference may be private, such as how many missing values are filled in."""


def judge_differences(
    call: Callable[[Any], Any],
    pair: TracedPair,
    runs: tuple[Run, Run],
    covering: set[Key],
    trace: Trace,
    *,
    outputs: bool = True,
) -> None:
    """Judge differences between two runs with equal noised values.

    A difference that stays the same with other noise is not hidden by that noise.

    Args:
        call: the traced function of one dataset.
        pair: D and D′.
        runs: the runs on D and on D′.
        covering: the calls whose noise hides a change in the data.
        trace: the trace to add findings to.
        outputs: False if only the amounts of noise are to be judged.
    """
    first, second = runs
    differences = _path_differences(first, second)
    if outputs:
        differences += _output_differences(first, second)
    if not differences:
        return
    tapes = first.tape, second.tape
    loose = frozenset(key for tape in tapes for key in tape.calls if key not in covering)
    number = _others(tapes, loose, trace.claim[0])
    others = [
        tuple(
            run(call, data, Tape(OTHER_NOISE + at, first.tape, loose, flip=at == 0))
            for data in (pair.d0, pair.d1)
        )
        for at in range(number)
    ]
    moved = bool(others) and all(
        any(_moves(other.tape, tape.calls[key]) for both in others for other in both)
        for tape in tapes
        for key in loose & tape.calls.keys()
        if _random(tape.calls[key])
    )
    words = f"also in {number} repeats with other noise" if loose else "with equal noised values"
    for one in differences:
        values = one.read(first), one.read(second)
        if (
            one.judged
            and moved
            and all(
                _equal(one.read(other), value)
                for both in others
                for other, value in zip(both, values, strict=True)
            )
        ):
            text = f"{one.text}, {words}"
            trace.find(Finding(one.kind, text, one.file, one.line, pair.words))
        else:
            trace.cannot_tell(one.doubt)


def _path_differences(first: Run, second: Run) -> list[_Difference]:
    drawn = amounts(first.tape), amounts(second.tape)
    differences = []
    for site in {**drawn[0], **drawn[1]}:
        one, two = (amount.get(site, 0) for amount in drawn)
        if one != two:
            file, line, name = site
            text = f"{name} draws {one} numbers on D and {two} on D′"
            doubt = f"{Path(file).name}:{line}: {text}, perhaps because of noise that the trace "
            doubt += "does not follow"
            read = functools.partial(_amount, site)
            calls = [c for t in (first.tape, second.tape) for c in t.calls.values()]
            judged = any(c.key.site == site and c.family not in ("uniform", "other") for c in calls)
            differences.append(_Difference("path", text, read, doubt, file, line, judged))
    return differences


def _output_differences(first: Run, second: Run) -> list[_Difference]:
    differences = []
    for path in differing(first.leaves, second.leaves)[:3]:
        read = functools.partial(_leaf, path)
        text = f"{path} is {_short(read(first))} on D and {_short(read(second))} on D′"
        doubt = f"{path} differs on D and D′ with the same noise, perhaps hidden by noise "
        doubt += "that the trace does not follow"
        differences.append(_Difference("output", text, read, doubt))
    return differences


def _amount(site: Site, of: Run) -> int:
    return amounts(of.tape).get(site, 0)


def _leaf(path: str, of: Run) -> Any:
    return of.leaves.get(path, "missing")


def _others(tapes: tuple[Tape, Tape], loose: frozenset[Key], epsilon: float | None) -> int:
    """Return the number of repeats with other noise; 0 if it would exceed `MOST_OTHERS`.

    Let a run on D return some value with probability a. If the noise satisfies ε-DP, a run on D′
    returns it with probability a·e^-ε or more. However the two runs share their noise, they differ
    in the observed way with probability at most 1 - max(1 - a, a·e^-ε) ≤ 1 - e^-ε/2. All repeats
    do so with probability at most 1e-4.

    If the trace saw no noise, the function may take some from elsewhere.
    """
    unseen = not any(tape.calls for tape in tapes)
    if not unseen and not any(
        silent(t, c) for t in tapes for c in t.calls.values() if c.key in loose
    ):
        return OTHERS
    needed = 2 * math.log(1e4) * math.exp(min(1.0 if epsilon is None else epsilon, 700.0))
    if unseen:
        return math.ceil(min(needed, MOST_OTHERS))
    return math.ceil(needed) if needed <= MOST_OTHERS else 0


def silent(tape: Tape, call: Call) -> bool:
    """True if the trace cannot follow where the noise of a call goes."""
    if call.family in ("uniform", "other"):
        return _random(call)
    return call.tracked and not any(call.key in use.calls for use in tape.uses.values())


def lost(of: Run) -> Call | None:
    """Return a call whose noise is lost, if a part of the output may depend on it.

    A noised value that is released unchanged cannot.
    """
    untraced = next((call for call in of.tape.calls.values() if silent(of.tape, call)), None)
    if untraced is None:
        return None
    noised = [use.result for use in of.tape.uses.values()]
    noised += [
        call.released if call.family == "choice" else call.result
        for call in of.tape.calls.values()
        if call.family not in ("uniform", "other")
    ]
    known = {text for values in noised for text in texts(values)}
    parts = (leaf for path, leaf in of.leaves.items() if path.startswith("output"))
    return untraced if any(repr(leaf) not in known for leaf in parts) else None


def texts(values: Any) -> Iterator[str]:
    """Yield the texts of the numbers in a value, as those of an output."""
    for value in np.ravel(np.asarray(values, object)).tolist():
        yield repr(value.item() if isinstance(value, np.generic) else value)


def _random(call: Call) -> bool:
    """True unless a call can have one result only."""
    if call.family == "choice":
        return bool(np.max(call.law[0], initial=0.0) < 1)
    return 0 not in call.shape


def _moves(tape: Tape, call: Call) -> bool:
    """True if a call has another result on a tape."""
    mate = tape.calls.get(call.key)
    return mate is not None and not np.array_equal(_array(mate.result), _array(call.result))


def _array(value: Any) -> Any:
    return (
        np.asarray(value) if np.ndim(value) or isinstance(value, float) else np.array(repr(value))
    )


def amounts(tape: Tape) -> Counter[Site]:
    """Count the numbers that each line drew in a run."""
    counts: Counter[Site] = Counter()
    for key, call in tape.calls.items():
        counts[key.site] += int(np.prod(call.shape))
    return counts


def _short(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:59] + "…"
