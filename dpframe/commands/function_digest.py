"""Digest a function by its code and the values that it reads, the same in every process.

Pickled bytes are not: classes of a script are pickled under a random number. So a function of a
script or a notebook is read part by part: its bytecode, what it closes over, and whatever it refers
to by name, as far as that is of the script too. What is imported is known by its name, and by its
files unless it is an installed library.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle

from dpframe.errors import CellError
from dpframe.sampling.content import data_digest

if TYPE_CHECKING:
    from collections.abc import Iterator


def function_digest(function: Any) -> str:
    """Digest of a function and of everything of the script that it refers to.

    Args:
        function: anything that can be called.
    """
    reader = _Reader()
    reader.read(function)
    return reader.hasher.hexdigest()


class _Reader:
    def __init__(self) -> None:
        self.hasher = hashlib.blake2b(digest_size=8)
        self._known: dict[int, int] = {}
        """Values that were met, by identity, and when: some refer to themselves."""
        self._kept: list[Any] = []
        """The same; an identity is one only as long as its value lives."""

    def read(self, value: Any) -> None:
        """Reads one value."""
        if isinstance(value, types.CodeType):
            self._code(value)
            return
        if isinstance(value, types.ModuleType):
            self._say("module", value.__name__)
            return
        if id(value) in self._known:
            self._say("again", self._known[id(value)])
            return
        if isinstance(value, functools.partial | types.MethodType):
            self._met(value)
            bound = isinstance(value, types.MethodType)
            parts = ("__func__", "__self__") if bound else ("func", "args", "keywords")
            self.read([getattr(value, part) for part in parts])
        elif isinstance(value, types.FunctionType | type):
            self._met(value)
            self._defined(value)
        elif type(value) in (tuple, list):
            self._say(type(value).__name__, len(value))
            for part in value:
                self.read(part)
        elif type(value) is dict and all(isinstance(key, str) for key in value):
            for key in sorted(value):
                self._say("key", key)
                self.read(value[key])
        elif isinstance(value, types.BuiltinFunctionType):
            self._say("builtin", value.__module__, value.__qualname__)
        else:
            self._met(value)
            self._content(value)

    def _met(self, value: Any) -> None:
        self._known[id(value)] = len(self._known)
        self._kept.append(value)

    def _say(self, *words: object) -> None:
        text = repr(words).encode()
        self.hasher.update(len(text).to_bytes(8, "big") + text)

    def _defined(self, value: Any) -> None:
        """A function or a class: of a package by its files, of the script by its parts."""
        self._say(type(value).__name__, value.__module__, value.__qualname__)
        if _importable(value):
            for file in _files(value.__module__):
                self.hasher.update(file.read_bytes())
        elif isinstance(value, type):
            for base in value.__bases__:
                self.read(base)
            self.read({key: part for key, part in vars(value).items() if key not in _OF_ANY_CLASS})
        else:
            self._code(value.__code__)
            self.read([value.__defaults__, value.__kwdefaults__])
            for cell in value.__closure__ or ():
                self.read(cell.cell_contents)
            for name in sorted(set(_names(value.__code__))):
                if name in value.__globals__:
                    self._say("global", name)
                    self.read(value.__globals__[name])

    def _code(self, code: types.CodeType) -> None:
        self._say("code", code.co_code, code.co_names, code.co_varnames, code.co_freevars)
        for constant in code.co_consts:
            if isinstance(constant, frozenset):
                self._say("set", *sorted(map(repr, constant)))
            else:
                self.read(constant)

    def _content(self, value: Any) -> None:
        self._say("value", type(value).__module__, type(value).__qualname__)
        if isinstance(value, staticmethod | classmethod):
            self.read(value.__func__)
            return
        if isinstance(value, property):
            self.read([value.fget, value.fset, value.fdel])
            return
        try:
            self._say(data_digest((value, value)))
        except CellError:  # known by its bytes; at worst those are others in every process
            self.hasher.update(cloudpickle.dumps(value))


_OF_ANY_CLASS = ("__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__")


def _names(code: types.CodeType) -> Iterator[str]:
    """Names that code may look up, and the code in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _importable(value: Any) -> bool:
    """True if a worker process can import it by name."""
    found: Any = sys.modules.get(value.__module__)
    if found is None or value.__module__ == "__main__":
        return False
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


@functools.cache
def _files(module: str) -> tuple[Path, ...]:
    """Python files of the package of a module; none of what comes with Python or dpframe."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return ()
    places = [Path(place) for place in getattr(sys.modules.get(top), "__path__", ())]
    if places and any("site-packages" in place.parts for place in places):
        return ()  # a library; another version of it is another environment
    files = [file for place in places for file in sorted(place.rglob("*.py"))]
    own = getattr(sys.modules.get(module), "__file__", None)
    return tuple(files) or ((Path(own),) if own and Path(own).is_file() else ())
