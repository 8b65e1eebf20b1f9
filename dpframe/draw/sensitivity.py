"""Check the sensitivity of a query without a draw and exactly: floats are rational numbers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from dpframe.common.text import shown
from dpframe.draw.requests import BlackBoxPayload, DeadlinePassed, WorkerSource
from dpframe.draw.streams import both_as_made, for_black_box, precision_of
from dpframe.draw.worker.query import Queried, Refused, ask, parse_reply
from dpframe.errors import CellError, SampleError
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.pair import Neighbourhood, Pair
from dpframe.interfaces.plugin_calls import call_plugin
from dpframe.results.build import pair_record
from dpframe.results.model import ExactRecord, ExcessRecord
from dpframe.results.strict_json import text
from dpframe.spec.audit import RunSettings

NOISY = (
    "query returned two different answers for the same data: it must return the release without "
    "noise"
)


class _Checked(NamedTuple):
    """The result for one pair."""

    factor: float  # change ÷ sensitivity; inf if the change has no size
    excess: Any = None  # its kind, see `ExcessRecord`, if the query changes too much
    words: str = ""  # that describe the excess
    change: Change | None = None
    sensitivity: float | None = None
    counts: bool = True  # False if the query raises on both datasets


class SensitivityCheck:
    """Checks pairs of one mechanism, and sorts them by the change of its query.

    A mechanism without a `query` is not checked. It is resolved for the first pair. In a search,
    `neighbourhood` has proposed the pairs.
    """

    def __init__(
        self,
        mechanism: Any,
        source: WorkerSource,
        run: RunSettings,
        neighbourhood: Neighbourhood | None = None,
    ) -> None:
        self.mechanism, self.source, self.run = mechanism, source, run
        self._neighbourhood = neighbourhood
        self.gives = mechanism.has_query()
        self._resolved = False
        self._worst: dict[str, ExcessRecord] = {}
        self._pairs = self._exceeding = 0
        self._rounding = 1.0  # the largest factor that counts as rounding
        self._silent: str | None = None  # exception of a query on both datasets of a pair

    @property
    def record(self) -> ExactRecord | None:
        """The result over all pairs; None if there is no query."""
        if not self.gives:
            return None
        worst = sorted(self._worst.values(), key=lambda one: one.kind != "change")
        notes = []
        if self._rounding > 1:
            beyond = self._rounding - 1
            notes.append(
                f"rounding: changes of the query exceed its sensitivity by up to {beyond:.2g} of it"
            )
        if self._silent is not None:
            notes.append(f"if D and D′ both raise, nothing changes; an example: {self._silent}")
        norm = norm_of(self.mechanism)
        return ExactRecord(
            norm=norm,
            pairs=self._pairs,
            exceeding=self._exceeding,
            witnesses=worst,
            notes=[text(note) for note in notes],
        )

    def compare(self, pair: Pair) -> ExactRecord | None:
        """Check one pair, and return the result."""
        self.look([pair])
        return self.record

    def look(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Check pairs, and return them by change ÷ sensitivity of the query, the largest first.

        Without a query they keep their order.

        Raises:
            CellError: the query or the sensitivity cannot be used, or does not return.
            RunCancelled: the run ends.
        """
        if not self.gives or not pairs:
            return list(pairs)
        if not self._resolved:
            unresolved, self._resolved = self.mechanism, True
            self.mechanism = call_plugin("resolve", lambda: unresolved.resolve(pairs[0]))
        factors = []
        on_host = isinstance(self.mechanism, HostMechanism)
        with precision_of(self.run, on_host=on_host), self._asking(pairs) as answer:
            for number, pair in enumerate(pairs):
                checked = self._compared(pair, partial(answer, number))
                self._take(pair, checked)
                factors.append(checked.factor)
        order = sorted(range(len(pairs)), key=lambda number: -factors[number])
        return [pairs[number] for number in order]

    def _take(self, pair: Pair, checked: _Checked) -> None:
        self._pairs += checked.counts
        if checked.excess is None:
            self._rounding = max(self._rounding, checked.factor)
            return
        self._exceeding += 1
        worst = self._worst.get(checked.excess)
        if worst is None or (checked.change and checked.factor > (worst.factor or 0)):
            self._worst[checked.excess] = ExcessRecord(
                kind=checked.excess,
                pair=pair_record(type(pair).name, pair, None, self._neighbourhood),
                change=checked.change and checked.change.size,
                sensitivity=checked.sensitivity,
                factor=checked.factor if checked.change else None,
                words=text(checked.words),
            )

    @contextmanager
    def _asking(self, pairs: Sequence[Pair]) -> Iterator[Callable[[int, int], Queried]]:
        """Open a function that asks the query about a dataset of a pair, both by number."""
        datasets = [call_plugin("the pair", partial(both_as_made, pair)) for pair in pairs]
        if not isinstance(self.mechanism, HostMechanism):
            yield lambda number, index: self._traced(datasets[number][index])
            return
        flat = tuple(data for both in datasets for data in for_black_box(both))
        with self.source.lend(BlackBoxPayload((self.mechanism,), flat)) as (worker, *_):

            def answer(number: int, index: int) -> Queried:
                seconds = self.run.seconds
                until = None if seconds is None else time.monotonic() + seconds
                question = {"request": "query", "data": 2 * number + index}
                try:
                    return parse_reply(worker.reply(question, until))
                except Refused as refused:
                    raise SampleError(str(refused)) from None
                except DeadlinePassed:
                    raise SampleError(
                        f"query did not return within the {seconds:g} s of run.seconds"
                    ) from None

            yield answer

    def _traced(self, data: Any) -> Queried:
        try:
            return parse_reply(
                call_plugin("query", lambda: ask(partial(self.mechanism.query, data)))
            )
        except Refused as refused:
            raise CellError(str(refused)) from None

    def _compared(self, pair: Pair, answer: Callable[[int], Queried]) -> _Checked:
        before, after = answer(0), answer(1)
        checked = self._judged(pair, before, after)
        # Noise would look like a change. Without an excess, one pair is tested for noise. `repr` is
        # compared, because NaN must equal NaN.
        if checked.excess is not None or not self._pairs:
            for index, one in enumerate((before, after)):
                if repr(one) != repr(answer(index)):
                    raise CellError(NOISY)
        return checked

    def _judged(self, pair: Pair, before: Queried, after: Queried) -> _Checked:
        if before.raised is not None and after.raised is not None:
            self._silent = before.raised
            return _Checked(0.0, counts=False)
        for one, name in ((before, "D"), (after, "D′")):
            if one.raised is not None:
                words = f"its query raises {one.raised} on {name} and not on the other"
                return _Checked(math.inf, "raises", words)
        if before.form != after.form:
            words = f"its query returns {_cut(before.form)} on D and {_cut(after.form)} on D′"
            return _Checked(math.inf, "shape", words)
        only = len(before.numbers) == 1
        if (place := unlike(before.numbers, after.numbers)) is not None:
            values = [_value(numbers[place]) for numbers in (before.numbers, after.numbers)]
            at = "" if only else f", at place {place} of its query"
            words = f"its query returns {values[0]} on D and {values[1]} on D′{at}"
            return _Checked(math.inf, "not a number", words)
        sensitivity = sensitivity_of(self.mechanism, pair, before.sensitivity)
        norm = norm_of(self.mechanism)
        moved = change(*finite_parts(before.numbers, after.numbers), norm)
        factor = moved.factor(sensitivity)
        if not moved.exceeds(sensitivity):
            return _Checked(factor)
        size = f"{moved.size:.6g}"
        if only:
            by = f" from {_value(before.numbers[0])} to {_value(after.numbers[0])}, by {size}"
        else:
            by = f" by {size} in the norm l{norm:g}"
        words = (
            f"its query changes{by}, and its noise is scaled for {sensitivity:.6g}: "
            f"{factor:.4g} times as much"
        )
        return _Checked(factor, "change", words, moved, sensitivity)


