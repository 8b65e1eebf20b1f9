"""Takes plugins in, each behind a guard of its own, and says what is wrong with the others."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pluggy

from dpframe import hookspecs, plugin_files, program_files
from dpframe.blame import blame
from dpframe.errors import PluginError
from dpframe.parameters import unreadable
from dpframe.plugin import API, Plugin, abstract
from dpframe.printable import shown
from dpframe.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BUILTIN = "dpframe"
"""Distribution name of what dpframe itself brings."""

LOCAL = "local"
"""Distribution name of classes that a notebook or a test brings."""

KINDS = ("mechanism", "attack", "estimator", "pair", "neighbourhood")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One plugin class and where it comes from."""

    kind: str
    name: str
    distribution: str
    version: str
    cls: type[Any]


@dataclasses.dataclass(frozen=True)
class Broken:
    """Something a distribution offered that could not be used, and why."""

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
        self.hooks = {kind: f"dpframe_{kind}s" for kind in KINDS}

    def add(self, distribution: str, version: str, what: str, load: Callable[[], Any]) -> None:
        def fail(what: str, error: BaseException | str) -> None:
            text = error if isinstance(error, str) else blame(error)
            self.broken.append(Broken(distribution, version, what, " ".join(text.split())))

        try:
            plugin = load()
            marked = list(self._marked(plugin))
            for name in marked:
                if name not in self.hooks.values():
                    hint = did_you_mean(self.hooks.values(), name)
                    fail(what, f"implements {name}, which is not a hook of dpframe{hint}")
            self.manager.register(plugin, name=f"{distribution}:{what}")
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
                    classes = list(implementation.function())
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    fail(f"{what}, {hook}", error)
                    continue
                for cls in classes:
                    if problem := self.accept(distribution, version, kind, cls):
                        fail(f"{what}, {hook}", problem)

    def add_class(self, cls: Any) -> None:
        """Takes in a class that no distribution provides."""
        if problem := self.accept(LOCAL, LOCAL, getattr(cls, "kind", "plugin"), cls):
            self.broken.append(Broken(LOCAL, LOCAL, "class", problem))

    def add_file(self, path: Path) -> str:
        """Takes in what a file brings: by its hooks, or else every plugin class defined in it."""
        known = self.files.setdefault(path.stem, path.resolve())
        if known != path.resolve():
            raise PluginError(f"--plugin {path}: another file of this run is called {known.name}")
        if program_files.is_program(plugin_files.source_of(path)):
            program_files.consent(path)
            return path.name
        file, module = plugin_files.loaded(path)
        if any(entry.distribution == file.name for entry in self.entries):
            return file.name  # given twice
        if any(self._marked(module)):
            self.add(file.name, file.digest, "file", lambda: module)
        else:
            for cls in _defined_in(module):
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
        if not (wrong or found):
            wrong = [f"it defines no plugin, such as {_EXAMPLE}, and no prepare(params, data)"]
        if wrong:
            raise PluginError("\n".join(f"--plugin {path}: {error}" for error in wrong))
        return file.name

    def accept(self, distribution: str, version: str, kind: str, cls: Any) -> str | None:
        """Takes a class in, or says what is wrong with it."""
        if problem := _no_plugin(kind, cls):
            return problem
        if cls.api != API:
            return f"{kind} {cls.name!r} needs plugin interface {cls.api}, this dpframe has {API}"
        taken = {(e.kind, e.name) for e in self.entries if e.distribution == distribution}
        if (kind, cls.name) in taken:
            return f"provides two {kind}s named {cls.name!r}"
        if distribution != BUILTIN and (problem := unreadable(cls)):
            return problem
        self.entries.append(Entry(kind, cls.name, distribution, version, cls))
        return None

    def _marked(self, plugin: Any) -> Iterator[str]:
        """Names in a plugin that carry the mark of a hook implementation."""
        for name in dir(plugin):
            if self.manager.parse_hookimpl_opts(plugin, name) is not None:
                yield name


_EXAMPLE = 'class Mine(HostMechanism, name="mine")'


def _defined_in(module: Any) -> list[type[Plugin]]:
    """Every plugin class of a module that is not imported from elsewhere, in its order."""
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
    """Why something is not a plugin of a kind, if it is not."""
    if not (isinstance(cls, type) and issubclass(cls, Plugin)):
        return f"returns {shown(cls)}, which is not a named subclass of a dpframe base class"
    if "name" not in cls.__dict__:
        return f"returns a class without a name; {abstract(cls)}"
    return f"returns {cls.__name__}, which is {article(cls.kind)}" if cls.kind != kind else None


def article(kind: str) -> str:
    """What stands before the name of a kind, and it."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
