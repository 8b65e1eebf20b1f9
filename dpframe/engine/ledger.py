"""Number the looks at draws, and charge each question to an estimator for its look.

A question contains everything that decides the verdict on given counts: claim, attack, estimator
and their code, δ, the error, and the cells that share it. It contains nothing that decides only the
draws: precision, chunks, generator, code of the mechanism. Looks are numbered by seed, mechanism,
pair and repeat. The same question to the same draws has the same answer, so it is not a new look.
Another question, or other draws for any reason, is the next look. Draws are compared by their
results:

* With a fixed number of trials: by the counts, and by the layout that the pilot chose.
* Bets are valid at any time, but only while they continue on the same draws. They are compared by
  the counts of each round: of two runs, one must begin with the rounds of the other. A last round
  that was cut by the number of trials is drawn again when bets continue. With a seed it is the same
  again; without one, bets on a cut round cannot continue. Rounds that are not stored are compared
  once they are drawn. If they differ, the bets pay for the next look from their first round on.
* A search chooses its draws, so its question also contains everything that decides them. When the
  search has ended, its rounds are compared like those of bets.

The ledger is stored twice in the folder of the run, outlives the counts and only grows. It has a
line for each look of a run, with its questions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.common import files, trees
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
MOST_LOOKS = 2**30  # more than any run has; a record holds numbers up to twice as large

FLOAT32_RESOLUTION = 1e-6
"""Rarer events reflect float32 sampling, whose tails end and have gaps, and not the mechanism."""
Draws = tuple[int, str, int]  # seed, draw group and repeat, as a `Stream` begins
Trials = tuple[int, int]


class Look(NamedTuple):
    """A look of one run at one set of draws."""

    draws: Draws
    number: int  # number of the look, from 1
    trials: Trials  # the largest number of trials at which a result was shown
    asked: dict[str, None]  # questions that were new at this look, in order

    def line(self) -> str:
        """Return the line of the ledger, with a digest."""
        content = [list(self.draws), self.number, list(self.trials), list(self.asked)]
        return json.dumps([*content, digest(content)], separators=(",", ":"))


class Ledger:
    """The looks at the draws of a run: those of earlier runs, and its own.

    Without folders for copies, it is kept in memory. `at_least` has looks known from other sources.

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
        """Number of damaged lines; each may have been a look at any draws."""
        self._known = dict(at_least or {})
        self._earlier: dict[Draws, dict[int, Look]] = {}
        for look in filter(None, found.values()):
            of_these = self._earlier.setdefault(look.draws, {})
            of_these[look.number] = _merged(of_these.get(look.number), look)
        self._own: dict[tuple[Draws, int], Look] = {}
        self.latest = 1  # the largest number of a look of this run

    def look(
        self,
        stream: Stream,
        question: str,
        trials: Trials,
        *,
        known_as: Stream | None = None,
        number: int | None = None,
    ) -> Looks:
        """Note a question to some draws, and return the looks at them, this one included.

        A question that was asked before keeps its number. All new questions of a run to the same
        draws are one look, because the audit corrects for the number of questions. `known_as` is
        another name of the same draws, which has looks too. `number` is that of the look, if
        `found` has fixed it already.
        """
        known = _number_of(question, self._looks(stream, known_as))
        looks = self.found(stream, question, trials, known_as=known_as)
        if number is not None:
            looks = looks._replace(number=number)
        self.latest = max(self.latest, looks.number)
        if known != looks.number or not self._holds(question, stream, known_as, known):
            place = stream[:3], looks.number
            own = self._own.get(place) or Look(*place, trials, {})
            own.asked[question] = None
            self._own[place] = own._replace(trials=max(own.trials, trials))
        return looks

    def found(
        self,
        stream: Stream,
        question: str,
        trials: Trials = (0, 0),
        *,
        known_as: Stream | None = None,
    ) -> Looks:
        """Return the look of a question that was asked before, else the next look; note nothing."""
        earlier = self._looks(stream, known_as)
        if (number := _number_of(question, earlier)) is not None:
            shown = [trials if look.number == number else look.trials for look in earlier]
            return Looks(tuple(shown), number)
        shown = [look.trials for look in earlier]
        for name in filter(None, (stream, known_as)):
            shown += list(self._known.get(name[:3], ()))[len(shown) :]
        number = max([len(shown), *(look.number for look in earlier)]) + self._unreadable + 1
        return Looks(tuple(shown), number)

    def _looks(self, stream: Stream, known_as: Stream | None) -> list[Look]:
        found: dict[int, Look] = {}
        for name in filter(None, (stream, known_as)):
            for number, look in self._earlier.get(name[:3], {}).items():
                found[number] = _merged(found.get(number), look)
        return [found[number] for number in sorted(found)]

    def _holds(self, question: str, stream: Stream, known_as: Stream | None, number: int) -> bool:
        """True if a look has a question with all of its rounds."""
        looks = [look for look in self._looks(stream, known_as) if look.number == number]
        return any(asked.startswith(question) for look in looks for asked in look.asked)

    def write(self) -> None:
        """Write the questions of this run to all copies, before any answer is shown.

        Raises:
            OutputError: a copy cannot be written; then no answer may be shown.
        """
        wanted = [*self._intact, *(look.line() for look in self._own.values())]
        for file in self._files:
            file.add(wanted)


class _File(NamedTuple):
    """One copy of the ledger."""

    path: Path
    lines: frozenset[str]
    torn: bool  # True if its last line is incomplete

    @classmethod
    def read(cls, path: Path) -> _File:
        try:
            content = files.read_folder(path)
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
            files.append(self.path, text)
        except OSError as error:
            raise OutputError(f"{self.path}: cannot record this look: {error.strerror}") from error


