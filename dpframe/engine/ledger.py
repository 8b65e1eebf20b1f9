"""The ledger of looks at draws that were shown before."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dpframe.engine.checks import guarded
from dpframe.engine.fingerprint import question
from dpframe.errors import CellError, OutputError
from dpframe.interfaces.estimator import Query
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.results import store as folder
from dpframe.results.verdict import FIRST_LOOK, Looks
from dpframe.sampling.address import Stream, digest, evidence_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from dpframe.common.types import Tree
    from dpframe.engine.anytime import Watch
    from dpframe.engine.plan import Pass, Plan
    from dpframe.spec.audit import Cell


# The looks at draws that were shown before: asking the same draws again is paid for.
#
# Everything that a run shows of some draws is one look at them. The ledger lies in the folder of
# the
# run, twice, outlives the counts, and only grows: a line per set of draws that a run looked at,
# with
# what it asked. Who asks the same again gets the same answer, which is no further look.


NAME = "looks.jsonl"

Draws = tuple[int, str, int]
"""Seed, draw group and repeat: what determines draws."""

Trials = tuple[int, int]


class Look(NamedTuple):
    """What a run showed of one set of draws."""

    draws: Draws
    number: int
    """Which look it was, from 1."""
    trials: Trials
    """The most at which anything was shown."""
    asked: dict[str, None]
    """Every question that was asked for the first time, in order."""

    def line(self) -> str:
        """As the ledger holds it, with a digest."""
        content = [list(self.draws), self.number, list(self.trials), list(self.asked)]
        return json.dumps([*content, digest(content)], separators=(",", ":"))


class Ledger:
    """The looks at the draws of a run, earlier ones and its own.

    Args:
        folders: where the ledger lies, once in each; none keeps it in memory.
        at_least: looks that are known from elsewhere.

    Raises:
        OutputError: what lies in the place of the ledger cannot be read.
    """

    def __init__(
        self, folders: Iterable[Path] = (), at_least: Mapping[Draws, Sequence[Trials]] | None = None
    ) -> None:
        self._files = [_File.read(place / NAME) for place in folders]
        found = {line: _parsed(line) for file in self._files for line in file.lines}
        self._intact = [line for line, look in found.items() if look]
        self._unreadable = len(found) - len(self._intact)
        """Lines that are torn or were changed: any draws may have been looked at there."""
        self._known = dict(at_least or {})
        self._earlier: dict[Draws, dict[int, Look]] = {}
        for look in filter(None, found.values()):
            of_these = self._earlier.setdefault(look.draws, {})
            of_these[look.number] = _merged(of_these.get(look.number), look)
        self._own: dict[tuple[Draws, int], Look] = {}
        self.latest = 1
        """The largest number of a look of this run."""

    def look(
        self,
        stream: Stream,
        question: str,
        trials: Trials,
        *,
        known_as: Stream | None = None,
        number: int | None = None,
    ) -> Looks:
        """The looks at some draws, once this question is asked of them.

        It keeps its number if it was asked before. All that a run asks anew of the same draws is
        one look: its audit pays for how many they are.

        Args:
            stream: gives what determines the draws.
            question: digest of everything asked.
            trials: per dataset.
            known_as: another name of the same draws, under which they were looked at too.
            number: which look it is, where `found` has said so already.
        """
        known = _number_of(question, self._looks(stream, known_as))
        looks = self.found(stream, [question], trials, known_as=known_as)
        if number is not None:
            looks = looks._replace(number=number)
        self.latest = max(self.latest, looks.number)
        if known != looks.number:
            place = _draws(stream), looks.number
            own = self._own.get(place) or Look(*place, trials, {})
            own.asked[question] = None
            self._own[place] = own._replace(trials=max(own.trials, trials))
        return looks

    def found(
        self,
        stream: Stream,
        questions: Sequence[str],
        trials: Trials = (0, 0),
        *,
        known_as: Stream | None = None,
    ) -> Looks:
        """The look in which one of some questions was asked, the first that was; else the next one.

        Nothing is asked yet.
        """
        earlier = self._looks(stream, known_as)
        for one in questions:
            if (number := _number_of(one, earlier)) is not None:
                shown = [trials if look.number == number else look.trials for look in earlier]
                return Looks(tuple(shown), number)
        shown = [look.trials for look in earlier]
        for name in filter(None, (stream, known_as)):
            shown += list(self._known.get(_draws(name), ()))[len(shown) :]
        number = max([len(shown), *(look.number for look in earlier)]) + self._unreadable + 1
        return Looks(tuple(shown), number)

    def _looks(self, stream: Stream, known_as: Stream | None) -> list[Look]:
        found: dict[int, Look] = {}
        for name in filter(None, (stream, known_as)):
            for number, look in self._earlier.get(_draws(name), {}).items():
                found[number] = _merged(found.get(number), look)
        return [found[number] for number in sorted(found)]

    def write(self) -> None:
        """Puts down what this run has asked, before it shows the answers.

        Raises:
            OutputError: it cannot be written; then nothing may be shown.
        """
        wanted = [*self._intact, *(look.line() for look in self._own.values())]
        for file in self._files:
            file.add(wanted)


class _File(NamedTuple):
    """One copy of the ledger."""

    path: Path
    lines: frozenset[str]
    torn: bool
    """Whether its last line has no end."""

    @classmethod
    def read(cls, path: Path) -> _File:
        try:
            content = folder.read_folder(path)
        except FileNotFoundError:
            content = b""
        except OSError as error:
            raise OutputError(f"{path}: cannot read the looks of earlier runs: {error}") from error
        lines = content.decode(errors="replace").split("\n")
        return cls(path, frozenset(filter(None, lines)), bool(lines[-1]))

    def add(self, lines: Iterable[str]) -> None:
        """Appends those that it does not have."""
        missing = [line for line in lines if line not in self.lines]
        if not missing:
            return
        text = "\n" * self.torn + "".join(f"{line}\n" for line in missing)
        try:
            folder.append(self.path, text)
        except OSError as error:
            raise OutputError(
                f"{self.path}: cannot write down what is looked at: {error.strerror}"
            ) from error


def _draws(stream: Stream) -> Draws:
    return stream.seed, stream.group, stream.repeat


def _number_of(question: str, looks: Iterable[Look]) -> int | None:
    """Where it was asked first."""
    return next((look.number for look in looks if question in look.asked), None)


def _merged(one: Look | None, other: Look) -> Look:
    """What two lines say of one look: a question that goes on has one for each time."""
    if one is None:
        return other
    return one._replace(trials=max(one.trials, other.trials), asked={**one.asked, **other.asked})


def _parsed(line: str) -> Look | None:
    """None if it is not as it was written."""
    try:
        *content, written = json.loads(line)
        draws, number, trials, asked = content
        if written != digest(content):
            return None
        where, most = (draws[0], draws[1], draws[2]), (trials[0], trials[1])
        return Look(where, number, most, dict.fromkeys(asked))
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


# Which look at its draws a cell's question is, and at which level it is asked.


FLOAT32_RESOLUTION = 1e-6
"""Events rarer than this measure float32 samplers, whose tails end and have gaps."""


def share_of_error(cell: Cell, plan: Plan) -> float:
    """With which probability one cell's bound may err, so that all bounds of the audit hold."""
    divide = max(1, plan.certifying_cells) if plan.audit.multiplicity != "none" else 1
    return (1 - cell.confidence) / divide


