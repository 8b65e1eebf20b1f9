"""Events that attacks choose from the scores of some draws, with their counts and examples."""

import copy
import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from dpframe.common import trees
from dpframe.common.text import escape
from dpframe.common.types import Floats, HostArray, Ints, Tree
from dpframe.count.plan import PassPosition
from dpframe.count.scoring import FLOAT, learned_on_host, scores_of
from dpframe.count.work import PassWork
from dpframe.draw import row_checks, streams, trace
from dpframe.errors import CellError
from dpframe.interfaces.attack import Attack, Target
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.pair import Pair
from dpframe.interfaces.plugin_calls import call_plugin, learns, unsuited
from dpframe.interfaces.statistic import BinCounts, DecisionCounts, Statistic
from dpframe.results.model import CellRecord, WitnessRecord
from dpframe.results.strict_json import text as plain_text
from dpframe.spec.audit import Cell, Choice, RunSettings
from dpframe.stats.betting import choose, events
from dpframe.stats.histograms import half_line


@dataclasses.dataclass(frozen=True)
class TailCuts(BinCounts):
    """Counts of scores between cuts, which are quantiles of earlier scores far into both tails."""

    number: int = 64  # cuts; scores of fewer distinct values have one at each

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> Any:
        seen = np.concatenate([pilot0, pilot1])
        seen = np.sort(seen[~np.isnan(seen)])
        if not len(seen):
            return np.zeros(self.number, pilot0.dtype)
        values = np.unique(seen)
        if len(values) <= self.number:
            return np.sort(np.resize(values, self.number))
        # Ranks from either end, at growing distances, so that a tail has events of every size.
        ranks = np.geomspace(1, len(seen) / 2, self.number // 2).astype(int)
        return np.sort(np.concatenate([seen[ranks - 1], seen[-ranks]]))


class Seen(NamedTuple):
    """Counts of one arm under one set of cuts."""

    above: Ints  # draws at or above each cut, shape [2, cuts]: on D, on D′
    trials: int  # draws on each side
    cuts: tuple[int, ...] = ()  # number of cuts of each attack, by column; () for one attack
    outside: Any = None  # draws on each side of leaked kinds, shape [2]; None if none are left out
    scores: Floats | None = None  # at each cut, shape [cuts]; None if only their order is known

    @property
    def inside(self) -> Ints:
        """Draws on each side whose answers are not of a leaked kind, shape [2]."""
        return np.array([self.trials] * 2) - (0 if self.outside is None else self.outside)

    @property
    def hits(self) -> Ints:
        """Counts of every event, shape [4 cuts, 2]; see `betting.events`."""
        return events(self.above, self.trials, self.outside)

    def place(self, event: int) -> tuple[int, int]:
        """Return the attack of an event, by its number, and the cut of that attack."""
        column = event % self.above.shape[1]
        ends = np.cumsum((0, *self.cuts))
        attack = int(np.searchsorted(ends, column, side="right")) - 1 if self.cuts else 0
        return attack, column - int(ends[attack])

    def of_attack(self, event: int) -> Ints:
        """Count the draws inside between the cuts of an event's attack, shape [2, its cuts + 1]."""
        attack, cut = self.place(event)
        first = event % self.above.shape[1] - cut
        own = self.above[:, first : first + self.cuts[attack] if self.cuts else None]
        return np.asarray(-np.diff(own, prepend=self.inside[:, None], append=0), np.int64)

    def places(self, event: int) -> Floats:
        """Return a score in each bin of `of_attack`, or a number in their order; two cuts or more.

        The outermost bins are as far from their cuts as these are from the next.
        """
        attack, cut = self.place(event)
        number = self.cuts[attack] if self.cuts else self.above.shape[1]
        if self.scores is None:
            return np.linspace(-1.0, 1.0, number + 1)
        first = event % self.above.shape[1] - cut
        ends = self.scores[first : first + number]
        with np.errstate(all="ignore"):  # bins next to an infinite cut have no score
            ends = np.array([2 * ends[0] - ends[1], *ends, 2 * ends[-1] - ends[-2]])
            return np.asarray(ends[:-1] / 2 + ends[1:] / 2, np.float64)


def above(statistic: Statistic, counts: Tree) -> Ints:
    """Return the number of draws at or above each cut, shape [2, cuts]: on D, on D′.

    The statistic counts bins or decisions; decisions have one cut, "answered D′".
    """
    (leaf,) = trees.leaves(counts)
    leaf_counts = np.asarray(leaf, np.int64)
    if isinstance(statistic, DecisionCounts):
        return leaf_counts[:, 1:]
    return np.cumsum(leaf_counts[:, :1:-1], axis=1)[:, ::-1]


def in_words(gives: str, edge: Any, *, is_above: bool) -> str:
    """Describe an event of an attack without the attack's name."""
    if gives == "decision":
        return "answered D′" if is_above else "answered D"
    return f"scores {half_line(edge, is_above=is_above)}"


MOST_EXAMINED = 1 << 12  # outputs of each dataset that are searched for examples
MOST_EXAMPLES = 3  # examples of outputs inside an event, and outside it
MOST_EXAMPLE_NUMBERS = 6  # of an example
LONGEST_EXAMPLE = 80  # characters of an example

Output = tuple[bool, Callable[[], str]]  # True if it is at or above a cut, and its text


def in_short(values: HostArray, texts: Mapping[float, str] = MappingProxyType({})) -> str:
    """Write an output of numbers, shape [...]: `(0.31, -1.2, … 12 numbers)`."""
    flat = np.ravel(values).tolist()
    shown = [texts.get(value, f"{value:.6g}") for value in flat[:MOST_EXAMPLE_NUMBERS]]
    if len(flat) > MOST_EXAMPLE_NUMBERS:
        shown.append(f"… {len(flat)} numbers")
    text = shown[0] if len(flat) == 1 else f"({', '.join(shown)})"
    return escape(text if len(text) <= LONGEST_EXAMPLE else f"{text[:LONGEST_EXAMPLE]}…")


def examples_of(both: Sequence[Iterable[Output]], *, is_above: bool) -> dict[str, Any]:
    """Return different outputs inside an event, above a cut or below, and outside, as short texts.

    `both` has outputs on D and on D′, each with True if it is at or above the cut.
    """
    examples: dict[str, list[str]] = {"inside": [], "outside": []}
    for at_or_above, text_of in itertools.chain.from_iterable(zip(*both, strict=False)):
        own = examples["inside" if at_or_above == is_above else "outside"]
        if len(own) < MOST_EXAMPLES and (text := plain_text(text_of())) not in own:
            own.append(text)
        if min(map(len, examples.values())) == MOST_EXAMPLES:
            break
    return examples


def event_of(
    work: PassWork, cell: Cell, place: PassPosition, cell_result: CellRecord
) -> WitnessRecord | None:
    """Return the event of a cell farthest outside its claim, with outputs; None if unknown."""
    basis, statistic = cell_result.basis, work.statistics[place.scorer]
    trials, is_answer = cell_result.trials[0], work.the_pass.shape.asking is not None
    # The words for answers are known only to a run that has drawn them.
    if basis is None or is_answer or trials != cell_result.trials[1]:
        return None
    if not isinstance(statistic, DecisionCounts | BinCounts):
        return None
    attack = cell.attack.value
    if attack.gives == "decision":  # statistics of bets count decisions likewise, without edges
        statistic = DecisionCounts()
    layout, state = place.own(work.layouts), place.own(work.states)
    cuts = np.asarray(statistic.edges(layout))
    counts = above(statistic, np.array(cell_result.counts))
    slope = np.exp([min(basis.contrast.claimed, 700.0)])
    number = int(choose(counts, trials, slope, basis.contrast.delta).event[0])
    side, cut = divmod(number, len(cuts))
    is_above, edge = side in (0, 2), float(cuts[cut])
    description = attack_words(attack, state, edge, is_above, {})
    both: list[Iterable[Output]] = []
    for drawn in () if description else work.examples(place.variant):
        rows = drawn[:MOST_EXAMINED]
        views = trace.seen(attack, rows, work.the_pass.shape, work.dtype)
        scores = compiled_scores(attack, state, views, work.dtype, len(rows))
        at = cuts[cut].astype(scores.dtype)
        both.append(outputs_of(scores, at, (partial(in_short, row) for row in rows)))
    hits = counts[:, cut] if is_above else trials - counts[:, cut]
    in_scores = in_words(attack.gives, cuts[cut], is_above=is_above)
    event = description or f"{cell.attack.label} {in_scores}"
    return WitnessRecord(
        event=plain_text(" ".join(str(event).split())),
        more_likely="D′" if side < 2 else "D",
        hits=hits.tolist(),
        trials=list(cell_result.trials),
        pair_trials=trials,
        **examples_of(both, is_above=is_above),
    )


def outputs_of(
    scores: HostArray, edge: Any, texts: Iterable[Callable[[], str]]
) -> Iterable[Output]:
    """Yield outputs, given their scores and texts; an output at or above the edge is True."""
    return zip((scores >= edge).tolist(), texts, strict=True)


def attack_words(attack: Attack, state: Tree, edge: float, above: bool, words: Any) -> str | None:
    """Return the attack's own description of an event, in one line; None if it has none."""
    description: Any = call_plugin("words", attack.words, state, edge, above, words)
    return None if description is None else " ".join(str(description).split())


def compiled_scores(
    attack: Attack,
    state: Tree,
    outputs: HostArray,
    dtype: np.dtype[Any],
    block: int,
    size: int | None = None,
) -> HostArray:
    """Score outputs, as the attack sees them, on the device, at most `block` at a time.

    Each call is padded to `size` rows, so that one program serves any number; default: the next
    power of two, at least 64.
    """
    from dpframe.draw.programs import score_given

    leaves = trace.unstacked(attack, dtype)

    def score(rows: HostArray) -> HostArray:
        filled = size or max(64, 1 << max(0, len(rows) - 1).bit_length())
        whole = np.resize(rows, (filled, *rows.shape[1:]))
        scores: HostArray = np.asarray(call_plugin("score", score_given, leaves, state, whole))
        trace.check_scores(scores, filled, attack.gives)
        return scores[: len(rows)]

    return np.concatenate([score(outputs[at : at + block]) for at in range(0, len(outputs), block)])


MOST_CUTS = 64  # events of an attack in one direction, at most

SLOW_FROM = 1 << 12
"""Answers per dataset from which attacks are used that are slow to learn, or compiled."""

MOST_LEARNED_NUMBERS = 64  # numbers of an answer up to which these are used
TRIED_ALONE = 64  # answers that are scored alone and together, to compare the scores
SCORED_TOGETHER = 1 << 14  # answers that are scored at a time


AMONG = ", among answers that are not "
_BEFORE_KIND = re.compile(r"^(raises |\w+, (?=(NaN|-?inf)$))")  # left out of such a description


class LearnedAttack(NamedTuple):
    """One attack with its state and its cuts."""

    place: int  # of the attack, in the search
    attack: Attack
    state: Tree
    cuts: Floats  # scores at which events begin, ascending; for decisions 1 alone


class AnswerEvents:
    """Events of attacks that have learned from some answers of a black box.

    Answers are scored in float64. `tried` has attacks that are known to score rows alone. Answers
    of leaked kinds are neither learned from nor in any event.
    """

    leaked: HostArray = np.zeros(0, np.uint64)  # codes of kinds

    def __init__(
        self,
        attacks: Sequence[Choice[Attack]],
        mechanism: HostMechanism,
        pair: Pair,
        run: RunSettings,
        stream: streams.Stream,
        prng: str,
        tried: set[Any],
    ) -> None:
        self.attacks, self.mechanism, self.pair, self.tried = attacks, mechanism, pair, tried
        self.run, self.stream, self.prng = run, stream, prng
        self.learned: list[LearnedAttack] = []

    def learn(self, train: tuple[HostArray, HostArray], shape: streams.Shape) -> None:
        """Let every attack learn from rows on D and on D′, and choose cuts by their scores."""
        self.shape = shape
        train = self._equally_many(train)
        cheap = [one.value.portable and not one.value.slow_to_learn for one in self.attacks]
        all_of_them = (
            len(train[0]) >= SLOW_FROM and shape.width <= MOST_LEARNED_NUMBERS
        ) or not any(cheap)
        self.learned = [
            self._learned(place, choice, train)
            for place, choice in enumerate(self.attacks)
            if cheap[place] or all_of_them
        ]

    def count(self, rows: tuple[HostArray, HostArray]) -> Seen:
        """Count the events of all attacks in some answers."""
        # Sums of many columns may be rounded differently in batches of other sizes, and scores on D
        # and D′ would differ in their last bit. So leaked kinds are scored with the others.
        inside = [~np.isin(side[:, 0], self.leaked) for side in rows]
        parts = [
            np.stack([self._above(number, one.cuts, *of) for of in zip(rows, inside, strict=True)])
            for number, one in enumerate(self.learned)
        ]
        cuts = tuple(len(one.cuts) for one in self.learned)
        scores = np.concatenate([one.cuts for one in self.learned])
        seen = Seen(np.concatenate(parts, axis=1), len(rows[0]), cuts, scores=scores)
        outside = seen.trials - np.array([*map(np.count_nonzero, inside)])
        return seen._replace(outside=outside) if len(self.leaked) else seen

    def behind(self, kinds: HostArray) -> "AnswerEvents":
        """Return events among the answers that are not of some more kinds, given by codes."""
        (others := copy.copy(self)).leaked = np.append(self.leaked, kinds)
        return others

    def inside(self, rows: HostArray) -> HostArray:
        """Return the rows of answers that are not of a leaked kind."""
        return rows[~np.isin(rows[:, 0], self.leaked)] if len(self.leaked) else rows

    def _equally_many(self, rows: tuple[HostArray, HostArray]) -> tuple[HostArray, HostArray]:
        x, y = map(self.inside, rows)
        return x[: len(y)], y[: len(x)]

    def event(
        self, number: int, cut: int, *, is_above: bool, words: Mapping[int, str]
    ) -> tuple[int, str | None, str]:
        """Describe the event "at or above a cut" of a learned attack, or its complement.

        Returns the attack, the event in the attack's words, if any, and in terms of scores.
        """
        place, attack, state, cuts = self.learned[number]
        edge = float(cuts[cut])
        description = attack_words(attack, state, edge, is_above, words)
        scores = in_words(attack.gives, edge, is_above=is_above)
        kinds = [words.get(code, "of another kind") for code in self.leaked.tolist()]
        among = AMONG + " or ".join(_BEFORE_KIND.sub("", kind) for kind in kinds) if kinds else ""
        return place, description and description + among, scores + among

    def scores_of(self, number: int, rows: HostArray) -> HostArray:
        """Return the scores of answers by a learned attack, as floats, shape [n]."""
        _, attack, state, _ = self.learned[number]
        return scores_of(attack, state, self._looked(attack, rows)).astype(float)

    def _learned(
        self, place: int, choice: Choice[Attack], rows: tuple[HostArray, HostArray]
    ) -> LearnedAttack:
        attack = choice.value
        train = self._looked(attack, rows[0]), self._looked(attack, rows[1])
        target = Target(self.mechanism, self.pair, train[0].shape[1:])
        if (reason := unsuited(attack, target)) is not None:
            raise CellError(f"{choice.label}: {reason}")
        state: Tree = ()
        if attack.has_fit():
            learned_from = train if learns(attack) else (train[0][:0], train[1][:0])
            state = learned_on_host(attack, self.stream, self.prng, target, learned_from)
        self._try(attack, state, rows)
        if attack.gives == "decision":
            return LearnedAttack(place, attack, state, np.ones(1))
        scores = [scores_of(attack, state, part) for part in train]
        values = np.unique(np.concatenate(scores))
        values = values[~np.isnan(values)]
        if len(values) > MOST_CUTS:
            values = np.unique(TailCuts(MOST_CUTS).bind(scores[0], scores[1]))
        # All answers lie at or above the lowest value, so there is no event at it.
        cuts = values[1:].astype(np.float64) if len(values) > 1 else np.array([np.inf])
        return LearnedAttack(place, attack, state, cuts)

    def _try(self, attack: Attack, state: Tree, rows: tuple[HostArray, HostArray]) -> None:
        """Check once that an attack sees and scores every answer alone."""
        number = min(TRIED_ALONE, *map(len, rows))
        if number < 2 or (attack, self.mechanism) in self.tried:
            return
        self.tried.add((attack, self.mechanism))

        def score(part: HostArray) -> HostArray:
            scores = scores_of(attack, state, self._looked(attack, part))
            return scores.astype(np.float64) if scores.dtype == bool else scores

        trace.check_seen_alone(attack, rows[0][:number], self.shape, FLOAT)
        row_checks.check_rows_alone(score, (rows[0][:number], rows[1][:number]))

    def _looked(self, attack: Attack, rows: HostArray) -> HostArray:
        return trace.seen(attack, rows, self.shape, FLOAT)

    def _above(self, number: int, cuts: Floats, rows: HostArray, inside: HostArray) -> Any:
        total = np.zeros(len(cuts), np.int64)
        for at in range(0, len(rows), SCORED_TOGETHER):
            part = slice(at, at + SCORED_TOGETHER)
            ordered = np.sort(self.scores_of(number, rows[part])[inside[part]])
            ordered = ordered[~np.isnan(ordered)]
            total += len(ordered) - np.searchsorted(ordered, cuts, side="left")
        return total
