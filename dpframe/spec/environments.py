"""Find the environments that a spec describes and its mechanisms run in."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from dpframe.common.text import did_you_mean, listed
from dpframe.environments import places
from dpframe.environments.places import Environment, Wanted
from dpframe.spec.audit import Cell, Choice
from dpframe.spec.document import Document
from dpframe.spec.model import EnvironmentTable
from dpframe.spec.problems import Problems
from dpframe.spec.uses import Member
from dpframe.spec.variants import Variants


def wanted_of(tables: Mapping[str, EnvironmentTable], problems: Problems) -> tuple[Wanted, ...]:
    """Return the environments that a spec describes."""
    found = [Wanted(name, tuple(t.requirements), t.python) for name, t in tables.items()]
    taken: dict[str, str] = {}
    for one in found:
        first = taken.setdefault(one.slug.lower(), one.name)
        if first != one.name:
            message = f"its files would be called as those of {first!r}; give it another name"
            problems.add(("environments", one.name), message)
    return tuple(found)


def environments_in_use(
    document: Document,
    wanted: tuple[Wanted, ...],
    pythons: Mapping[str, str],
    variants: Mapping[Member, Variants],
    problems: Problems,
) -> tuple[Environment, ...]:
    """Find the environments that mechanisms name.

    Args:
        document: the spec, for the command that builds them.
        wanted: the environments that it describes.
        pythons: interpreters that the command line names.
        variants: every mechanism with its parameters.
        problems: receives names that nothing stands for.
    """
    described = {one.name: one for one in wanted}
    how = f"dpframe environments build {shlex.quote(document.path or 'SPEC')}"
    found: dict[str, Environment] = {}
    for member, of_member in variants.items():
        for name in map(_environment_of, of_member.values()):
            if name is None or name in found:
                continue
            if name in pythons:
                requirements = described[name].requirements if name in described else ()
                found[name] = _named(name, pythons[name])._replace(requirements=requirements)
            elif name in described:
                found[name] = places.found(described[name], how)
            else:
                known = [*described, *pythons]
                problems.add(
                    member.path,
                    f"there is no environment {name!r}",
                    f"[environments] has: {listed(known)}{did_you_mean(known, name)}",
                    f"--python {shlex.quote(name)}=PATH names an interpreter of your own",
                )
    for name in pythons:
        if name not in found:
            message = "no mechanism runs in an environment of that name"
            problems.add((), message, option=f"--python {name}=…")
    return tuple(found.values())


# An interpreter takes its time to start, so it is asked only once.
_named = functools.lru_cache(maxsize=64)(places.named)


def _environment_of(plugin: Any) -> str | None:
    """Return the name of the environment that a mechanism runs in; None for this interpreter."""
    name = getattr(plugin, "environment", None)
    return name if isinstance(name, str) else None


def settled(cells: Iterable[Cell], environments: Iterable[Environment]) -> list[Cell]:
    """Note in the cells' mechanisms the digest of what is installed where they run."""
    digests = {one.name: one.digest for one in environments}

    def placed(choice: Choice[Any]) -> Choice[Any]:
        name = _environment_of(choice.value)
        return dataclasses.replace(choice, environment=digests[name]) if name else choice

    def settle(cell: Cell) -> Cell:
        if _environment_of(cell.mechanism.value) is None:
            return cell
        search = cell.search
        if search is not None:
            search = dataclasses.replace(search, mechanism=placed(search.mechanism))
        return dataclasses.replace(cell, mechanism=placed(cell.mechanism), search=search)

    return [settle(cell) for cell in cells]
