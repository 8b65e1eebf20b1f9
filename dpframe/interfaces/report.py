"""The interface of report formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # results import interfaces
    from dpframe.results.model import Record


class ReportFormat(Protocol):
    """A format of report files, offered by the hook `dpframe_reports`; a module can be one.

    Attributes:
        suffixes: of the files it writes, in lower case, such as (".html",).
    """

    @property
    def suffixes(self) -> Sequence[str]: ...

    def document(self, record: Record) -> str:
        """Return the whole report of a run; the record's fields have the names of its file."""
