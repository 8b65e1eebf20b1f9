"""Questions to accountants, and the grids of settings that they come from."""

from __future__ import annotations

import dataclasses
import fractions
import itertools
import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from dpframe.plugins import DpframeError
from dpframe_libraries.accountants import pairs
from dpframe_libraries.accountants.pairs import Relation, Step

STEP_KEYS = tuple(field.name for field in dataclasses.fields(Step))


@dataclasses.dataclass(frozen=True)
class AccountantQuestion:
    """A question to an accountant: ε of a composition, at each δ."""

    steps: tuple[Step, ...]
    relation: Relation
    deltas: tuple[float, ...]

    def at(self, delta: float) -> AccountantQuestion:
        """Return the question about one δ."""
        return dataclasses.replace(self, deltas=(delta,))

    def message(self) -> dict[str, Any]:
        """Return the question in the form that adapters receive.

        A sample of a fixed size also has `batch` and `records`: its rate as a fraction.
        """
        steps = []
        for step in self.steps:
            told = dataclasses.asdict(step)
            if step.sampling == "fixed":
                ratio = fractions.Fraction(repr(step.rate))
                told |= {"batch": ratio.numerator, "records": ratio.denominator}
            steps.append(told)
        return {"steps": steps, "relation": self.relation, "deltas": list(self.deltas)}

    def __str__(self) -> str:
        told = " + ".join(describe(step) for step in self.steps)
        return f"{told}; {self.relation}; δ = {', '.join(f'{d:g}' for d in self.deltas)}"


def describe(step: Step) -> str:
    """Return a step in a few words."""
    symbol = "ε" if "response" in step.noise else "σ" if "gaussian" in step.noise else "b"
    text = f"{step.noise} {symbol} = {step.scale:g}"
    if step.bound:
        text += f", at most {step.bound}"
    if step.sampling != "none":
        text += f", {step.sampling} sample of {step.rate:g}"
    return f"{step.count} × ({text})" if step.count > 1 else text


def read_grid(path: Path) -> list[AccountantQuestion]:
    """Return the questions of a grid file; all lists in a composition are crossed.

    Raises:
        DpframeError: the file cannot be read, or an entry is wrong.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DpframeError(f"{path} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise DpframeError(f"{path}: {error}") from None
    unknown = set(document) - {"deltas", "relations", "composition"}
    if unknown:
        raise DpframeError(
            f"{path}: unknown key {sorted(unknown)[0]!r}; accepts deltas, relations, composition"
        )
    compositions = document.get("composition")
    if not isinstance(compositions, list) or not compositions:
        raise DpframeError(f"{path}: at least one [[composition]] is required")
    found: list[AccountantQuestion] = []
    for number, entry in enumerate(compositions, 1):
        try:
            found.extend(
                _questions({"deltas": [1e-5], "relations": ["add-remove"]} | document, entry)
            )
        except (TypeError, ValueError) as error:
            raise DpframeError(f"{path}: composition {number}: {error}") from None
    return list(dict.fromkeys(found))


def _questions(document: dict[str, Any], entry: dict[str, Any]) -> Iterator[AccountantQuestion]:
    own = {key: entry[key] for key in ("deltas", "relations") if key in entry}
    rest = {key: value for key, value in entry.items() if key not in ("deltas", "relations")}
    parts = rest.pop("steps", None)
    if parts is not None and rest:
        raise ValueError(f"{sorted(rest)[0]!r} belongs inside steps")
    deltas = (document | own)["deltas"]
    if not deltas or not all(isinstance(d, float) and 0 < d < 1 for d in deltas):
        raise ValueError("deltas must be above 0 and below 1")
    relations = (document | own)["relations"]
    if wrong := [one for one in relations if one not in get_args(Relation)]:
        raise ValueError(f"relation {wrong[0]!r} is not one of {', '.join(get_args(Relation))}")
    for steps in itertools.product(*(list(_crossed(part)) for part in parts or [rest])):
        for relation in relations:
            for step in steps:
                pairs.directions(step, relation)  # ValueError: no truth is known
            yield AccountantQuestion(steps, relation, tuple(deltas))


def _crossed(part: dict[str, Any]) -> Iterator[Step]:
    if unknown := set(part) - set(STEP_KEYS):
        raise ValueError(f"unknown key {sorted(unknown)[0]!r}; accepts {', '.join(STEP_KEYS)}")
    if missing := {"noise", "scale"} - set(part):
        raise ValueError(f"{sorted(missing)[0]!r} is missing")
    values = [value if isinstance(value, list) else [value] for value in part.values()]
    for chosen in itertools.product(*values):
        yield Step(**dict(zip(part, chosen, strict=True)))


def smaller(question: AccountantQuestion) -> Iterator[AccountantQuestion]:
    """Yield simpler questions about one δ, the simplest first."""
    (delta,) = question.deltas
    steps = question.steps

    def put(i: int, **change: Any) -> Iterator[AccountantQuestion]:
        try:
            step = dataclasses.replace(steps[i], **change)
            pairs.directions(step, question.relation)
        except ValueError:
            return
        yield dataclasses.replace(question, steps=(*steps[:i], step, *steps[i + 1 :]))

    if len(steps) > 1:
        for i in range(len(steps)):
            yield dataclasses.replace(question, steps=steps[:i] + steps[i + 1 :])
    for i, step in enumerate(steps):
        for count in dict.fromkeys((1, 2, 10, step.count // 10, step.count // 2, step.count - 1)):
            if 0 < count < step.count:
                yield from put(i, count=count)
        if step.sampling != "none":
            yield from put(i, sampling="none", rate=1.0)
        for rate in (0.5, 0.1, 0.01):
            if step.sampling != "none":
                yield from put(i, rate=rate)
        for bound in (1, 2, 5, 10):
            if step.bound:
                yield from put(i, bound=bound)
        for scale in (1.0, 2.0, 0.5, _rounded(step.scale)):
            yield from put(i, scale=scale)
    for simple in (1e-5, _rounded(delta)):
        yield question.at(simple)


def _rounded(value: float) -> float:
    digits = -math.floor(math.log10(value))
    return round(value, digits) or value


def size(question: AccountantQuestion) -> tuple[float, ...]:
    """Return the quantities that shrinking reduces, in order."""
    steps = question.steps
    rates = [step.rate for step in steps if step.sampling != "none"]
    bounds = [step.bound for step in steps if step.bound]
    numbers = [*(step.scale for step in steps), *bounds, *rates, *question.deltas]
    return (
        len(steps),
        sum(step.count for step in steps),
        len(rates),
        sum(len(f"{number:g}") for number in numbers),
        sum(abs(math.log(number)) for number in numbers),
    )
