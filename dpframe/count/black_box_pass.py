"""A pass over a black box: drawn in worker processes, scored on the device."""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpframe.common import trees
from dpframe.common.types import HostArray, Tree
from dpframe.count import checkpoint, draws, rounds
from dpframe.count.plan import Pass, Scorer
from dpframe.count.scoring import counts_with, scores_of
from dpframe.count.work import PassWork
from dpframe.draw import row_checks, trace
from dpframe.draw.independence import NOT_SEEDABLE, Independence
from dpframe.draw.requests import BlackBoxPayload, DeadlinePassed, RunCancelled, WorkerSource
from dpframe.draw.sampler import BlackBoxSampler, ChunkSizes
from dpframe.draw.scheduling import LEAST_SECONDS, Clock, TaskSize, Which, at_once
from dpframe.draw.streams import EVAL, Segment, as_scored, for_black_box
from dpframe.draw.trial_call import different, different_outputs, one_answer, only_exceptions
from dpframe.draw.worker.generators import note_of
from dpframe.errors import CellError, SampleError
from dpframe.interfaces.attack import Answers
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.statistic import BinCounts, DecisionCounts
from dpframe.spec.audit import Cell, RunSettings

BATCH_ELEMENTS = 1 << 14  # output coordinates that are scored in one call

MOST_KINDS = 16  # kinds of exceptions of a segment that are remembered


class BlackBoxDraws(draws.Draws):
    """Outputs of the streams of a black box, drawn by several workers at once.

    `independence` tests all outputs; the black box has `limit` seconds for the fit and pilot
    streams.
    """

    def __init__(
        self,
        the_pass: Pass,
        run: RunSettings,
        prng: str,
        made: tuple[Any, Any],
        source: WorkerSource,
        independence: Independence | None = None,
        limit: float | None = None,
    ) -> None:
        super().__init__(the_pass, run, prng, made)
        mechanisms: Any = the_pass.mechanisms
        self.load = BlackBoxPayload(mechanisms, for_black_box(made))
        self.source, self.independence = source, independence
        self._clock = Clock(limit)
        self.kept: dict[tuple[int, int, int], HostArray] = {}
        """Chunks that were drawn and are still to be counted, by variant, dataset and number."""

    def sampler(
        self,
        stream: str,
        variant: int = 0,
        clock: Clock | None = None,
        deadline: Callable[[int], float | None] | None = None,
    ) -> BlackBoxSampler:
        """Return the sampler of a stream and a variant; the default clock is that of learning."""
        the_pass, sizes = self.the_pass, ChunkSizes(self.the_pass.rows)
        address = self.load, variant, the_pass.stream.of(stream), the_pass.shape, sizes
        return BlackBoxSampler(
            *address, self.source, self.independence, clock or self._clock, deadline
        )

    def of_chunks(self, stream: str, variant: int, which: Sequence[Which]) -> list[HostArray]:
        drawn = self.sampler(stream, variant).draw_at_once(which)
        return [as_scored(outputs, self.dtype) for outputs in drawn]

    def first_chunks(self, variant: int, chunks: range) -> list[HostArray]:
        """Draw the first chunks, and keep them until they are counted."""
        rows = self.the_pass.rows
        both = self.sampler(EVAL, variant).draw_at_once([(index, chunks) for index in (0, 1)])
        for index, outputs in enumerate(both):
            for n in chunks:
                self.kept[variant, index, n] = outputs[n * rows : (n + 1) * rows]
        return [as_scored(outputs, self.dtype) for outputs in both]

    def check_address(self, variant: int, first: HostArray) -> None:
        """Draw the first chunk of D of another variant again; raise SampleError if it differs."""
        mechanism: Any = self.the_pass.mechanisms[variant]
        if mechanism.seedable and not self.sampler(EVAL, variant).is_repeated(first):
            raise SampleError(NOT_SEEDABLE)


class AnswerFacts(NamedTuple):
    """Facts about the answers of a segment, besides their counts."""

    answers: set[tuple[int, int]]  # all, or two different ones
    number: int
    raised: int  # number of exceptions
    kinds: set[int]  # of exceptions: not all, but two or more if there are several


