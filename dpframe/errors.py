"""Every error dpframe raises on purpose; the command line prints them without a traceback."""

from pathlib import Path
from typing import Any


class DpframeError(Exception):
    """A mistake of the user or of a plugin that dpframe can name. Exit code 2."""


class SpecError(DpframeError):
    """An audit spec that cannot be run; contains all mistakes, not only the first.

    Args:
        problems: one message per mistake, with its place.
        number: number of mistakes, if there are more than messages.
    """

    def __init__(self, problems: list[str], number: int | None = None) -> None:
        self.problems = problems
        self.number = len(problems) if number is None else number
        rest = self.number - len(problems)
        more = f"… and {rest:,} more mistake{'' if rest == 1 else 's'}"
        super().__init__("\n".join([*problems, *([more] if rest else [])]))


class PluginError(DpframeError):
    """A plugin that does not exist, is ambiguous, or breaks the rules of its kind."""


class RecordError(DpframeError):
    """A run record that cannot be read."""


class OutputError(DpframeError):
    """The output directory cannot be used."""


class CellError(DpframeError):
    """A cell that could not be run; the others continue. Its message is the cell's `reason`."""


class SampleError(CellError):
    """A mistake of the mechanism, independent of attack and estimator."""


class WorthlessError(SampleError):
    """The counts of a cell cannot be used, either now or when the run is resumed."""


class WrongResultError(CellError):
    """A result that a task cannot have."""


class ScoresError(DpframeError):
    """Scores that cannot be read, or values that are not scores."""


class _AuditError(Exception):
    """An audit in a test after which the test must not pass.

    Args:
        message: claim, bound and event, or what is missing and the remedy.
        record: of the audit; None if there is none.
        path: of the record's file.
    """

    def __init__(self, message: str, record: Any = None, path: Path | None = None) -> None:
        super().__init__(message)
        self.record, self.path = record, path


class UndecidedError(_AuditError, DpframeError):
    """An audit in a test that decided nothing."""


class ViolationError(_AuditError, AssertionError):
    """A claim that an audit in a test refuted."""


class ParameterError(ValueError):
    """One parameter of a plugin is wrong; raised by its `check`.

    Attributes:
        parameter: its name in a spec.
    """

    def __init__(self, parameter: str, message: str) -> None:
        super().__init__(message)
        self.parameter = parameter