def _number_of(question: str, looks: Iterable[Look]) -> int | None:
    """Return the number of the look at which a question was asked, or its bets were begun."""
    base, sign, rounds = _parts(question)
    for look in looks:
        shown = [parts[2] for parts in map(_parts, look.asked) if parts[:2] == (base, sign)]
        # With a seed, the missing rounds will be the same again.
        if shown and all(
            rounds.startswith(one) or (sign == SEEDED and one.startswith(rounds)) for one in shown
        ):
            return look.number
    return None


def _parts(question: str) -> tuple[str, str, str]:
    """Split a question into its base, a sign, and the rounds of bets."""
    sign = next((sign for sign in (SEEDED, UNSEEDED) if sign in question), "")
    base, _, rounds = question.partition(sign) if sign else (question, "", "")
    return base, sign, rounds


SEEDED, UNSEEDED = "@", "!"
"""Signs before the rounds of bets in a question, for draws with and without a seed."""


def rounds_in(question: str, rounds: Iterable[Tree], seeded: bool) -> str:
    """Append to a question a digest of the counts of each round: 8 digits each."""
    found, hasher = [], hashlib.blake2b(digest_size=4)
    for counts in rounds:
        for leaf in trees.leaves(counts):
            hasher.update(np.asarray(leaf, np.int64).tobytes())
        found.append(hasher.copy().hexdigest())
    return question + (SEEDED if seeded else UNSEEDED) + "".join(found)


def _merged(one: Look | None, other: Look) -> Look:
    """Join two lines on one look; bets that continue add a line each time."""
    if one is None:
        return other
    return one._replace(trials=max(one.trials, other.trials), asked={**one.asked, **other.asked})


def _parsed(line: str) -> Look | None:
    """Read a line; None if it is damaged."""
    try:
        *content, written = json.loads(line)
        draws, number, trials, asked = content
        if written != digest(content):
            return None
        (seed, group, repeat), (most0, most1) = draws, trials
        if not all(type(one) is int for one in (seed, repeat, number, most0, most1)):
            return None
        if not 1 <= number < MOST_LOOKS or not 0 <= most0 < 2**63 or not 0 <= most1 < 2**63:
            return None
        if not all(isinstance(one, str) for one in (group, *asked)):
            return None
        return Look((seed, group, repeat), number, (most0, most1), dict.fromkeys(asked))
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


def share_of_error(cell: Cell, plan: Plan) -> float:
    """Return a cell's share of the error, so that all bounds of the audit hold together."""
    divide = max(1, plan.certifying_cells) if plan.audit.multiplicity != "none" else 1
    return (1 - cell.confidence) / divide


def resolution_of(cell: Cell, plan: Plan) -> float:
    """Return the probability below which events show flaws of the sampler; 0 if it is exact."""
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


def asked_of(form: Callable[..., str], cell: Cell, plan: Plan) -> str:
    """Return the digest of a question about a cell; raise CellError if it cannot be asked."""
    together = [plan.audit.multiplicity, plan.m, plan.certifying_cells]
    about = plan.audit.run, share_of_error(cell, plan), resolution_of(cell, plan), together
    asked: str = guarded("claim", form, cell, *about)
    return asked


class Inquiry:
    """The questions of a run to the draws of a pass."""

    def __init__(self, the_pass: Pass, plan: Plan, ledger: Ledger) -> None:
        self.the_pass, self.plan, self.ledger = the_pass, plan, ledger

    def look(self, cell: Cell, trials: tuple[int, int], counts: Any, layout: Tree) -> Looks:
        """Note the question to all draws at once; counts are JSON values. Raises CellError."""
        fixed = [np.asarray(leaf).tobytes().hex() for leaf in trees.leaves(layout)]
        asked = digest([asked_of(question, cell, self.plan), trials, counts, fixed])
        evidence = evidence_of(cell, data=self.the_pass.data)
        return self.ledger.look(evidence, asked, trials, known_as=self.the_pass.stream)

    def before(self, cell: Cell, rounds: Sequence[Tree]) -> tuple[Query, Looks]:
        """Return the query of an anytime cell before anything is drawn, and its look."""
        try:
            asked = asked_of(question, cell, self.plan)
        except CellError:  # reported by the estimate
            return query_of(cell, self.plan), FIRST_LOOK
        asked = rounds_in(asked, rounds, _seeded(cell))
        evidence = evidence_of(cell, data=self.the_pass.data)
        looks = self.ledger.found(evidence, asked, known_as=self.the_pass.stream)
        return query_of(cell, self.plan, looks=looks), looks

    def shown(self, cell: Cell, watch: Watch) -> Looks:
        """Note the question to an anytime cell whose estimate is shown.

        If the draws are not those of the look that it paid for, it pays for the next one. Raises
        CellError.
        """
        asked, seeded = asked_of(question, cell, self.plan), _seeded(cell)
        rounds, whole = watch.shown()
        asked = rounds_in(asked, rounds[:whole] if seeded else rounds, seeded)
        trials = (watch.player.trials, watch.player.trials)
        where = evidence_of(cell, data=self.the_pass.data), asked, trials
        number = None if seeded else watch.looks.number
        looks = self.ledger.look(*where, known_as=self.the_pass.stream, number=number)
        if looks.number != watch.looks.number:
            watch.ask_again(query_of(cell, self.plan, looks=looks), looks)
        return looks


def _seeded(cell: Cell) -> bool:
    return bool(getattr(cell.mechanism.value, "seedable", True))
