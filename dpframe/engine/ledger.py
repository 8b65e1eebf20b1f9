"""Number the looks at draws, and charge each question to an estimator for its look.

A question contains everything that decides the verdict on given counts: claim, attack, estimator
and their code, δ, the error, and the cells that share it. It contains nothing that decides only the
draws: precision, chunks, generator, code of the mechanism. Looks are numbered by seed, mechanism,
pair and repeat. The same question about the same draws has the same result: it is not a new look.
Another question, or other draws for any reason, is the next look. Draws are compared by their
results:

* With a fixed number of trials: by the counts, and by the layout that the pilot chose.
* Bets are valid at any time, but only while they continue on the same draws. Of two runs, one must
  begin with the counts of each round of the other. A last round that was cut by the number of
  trials is drawn again when bets continue; without a seed, bets on a cut round cannot continue.
  Rounds that are not stored are compared once they are drawn. If they differ, the bets pay for the
  next look from their first round on.
* A search chooses its draws, so its question also contains everything that decides them. When the
  search has ended, its rounds are compared like those of bets.

The ledger is a file beside the checkpoint, which outlives the counts and only grows. It has a line
for each question of a look. The record has the looks, too, in case the file is lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from annotated_types import Ge, Lt
from pydantic import TypeAdapter

from dpframe.common import files, trees
from dpframe.count.fingerprint import question
from dpframe.draw.streams import digest, evidence_of
from dpframe.errors import CellError, OutputError
from dpframe.interfaces.estimator import Query
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.plugin_calls import call_plugin
from dpframe.results.verdict import FIRST_LOOK, Looks

if TYPE_CHECKING:
    from dpframe.common.types import Tree
    from dpframe.count.plan import Pass, Plan
    from dpframe.engine.anytime import AnytimeCell
    from dpframe.spec.audit import Cell

NAME = "looks.jsonl"

FLOAT32_RESOLUTION = 1e-6
"""Rarer events reflect float32 sampling, whose tails end and have gaps, and not the mechanism."""
Draws: TypeAlias = tuple[int, str, int]  # seed, draw group and repeat, as a `Stream` begins
Trials: TypeAlias = tuple[Annotated[int, Ge(0), Lt(2**63)], Annotated[int, Ge(0), Lt(2**63)]]
Number: TypeAlias = Annotated[int, Ge(1), Lt(2**30)]
"""The number of a look; no run has more, and a record holds numbers up to twice as large."""


class Question(NamedTuple):
    """A question about some draws: the claim of a cell or of a search, with its settings."""

    draws: Draws
    digest: str  # of everything that determines the result besides the draws
    trials: Trials = (0, 0)  # the largest number of trials at which a result was shown
    rounds: str = ""  # for bets, a digest of the counts of each round, 8 digits each
    seeded: bool = True  # rounds that are missing will be the same again

    def continues(self, earlier: Question) -> bool:
        """True if the result is the earlier one, or the bets go on from it."""
        same = (self.draws, self.digest, self.seeded) == earlier[:2] + earlier[4:]
        return same and (
            self.rounds.startswith(earlier.rounds)
            or (self.seeded and earlier.rounds.startswith(self.rounds))
        )


_LINE: TypeAdapter[tuple[Number, Question]] = TypeAdapter(tuple[Number, Question])


class Ledger:
    """The looks at the draws of a run: those of earlier runs, and its own.

    Without a folder, it is kept in memory. `in_record` has the trials of the looks in the record,
    by draws.

    Raises:
        OutputError: the file cannot be read.
    """

    def __init__(
        self, folder: Path | None = None, in_record: Mapping[Draws, Sequence[Trials]] | None = None
    ) -> None:
        self._file, self._text = folder and folder / NAME, ""
        try:
            if self._file is not None:
                self._text = files.read_folder(self._file).decode(errors="replace")
        except FileNotFoundError:
            pass
        except OSError as error:
            message = f"{self._file}: cannot read the looks of earlier runs: {error}"
            raise OutputError(message) from error
        self._earlier: list[tuple[int, Question]] = []
        self._unreadable = 0
        """Number of damaged lines; each may have been a look at any draws."""
        for line in filter(None, self._text.split("\n")):
            try:
                self._earlier.append(_LINE.validate_json(line, strict=True))
            except ValueError:
                self._unreadable += 1
        self._earlier.sort(key=itemgetter(0))
        self._in_record = dict(in_record or {})
        self._own: dict[tuple[int, Question], None] = {}
        self.latest = 1  # the largest number of a look of this run

    def look(self, question: Question, recorded_as: Draws, number: int | None = None) -> Looks:
        """Note a question about some draws, and return the looks at them, this one included.

        A repeated question keeps its number. All new questions of a run to the same
        draws are one look, because the audit corrects for the number of questions. `number` is that
        of the look, if `peek` has fixed it already.
        """
        looks = self.peek(question, recorded_as)
        if number is not None:
            looks = looks._replace(number=number)
        self.latest = max(self.latest, looks.number)
        self._own[looks.number, question] = None
        return looks

    def peek(self, question: Question, recorded_as: Draws) -> Looks:
        """Return the earlier look of a repeated question, else the next look; note nothing.

        `recorded_as` is the name of the draws in the record.
        """
        looks: dict[int, list[Question]] = {}
        for number, earlier in self._earlier:
            if earlier.draws == question.draws:
                looks.setdefault(number, []).append(earlier)
        bets = bool(question.rounds)  # those that continue keep their look at more trials
        shown = {
            n: max((bool(q.rounds) == bets, q.trials) for q in of)[1] for n, of in looks.items()
        }
        for number, of in looks.items():
            same = [one for one in of if one.digest == question.digest]
            if same and all(map(question.continues, same)):
                return Looks((*{**shown, number: question.trials}.values(),), number)
        trials = [*shown.values()]
        trials += list(self._in_record.get(recorded_as, ()))[len(trials) :]
        number = max([len(trials), *shown]) + self._unreadable + 1
        return Looks(tuple(trials), number)

    def write(self) -> None:
        """Write the questions of this run, before any result is shown.

        Raises:
            OutputError: they cannot be written; then no result may be shown.
        """
        lines = [_LINE.dump_json(line).decode() for line in self._own]
        missing = [line for line in lines if line not in self._text.split("\n")]
        if self._file is None or not missing:
            return
        torn = self._text and not self._text.endswith("\n")
        text = "\n" * bool(torn) + "".join(f"{line}\n" for line in missing)
        try:
            files.append(self._file, text)
        except OSError as error:
            raise OutputError(f"{self._file}: cannot record this look: {error.strerror}") from error


def rounds_in(rounds: Iterable[Tree]) -> str:
    """Return a digest of the counts of each round: 8 digits each."""
    digests, hasher = [], hashlib.blake2b(digest_size=4)
    for counts in rounds:
        for leaf in trees.leaves(counts):
            hasher.update(np.asarray(leaf, np.int64).tobytes())
        digests.append(hasher.copy().hexdigest())
    return "".join(digests)


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


def question_digest(form: Callable[..., str], cell: Cell, plan: Plan) -> str:
    """Return the digest of a question about a cell; raise CellError if its claim fails."""
    together = [plan.audit.multiplicity, plan.m, plan.certifying_cells]
    about = plan.audit.run, share_of_error(cell, plan), resolution_of(cell, plan), together
    own_digest: str = call_plugin("claim", form, cell, *about)
    return own_digest


class LookCounter:
    """The questions of a run to the draws of a pass."""

    def __init__(self, the_pass: Pass, plan: Plan, ledger: Ledger) -> None:
        self.the_pass, self.plan, self.ledger = the_pass, plan, ledger
        self.recorded_as: Draws = the_pass.stream[:3]

    def look(self, cell: Cell, trials: tuple[int, int], counts: Any, layout: Tree) -> Looks:
        """Note the question to all draws at once; counts are JSON values. Raises CellError."""
        fixed = [np.asarray(leaf).tobytes().hex() for leaf in trees.leaves(layout)]
        about = digest([question_digest(question, cell, self.plan), trials, counts, fixed])
        return self.ledger.look(Question(self._draws(cell), about, trials), self.recorded_as)

    def before(self, cell: Cell, rounds: Sequence[Tree]) -> tuple[Query, Looks]:
        """Return the query of an anytime cell before anything is drawn, and its look."""
        try:
            looks = self.ledger.peek(self._bets(cell, rounds, (0, 0)), self.recorded_as)
        except CellError:  # reported by the estimate
            looks = FIRST_LOOK
        return query_of(cell, self.plan, looks=looks), looks

    def shown(self, cell: Cell, anytime_cell: AnytimeCell) -> Looks:
        """Note the question to an anytime cell whose estimate is shown.

        If the draws are not those of the look that it paid for, it pays for the next one. Raises
        CellError.
        """
        rounds, whole = anytime_cell.shown()
        seeded, trials = _seeded(cell), (anytime_cell.progress.trials, anytime_cell.progress.trials)
        bets = self._bets(cell, rounds[:whole] if seeded else rounds, trials)
        looks = self.ledger.look(
            bets, self.recorded_as, None if seeded else anytime_cell.looks.number
        )
        if looks.number != anytime_cell.looks.number:
            anytime_cell.ask_again(query_of(cell, self.plan, looks=looks), looks)
        return looks

    def _bets(self, cell: Cell, rounds: Sequence[Tree], trials: Trials) -> Question:
        about = question_digest(question, cell, self.plan)
        return Question(self._draws(cell), about, trials, rounds_in(rounds), _seeded(cell))

    def _draws(self, cell: Cell) -> Draws:
        return evidence_of(cell, data=self.the_pass.data)[:3]


def _seeded(cell: Cell) -> bool:
    return bool(getattr(cell.mechanism.value, "seedable", True))
