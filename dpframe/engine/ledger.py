"""Number the looks at draws, and put a cell's question to its estimator at the price of its look.

Everything that a run shows of some draws is one look at them. The ledger lies twice in the folder
of the run, outlives the counts and only grows: a line per set of draws that a run looked at, with
its questions. The same question again has the same answer, and is no further look.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dpframe.common import folder
from dpframe.engine.fingerprint import question
from dpframe.errors import CellError, OutputError
from dpframe.interfaces.checks import guarded
from dpframe.interfaces.estimator import Query
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.results.verdict import FIRST_LOOK, Looks
from dpframe.sampling.address import Stream, digest, evidence_of

if TYPE_CHECKING:
    from dpframe.common.types import Tree
    from dpframe.engine.anytime import Watch
    from dpframe.engine.plan import Pass, Plan
    from dpframe.spec.audit import Cell

NAME = "looks.jsonl"

FLOAT32_RESOLUTION = 1e-6
"""Events rarer than this measure float32 samplers, whose tails end and have gaps."""
Draws = tuple[int, str, int]
"""Seed, draw group and repeat."""
Trials = tuple[int, int]


class Look(NamedTuple):
    """A look of one run at one set of draws."""

    draws: Draws
    number: int
    """Number of the look, from 1."""
    trials: Trials
    """The largest trials at which anything was shown."""
    asked: dict[str, None]
    """Questions that were new at this look, in order."""

    def line(self) -> str:
        """Return the line of the ledger, with a digest."""
        content = [list(self.draws), self.number, list(self.trials), list(self.asked)]
        return json.dumps([*content, digest(content)], separators=(",", ":"))


class Ledger:
    """The looks at the draws of a run, earlier ones and its own.

    Args:
        folders: places of its copies; without one it is kept in memory.
        at_least: looks known from elsewhere.

    Raises:
        OutputError: a copy cannot be read.
    """

    def __init__(
        self, folders: Iterable[Path] = (), at_least: Mapping[Draws, Sequence[Trials]] | None = None
    ) -> None:
        self._files = [_File.read(place / NAME) for place in folders]
        found = {line: _parsed(line) for file in self._files for line in file.lines}
        self._intact = [line for line, look in found.items() if look]
        self._unreadable = len(found) - len(self._intact)
        """Torn or changed lines; each may have been a look at any draws."""
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
        """Return the looks at some draws, this question included, and note it.

        A question that was asked before keeps its number. All new questions of a run to the same
        draws are one look; the audit pays for their number.

        Args:
            stream: stream of the draws.
            question: digest of the question.
            trials: trials per dataset.
            known_as: another name of the same draws, with looks of its own.
            number: number of the look, if `found` has fixed it already.
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
        """Return the look of the first question that was asked before, else the next one.

        Nothing is noted.
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
        """Write down the questions of this run; call it before any answer is shown.

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
    """True if its last line has no end."""

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
    return next((look.number for look in looks if question in look.asked), None)


def _merged(one: Look | None, other: Look) -> Look:
    """Join two lines on one look; a question that goes on has one for each time."""
    if one is None:
        return other
    return one._replace(trials=max(one.trials, other.trials), asked={**one.asked, **other.asked})


def _parsed(line: str) -> Look | None:
    """Read a line; None if it was changed."""
    try:
        *content, written = json.loads(line)
        draws, number, trials, asked = content
        if written != digest(content):
            return None
        where, most = (draws[0], draws[1], draws[2]), (trials[0], trials[1])
        return Look(where, number, most, dict.fromkeys(asked))
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


def share_of_error(cell: Cell, plan: Plan) -> float:
    """Return the error of one cell's bound with which all bounds of the audit hold together."""
    divide = max(1, plan.certifying_cells) if plan.audit.multiplicity != "none" else 1
    return (1 - cell.confidence) / divide


def resolution_of(cell: Cell, plan: Plan) -> float:
    """Return the probability below which the sampler is measured; 0 for float64."""
    exact = plan.audit.run.precision == "float64" or isinstance(cell.mechanism.value, HostMechanism)
    return 0.0 if exact else FLOAT32_RESOLUTION


def query_of(
    cell: Cell, plan: Plan, trials: tuple[int, int] = (0, 0), looks: Looks = FIRST_LOOK
) -> Query:
    """Return the question to a cell's estimator."""
    return Query(
        trials=trials,
        delta=cell.delta,
        confidence=1 - share_of_error(cell, plan) / looks.price,
        claim=cell.claim,
        resolution=resolution_of(cell, plan),
    )


class Inquiry:
    """The questions of a run to the draws of a pass.

    Args:
        the_pass: the pass.
        plan: gives the cells that share the error.
        ledger: numbers the looks.
    """

    def __init__(self, the_pass: Pass, plan: Plan, ledger: Ledger) -> None:
        self.the_pass, self.plan, self.ledger = the_pass, plan, ledger

    def look(self, cell: Cell, trials: tuple[int, int], counts: Any) -> Looks:
        """Return the look at all of the draws at once.

        Args:
            cell: the cell.
            trials: draws counted on each dataset.
            counts: the counts as JSON values.

        Raises:
            CellError: the claim cannot be asked.
        """
        asked = self._question(cell, trials, counts)
        return self.ledger.look(self._evidence(cell), asked, trials, known_as=self.the_pass.stream)

    def before(self, cell: Cell, rounds: Sequence[Tree]) -> tuple[Query, Looks]:
        """Return the question of an anytime cell before anything is drawn, and its look.

        More draws are no other question: bets may go on. But draws without a seed cannot be made
        again, and other draws after a shown verdict are a second try. There the question goes on
        only if all counts that were shown are still stored.

        Args:
            cell: the cell.
            rounds: counts of the stored rounds.
        """
        try:
            asked = self._question(cell, (0, 0), None)
        except CellError:  # reported by the estimate
            return query_of(cell, self.plan), FIRST_LOOK
        forms = [asked] if _seeded(cell) else [*_forms(asked, rounds)][::-1]
        known_as = self.the_pass.stream
        looks = self.ledger.found(self._evidence(cell), forms, known_as=known_as)
        return query_of(cell, self.plan, looks=looks), looks

    def shown(self, cell: Cell, watch: Watch, rounds: Sequence[Tree]) -> Looks:
        """Return the look at an anytime cell whose estimate is shown.

        Args:
            cell: the cell.
            watch: gives its trials and its look.
            rounds: counts of all rounds that it was fed.

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
        asked: str = guarded("claim", question, cell, run, error, trials, counts)
        return asked

    def _evidence(self, cell: Cell) -> Stream:
        run, data = self.plan.audit.run, self.the_pass.data
        return evidence_of(cell, data=data, precision=run.precision)


def _seeded(cell: Cell) -> bool:
    return bool(getattr(cell.mechanism.value, "seedable", True))


def _forms(asked: str, rounds: Iterable[Tree]) -> Iterable[str]:
    """Yield the question after each round, for draws that cannot be made again."""
    listed = ([np.asarray(leaf).tolist() for leaf in jax.tree.leaves(counts)] for counts in rounds)
    found = itertools.accumulate(listed, lambda so_far, new: digest([so_far, new]), initial=asked)
    return itertools.islice(found, 1, None)
