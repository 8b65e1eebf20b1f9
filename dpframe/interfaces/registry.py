"""Find plugins, load each behind its own guard, and resolve names to classes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import importlib.metadata
import inspect
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pluggy

from dpframe.common import entry_points
from dpframe.common.text import cut, did_you_mean, error_message, listed, shown
from dpframe.errors import PluginError
from dpframe.interfaces import hookspecs, mechanism as program_files, plugin_files
from dpframe.interfaces.estimator import exchange
from dpframe.interfaces.hookspecs import ReportFormat
from dpframe.interfaces.plugin import API, Plugin, abstract, parameters, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dpframe.interfaces.executor import Executor


BUILTIN = "dpframe"  # distribution name of the built-ins
LOCAL = "local"  # distribution name of classes from a notebook or a test

EXECUTORS = "dpframe_executors"  # this hook is called only if a run names an executor

KINDS = ("mechanism", "attack", "estimator", "pair", "neighbourhood")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One plugin class and where it comes from."""

    kind: str
    name: str
    distribution: str
    version: str
    source: type[Any] | str  # "module:Class" for a built-in, imported when it is used

    @functools.cached_property
    def cls(self) -> type[Any]:
        """The class."""
        if not isinstance(self.source, str):
            return self.source
        module, _, name = self.source.partition(":")
        found: type[Any] = getattr(importlib.import_module(module), name)
        problem = _no_plugin(self.kind, found)
        if problem is not None or found.name != self.name:
            raise PluginError(f"{self.source} is not the {self.kind} {self.name!r}: {problem}")
        return found

    def goes_by(self, name: str) -> bool:
        """True if a spec may use this name for it."""
        return name in (self.name, f"{self.distribution}/{self.name}")


@dataclasses.dataclass(frozen=True)
class Broken:
    """An offer of a distribution that cannot be used, and the reason."""

    distribution: str
    version: str
    what: str
    error: str


