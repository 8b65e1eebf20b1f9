"""The hooks that a plugin module implements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pluggy

if TYPE_CHECKING:
    from dpframe.claims import Claim
    from dpframe.interfaces.attack import Attack
    from dpframe.interfaces.estimator import Estimator
    from dpframe.interfaces.executor import Executor
    from dpframe.interfaces.mechanism import HostMechanism, Mechanism
    from dpframe.interfaces.pair import Neighbourhood, Pair
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


PROJECT = "dpframe"  # pluggy project name and entry-point group

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def dpframe_mechanisms() -> Sequence[type[Mechanism | HostMechanism]]:  # type: ignore[empty-body]
    """Returns the mechanism classes that the plugin provides."""


@hookspec
def dpframe_attacks() -> Sequence[type[Attack]]:  # type: ignore[empty-body]
    """Returns the attack classes that the plugin provides."""


@hookspec
def dpframe_estimators() -> Sequence[type[Estimator]]:  # type: ignore[empty-body]
    """Returns the estimator classes that the plugin provides."""


@hookspec
def dpframe_pairs() -> Sequence[type[Pair]]:  # type: ignore[empty-body]
    """Returns the pair classes that the plugin provides."""


@hookspec
def dpframe_neighbourhoods() -> Sequence[type[Neighbourhood]]:  # type: ignore[empty-body]
    """Returns the neighbourhood classes that the plugin provides."""


@hookspec
def dpframe_reports() -> Sequence[ReportFormat]:  # type: ignore[empty-body]
    """Returns the report formats that the plugin provides."""


@hookspec
def dpframe_executors() -> Sequence[type[Executor]]:  # type: ignore[empty-body]
    """Returns the executor classes that the plugin provides."""


@hookspec
def dpframe_tracers() -> Sequence[Callable[[Any, Mapping[str, Any], Claim], Sequence[str]]]:  # type: ignore[empty-body]
    """Returns functions of a release, its data and its claim that trace it and return findings."""
