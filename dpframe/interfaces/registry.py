"""Find plugins, load each behind its own guard, and resolve names to classes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import importlib.metadata
import inspect
import os
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pluggy

from dpframe import __version__
from dpframe.common import entry_points
from dpframe.common.entry_points import Broken
from dpframe.common.text import cut, did_you_mean, error_message, listed, shown
from dpframe.errors import PluginError
from dpframe.interfaces import hookspecs, mechanism as program_files, plugin_files
from dpframe.interfaces.estimator import exchange
from dpframe.interfaces.plugin import API, Plugin, abstract, parameters, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dpframe.interfaces.executor import Executor
    from dpframe.interfaces.hookspecs import ReportFormat


BUILTIN = "dpframe"  # distribution name of the built-ins
LOCAL = "local"  # distribution name of classes from a notebook or a test

KINDS = ("mechanism", "attack", "estimator", "pair", "neighbourhood")

HOOKS = {kind: f"dpframe_{kind}s" for kind in (*KINDS, "report")}
EXECUTORS = "dpframe_executors"  # this hook is called only if a run names an executor
TRACERS = "dpframe_tracers"  # this hook is called only if a test traces its function
MOST_KNOWN = 12  # plugins that a message lists although one of them has a similar name


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
        cls: type[Any] = getattr(importlib.import_module(module), name)
        return cls

    def goes_by(self, name: str) -> bool:
        """True if a spec may use this name for it."""
        return name in (self.name, f"{self.distribution}/{self.name}")


class Source(NamedTuple):
    """A plugin module, where it comes from, and its plugins."""

    distribution: str
    version: str
    what: str
    """Such as an entry point, for messages."""
    module: Any
    entries: dict[str, list[Entry]]
    """By kind, of the hooks that were called."""


class Registry:
    """The plugins of this installation.

    Other distributions are loaded when first needed, and their hooks are called kind by kind, so
    that what one imports for its mechanisms does not delay the search for a neighbourhood.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.files: set[str] = set()
        """Names of files that act as distributions; their plugins precede installed ones."""
        self._sources = [
            Source(one.distribution, one.version, "", None, {one.kind: [one]}) for one in entries
        ]
        self._broken: list[Broken] = []
        self._reports: dict[str, ReportFormat | str] = {}
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._is_complete = True  # False if installed plugins may still be loaded

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All plugins, the built-ins first."""
        return self._offered(KINDS)

    @property
    def broken(self) -> tuple[Broken, ...]:
        """The plugins that could not be loaded."""
        self._offered(HOOKS)
        return tuple(self._broken)

    @property
    def reports(self) -> dict[str, ReportFormat | str]:
        """The report formats by suffix; built-in formats are module names."""
        self._offered(["report"])
        return self._reports

    def of_kind(self, kind: str) -> tuple[Entry, ...]:
        """Return the plugins of one kind, built-ins first."""
        return self._offered([kind])

    def named(self, name: str) -> tuple[Entry, ...]:
        """Return every plugin called `name` or `distribution/name`, of whatever kind.

        Raises:
            PluginError: there is none; the message names similar ones.
        """
        if plugins := tuple(entry for entry in self.entries if entry.goes_by(name)):
            return plugins
        raise PluginError(self.unknown("plugin", name))

    def get(self, kind: str, use: str) -> Entry | None:
        """Resolve the name of a plugin in a spec; return None if no plugin has this name.

        A bare name means the built-in if there is one, else the local class that a notebook
        brought, else that of a file of this run, else the only plugin with that name; anything
        else needs `distribution/name`.

        Raises:
            PluginError: more than one thing has this name.
        """
        preferred = [s for of in (BUILTIN, LOCAL) for s in self._sources if s.distribution == of]
        for source in preferred:  # without those that are not loaded yet
            for entry in self._entries_of(source, kind):
                if entry.goes_by(use):
                    return entry
        self._add_installed()
        distribution, slash, _ = use.rpartition("/")
        candidates = [
            entry
            for source in self._sources
            if not slash or source.distribution == distribution  # others are not imported
            for entry in self._entries_of(source, kind)
            if entry.goes_by(use)
        ]
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
        distribution = use.split("/", maxsplit=1)[0]
        own = [
            f"{one.distribution} {one.version} could not be loaded: {one.error}"
            for one in self.broken
            if distribution == one.distribution or repr(distribution) in one.what
        ]
        close = did_you_mean(known, use)
        every = f"known: {listed(known)}{close}"
        short = f"{close.removeprefix('; ')} `dpframe plugins` lists all {len(known)}"
        hints = [*own, short if close and len(known) > MOST_KNOWN else every]
        if other := [entry.kind for entry in self.entries if entry.goes_by(use)]:
            hints.append(f"{use!r} is the name of {article(other[0])}")
        if not own and not close and (hint := _without_entry_point(use)):
            hints.append(hint)
        failed = sorted({b.distribution for b in self.broken})
        if failed and not own and "/" not in use:
            hints.append(
                f"it may belong to a plugin that failed to load ({', '.join(failed)}); "
                "see `dpframe plugins`"
            )
        return "\n".join(hints)

    def executor(self, address: str, warn: Callable[[str], None]) -> Executor:
        """Open the executor that an address names by its scheme, the part before the first colon.

        The built-in executor handles all other addresses, such as host:8786. `warn` is called with
        failures of plugins. Raises DpframeError if the address cannot be used.
        """
        self._add_installed()
        classes: dict[str, type[Executor]] = {}
        for hook in getattr(self._manager.hook, EXECUTORS).get_hookimpls():
            try:
                for cls in hook.function():
                    classes |= dict.fromkeys({*cls.schemes} - classes.keys(), cls)
            except Exception as error:  # one plugin must not affect others
                warn(f"{hook.plugin_name}, {EXECUTORS}: {error_message(error)}")
        return classes.get(address.partition(":")[0], classes["tcp"])(address, warn)

    def tracers(self) -> list[Callable[..., Sequence[str]]]:
        """Return the functions of plugins that trace a release; raise PluginError without any."""
        self._add_installed()
        found: list[Callable[..., Sequence[str]]] = []
        for hook in getattr(self._manager.hook, TRACERS).get_hookimpls():
            with self._guarded(hook.plugin_name.partition(":")[0], "", TRACERS):
                found += hook.function()
        if not found:
            raise PluginError(
                "trace: no plugin traces functions; plugins/dpframe-trace in the repository does"
            )
        return found

    def _add_installed(self) -> None:
        """Add the plugin modules of other distributions, once."""
        if self._is_complete:
            return
        self._is_complete = True
        points = entry_points.of_group(hookspecs.PROJECT)
        for point in sorted(points, key=lambda point: (point.name, point.value)):
            with contextlib.suppress(Exception):  # it is among the broken ones
                origin = entry_points.origin(point)
                self._add(*origin, f"entry point {point.name!r}", point.load)
        for broken in entry_points.broken(hookspecs.PROJECT):
            self._fail(*broken)

    def _add(self, distribution: str, version: str, what: str, load: Callable[[], Any]) -> None:
        """Add a plugin module; list an error in it, or hooks that dpframe does not have."""
        with self._guarded(distribution, version, what):
            module = load()
            self._manager.register(module, name=f"{distribution}:{what}")
            self._sources.append(Source(distribution, version, what, module, {}))
            for caller in self._manager.get_hookcallers(module) or ():
                if not caller.has_spec():
                    hint = did_you_mean([*HOOKS.values(), EXECUTORS, TRACERS], caller.name)
                    error = f"implements {caller.name}, which is not a hook of dpframe{hint}"
                    self._fail(distribution, version, what, error)

    def _offered(self, kinds: Iterable[str]) -> tuple[Entry, ...]:
        """Return the plugins of some kinds, source by source."""
        self._add_installed()
        return tuple(
            entry
            for source in self._sources
            for kind in kinds
            for entry in self._entries_of(source, kind)
        )

    def _entries_of(self, source: Source, kind: str) -> list[Entry]:
        """Return the plugins of one kind; their hook is called once, and alone in case it raises.

        Report formats are kept apart.
        """
        if kind not in source.entries:
            source.entries[kind] = []
            for hook in getattr(self._manager.hook, HOOKS[kind]).get_hookimpls():
                if hook.plugin is source.module:
                    place = source._replace(what=f"{source.what}, {HOOKS[kind]}")
                    with self._guarded(*place[:3]):
                        self._accept(place, kind, hook.function())
        return source.entries[kind]

    def _accept(self, source: Source, kind: str, offered: Any) -> None:
        """Add what a hook offers, or list what is wrong with it."""
        distribution, version, what, _, entries = source
        if distribution == BUILTIN and kind == "report":
            self._reports |= offered
        elif distribution == BUILTIN:  # modules by name, imported when they are used
            entries[kind] += [
                Entry(kind, n, distribution, version, at) for n, at in offered.items()
            ]
        else:
            for one in list(offered):
                refusal = self._refused_report if kind == "report" else self._refused
                if (problem := refusal(distribution, kind, one)) is not None:
                    self._fail(distribution, version, what, problem)
                elif kind == "report":
                    self._reports |= dict.fromkeys(map(str.lower, one.suffixes), one)
                else:
                    entries[kind].append(Entry(kind, one.name, distribution, version, one))

    @contextlib.contextmanager
    def _guarded(self, distribution: str, version: str, what: str) -> Iterator[None]:
        """List an exception raised inside as a mistake of a plugin."""
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: one plugin must not end the program
            self._fail(distribution, version, what, error_message(error))

    def _fail(self, distribution: str, version: str, what: str, error: str) -> None:
        self._broken.append(Broken(distribution, version, what, " ".join(error.split())))

    def _refused(self, distribution: str, kind: str, cls: Any) -> str | None:
        """Return why a class cannot be used; None if it can."""
        if not (isinstance(cls, type) and issubclass(cls, Plugin)):
            return f"returns {shown(cls)}, which is not a named subclass of a dpframe base class"
        if "name" not in cls.__dict__:
            return f"returns a class without a name; {abstract(cls)}"
        if cls.kind != kind:
            return f"returns {cls.__name__}, which is {article(cls.kind)}"
        if cls.api != API:
            return f"{kind} {cls.name!r} needs plugin interface {cls.api}; this dpframe has {API}"
        if (kind, cls.name) in self._names(distribution):
            return f"provides two {kind}s named {cls.name!r}"
        return unreadable(cls)  # type: ignore[arg-type]

    def _names(self, distribution: str) -> list[tuple[str, str]]:
        own = (source for source in self._sources if source.distribution == distribution)
        return [(e.kind, e.name) for source in own for of in source.entries.values() for e in of]

    def _refused_report(self, distribution: str, kind: str, report: ReportFormat) -> str | None:
        """Return why a report format cannot be used; None if it can."""
        suffixes = report.suffixes
        if isinstance(suffixes, str) or not suffixes or any(s[:1] != "." for s in suffixes):
            return f'the suffixes of a report format must be like (".html",), not {shown(suffixes)}'
        if inspect.getattr_static(report, "document", None) is None:  # it may import much
            return f"a report format for {', '.join(suffixes)} has no method document(record)"
        if taken := [suffix for suffix in suffixes if suffix.lower() in self._reports]:
            return f"provides a report format for {taken[0]}, which already exists"
        return None

    def _add_now(self, distribution: str, version: str, classes: Sequence[type[Any]]) -> list[str]:
        """Add classes, and return what is wrong with them."""
        module = types.ModuleType("classes")
        for kind, hook in HOOKS.items():
            # Anything else than a plugin is offered as a mechanism, which says what is wrong.
            own = [cls for cls in classes if getattr(cls, "kind", "mechanism") == kind]
            setattr(module, hook, hookspecs.hookimpl(lambda own=own: own))
        self._add(distribution, version, "classes", lambda: module)
        return self._errors_of(distribution)

    def _add_file(self, path: Path) -> None:
        """Add the plugins of a file: those of its hooks, or else all plugin classes it defines."""
        if program_files.is_program(plugin_files.source_of(path)):
            program_files.consent(path)
            self.files.add(path.name)
            return
        file, module = plugin_files.loaded(path)
        self.files.add(file.name)
        self._add(file.name, file.digest, "file", lambda: module)
        hooks = [caller.name for caller in self._manager.get_hookcallers(module) or ()]
        if not hooks:
            self._add_now(file.name, file.digest, _defined_in(module))
        wrong = self._errors_of(file.name)
        names = self._names(file.name)
        wrong += [
            f"a spec that names {name!r} means the built-in {kind}; give the class another name"
            for kind, name in names
            if (kind, name) in self._names(BUILTIN)
        ]
        if not (wrong or names or {EXECUTORS, TRACERS}.intersection(hooks)):
            example = 'class Mine(HostMechanism, name="mine")'
            wrong = [f"it defines no plugin, such as {example}, and no prepare(params, data)"]
        if wrong:
            raise PluginError("\n".join(f"--plugin {path}: {error}" for error in wrong))

    def _errors_of(self, distribution: str) -> list[str]:
        """Call all hooks of a distribution, and return what is wrong with it."""
        for source in self._sources:
            for kind in HOOKS if source.distribution in (distribution, BUILTIN) else ():
                self._entries_of(source, kind)
        return [one.error for one in self._broken if one.distribution == distribution]


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
    registry = Registry()
    registry._is_complete = os.environ.get("DPFRAME_NO_PLUGINS", "") not in ("", "0")
    registry._add(BUILTIN, __version__, BUILTIN, lambda: importlib.import_module("dpframe.builtin"))
    if wrong := registry._add_now(LOCAL, LOCAL, list(dict.fromkeys(local))):
        raise PluginError("\n".join(f"plugins: {error}" for error in wrong))
    by_stem: dict[str, Path] = {}
    for path in files:
        known = by_stem.setdefault(path.stem, path.resolve())
        if known != path.resolve():
            raise PluginError(f"--plugin {path}: another file of this run is called {known.name}")
        if path.name not in registry.files:  # not given twice
            registry._add_installed()  # an installed plugin may have the name of one in a file
            registry._add_file(path)
    return registry


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


def _defined_in(module: Any) -> list[type[Plugin]]:
    """Return the plugin classes that a module defines, in its order."""
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Plugin)
        and "name" in value.__dict__
        and value.__module__ == module.__name__
    ]
    return list(dict.fromkeys(classes))


def article(kind: str) -> str:
    """Put the article before the name of a kind."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


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


def catalog(registry: Registry, name: str | None = None) -> dict[str, Any]:
    """Return all plugins, or those called `name`, and those that could not be loaded."""
    entries = registry.entries if name is None else registry.named(name)
    plugins = [
        {
            "kind": entry.kind,
            "name": entry.name,
            "distribution": entry.distribution,
            "version": entry.version,
            "api": entry.cls.api,
            **exchange(entry.cls),
            "description": inspect.getdoc(entry.cls) or "",
            "parameters": [dataclasses.asdict(row) for row in parameters(entry.cls)],
        }
        for entry in entries
    ]
    return {
        "plugins": plugins,
        "broken": [broken._asdict() for broken in registry.broken],
    }
