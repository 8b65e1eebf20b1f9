"""The looks at draws that were shown before: asking the same draws again is paid for.

Everything that a run shows of some draws is one look at them. The ledger lies in the folder of the
run, twice, outlives the counts, and only grows: a line per set of draws that a run looked at, with
what it asked. Who asks the same again gets the same answer, which is no further look.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from dpframe.engine.addresses.address import Stream, digest
from dpframe.errors import OutputError
from dpframe.record import folder
from dpframe.record.looks import Looks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

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
        for question in questions:
            if (number := _number_of(question, earlier)) is not None:
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
            content = folder.read(path)
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