def resolution_of(cell: Cell, plan: Plan) -> float:
    """Probabilities below this measure the sampler; 0 where it has the precision of float64."""
    exact = plan.audit.run.precision == "float64" or isinstance(cell.mechanism.value, HostMechanism)
    return 0.0 if exact else FLOAT32_RESOLUTION


def query_of(
    cell: Cell, plan: Plan, trials: tuple[int, int] = (0, 0), looks: Looks = FIRST_LOOK
) -> Query:
    """What is asked of a cell's estimator."""
    return Query(
        trials=trials,
        delta=cell.delta,
        confidence=1 - share_of_error(cell, plan) / looks.price,
        claim=cell.claim,
        resolution=resolution_of(cell, plan),
    )


class Inquiry:
    """What a run asks of the draws of a pass.

    Args:
        the_pass: whose draws.
        plan: which cells the error is shared with.
        ledger: the looks at them.
    """

    def __init__(self, the_pass: Pass, plan: Plan, ledger: Ledger) -> None:
        self.the_pass, self.plan, self.ledger = the_pass, plan, ledger

    def look(self, cell: Cell, trials: tuple[int, int], counts: Any) -> Looks:
        """The look at all of the draws at once.

        Args:
            cell: who asks.
            trials: counted on each dataset.
            counts: JSON values.

        Raises:
            CellError: the claim cannot be asked.
        """
        asked = self._question(cell, trials, counts)
        return self.ledger.look(self._evidence(cell), asked, trials, known_as=self.the_pass.stream)

    def before(self, cell: Cell, rounds: Sequence[Tree]) -> tuple[Query, Looks]:
        """What is asked of an anytime cell before anything is drawn, and at which look.

        More draws are no other question: bets may go on. But what was drawn without a seed cannot
        be drawn again, and whoever draws other outputs after a verdict was shown has a second try.
        So there the question goes on only where all that was shown is still there to go on from.

        Args:
            cell: who asks.
            rounds: counts of the rounds that are stored.
        """
        try:
            asked = self._question(cell, (0, 0), None)
        except CellError:  # told when it is estimated
            return query_of(cell, self.plan), FIRST_LOOK
        forms = [asked] if _seeded(cell) else [*_forms(asked, rounds)][::-1]
        known_as = self.the_pass.stream
        looks = self.ledger.found(self._evidence(cell), forms, known_as=known_as)
        return query_of(cell, self.plan, looks=looks), looks

    def shown(self, cell: Cell, watch: Watch, rounds: Sequence[Tree]) -> Looks:
        """The look at an anytime cell, once something is shown of it.

        Args:
            cell: who asks.
            watch: with the look that it was fed at.
            rounds: counts of all rounds that it was shown.

        Raises:
            CellError: the claim cannot be asked.
        """
        asked = self._question(cell, (0, 0), None)
        if not _seeded(cell):
            *_, asked = _forms(asked, rounds)
        trials = watch.player.trials
        return self.ledger.look(
            self._evidence(cell),
            asked,
            (trials, trials),
            known_as=self.the_pass.stream,
            number=watch.looks.number,
        )

    def _question(self, cell: Cell, trials: tuple[int, int], counts: Any) -> str:
        error, run = share_of_error(cell, self.plan), self.plan.audit.run
        asked: str = guarded("claim", lambda: question(cell, run, error, trials, counts))
        return asked

    def _evidence(self, cell: Cell) -> Stream:
        run, data = self.plan.audit.run, self.the_pass.data
        return evidence_of(cell, data=data, precision=run.precision)


def _seeded(cell: Cell) -> bool:
    return bool(getattr(cell.mechanism.value, "seedable", True))


def _forms(asked: str, rounds: Iterable[Tree]) -> Iterable[str]:
    """The question after each round, where it is about draws that cannot be made again."""
    listed = ([np.asarray(leaf).tolist() for leaf in jax.tree.leaves(counts)] for counts in rounds)
    found = itertools.accumulate(listed, lambda so_far, new: digest([so_far, new]), initial=asked)
    return itertools.islice(found, 1, None)
