"""Entry points of installed distributions, read so that one broken distribution stops no other."""

import contextlib
import importlib.metadata
from importlib.metadata import Distribution, EntryPoint, EntryPoints
from typing import Any, NamedTuple

FILE = "entry_points.txt"

_read: Any = Distribution.entry_points.fget  # type: ignore[attr-defined]  # a property


def tolerate() -> None:
    """Let every library of this process read entry points although a distribution's are broken.

    JAX and pydantic read those of all distributions, so one broken file would stop every command.
    `broken` names it.
    """
    Distribution.entry_points = property(_readable)  # type: ignore[assignment,method-assign]


def _readable(distribution: Distribution) -> EntryPoints:
    try:
        return EntryPoints(_read(distribution))
    except Exception:  # whatever a damaged file makes its reader raise
        return EntryPoints()


def of_group(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, of all distributions that can be read.

    One that cannot be read raises here if a library such as importlib_metadata has replaced the
    classes that `tolerate` changes; each is then read by itself.
    """
    with contextlib.suppress(Exception):
        return list(importlib.metadata.entry_points(group=group))
    points_by_name: dict[str, list[EntryPoint]] = {}
    for one in importlib.metadata.distributions():
        with contextlib.suppress(Exception):  # `broken` names it
            if one.name not in points_by_name:  # the first on the path is the one that is imported
                points_by_name[one.name] = list(one.entry_points.select(group=group))
    return [point for points in points_by_name.values() for point in points]


def origin(point: EntryPoint) -> tuple[str, str]:
    """Return the name and version of the distribution of an entry point.

    Raises ValueError if its METADATA has none, or cannot be read.
    """
    if point.dist is None:
        return "unknown", "unknown"
    return _field(point.dist, "Name"), _field(point.dist, "Version")


def _field(distribution: Distribution, field: str) -> str:
    value = None
    with contextlib.suppress(KeyError, TypeError, OSError):  # what importlib_metadata raises
        value = getattr(distribution, field.lower())
    if not (isinstance(value, str) and value.strip()):
        raise ValueError(f"its METADATA has no {field}")
    return value


class Broken(NamedTuple):
    """An offer of a distribution that cannot be used, and the reason."""

    distribution: str
    version: str
    what: str
    """Such as an entry point, a hook of it, or a file of the distribution."""
    error: str


def broken(group: str) -> list[Broken]:
    """Return the distributions that declare the group, or may declare it, and cannot be read."""
    unreadable = []
    for one in importlib.metadata.distributions():
        file = FILE
        try:
            text = one.read_text(FILE) or ""
            if group in text:
                _check(text)
                file = "METADATA"
                for point in one.entry_points.select(group=group):
                    origin(point)
        except Exception as error:
            path = str(getattr(one, "_path", "unknown-unknown")).replace("\\", "/")
            name, _, version = path.rpartition("/")[2].rpartition(".")[0].partition("-")
            why = f"{type(error).__name__}: {error}"
            unreadable.append(Broken(name, version or "unknown", file, why))
    return unreadable


def _check(text: str) -> None:
    """Raise ValueError if a line is neither a section, an entry, a comment nor empty."""
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        name, equals, value = line.partition("=")
        entry = name.strip() and equals and EntryPoint.pattern.match(value.strip())
        is_section = line.startswith("[") and line.endswith("]")
        if line[:1] in ("", "#") or is_section or (entry and not line.startswith("[")):
            continue
        raise ValueError(f"line {number}, {line!r}, is not name = module:object")
