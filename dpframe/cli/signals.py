"""Ctrl-C and SIGTERM: each ends a command in order, once, and is never lost."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived; whoever lets Ctrl-C through lets this through too."""


_pending: list[KeyboardInterrupt] = []
_answered: list[KeyboardInterrupt] = []


def listen() -> None:
    """Makes both signals raise, the first time one comes.

    A terminal sends Ctrl-C to every process it can find, and the supervisor passes it on. What
    comes second must not break into the keeping of what was counted.
    """
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread is told of signals
    _pending.clear()
    _answered.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _raise_once)
    _ignore_dropped_signals()


def _raise_once(number: int, _: object) -> None:
    if not _pending:
        _pending.append(Terminated() if number == signal.SIGTERM else KeyboardInterrupt())
        raise _pending[0]


def answered() -> None:
    """The user was told that the signal has come."""
    _answered[:] = _pending


def unanswered() -> KeyboardInterrupt | None:
    """The signal that came, if the user was not told so yet."""
    return _pending[0] if _pending and not _answered else None


def end_in_order(display: Callable[[int, int], Any]) -> Callable[[int, int], Any]:
    """Raises a signal again when the command next tells of its progress.

    Python drops what a signal raises while a callback of the garbage collector runs, and JAX has
    one.

    Args:
        display: opens a progress display.

    Returns:
        The display to use instead.
    """
    listen()

    @contextlib.contextmanager
    def attentive(cells: int, total: int) -> Iterator[Callable[..., None]]:
        with display(cells, total) as progress:

            def told(**how_far: Any) -> None:
                if _pending:
                    raise _pending[0]
                progress(**how_far)

            yield told

    return attentive


def _ignore_dropped_signals() -> None:
    """Keeps Python from printing a traceback where it drops what a signal raised."""
    before = sys.unraisablehook
    if before.__module__ == __name__:
        return

    def hook(dropped: sys.UnraisableHookArgs) -> None:
        if not isinstance(dropped.exc_value, KeyboardInterrupt):
            before(dropped)

    sys.unraisablehook = hook
