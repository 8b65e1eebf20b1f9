"""Digest of what a function does, the same in every process.

Pickled bytes differ: classes of a script are pickled under a random number. So a function of a
script or a notebook is read part by part: its bytecode, what it closes over, and everything of the
script that it refers to by name. Imported code is known by its name, and by its files unless it is
an installed library.
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
from dpframe.sampling.content import Reader, code_text, is_found_by_name

if TYPE_CHECKING:
    from collections.abc import Callable


def function_digest(function: Any) -> str:
    """Return the digest of a function and of everything of the script that it refers to.

    Args:
        function: anything that can be called.
    """
    hasher = hashlib.blake2b(digest_size=8)
    _Reader(hasher.update).read(function)
    return hasher.hexdigest()


class _Reader(Reader):
    """Reads code by what it does, and other values as data are read."""

    def __init__(self, tell: Callable[[bytes], object]) -> None:
        super().__init__(tell)
        self._known: dict[int, int] = {}  # functions and classes, by identity, in order
        self._kept: list[Any] = []  # keeps them alive, so that no other value gets their identity

    def read(self, value: Any) -> None:
        if isinstance(value, types.ModuleType):
            self._tell_names("module", value.__name__)
        elif isinstance(value, functools.partial):
            self.read(["partial", value.func, value.args, value.keywords])
        elif isinstance(value, types.MethodType):
            self.read(["method", value.__func__, value.__self__])
        elif isinstance(value, staticmethod | classmethod):
            self.read([type(value).__name__, value.__func__])
        elif isinstance(value, property):
            self.read(["property", value.fget, value.fset, value.fdel])
        else:
            super().read(value)

    def read_code(self, value: Any) -> None:
        if id(value) in self._known:
            self._tell_names("again", self._known[id(value)])
            return
        self._known[id(value)] = len(self._known)
        self._kept.append(value)
        self._tell_names(type(value).__name__, value.__module__, value.__qualname__)
        if isinstance(value, types.BuiltinFunctionType):
            return
        if value.__module__ != "__main__" and is_found_by_name(value):  # a worker imports it
            for file in _files(value.__module__):
                self.tell(file.read_bytes())
        elif isinstance(value, type):
            self.read(value.__bases__)
            self.read({key: part for key, part in vars(value).items() if key not in _OF_ANY_CLASS})
        else:
            text, names = code_text(value.__code__)
            self.say("code", text.encode("utf-8", "surrogatepass"))
            self.read([value.__defaults__, value.__kwdefaults__])
            for cell in value.__closure__ or ():
                self.read(cell.cell_contents)
            for name in sorted(names & value.__globals__.keys()):
                self._tell_names("global", name)
                self.read(value.__globals__[name])

    def parts_of(self, value: Any) -> list[Any]:
        try:
            return super().parts_of(value)
        except CellError:  # known by its bytes; at worst those differ in every process
            return ["pickled", cloudpickle.dumps(value)]

    def _tell_names(self, kind: str, *names: object) -> None:
        self.say(kind, repr(names).encode("utf-8", "surrogatepass"))


_OF_ANY_CLASS = ("__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__")


@functools.cache
def _files(module: str) -> tuple[Path, ...]:
    """Return Python files of the package of a module; none of Python's or dpframe's own."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return ()
    places = [Path(place) for place in getattr(sys.modules.get(top), "__path__", ())]
    if places and any("site-packages" in place.parts for place in places):
        return ()  # a library; another version of it is another environment
    files = [file for place in places for file in sorted(place.rglob("*.py"))]
    own = getattr(sys.modules.get(module), "__file__", None)
    return tuple(files) or ((Path(own),) if own and Path(own).is_file() else ())
