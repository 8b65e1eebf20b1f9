"""Build and remove the environments of black boxes; nothing else installs packages."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from dpframe import environments as place
from dpframe.common.text import did_you_mean, listed
from dpframe.environments import Environment
from dpframe.environments import build as build_one
from dpframe.environments import remove as remove_one
from dpframe.errors import DpframeError
from dpframe.spec import environments_of


def build(
    spec: str | os.PathLike[str],
    names: Sequence[str] = (),
    *,
    allow_source: bool = False,
    tell: Callable[[str], None] = print,
) -> list[Environment]:
    """Build the missing environments of a spec, by default all; one that fails stops no other.

    The list of installed packages is written beside the spec. `allow_source` lets packages be
    built from source, which runs their code; `tell` prints progress. Raises SpecError if the
    spec describes none that can be read, DpframeError if a name is unknown, or some cannot be
    built.
    """
    wanted = {one.name: one for one in environments_of(spec)}
    if not wanted:
        raise DpframeError(f"{spec}: has no [environments]")
    if unknown := [name for name in names if name not in wanted]:
        known = listed(list(wanted)) + did_you_mean(list(wanted), unknown[0])
        raise DpframeError(f"there is no environment {unknown[0]!r}; {spec} has: {known}")
    made, failed = [], []
    for name in names or wanted:
        try:
            made.append(build_one(wanted[name], Path(spec), allow_source=allow_source, tell=tell))
        except DpframeError as error:
            failed.append(str(error))
    if failed:
        raise DpframeError("\n".join(failed))
    return made


def remove(names: Sequence[str], *, everything: bool = False) -> list[Environment]:
    """Remove environments by their names, finished or not.

    Raises DpframeError if none has such a name, or one cannot be removed.
    """
    entries = place.every()
    chosen = [e for e in entries if everything or {e.name, e.folder.name} & {*names}]
    for name in names:
        if not any(name in (entry.name, entry.folder.name) for entry in entries):
            known = list(dict.fromkeys(entry.name for entry in entries))
            raise DpframeError(
                f"there is no environment {name!r}; there are: "
                f"{listed(known) or 'none'}{did_you_mean(known, name)}"
            )
    for entry in chosen:
        remove_one(entry.folder)
    return chosen
