"""The last lines of a report: what was found, how sure that is, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.report.sentences import caveats, expectations, verdict
from dpframe.report.terminal.ink import STYLE, Ink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from dpframe.record.model import Record
    from dpframe.report.terminal.settings import Settings


def summary_lines(record: Record, _settings: Settings, ink: Ink) -> Iterator[Text]:
    """The sentence, then what it does not say, then the expectations."""
    found = verdict(record)
    sentence = ink.text("")
    sentence.append(ink.plain(found.finding), STYLE["violated"] if found.grave else "bold")
    sentence.append(ink.plain(found.rest), "bold")
    yield sentence
    yield from map(ink.text, caveats(record))
    if expected := expectations(record):
        yield ink.text(expected.sentence, "" if expected.met else STYLE["failed"])
        if expected.surprises:
            yield ink.text(expected.surprises)
