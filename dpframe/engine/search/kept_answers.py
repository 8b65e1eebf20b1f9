"""Answers of black boxes on disk while a search is under way: what was drawn is not drawn again.

A search that is interrupted goes through the same steps again. Of a box that takes a seed it could
draw the same answers again, for what they cost; of one that does not it could only draw others,
and what had been bet on them would be lost. So the answers of every round are written down before
anything is bet on them, and taken from there when the search goes on. They go when the record is
there.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.engine.addresses.address import digest
from dpframe.record import folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from dpframe.engine.addresses.address import Stream
    from dpframe.types import HostArray

SUFFIX = ".answers"

MOST = 1 << 26
"""Bytes of answers that one search keeps on disk; what comes after that is drawn again."""

SCHEMA = 1


class Round(NamedTuple):
    """Answers of consecutive chunks of a pair, and what a worker told beside them."""

    sides: tuple[HostArray, HostArray]
    """On D and on D′, as rows of 64-bit words."""
    natives: set[tuple[int, ...] | None]
    """Shapes in which numbers had come until then."""
    one: bool
    """Whether the box was asked for one answer at a time."""
    words: dict[int, str]
    """What codes in them stand for."""
    paces: tuple[Sequence[float], ...] = ((), ())
    """Seconds per answer on D and on D′, each of a few of them."""


class Shelf:
    """Answers of one pair.

    Args:
        file: where they are; None keeps none.
        room: what is left for all pairs of the search.
    """

    def __init__(self, file: Path | None = None, room: list[int] | None = None) -> None:
        self._file, self._room = file, [0] if room is None else room
        self._lines: dict[tuple[int, int], str] = {}
        if file is not None:
            self._read(file)

    def load(self, first: int, stop: int) -> Round | None:
        """The answers of some chunks, if they are there as one round."""
        line = self._lines.get((first, stop))
        return None if line is None else _round(json.loads(line.rpartition("\t")[0]))

    def save(self, first: int, stop: int, found: Round, words: Mapping[int, str]) -> None:
        """Keeps the answers of some chunks; where that cannot be, they are not kept.

        Args:
            first: number of the first chunk.
            stop: that of the chunk after the last.
            found: the answers; its words are looked up.
            words: what codes of the run stand for.
        """
        if self._file is None or self._room[0] <= 0:
            return
        codes = {code for side in found.sides for code in np.unique(side[:, :2]).tolist()}
        known = {code: text for code, text in words.items() if code in codes}
        line = _line(first, stop, found._replace(words=known))
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            folder.append(self._file, line, durable=False)
        except OSError:  # a full disk: nothing is lost but what is not drawn yet
            self._room[0] = 0
            return
        self._room[0] -= len(line)

    def _read(self, file: Path) -> None:
        """Takes in what is whole; what a run has written when it was killed may not be."""
        try:
            text = folder.read(file).decode()
        except (OSError, ValueError):
            return
        whole = 0
        for line in text.splitlines(keepends=True):
            key = _key(line)
            if key is None:
                break
            self._lines[key] = line
            whole += len(line)
        self._room[0] -= whole
        if whole < len(text):
            try:
                folder.replace(file, text[:whole])
            except OSError:
                self._file = None


class Shelves:
    """Where one search keeps its answers.

    Args:
        directory: of the checkpoint; None keeps none.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory, self._room = directory, [MOST]

    def of(self, stream: Stream, box: Any) -> Shelf:
        """The shelf of one pair.

        Args:
            stream: address of its draws.
            box: all that makes other answers of the same draws, as JSON content.
        """
        if self._directory is None:
            return Shelf()
        name = f"{stream.group}-{digest([SCHEMA, list(stream), box])}{SUFFIX}"
        return Shelf(self._directory / name, self._room)


def _line(first: int, stop: int, found: Round) -> str:
    x, y = found.sides
    content = {
        "schema": SCHEMA,
        "chunks": [first, stop],
        "rows": [len(x), len(y)],
        "natives": [shape if shape is None else list(shape) for shape in found.natives],
        "one": found.one,
        "words": found.words,
        "paces": found.paces,
        "answers": base64.b64encode(
            zlib.compress(np.concatenate([x, y]).astype("<u8").tobytes(), 1)
        ).decode(),
    }
    text = json.dumps(content, separators=(",", ":"))
    return f"{text}\t{digest(text, 16)}\n"


def _key(line: str) -> tuple[int, int] | None:
    """Which chunks a line holds; None if it is not whole."""
    text, _, told = line.rpartition("\t")
    if told != f"{digest(text, 16)}\n":
        return None
    first, stop = json.loads(text)["chunks"]
    return first, stop


def _round(found: dict[str, Any]) -> Round:
    raw = np.frombuffer(zlib.decompress(base64.b64decode(found["answers"])), "<u8")
    n, m = found["rows"]
    both = raw.astype(np.uint64).reshape(n + m, -1)
    natives = {shape if shape is None else tuple(shape) for shape in found["natives"]}
    words = {int(code): text for code, text in found["words"].items()}
    paces = tuple(found.get("paces", ((), ())))
    return Round((both[:n], both[n:]), natives, found["one"], words, paces)
