"""Compute the loss of pairs from the distribution that a mechanism states."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpframe.claims import Claim
from dpframe.common.arrays import jax
from dpframe.common.text import escape, shown
from dpframe.common.types import Floats
from dpframe.draw.requests import BlackBoxPayload, DeadlinePassed, WorkerSource
from dpframe.draw.streams import (
    Stream,
    both_as_made,
    for_black_box,
    for_jax,
    host_generator,
    precision_of,
)
from dpframe.draw.worker import choices
from dpframe.draw.worker.frames import Frame
from dpframe.draw.worker.query import Refused
from dpframe.errors import CellError, SampleError
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.pair import Neighbourhood, Pair
from dpframe.interfaces.plugin_calls import call_plugin
from dpframe.results.build import pair_record
from dpframe.results.model import StatedRecord
from dpframe.results.strict_json import text
from dpframe.results.verdict import CONSISTENT, VIOLATED
from dpframe.spec.audit import RunSettings
from dpframe.stats.choices import agreement, delta_at, largest_loss, losses, unnormalised

DRAWS = 1000  # outputs from each dataset that are compared with the stated distribution
SECONDS = 2.0  # for the draws from one dataset
LEVEL = 1e-3  # at which draws refute the stated distribution; shared by the two pairs tested
ROUNDING = 1e-5  # excess over the claim that counts as rounding, beside that of the numbers
EPSILONS = 64  # losses at which a claim with δ is compared
SMALLEST = -600.0  # a smaller logarithm of a probability is written as one
ROUNDED_TO_ZERO = 1e-9  # δ that rounding may leave
DIFFERENT = "choices returned two different answers for the same data"


class _Compared(NamedTuple):
    pair: Pair
    loss: float
    claimed: float | None
    factor: float  # loss ÷ claim; of a claim with δ, of δ if that is more
    exceeds: bool
    words: str
    places: int


class StatedCheck:
    """Compares the stated distributions of pairs of one mechanism, and sorts pairs by their loss.

    A mechanism without `choices` is not checked. It is resolved for the first pair. In a search,
    `neighbourhood` has proposed the pairs. `stream` is the address of the draws.
    """

    def __init__(
        self,
        mechanism: Any,
        source: WorkerSource,
        run: RunSettings,
        stream: Stream,
        neighbourhood: Neighbourhood | None = None,
    ) -> None:
        self.mechanism, self.source, self.run = mechanism, source, run
        self.gives = mechanism.has_choices()
        self._stream, self._neighbourhood = stream.of("choices"), neighbourhood
        self._resolved = False
        self._pairs = self._exceeding = 0
        self._begun = 0.0  # time of the first comparison
        self._worst: _Compared | None = None
        self._tested: dict[Pair, tuple[int, float]] = {}  # draws and p-value

    @property
    def exceeds(self) -> bool:
        """True if the loss of a pair exceeds its claim."""
        return self._exceeding > 0

    def record(self) -> StatedRecord | None:
        """Test draws of the worst pair, and return the result; None without `choices`.

        Raises CellError if the mechanism does not sample from the distribution that it states.
        """
        worst = self._worst
        if worst is None:
            return None
        if worst.pair not in self._tested:
            with self._lent([worst.pair]) as answer:
                self._test(worst.pair, partial(answer, 0), (answer(0, 0, 0), answer(0, 1, 0)))
        draws, p_value = self._tested[worst.pair]
        return StatedRecord(
            pairs=self._pairs,
            exceeding=self._exceeding,
            verdict=None if worst.claimed is None else VIOLATED if worst.exceeds else CONSISTENT,
            pair=pair_record(type(worst.pair).name, worst.pair, None, self._neighbourhood),
            loss=worst.loss,
            claimed=worst.claimed,
            words=text(worst.words),
            places=worst.places,
            draws=draws,
            p_value=p_value,
        )

    def compare(self, pair: Pair) -> StatedRecord | None:
        """Compare one pair, and return the result."""
        self.look([pair])
        return self.record()

    def look(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Compare pairs, and return them by loss ÷ claim, the largest first.

        Without stated choices they keep their order.

        Raises:
            CellError: the stated distribution cannot be used, or is not that of the outputs.
            RunCancelled: the run ends.
        """
        if not self.gives or not pairs:
            return list(pairs)
        if not self._resolved:
            unresolved, self._resolved = self.mechanism, True
            self.mechanism = call_plugin("resolve", lambda: unresolved.resolve(pairs[0]))
        factors = []
        with self._lent(pairs) as answer:
            for number, pair in enumerate(pairs):
                if self._is_over():
                    break
                frames = answer(number, 0, 0), answer(number, 1, 0)
                compared = self._compare(pair, frames)
                if not self._pairs:
                    self._test(pair, partial(answer, number), frames)
                self._pairs += 1
                self._exceeding += compared.exceeds
                if self._worst is None or _weight(compared) > _weight(self._worst):
                    self._worst = compared
                factors.append(compared.factor)
        order = sorted(range(len(factors)), key=lambda number: -factors[number])
        return [*(pairs[number] for number in order), *pairs[len(factors) :]]

    def _is_over(self) -> bool:
        """True if comparing pairs has used as much time as the draws of the cell may."""
        now = time.monotonic()
        self._begun = self._begun or now
        return self.run.seconds is not None and now - self._begun > self.run.seconds

    @contextmanager
    def _lent(self, pairs: Sequence[Pair]) -> Iterator[Callable[[int, int, int], Frame]]:
        """Open a function that asks about a dataset of a pair, both by number, with draws."""
        on_host = isinstance(self.mechanism, HostMechanism)
        made = [call_plugin("the pair", partial(both_as_made, pair)) for pair in pairs]
        if not on_host:
            with precision_of(self.run):
                dtype = np.dtype(self.run.precision)
                datasets = [for_jax(both, dtype) for both in made]
                yield lambda number, index, draws: self._traced(
                    datasets[number][index], index, draws
                )
            return
        flat = tuple(data for both in made for data in for_black_box(both))
        with self.source.lend(BlackBoxPayload((self.mechanism,), flat)) as (worker, *_):

            def answer(number: int, index: int, draws: int) -> Frame:
                limit = self.run.seconds
                question = {
                    **{"request": "choices", "data": 2 * number + index, "draws": draws},
                    **{"stream": list(self._stream), "dataset": index},
                    "seconds": SECONDS if limit is None else min(SECONDS, limit / 10),
                }
                try:
                    until = None if limit is None else time.monotonic() + limit
                    return worker.reply(question, until)
                except Refused as refused:
                    raise CellError(str(refused)) from None
                except DeadlinePassed:
                    raise SampleError(
                        f"choices did not return within the {limit:g} s of run.seconds"
                    ) from None

            yield answer

    def _traced(self, data: Any, index: int, draws: int) -> Frame:
        mechanism = self.mechanism
        try:
            stated = choices.read(call_plugin("choices", lambda: mechanism.choices(data)))
        except Refused as refused:
            raise CellError(str(refused)) from None
        outputs: Sequence[Any] = ()
        if draws:
            seed = int(host_generator(self._stream, 0, index).integers(2**31))
            key = jax.random.key(seed)
            drawn = call_plugin("sample", lambda: mechanism.sample(key, data, draws))
            outputs = list(np.asarray(drawn))
        return choices.frame(stated, outputs)

    def _compare(self, pair: Pair, frames: tuple[Frame, Frame]) -> _Compared:
        claim = call_plugin("claim", lambda: self.mechanism.claim(pair))
        if not isinstance(claim, Claim | None):
            raise CellError(f"claim returned {shown(claim)}, which is neither a claim nor None")
        places = [len(frame.header["sizes"]) for frame in frames]
        both = _aligned(*frames)
        if places[0] == places[1]:
            loss, of = largest_loss(both.first, both.second), _largest(both)
        else:
            loss, of = math.inf, f": outputs have {places[0]} places on D and {places[1]} on D′"
        compared = _Compared(
            pair, loss, None, loss, False, f"the loss is {loss:.5g}{of}", places[0]
        )
        if claim is None:
            return compared
        pure, claimed = claim.epsilon_at(0.0), claim.epsilon_at(claim.default_delta)
        compared = compared._replace(claimed=claimed)
        rounding = sum(map(_rounding, frames))
        exceeds = bool(loss > pure * (1 + ROUNDING) + ROUNDING + rounding)
        if pure == math.inf:  # δ decides, because no ε is claimed at δ = 0
            known = both if places[0] == places[1] else None
            return self._over_curve(compared, claim, known, rounding)
        digits = 5 if f"{loss:.5g}" != f"{pure:.5g}" or not exceeds else 8
        return compared._replace(
            factor=loss / pure if pure else math.inf if exceeds else 0.0,
            exceeds=exceeds,
            words=f"the loss is {loss:.{digits}g}{of}, claimed {pure:.{digits}g}",
        )

    def _over_curve(
        self, compared: _Compared, claim: Claim, both: _Both | None, rounding: float
    ) -> _Compared:
        """Compare δ at several ε; `both` is None if outputs always differ.

        If losses are wrong by `rounding`, δ at ε is at least the computed one at ε + `rounding`.
        """
        claimed = compared.claimed or 0.0
        most = min(compared.loss, 1e4 if claimed == math.inf else 2 * claimed + 1)
        own = [claim.epsilon_at(delta) for delta in claim.telling_deltas]
        grid = np.array([*np.linspace(0, most, EPSILONS), *(e for e in own if e < math.inf)])
        below = above = np.ones(len(grid))
        if both is not None:
            above = delta_at(both.first, both.second, grid)[1]
            below = delta_at(both.first, both.second, grid + rounding)[0]
        allowed = np.array([claim.delta_at(float(epsilon)) for epsilon in grid])
        slack = allowed * (1 + ROUNDING) + ROUNDED_TO_ZERO
        exceeds = bool((below > slack).any())
        at = int(np.argmax(below - slack if exceeds else above - slack))
        delta = (below if exceeds else above)[at]
        words = f"δ is {delta:.4g} at ε = {grid[at]:.4g}, claimed {allowed[at]:.4g}"
        if not exceeds and above[at] > slack[at]:
            raise CellError(f"{words}: the rounding of a product of distributions leaves this open")
        factor = float(below[at] / allowed[at]) if allowed[at] else float(exceeds)
        return compared._replace(factor=factor, exceeds=exceeds, words=words)

    def _test(
        self, pair: Pair, answer: Callable[[int, int], Frame], before: tuple[Frame, Frame]
    ) -> None:
        """Test that outputs come from the stated distribution; raise CellError if not."""
        p_values, draws = [], []
        for index, name in enumerate(("D", "D′")):
            frame = answer(index, DRAWS)
            if bytes(frame.content) != bytes(before[index].content):
                raise CellError(DIFFERENT)
            header = frame.header
            if header["other"] is not None:
                output = escape(header["other"])
                raise CellError(
                    f"choices does not state an output that was drawn on {name}: {output}"
                )
            drawn = np.array(header["draws"], np.int64)
            rng = host_generator(self._stream, 1, index)
            p_values.append(agreement(drawn, _logs(frame), rng))
            draws.append(len(drawn))
        p_value = min(1.0, 2 * min(p_values))
        self._tested[pair] = min(draws), p_value
        if p_value <= LEVEL / 2:
            name = ("D", "D′")[int(np.argmin(p_values))]
            raise CellError(
                "the mechanism does not sample from the distribution that choices states: "
                f"{min(draws):,} draws on {name}, p = {p_value:.2g}"
            )


