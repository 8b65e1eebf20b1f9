"""Which estimators are asked about scores that were made elsewhere, and with which parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from dpframe import registry
from dpframe.commands.provenance import plugin_record
from dpframe.errors import PluginError
from dpframe.estimator import Estimator
from dpframe.plugin import names_in_specs, problems_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.registry import Entry, Registry


class Candidate(NamedTuple):
    """An estimator to be asked."""

    entry: Entry
    estimator: Estimator

    @property
    def label(self) -> str:
        """What the table calls it."""
        return self.entry.name

    def plugin(self) -> dict[str, Any]:
        """What the record says about the plugin."""
        entry = self.entry
        return plugin_record(entry.name, entry.distribution, entry.version, entry.cls).model_dump()

    def choice(self) -> dict[str, Any]:
        """What the record says about the estimator in a row."""
        name = self.entry.name
        return {"use": name, "label": name, "params": self.estimator.params()}


def candidates(
    found: Registry,
    wanted: Sequence[str | Estimator] | None,
    parameters: dict[str, Any],
) -> tuple[list[Candidate], list[dict[str, str]]]:
    """Makes the estimators to ask.

    Args:
        found: where names are looked up.
        wanted: names or estimators; None means every one that can do without parameters.
        parameters: given to each named one that has a parameter of the name.

    Returns:
        The estimators, and those that cannot be asked, each with the reason.

    Raises:
        PluginError: a name is unknown, or a parameter is refused or belongs to none of them.
    """
    chosen: list[Any] = list(found.of_kind("estimator")) if wanted is None else list(wanted)
    made: list[Candidate] = []
    skipped: list[dict[str, str]] = []
    taken: set[str] = set()
    for one in chosen:
        if isinstance(one, Estimator):
            made.append(_local(one))
            continue
        entry = found.find("estimator", one) if isinstance(one, str) else one
        names = set(names_in_specs(entry.cls).values())
        own = {name: value for name, value in parameters.items() if name in names}
        taken |= own.keys()
        try:
            made.append(Candidate(entry, entry.cls.from_params(own)))
        except ValueError as error:
            if wanted is not None or own:
                raise PluginError(f"estimator {entry.name!r}: {_explained(error)}") from error
            skipped.append({"estimator": entry.name, "reason": _explained(error)})
    if unknown := sorted(parameters.keys() - taken):
        raise PluginError(f"none of these estimators has a parameter {unknown[0]!r}")
    return made, skipped


def _local(estimator: Estimator) -> Candidate:
    local = registry.LOCAL
    return Candidate(
        registry.Entry("estimator", estimator.name, local, local, type(estimator)), estimator
    )


def _explained(error: ValueError) -> str:
    """Why parameters are refused."""
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(
        f"parameter {'.'.join(map(str, place))!r}: {message}"
        for place, _, message in problems_of(error)
    )
