"""What travels to a worker, and how a worker knows that it would count the same."""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import jax
import numpy as np

from dpframe import __version__
from dpframe.engine.boxes.lending import by_value
from dpframe.engine.planning.fingerprint import code_digest
from dpframe.plugin import Plugin

if TYPE_CHECKING:
    from collections.abc import Iterable


class Sent(NamedTuple):
    """A value on its way, with all that has to be the same where it arrives."""

    digest: str
    """Of the content: workers keep what they have unpacked."""
    content: bytes
    versions: dict[str, str]
    code: dict[str, str]
    """Digest of the code of every plugin class in it, by module and name; of those that travel as
    code themselves there is none."""


class Refused(Exception):  # noqa: N818  # the run says it, as its own error
    """A worker would not count the same; the message says why."""


class Missing(Exception):  # noqa: N818  # answered by sending the code along
    """A worker lacks a module that the run has."""


def versions() -> dict[str, str]:
    """What has to be the same on all machines, for counts to be."""
    return {
        "dpframe": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "backend": jax.default_backend(),
    }


def pack(value: Any, classes: Iterable[type], *, as_code: bool = False) -> Sent:
    """A value as it travels.

    Args:
        value: anything that can be pickled.
        classes: of the plugins in it.
        as_code: whether the modules of these classes travel with it.
    """
    listed = list(classes)
    with contextlib.ExitStack() as stack:
        if as_code:
            for name in {cls.__module__ for cls in listed} - {"__main__"}:
                if name.partition(".")[0] != "dpframe" and name in sys.modules:
                    stack.enter_context(by_value(sys.modules[name]))
        content = cloudpickle.dumps(value)
    code = {} if as_code else {_name(cls): code_digest(cls) for cls in listed if _is_found(cls)}
    return Sent(hashlib.blake2b(content, digest_size=16).hexdigest(), content, versions(), code)


def unpack(sent: Sent) -> Any:
    """The value again.

    Raises:
        Refused: something here is not what it is where this was sent from.
        Missing: a module is not here.
    """
    here = versions()
    if differences := [
        f"{name} {here[name]} where the run has {wanted}"
        for name, wanted in sent.versions.items()
        if here[name] != wanted
    ]:
        raise Refused("a worker has " + ", ".join(differences))
    try:
        value = pickle.loads(sent.content)
    except (ImportError, AttributeError) as error:
        raise Missing(f"{type(error).__name__}: {error}") from None
    for name, digest in sent.code.items():
        module, _, qualified = name.partition(":")
        cls: Any = sys.modules.get(module)
        for part in qualified.split("."):
            cls = getattr(cls, part, None)
        if cls is None or code_digest(cls) != digest:
            raise Refused(f"a worker has other code of {qualified} (module {module}) than the run")
    return value


def plugin_classes(values: Iterable[Any]) -> list[type]:
    """The classes of plugins among some values."""
    return list(dict.fromkeys(type(value) for value in values if isinstance(value, Plugin)))


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _is_found(cls: type) -> bool:
    """Whether it is pickled by its name."""
    found: Any = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is cls and cls.__module__ != "__main__"