def _weight(compared: _Compared) -> tuple[bool, float]:
    return compared.exceeds, compared.factor


def _rounding(frame: Frame) -> float:
    """Bound the error of a sum of log-probabilities, one of each place."""
    largest = sum(float(np.abs(place[np.isfinite(place)]).max()) for place in _logs(frame))
    return 2 * float(frame.header["rounding"]) * largest


def _logs(frame: Frame) -> list[Floats]:
    """Return the log-probabilities of each place; raise CellError if they cannot be used."""
    values = np.frombuffer(bytes(frame.content), np.float64)
    logs = np.split(values, np.cumsum(frame.header["sizes"])[:-1])
    for number, place in enumerate(logs):
        if (total := unnormalised(place)) is not None:
            at = f" at place {number}" if len(logs) > 1 else ""
            raise CellError(
                f"choices states probabilities that add up to {total:.6g}{at}, not 1; it returns "
                "their logarithms"
            )
    return logs


class _Both(NamedTuple):
    """Log-probabilities under D and under D′, over the same outcomes of each place."""

    first: list[Floats]
    second: list[Floats]
    names: list[list[str] | None]  # None for the numbers 0, 1, …


def _aligned(one: Frame, other: Frame) -> _Both:
    both = _Both([], [], [])
    names = zip(one.header["names"], other.header["names"], strict=False)
    for (a, b), p, q in zip(names, _logs(one), _logs(other), strict=False):
        if a == b and len(p) == len(q):
            both.first.append(p)
            both.second.append(q)
            both.names.append(a)
            continue
        first, second = (
            [str(number) for number in range(len(logs))] if own is None else own
            for own, logs in ((a, p), (b, q))
        )
        place = {name: at for at, name in enumerate(dict.fromkeys([*first, *second]))}
        for side, own, logs in ((both.first, first, p), (both.second, second, q)):
            whole = np.full(len(place), -np.inf)
            whole[[place[name] for name in own]] = logs
            side.append(whole)
        both.names.append(list(place))
    return both


def _largest(both: _Both) -> str:
    """Name the outcome with the largest loss of all places, and its probabilities."""
    largest, words = 0.0, ""
    for number, (p, q) in enumerate(zip(both.first, both.second, strict=True)):
        size = np.abs(losses(p, q))
        at = int(np.argmax(size))
        if size[at] > largest:
            largest, names = float(size[at]), both.names[number]
            output = escape(str(at) if names is None else names[at])
            where = "" if len(both.first) == 1 else f"place {number}, "
            chances = f"{_probability(p[at])} on D, {_probability(q[at])} on D′"
            words = f", the most at {where}output {output} ({chances})"
    return words


def _probability(log: float) -> str:
    if log in choices.FLOORS.values():  # stated as 0
        return "0"
    return f"{math.exp(log):.3g}" if log > SMALLEST or log == -math.inf else f"e^{log:.5g}"
