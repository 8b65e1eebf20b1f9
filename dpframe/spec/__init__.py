"""Reads audit specs: TOML in, a validated `Audit` or every mistake with its place out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from dpframe.spec.build import build
from dpframe.spec.model import ENVIRONMENTS
from dpframe.spec.problems import Problems, findings
from dpframe.spec.schema import spec_schema
from dpframe.spec.tables import from_mapping, read, read_environments
from dpframe.spec.uses import wanted_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from dpframe.environments.places import Wanted
    from dpframe.interfaces.registry import Registry
    from dpframe.spec.audit import Audit


__all__ = ["audit_from_dict", "environments_of", "load_audit", "spec_schema"]


def load_audit(
    path: str | os.PathLike[str],
    *,
    registry: Registry,
    overrides: Sequence[str] = (),
    trials: int | None = None,
    seed: int | None = None,
    pythons: Mapping[str, str] | None = None,
) -> Audit:
    """Reads the spec in a file.

    Args:
        path: a TOML file.
        registry: the plugins it may name, see `dpframe.interfaces.registry.load`.
        overrides: `KEY=VALUE` texts as `--set` takes them, applied in order.
        trials: takes precedence over `audit.trials`, swept or not.
        seed: takes precedence over `audit.seed`, swept or not.
        pythons: paths of interpreters, by the names of the environments that they stand for.

    Raises:
        SpecError: the file cannot be read or is not a valid spec; lists every mistake.
    """
    return build(read(path), registry, overrides, trials, seed, pythons)


def environments_of(path: str | os.PathLike[str]) -> tuple[Wanted, ...]:
    """The environments that the spec in a file describes; looks at nothing else in it.

    Raises:
        SpecError: the file cannot be read, or the table is not valid; lists every mistake.
    """
    document = read(path)
    problems = Problems(document)
    tables = document.data.get("environments", {})
    try:
        ENVIRONMENTS.validate_python(tables)
    except ValidationError as error:
        for finding in findings(error, tables, "key"):
            problems.add(("environments", *finding.path), finding.message, finding.hint)
    found = wanted_of(read_environments(document.data), problems)
    problems.raise_if_any()
    return found


def audit_from_dict(
    data: Mapping[str, Any],
    *,
    registry: Registry,
    overrides: Sequence[str] = (),
    trials: int | None = None,
    seed: int | None = None,
) -> Audit:
    """Builds an audit from the tables of a spec as Python values, as a notebook has them.

    Args:
        data: what parsing the TOML would give; tuples and NumPy scalars are welcome.
        registry: the plugins it may name, `dpframe.interfaces.registry.load(local=[MyMechanism])`.
        overrides: `KEY=VALUE` texts as `--set` takes them, applied in order.
        trials: takes precedence over `audit.trials`, swept or not.
        seed: takes precedence over `audit.seed`, swept or not.

    Raises:
        SpecError: not a valid spec; lists every mistake.
    """
    return build(from_mapping(data), registry, overrides, trials, seed)