class Loader:
    """Collects entries and failures while plugins load."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.broken: list[Broken] = []
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.files: dict[str, Path] = {}
        self.reports: dict[str, ReportFormat | str] = {}
        self.hooks = {kind: f"dpframe_{kind}s" for kind in (*KINDS, "report")}
        self.is_complete = False

    def add(self, distribution: str, version: str, what: str, load: Callable[[], Any]) -> None:
        def fail(what: str, error: BaseException | str) -> None:
            text = error if isinstance(error, str) else error_message(error)
            self.broken.append(Broken(distribution, version, what, " ".join(text.split())))

        try:
            plugin = load()
            self.manager.register(plugin, name=f"{distribution}:{what}")
            for caller in self.manager.get_hookcallers(plugin) or ():
                if not caller.has_spec():
                    hint = did_you_mean([*self.hooks.values(), EXECUTORS], caller.name)
                    fail(what, f"implements {caller.name}, which is not a hook of dpframe{hint}")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: one plugin must not end the program
            fail(what, error)
            return
        for kind, hook in self.hooks.items():
            for implementation in getattr(self.manager.hook, hook).get_hookimpls():
                if implementation.plugin is not plugin:
                    continue
                try:
                    found = implementation.function()
                    if distribution == BUILTIN:
                        self._add_built_in(kind, version, found)
                        continue
                    for offered in list(found):
                        if problem := self.accept(distribution, version, kind, offered):
                            fail(f"{what}, {hook}", problem)
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    fail(f"{what}, {hook}", error)

    def _add_built_in(self, kind: str, version: str, sources: dict[str, str]) -> None:
        if kind == "report":
            self.reports |= sources
        else:
            new = (Entry(kind, name, BUILTIN, version, at) for name, at in sources.items())
            self.entries.extend(new)

    def add_installed(self) -> None:
        """Add the plugins of other distributions, once."""
        if self.is_complete or os.environ.get("DPFRAME_NO_PLUGINS", "") not in ("", "0"):
            return
        self.is_complete = True
        found, broken = _installed()
        for distribution, version, point in found:
            self.add(distribution, version, f"entry point {point.name!r}", point.load)
        for damaged in broken:
            self.broken.append(Broken(*damaged[:3], " ".join(damaged.error.split())))

    def add_file(self, path: Path) -> str:
        """Add the plugins of a file: those of its hooks, or else all plugin classes it defines."""
        known = self.files.setdefault(path.stem, path.resolve())
        if known != path.resolve():
            raise PluginError(f"--plugin {path}: another file of this run is called {known.name}")
        if program_files.is_program(plugin_files.source_of(path)):
            program_files.consent(path)
            return path.name
        file, module = plugin_files.loaded(path)
        if self.manager.has_plugin(f"{file.name}:file") or any(
            entry.distribution == file.name for entry in self.entries
        ):
            return file.name  # given twice
        self.add(file.name, file.digest, "file", lambda: module)
        hooks = [caller.name for caller in self.manager.get_hookcallers(module) or ()]
        for cls in [] if hooks else _defined_in(module):
            if problem := self.accept(file.name, file.digest, cls.kind, cls):
                self.broken.append(Broken(file.name, file.digest, cls.__name__, problem))
        wrong = [broken.error for broken in self.broken if broken.distribution == file.name]
        found = [entry for entry in self.entries if entry.distribution == file.name]
        ours = {(entry.kind, entry.name) for entry in self.entries if entry.distribution == BUILTIN}
        wrong += [
            f"a spec that names {entry.name!r} means the built-in {entry.kind}; "
            "give the class another name"
            for entry in found
            if (entry.kind, entry.name) in ours
        ]
        if not (wrong or found or EXECUTORS in hooks):
            wrong = [f"it defines no plugin, such as {_EXAMPLE}, and no prepare(params, data)"]
        if wrong:
            raise PluginError("\n".join(f"--plugin {path}: {error}" for error in wrong))
        return file.name

    def accept(self, distribution: str, version: str, kind: str, cls: Any) -> str | None:
        """Add a class or a report format, or return what is wrong with it."""
        if kind == "report":
            return self._accept_report(cls)
        if problem := _no_plugin(kind, cls):
            return problem
        if cls.api != API:
            return f"{kind} {cls.name!r} needs plugin interface {cls.api}; this dpframe has {API}"
        taken = {(e.kind, e.name) for e in self.entries if e.distribution == distribution}
        if (kind, cls.name) in taken:
            return f"provides two {kind}s named {cls.name!r}"
        if problem := unreadable(cls):
            return problem
        self.entries.append(Entry(kind, cls.name, distribution, version, cls))
        return None

    def _accept_report(self, report: ReportFormat) -> str | None:
        suffixes = report.suffixes
        if isinstance(suffixes, str) or not suffixes or any(s[:1] != "." for s in suffixes):
            return f'the suffixes of a report format must be like (".html",), not {shown(suffixes)}'
        if inspect.getattr_static(report, "document", None) is None:  # it may import much
            return f"a report format for {', '.join(suffixes)} has no method document(record)"
        if taken := [suffix for suffix in suffixes if suffix.lower() in self.reports]:
            return f"provides a report format for {taken[0]}, which already exists"
        self.reports |= dict.fromkeys(map(str.lower, suffixes), report)
        return None


class Installed(NamedTuple):
    """The installed plugins."""

    plugins: list[tuple[str, str, importlib.metadata.EntryPoint]]
    """Distribution, version and entry point."""
    broken: list[entry_points.BrokenMetadata]


_kept: list[tuple[Any, Installed]] = []  # the places that were searched for plugins, and the result


def _installed() -> Installed:
    """Return all installed plugins, sorted, and the distributions that cannot be read.

    Reading the metadata of every distribution takes 30 ms, so the lists are kept until a directory
    on `sys.path` changes. One that changed in the last two seconds may change again unnoticed.
    """
    stamps = tuple(map(_stamp, sys.path))
    key = (importlib.metadata.entry_points, tuple(sys.meta_path), tuple(sys.path), stamps)
    for kept, found in _kept:
        if kept == key:
            return found
    now = time.time_ns()
    points = []
    offered = entry_points.of_group(hookspecs.PROJECT)
    for point in sorted(offered, key=lambda point: (point.name, point.value)):
        with contextlib.suppress(Exception):  # it is among the broken ones
            points.append((*entry_points.origin(point), point))
    found = Installed(points, entry_points.broken(hookspecs.PROJECT))
    settled = all(changed < now - 2_000_000_000 for *_, changed in filter(None, stamps))
    _kept[:] = [(key, found)] if settled else []
    return found


def _stamp(path: str) -> tuple[int, int, int] | None:
    """Identify a directory and its last change; None if there is none."""
    try:
        status = Path(path).stat()
    except (OSError, TypeError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


_EXAMPLE = 'class Mine(HostMechanism, name="mine")'


def _defined_in(module: Any) -> list[type[Plugin]]:
    """Return the plugin classes that a module defines, in its order."""
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Plugin)
        and "name" in value.__dict__
        and value.__module__ == module.__name__
    ]
    return list(dict.fromkeys(found))


def _no_plugin(kind: str, cls: Any) -> str | None:
    """Return why an object is not a plugin of a kind; None if it is one."""
    if not (isinstance(cls, type) and issubclass(cls, Plugin)):
        return f"returns {shown(cls)}, which is not a named subclass of a dpframe base class"
    if "name" not in cls.__dict__:
        return f"returns a class without a name; {abstract(cls)}"
    return f"returns {cls.__name__}, which is {article(cls.kind)}" if cls.kind != kind else None


def article(kind: str) -> str:
    """Put the article before the name of a kind."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