class BlackBoxPass(PassWork):
    """A pass over a black box: drawn by worker processes, scored on the device."""

    on_host = True
    source: WorkerSource  # lends workers

    @property
    def notes(self) -> tuple[str, ...]:
        notes = [self.nan_note("all outputs")]
        if not self.mechanisms[0].seedable:
            notes.append("not replayable: the mechanism does not take its randomness from the seed")
        if (note := note_of(self.mechanisms)) is not None:
            notes.append(note)
        kind = self.the_pass.shape.dtype
        if kind.kind == "f" and kind.itemsize > 8:
            notes.append(f"{kind} outputs were rounded to float64 before they were scored")
        asking = self.the_pass.shape.asking
        if asking is not None:
            notes.append(f"an exception {'is an answer' if asking.raises else 'fails the cell'}")
            if asking.limit is not None:
                notes.append(
                    f"no answer within {asking.limit:g} s of this machine is a TimeoutError"
                )
            if asking.time:
                notes.append("answers were timed, so the evidence is valid only for this machine")
        return tuple(notes)

    @property
    def mechanisms(self) -> tuple[HostMechanism, ...]:
        """The mechanisms, one per variant."""
        mechanisms: Any = self.the_pass.mechanisms
        return tuple(mechanisms)

    @functools.cached_property
    def independence(self) -> Independence:
        """The tests for dependence among the outputs."""
        asking = self.the_pass.shape.asking
        timed = asking is not None and asking.time
        return Independence(
            self.the_pass.rows,
            self.variants,
            answers=asking is not None,
            drift=asking is None or asking.limit is None,  # timeouts vary with time
            attacks=0 if timed else sum(len(scorer.attacks) for scorer in self.the_pass.scorers),
            black_boxes=self.mechanisms,
        )

    def prepare(self) -> None:
        limit = self.run.seconds
        try:
            super().prepare()
        except DeadlinePassed:
            raise SampleError(
                f"the time budget of {limit:g} s ended before anything was counted; the draws for "
                "[run] fit and pilot come first"
            ) from None

    def learning(self) -> BlackBoxDraws:
        limit = self.run.seconds
        limit = None if limit is None else max(limit, LEAST_SECONDS)
        self.draws = BlackBoxDraws(
            self.the_pass, self.run, self.prng, self.made, self.source, self.independence, limit
        )
        self._seen = self.draws.kept
        row = max(1, self.the_pass.elements) * self.the_pass.shape.dtype.itemsize
        self._task_size = TaskSize(self.the_pass.rows * row * self.variants)
        # First, because a failure saves many costly releases.
        self.draws.sampler(EVAL).check_addresses()
        return self.draws

    def _find_counts(self) -> None:
        super()._find_counts()
        self._answers = [(set[tuple[int, int]](), 0)] * self.variants
        """By variant: the answers counted here, or two different ones, and their number."""
        self._facts: dict[tuple[int, int, int], AnswerFacts] = {}
        """Facts about segments that are not added yet, by variant, dataset and first chunk."""
        self._kinds: list[set[int]] = [set() for _ in range(self.variants)]
        """Kinds of exceptions by variant: not all, but two or more if there are several."""
        start = 0 if self.window is None else self.window.start
        rows, none = self.the_pass.rows, np.zeros(2, np.int64)
        self.exceptions = [
            rounds.PrefixCounts(none, (start, start), rows) for _ in range(self.variants)
        ]
        for cell, place in self.the_pass.cells:
            saved = self.store.load(self.the_pass.stream, checkpoint.RAISED + self.keys[cell.id])
            answers = [] if saved is None else [(done - start) * rows for done in saved.done]
            if saved is not None and _is_count(saved.leaves, answers):
                raised = np.array(saved.leaves[0], np.int64)
                self.exceptions[place.variant] = rounds.PrefixCounts(raised, saved.done, rows)
                self._kinds[place.variant].update(saved.leaves[1])

    def add(self, index: int, segment: Segment, counted: tuple[Tree, ...], seconds: float) -> None:
        for variant, (answers, number) in enumerate(self._answers):
            if (facts := self._facts.pop((variant, index, segment.first), None)) is not None:
                seen = answers if len(answers) > 1 else answers | facts.answers
                self._answers[variant] = seen, number + facts.number
                self._kinds[variant] |= facts.kinds
                raised = np.array([facts.raised, 0])[[index, 1 - index]]
                self.exceptions[variant].add(index, segment, raised)
        super().add(index, segment, counted, seconds)

    def exceptions_of(self, variant: int) -> list[float] | None:
        if self.the_pass.shape.asking is None:
            return None
        raised, trials = self.exceptions[variant].total()
        return [int(n) / max(1, of) for n, of in zip(raised, trials, strict=True)]

    def untested(self, cell: Cell, variant: int) -> str | None:
        answers, number = self._answers[variant]
        if cell.mechanism.constant or number < sum(self.tally.trials):
            return None  # others were counted in an earlier process; the scores decide then
        return one_answer(answers, cell.mechanism.label, number, self.source.words)

    def begin(self) -> None:
        if not self.begun:
            self._clock = Clock(self.run.seconds)
        super().begin()

    def time_left(self) -> float | None:
        # Other black boxes may hold the workers: waiting for one does not count as this pass's
        # time.
        return self._clock.left() if self.begun else super().time_left()

    def first_outputs(self, variant: int) -> tuple[HostArray, HostArray]:
        def first(index: int) -> HostArray:
            chunk = self.tally.done[index]
            if (outputs := self._seen.get((variant, index, chunk))) is not None:
                return outputs
            return self.draws.sampler(EVAL, variant).draw(index, chunk, chunk + 1)

        sides = at_once([partial(first, index) for index in (0, 1)], self.source.most)
        if variant and not any(self.tally.done):
            self.draws.check_address(variant, sides[0])
        for index, outputs in enumerate(sides):  # counted too, because a release may be costly
            self._seen[variant, index, self.tally.done[index]] = outputs
        x, y = (self._checked(outputs) for outputs in sides)
        return x, y

    def units(self) -> Iterator[tuple[int, Segment]]:
        """Yield the first chunk of each dataset, then tasks of both in turn."""
        if isinstance(self.tally, rounds.Rounds):
            yield from self._parts(super().units())
            return
        whole, tail = divmod(self.upto, self.the_pass.rows)
        upto = [whole + (tail > 0)] * 2
        place, step = list(self.tally.done), 1
        while place != upto:
            for index in (0, 1):
                stop = min(place[index] + step, max(whole, place[index] + 1))
                if place[index] < upto[index]:
                    rows = self.the_pass.rows if place[index] < whole else tail
                    yield index, Segment(place[index], stop, rows)
                    place[index] = stop
            step = self._task_size.chunks

    def _parts(self, units: Iterator[tuple[int, Segment]]) -> Iterator[tuple[int, Segment]]:
        """Split the segments of rounds into tasks."""
        for index, segment in units:
            first = segment.first
            while first < segment.stop:
                stop = min(first + self._task_size.chunks, segment.stop)
                yield index, segment._replace(first=first, stop=stop)
                first = stop

    def draw_and_count(self, index: int, segment: Segment) -> tuple[Segment, tuple[Tree, ...]]:
        active = self.active
        drawn: list[list[HostArray]] = [[] for _ in active]
        at_hand = max(
            (self._chunks_at_hand(variant, index, segment) for variant in active), default=0
        )
        started = time.monotonic()
        try:
            for variant, segment_outputs in zip(active, drawn, strict=True):
                for outputs in self._outputs(variant, index, segment):
                    segment_outputs.append(outputs)
        except (DeadlinePassed, RunCancelled):
            pass  # the chunks drawn so far count
        rows = self.the_pass.rows
        done = min(sum(map(len, of_variant)) // rows for of_variant in drawn)
        self._task_size.measured(done - at_hand, time.monotonic() - started)
        segment = segment._replace(stop=segment.first + done)
        variants = [
            self._count_variant(variant, index, segment, segment_outputs)
            if done
            else _variant(self.zeros, variant)
            for variant, segment_outputs in zip(active, drawn, strict=True)
        ]
        stacked: tuple[Tree, ...] = trees.map(
            lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *variants
        )
        return segment, stacked

    def conclude(self) -> None:
        self.independence.conclude()
        for tally, kinds in zip(self.exceptions, self._kinds, strict=True):
            raised, trials = tally.total()
            # Exceptions of several kinds may distinguish D from D′.
            if all(trials) and tuple(raised) == trials and len(kinds) < 2:
                raise CellError(only_exceptions("all answers", kinds, self.source.words))

    def save(self) -> None:
        if self.independence.passes():
            is_answer = self.the_pass.shape.asking is not None  # arrays have no exceptions to count
            for cell, place in self.the_pass.cells if self._changed and is_answer else ():
                tally, kinds = self.exceptions[place.variant], sorted(self._kinds[place.variant])
                raised = checkpoint.Saved(tally.done, [tally.prefix.tolist(), kinds[:MOST_KINDS]])
                key = checkpoint.RAISED + self.keys[cell.id]
                self.store.save(self.the_pass.stream, key, raised)
            super().save()

    def forget(self) -> None:
        super().forget()
        for key in self.keys.values():
            self.store.forget(self.the_pass.stream, checkpoint.RAISED + key)

    def _chunks_at_hand(self, variant: int, index: int, segment: Segment) -> int:
        """Return the number of chunks from the first on that were drawn before."""
        chunks = range(segment.first, segment.stop)
        unknown = (chunk for chunk in chunks if (variant, index, chunk) not in self._seen)
        return next(unknown, segment.stop) - segment.first

    def _outputs(self, variant: int, index: int, segment: Segment) -> Iterator[HostArray]:
        chunks = range(segment.first, segment.stop)
        while chunks and (seen := self._seen.pop((variant, index, chunks[0]), None)) is not None:
            yield self._checked(seen)
            chunks = chunks[1:]
        if chunks:
            sampler = self.draws.sampler(EVAL, variant, self._clock, self._deadline_of)
            for outputs in sampler.parts(index, chunks.start, chunks.stop):
                yield self._checked(outputs)

    def _deadline_of(self, index: int) -> float | None:
        """Return the end of a task that starts now; the first of a dataset gets more time."""
        left = self.time_left()
        if left is None:
            return None
        begun = self.tally.trials[index] > 0
        return time.monotonic() + max(left, 0.0 if begun else LEAST_SECONDS)

    def _count_variant(
        self, variant: int, index: int, segment: Segment, drawn: list[HostArray]
    ) -> tuple[Tree, ...]:
        counts = _variant(self.zeros, variant)
        states, layouts = _variant(self.states, variant), _variant(self.layouts, variant)
        number = (segment.stop - segment.first) * self.the_pass.rows
        if segment.limit < self.the_pass.rows:
            number = segment.limit
        outputs = np.concatenate(drawn)[:number]
        self._facts[variant, index, segment.first] = self._note(outputs)
        start = segment.first * self.the_pass.rows
        for first in range(0, number, self.batch):
            before, batch = counts, outputs[first : first + self.batch]
            counts = tuple(
                self._counted(index, batch, *scorer)
                for scorer in zip(self.the_pass.scorers, counts, states, layouts, strict=True)
            )
            self._look_for_drift(variant, index, start + first, before, counts)
        trials = np.where(np.arange(2) == index, number, 0)
        scorers = zip(self.statistics, counts, _variant(self.zeros, variant), strict=True)
        return tuple(rounds.checked_counts(*scorer, trials, 1) for scorer in scorers)

    def _note(self, outputs: HostArray) -> AnswerFacts:
        if self.the_pass.shape.asking is None:
            return AnswerFacts(
                different_outputs(outputs, self.source.words), len(outputs), 0, set()
            )
        answers = Answers(outputs)
        kinds = np.unique(answers.kinds[answers.raised])[:MOST_KINDS].tolist()
        return AnswerFacts(different((outputs,)), len(outputs), int(answers.raised.sum()), {*kinds})

    def _look_for_drift(
        self,
        variant: int,
        index: int,
        start: int,
        before: tuple[Tree, ...],
        after: tuple[Tree, ...],
    ) -> None:
        """Pass on the bin counts that one batch added, to be tested for drift."""
        number = 0
        for scorer, old, new in zip(self.the_pass.scorers, before, after, strict=True):
            if isinstance(scorer.statistic, BinCounts | DecisionCounts):
                added = np.asarray(new, np.int64)[:, index] - np.asarray(old)[:, index]
                for place, bins in enumerate(added):
                    self.independence.see_counts(variant, index, number + place, start, bins)
            number += len(scorer.attacks)

    def _counted(self, index: int, outputs: HostArray, scorer: Scorer, *of_attacks: Tree) -> Tree:
        """Return a scorer's counts with some more outputs.

        `of_attacks` are the counts, states and layouts of its attacks, every leaf [attacks, …].
        """
        seen = trace.seen(scorer.attacks[0], outputs, self.the_pass.shape, self.dtype)
        by_attack = []
        for place, attack in enumerate(scorer.attacks):
            counts, state, layout = (_variant(tree, place) for tree in of_attacks)
            scores = scores_of(attack, state, seen)
            by_attack.append(counts_with(scorer.statistic, layout, counts, index, scores))
        return trees.map(lambda *leaves: np.stack(leaves), *by_attack)

    @property
    def batch(self) -> int:
        """Number of rows scored in one call."""
        return max(self.the_pass.rows, BATCH_ELEMENTS // max(1, self.the_pass.elements))

    def _checked(self, outputs: HostArray) -> HostArray:
        if self.nan_matters and np.isnan(outputs).any():
            raise SampleError(row_checks.NAN_FOUND)
        return as_scored(outputs, self.dtype)


def _is_count(leaves: Any, answers: list[int]) -> bool:
    """True if stored numbers and kinds of exceptions are possible; `answers` has their most."""
    match leaves:
        case [[on0, on1], [*kinds]] if {type(one) for one in (on0, on1, *kinds)} == {int}:
            return bool(0 <= on0 <= answers[0] and 0 <= on1 <= answers[1])
    return False


def _variant(tree: Any, variant: int) -> Any:
    return trees.map(lambda leaf: leaf[variant], tree)