def sensitivity_of(mechanism: Any, pair: Pair, declared: float | None = None) -> float:
    """Return the sensitivity that the noise of a mechanism is scaled for.

    A callable sensitivity is called with the pair. If the mechanism has none, `declared` is used,
    the value stated by a module in another interpreter.

    Raises:
        CellError: there is none, or it is not a finite number of at least 0.
    """
    sensitivity = getattr(mechanism, "sensitivity", None)
    if callable(sensitivity):
        declared_for: Callable[[Pair], Any] = sensitivity
        sensitivity = call_plugin("sensitivity", lambda: declared_for(pair))
    if sensitivity is None:
        sensitivity = declared
    if sensitivity is None:
        raise CellError(
            "a mechanism with a query must define its sensitivity, the value that the noise is "
            "scaled for"
        )
    if isinstance(sensitivity, np.generic | np.ndarray) and np.ndim(sensitivity) == 0:
        sensitivity = sensitivity.item()
    if (
        type(sensitivity) is bool
        or not isinstance(sensitivity, Real)
        or not 0 <= float(sensitivity) < math.inf
    ):
        raise CellError(
            f"sensitivity is {shown(sensitivity)}; it must be a finite number of at least 0"
        )
    return float(sensitivity)


def norm_of(mechanism: Any) -> float:
    """Return the norm of a mechanism's sensitivity; raises CellError if it is unknown."""
    norm = mechanism.norm
    if isinstance(norm, bool) or norm not in (1, 2, math.inf):
        raise CellError(f"norm is {shown(norm)}; it must be 1, 2 or inf")
    return float(norm)


