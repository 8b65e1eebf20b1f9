"""What became of each promise of a plugin, in words for its author."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal

from dpframe.blame import blame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclasses.dataclass(frozen=True)
class Finding:
    """One promise, and whether it is kept."""

    promise: str
    """What every plugin of the kind must do."""
    result: Literal["kept", "broken", "left out"]
    """"left out": it does not apply, or cannot be tried."""
    detail: str
    """What went wrong and what to do, or why it was left out; empty if it is kept."""


class LeftOut(Exception):  # noqa: N818  # it is no error
    """Raised by a trial that does not apply; says why."""


Trial = tuple[str, "Callable[[Any], None]"]
"""A promise, and a function of the subject that raises if it is broken: AssertionError with what
is wrong, anything else if the author's code raised it."""


def examine(subject: Any, trials: Sequence[Trial]) -> list[Finding]:
    """Tries every promise, whatever became of the others."""
    return [_examined(subject, *trial) for trial in trials]


def _examined(subject: Any, promise: str, trial: Callable[[Any], None]) -> Finding:
    try:
        trial(subject)
    except LeftOut as reason:
        return Finding(promise, "left out", str(reason))
    except AssertionError as wrong:
        return Finding(promise, "broken", str(wrong) or "an assertion failed")
    except Exception as error:
        return Finding(promise, "broken", blame(error))
    return Finding(promise, "kept", "")


class NotKeptError(AssertionError):
    """A plugin breaks promises of its kind.

    Attributes:
        findings: all promises, those that are kept included.
    """

    def __init__(self, what: str, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        broken = [found for found in findings if found.result == "broken"]
        lines = [f"* {found.promise}: {found.detail}" for found in broken]
        super().__init__("\n".join([f"{what} breaks {len(broken)} of {len(findings)}:", *lines]))


def demand(what: str, findings: list[Finding]) -> list[Finding]:
    """The findings, if no promise is broken.

    Args:
        what: names the plugin.
        findings: what became of its promises.

    Raises:
        NotKeptError: one is broken; says which.
    """
    if any(found.result == "broken" for found in findings):
        raise NotKeptError(what, findings)
    return findings