__all__ = ["BUILTIN", "KINDS", "LOCAL", "Broken", "Entry", "Registry", "catalog", "load", "named"]


@dataclasses.dataclass(frozen=True)
class Registry:
    """The plugins of this installation. Other distributions are loaded when first asked for."""

    at_hand: tuple[Entry, ...]
    """Built-ins, and the classes of notebooks and files."""
    files: frozenset[str] = frozenset()
    """Names of files that act as distributions; their plugins precede installed ones."""
    loader: Loader | None = None
    """Loads the other installed plugins."""

    @functools.cached_property
    def _all(self) -> Loader | None:
        if self.loader is not None:
            self.loader.add_installed()
        return self.loader

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All plugins, the built-ins first."""
        return tuple(self._all.entries) if self._all else self.at_hand

    @property
    def broken(self) -> tuple[Broken, ...]:
        """The plugins that could not be loaded."""
        return tuple(self._all.broken) if self._all else ()

    @property
    def reports(self) -> dict[str, ReportFormat | str]:
        """The report formats by suffix; built-in formats are module names."""
        return self._all.reports if self._all else {}

    def of_kind(self, kind: str) -> tuple[Entry, ...]:
        """Return the plugins of one kind, built-ins first."""
        return tuple(entry for entry in self.entries if entry.kind == kind)

    def named(self, name: str) -> tuple[Entry, ...]:
        """Return every plugin with this name, `distribution/name` included, of whatever kind."""
        return tuple(entry for entry in self.entries if entry.goes_by(name))

    def get(self, kind: str, use: str) -> Entry | None:
        """Resolve the name of a plugin in a spec; return None if no plugin has this name.

        A bare name means the built-in if there is one, else the local class that a notebook
        brought, else that of a file of this run, else the only plugin with that name; anything
        else needs `distribution/name`.

        Raises:
            PluginError: more than one thing has this name.
        """
        for preferred in (BUILTIN, LOCAL):
            for entry in self.at_hand:
                if (entry.distribution, entry.kind) == (preferred, kind) and entry.goes_by(use):
                    return entry
        candidates = [entry for entry in self.named(use) if entry.kind == kind]
        candidates = [e for e in candidates if e.distribution in self.files] or candidates
        if len(candidates) > 1:
            choices = ", ".join(f"{entry.distribution}/{entry.name}" for entry in candidates)
            raise PluginError(f"{kind} {use!r} is ambiguous; choose one of: {choices}")
        return candidates[0] if candidates else None

    def find(self, kind: str, use: str) -> Entry:
        """Resolve the name of a plugin in a spec, as `get` does.

        Raises:
            PluginError: nothing, or more than one thing, has this name.
        """
        entry = self.get(kind, use)
        if entry is None:
            raise PluginError(self.unknown(kind, use))
        return entry

    def unknown(self, kind: str, use: str) -> str:
        """Return a message that no such plugin exists, with suggestions."""
        hints = self.hints(kind, use).replace("\n", "\n   ")
        return f"unknown {kind} {cut(use)!r}\n   {hints}"

    def hints(self, kind: str, use: str) -> str:
        """Return suggestions for an unknown plugin, one per line; see `unknown`."""
        known = sorted({entry.name for entry in self.entries if kind in (entry.kind, "plugin")})
        asked = use.split("/", maxsplit=1)[0]
        own = [
            f"{one.distribution} {one.version} could not be loaded: {one.error}"
            for one in self.broken
            if asked == one.distribution or repr(asked) in one.what
        ]
        hints = [*own, f"known: {listed(known)}{did_you_mean(known, use)}"]
        if other := [entry.kind for entry in self.named(use)]:
            hints.append(f"{use!r} is the name of {article(other[0])}")
        if not own and not did_you_mean(known, use) and (hint := _without_entry_point(use)):
            hints.append(hint)
        failed = sorted({b.distribution for b in self.broken})
        if failed and not own and "/" not in use:
            hints.append(
                f"it may belong to a plugin that failed to load ({', '.join(failed)}); "
                "see `dpframe plugins`"
            )
        return "\n".join(hints)


def load(local: Iterable[type[Plugin]] = (), files: Iterable[Path] = ()) -> Registry:
    """Find the built-ins, the installed plugins and additional ones.

    An installed plugin's mistake is listed, not raised. `DPFRAME_NO_PLUGINS=1` in the environment
    leaves third parties out.

    Args:
        local: classes to add, for example those of a notebook; their distribution is called
            "local".
        files: Python files with plugins; they are run.

    Raises:
        PluginError: a class is not a plugin, or a file cannot be run, has no plugin, or has one
            that cannot be used.
    """
    loader = _built_in()
    problems = [
        loader.accept(LOCAL, LOCAL, getattr(cls, "kind", "plugin"), cls)
        for cls in dict.fromkeys(local)
    ]
    if any(problems):
        raise PluginError("\n".join(f"plugins: {problem}" for problem in problems if problem))
    if paths := list(files):
        loader.add_installed()  # an installed plugin may have the name of one in a file
    names = frozenset(loader.add_file(path) for path in paths)
    return Registry(tuple(loader.entries), names, loader)


def find_plugin(kind: str, name: str) -> type[Any]:
    """Return the class of an installed plugin, by the name that specs and records give it.

    `find_plugin("pair", cell.pair.use).from_params(cell.pair.params)` is the pair of a record.

    Args:
        kind: such as "mechanism" or "pair".
        name: the plugin's name, or `distribution/name`.

    Raises:
        PluginError: nothing, or more than one thing, has this name.
    """
    return load().find(kind, name).cls


def _built_in() -> Loader:
    loader = Loader()
    loader.add(
        BUILTIN, _version(BUILTIN), BUILTIN, lambda: importlib.import_module("dpframe.builtin")
    )
    return loader


def executor(address: str, warn: Callable[[str], None], files: Iterable[Path] = ()) -> Executor:
    """Open the executor that an address names by its scheme, the part before the first colon.

    The built-in executor handles all other addresses, such as host:8786.

    Args:
        address: such as "tcp://head:8786".
        warn: called with messages about failures that do not end the run.
        files: Python files of the run, which may have executors.

    Raises:
        DpframeError: the address cannot be used.
    """
    loader = _built_in()
    loader.add_installed()
    for path in files:
        loader.add_file(path)
    found: dict[str, type[Executor]] = {}
    for hook in getattr(loader.manager.hook, EXECUTORS).get_hookimpls():
        try:
            for cls in hook.function():
                found |= dict.fromkeys({*cls.schemes} - found.keys(), cls)
        except Exception as error:  # one plugin must not affect others
            warn(f"{hook.plugin_name}, {EXECUTORS}: {error_message(error)}")
    return found.get(address.partition(":")[0], found["tcp"])(address, warn)


def _without_entry_point(use: str) -> str | None:
    """Return advice if a package of the plugin's name has no entry point for dpframe."""
    name = use.partition("/")[0]
    point = f"[project.entry-points.{hookspecs.PROJECT}]"
    try:
        distribution = importlib.metadata.distribution(name)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return f"a package that provides it must declare it in its pyproject.toml: {point}"
    if distribution.entry_points.select(group=hookspecs.PROJECT):
        return None
    return (
        f"the package {name!r} is installed but has no entry point for dpframe: add "
        f"{point} to its pyproject.toml and install it again"
    )


@functools.cache
def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        from dpframe import __version__

        return __version__


def named(registry: Registry, name: str) -> tuple[Entry, ...]:
    """Return every plugin called `name` or `distribution/name`.

    Raises:
        PluginError: there is none; the message names similar ones.
    """
    if found := registry.named(name):
        return found
    raise PluginError(registry.unknown("plugin", name))


def catalog(registry: Registry, name: str | None = None) -> dict[str, Any]:
    """Return all plugins, or those called `name`, and those that could not be loaded."""
    entries = registry.entries if name is None else named(registry, name)
    return {
        "plugins": [_described(entry) for entry in entries],
        "broken": [dataclasses.asdict(broken) for broken in registry.broken],
    }


def _described(entry: Entry) -> dict[str, Any]:
    return {
        "kind": entry.kind,
        "name": entry.name,
        "distribution": entry.distribution,
        "version": entry.version,
        "api": entry.cls.api,
        **exchange(entry.cls),
        "description": inspect.getdoc(entry.cls) or "",
        "parameters": [dataclasses.asdict(row) for row in parameters(entry.cls)],
    }
