"""Which environments a spec names, and what is known of them here."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from typing import TYPE_CHECKING, Any

from dpframe.environments import place
from dpframe.environments.model import Environment, Wanted
from dpframe.suggest import did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dpframe.spec.audit import Cell, Choice
    from dpframe.spec.document import Document
    from dpframe.spec.instances import Variants
    from dpframe.spec.model import EnvironmentTable
    from dpframe.spec.problems import Problems
    from dpframe.spec.uses import Member


def wanted_of(tables: Mapping[str, EnvironmentTable], problems: Problems) -> tuple[Wanted, ...]:
    """The environments that a spec describes."""
    found = [Wanted(name, tuple(t.requirements), t.python) for name, t in tables.items()]
    taken: dict[str, str] = {}
    for one in found:
        first = taken.setdefault(one.slug.lower(), one.name)
        if first != one.name:
            message = f"its files would be called as those of {first!r}; give it another name"
            problems.add(("environments", one.name), message)
    return tuple(found)


def look(
    document: Document,
    wanted: tuple[Wanted, ...],
    pythons: Mapping[str, str],
    variants: Mapping[Member, Variants],
    problems: Problems,
) -> tuple[Environment, ...]:
    """The environments that mechanisms name, as they are found here.

    Args:
        document: the spec, for the command that builds them.
        wanted: what it describes.
        pythons: interpreters that the command line names.
        variants: every mechanism with its parameters.
        problems: receives names that nothing stands for.
    """
    described = {one.name: one for one in wanted}
    how = f"dpframe environments build {shlex.quote(document.path or 'SPEC')}"
    found: dict[str, Environment] = {}
    for member, of_member in variants.items():
        for box in of_member.values():
            name = environment_of(box)
            if name is None or name in found:
                continue
            if name in pythons:
                found[name] = _named(name, pythons[name])
                requirements = described[name].requirements if name in described else ()
                found[name] = found[name]._replace(requirements=requirements)
            elif name in described:
                found[name] = place.found(described[name], how)
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
            problems.add((), "no mechanism runs in an environment of that name", option=_of(name))
    return tuple(found.values())


@functools.lru_cache(maxsize=64)
def _named(name: str, interpreter: str) -> Environment:
    """Asks once what is installed: an interpreter takes its time to start."""
    return place.named(name, interpreter)


def _of(name: str) -> str:
    return f"--python {name}=…"


def environment_of(plugin: Any) -> str | None:
    """The name of the environment that a mechanism runs in; None for this interpreter."""
    name = getattr(plugin, "environment", None)
    return name if isinstance(name, str) else None


def settled(cells: Iterable[Cell], environments: Iterable[Environment]) -> list[Cell]:
    """The cells, whose mechanisms then know what is installed where they run."""
    digests = {one.name: one.digest for one in environments}

    def told(choice: Choice[Any]) -> Choice[Any]:
        name = environment_of(choice.value)
        return dataclasses.replace(choice, environment=digests[name]) if name else choice

    found = []
    for cell in cells:
        if environment_of(cell.mechanism.value) is None:
            found.append(cell)
            continue
        search = cell.search
        if search is not None:
            search = dataclasses.replace(search, mechanism=told(search.mechanism))
        found.append(dataclasses.replace(cell, mechanism=told(cell.mechanism), search=search))
    return found