def _value(number: Any) -> str:
    return f"{float(number):.6g}"


def _cut(form: str) -> str:
    return form if len(form) <= 60 else f"{form[:60]}…"


Number = int | float | Fraction

SENSITIVITY_ROUNDING = Fraction(1, 1_000_000)
"""Largest relative excess over a sensitivity that counts as rounding, about the error of sums of a
few floats. The loss grows in proportion, and no audit resolves a millionth of it."""


class Change(NamedTuple):
    """The size of a change."""

    power: Fraction  # the change; in the Euclidean norm, its square
    norm: float

    @property
    def size(self) -> float:
        """The change, rounded."""
        return _root(self.power) if self.norm == 2 else _float(self.power)

    def factor(self, sensitivity: float) -> float:
        """Return the change over a finite sensitivity, rounded; inf if that is 0."""
        if not self.power or not sensitivity:
            return math.inf if self.power else 0.0
        scale = Fraction(sensitivity) ** (2 if self.norm == 2 else 1)
        return self._replace(power=self.power / scale).size

    def exceeds(self, sensitivity: float, slack: Fraction = SENSITIVITY_ROUNDING) -> bool:
        """Compare with a finite sensitivity, raised by a part `slack` of it, without rounding."""
        allowed = Fraction(sensitivity) * (1 + slack)
        return self.power > (allowed**2 if self.norm == 2 else allowed)


def change(before: Sequence[Number], after: Sequence[Number], norm: float) -> Change:
    """Return the norm (1, 2 or inf) of the difference of two vectors of finite numbers."""
    ratios = [
        (*x.as_integer_ratio(), *y.as_integer_ratio())
        for x, y in zip(before, after, strict=True)
        if x != y
    ]
    # Over one denominator they are whole numbers, which is many times faster than fractions.
    below = math.lcm(*{r[1] for r in ratios}, *{r[3] for r in ratios})
    differences = [abs(a * (below // b) - c * (below // d)) for a, b, c, d in ratios]
    if norm == 2:
        return Change(Fraction(sum(n * n for n in differences), below * below), norm)
    if norm not in (1, math.inf):
        raise ValueError(f"norm is {norm!r}; it must be 1, 2 or inf")
    return Change(
        Fraction(sum(differences) if norm == 1 else max(differences, default=0), below), norm
    )


def unlike(before: Sequence[Number], after: Sequence[Number]) -> int | None:
    """Find the first place at which one vector has a number and the other NaN or an infinity.

    Equal infinities, or NaN in both, are not a difference.
    """
    both = enumerate(zip(before, after, strict=True))
    return next((place for place, (x, y) in both if _word(x) != _word(y)), None)


def finite_parts(
    before: Sequence[Number], after: Sequence[Number]
) -> tuple[list[Number], list[Number]]:
    """Keep the places at which both vectors are finite."""
    both = [(x, y) for x, y in zip(before, after, strict=True) if _finite(x) and _finite(y)]
    return [x for x, _ in both], [y for _, y in both]


def _finite(number: Number) -> bool:
    return not isinstance(number, float) or math.isfinite(number)


def _word(number: Number) -> str:
    return "number" if _finite(number) else repr(number)


def _float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _root(number: Fraction) -> float:
    """Return the square root, also of numbers beyond the range of floats."""
    if not number:
        return 0.0
    half = (number.numerator.bit_length() - number.denominator.bit_length()) // 2
    scaled = number / Fraction(4) ** half
    try:
        return math.ldexp(math.sqrt(scaled), half)
    except OverflowError:
        return math.inf
