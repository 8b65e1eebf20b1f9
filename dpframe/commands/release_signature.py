"""The arguments of a function that makes one release, recognised by its signature."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from dpframe.errors import DpframeError

Setting = bool | int | float | str  # an argument that a search may vary
GENERATOR_NAMES = (
    *("rng", "np_rng", "prng", "gen", "generator", "random_state", "random", "random_source"),
    *("randomness", "key", "seed"),
)
"""Names of a parameter for a generator; the first three name nothing else."""
GENERATOR_CLASSES = ("Generator", "RandomState", "Random", "BitGenerator")
"""Classes of a generator, in annotations."""
DATA_NAMES = (
    *("data", "dataset", "database", "db", "df", "frame", "table", "records", "record", "rows"),
    *("row", "values", "value", "x", "xs", "array", "samples", "users", "column", "series"),
)
"""Names of a parameter for the data, the plainest first."""
SETTING_NAMES = (
    *("eps", "epsilon", "delta", "sensitivity", "scale", "sigma", "noise", "noise_scale"),
    *("noise_multiplier", "budget", "rho", "clip", "bound", "bounds", "low", "high", "lower"),
    *("upper", "threshold"),
)
"""Names of a parameter that is neither; the first four are never names of data."""


def optional(release: Callable[..., Any]) -> dict[str, Any]:
    """Return the defaults of the optional arguments of a function, but for a generator."""
    try:
        given = inspect.signature(release).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have none
        return {}
    named = [p for p in given if p.default is not p.empty and p.kind is not p.POSITIONAL_ONLY]
    return {p.name: p.default for p in named if not _is_generator(p)}


def varied_arguments(release: Callable[..., Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the defaults of the arguments that a search varies."""
    known = {n: v for n, v in optional(release).items() if isinstance(v, Setting)}
    if unknown := [name for name in names if name not in known]:
        raise DpframeError(
            f"parameters: {unknown[0]!r} is no optional argument with a number or a text as its "
            f"default; there are {', '.join(known) or 'none'}; bind it with functools.partial"
        )
    return {name: known[name] for name in names}


def takes_generator(release: Callable[..., Any]) -> bool:
    """True if the function takes a generator before the data.

    Raises DpframeError if it takes neither one nor two arguments, or is not a function.
    """
    if not callable(release):
        raise DpframeError(f"release: {release!r} is not a function")
    if (
        inspect.isclass(release)
        and release.__module__ not in ("builtins", "numpy")
        and any(callable(one) for name, one in vars(release).items() if not name.startswith("_"))
    ):
        raise DpframeError(
            f"release: {release.__name__} is a class: pass the method of an object, or a function "
            "that makes an object and returns the answer"
        )
    if inspect.iscoroutinefunction(release) or inspect.isasyncgenfunction(release):
        raise DpframeError("release: it is async; wrap it in a function that calls asyncio.run")
    try:
        parameters = list(inspect.signature(release).parameters.values())
    except (TypeError, ValueError):  # some built-in functions have none
        return False
    in_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in in_place if p.default is p.empty]
    by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if by_name:
        raise DpframeError(
            f"release: it requires the keyword arguments {', '.join(by_name)}; bind them with "
            "functools.partial or a lambda"
        )
    if len(needed) == 2:
        _check_order(*needed)
        return True
    if len(needed) < 3 and len(in_place) > 1 and _is_generator(in_place[0]):
        _check_order(*in_place[:2])
        return True
    if len(in_place) == 1 and _plain(in_place[0].name) in (
        *GENERATOR_NAMES[:3],
        *SETTING_NAMES[:4],
    ):
        raise DpframeError(
            f"release: its only parameter is called {in_place[0].name!r}, but would get the data: "
            "dpframe calls release(data) or release(rng, data)"
        )
    if len(needed) == 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return False
    if in_place and not needed:
        return False
    raise DpframeError(
        f"release: it takes {len(needed) or 'no'} arguments"
        + (f", {', '.join(p.name for p in needed)}" if needed else "")
        + "; it is called as release(data) or as release(rng, data), one run per call"
        + ": bind the others with functools.partial or a lambda" * bool(needed)
    )


def _check_order(first: inspect.Parameter, second: inspect.Parameter) -> None:
    """Raise DpframeError unless two parameters may be a generator and the data, in this order."""
    one, other = _plain(first.name), _plain(second.name)
    called = "dpframe calls release(rng, data)"
    if first.name in ("self", "cls"):
        raise DpframeError(
            f"release: its first parameter is {first.name!r}: pass the method of an object, such "
            "as Library(…).release"
        )
    if _is_generator(first):
        if other in SETTING_NAMES:
            raise DpframeError(
                f"release: its second parameter is called {second.name!r}, but {called}, so it "
                "would get the data: bind it with functools.partial or a lambda"
            )
        return
    if _is_generator(second):
        raise DpframeError(
            f"release: its second parameter is called {second.name!r}, but {called}: swap them"
        )
    if one in SETTING_NAMES and one != "noise" and other not in SETTING_NAMES:
        raise DpframeError(
            f"release: its first parameter is called {first.name!r}, but {called}, so it would get "
            "the generator: bind it with functools.partial or a lambda"
        )
    if (one in DATA_NAMES and other not in DATA_NAMES[:1]) or other in SETTING_NAMES:
        raise DpframeError(
            f"release: it takes {first.name!r} and {second.name!r}, but {called}, so "
            f"{first.name!r} would get the generator: bind {second.name!r} with functools.partial "
            "or a lambda"
        )


def _is_generator(parameter: inspect.Parameter) -> bool:
    """True if a parameter is for a generator, by its annotation or its name."""
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return text.rpartition(".")[2] in GENERATOR_CLASSES or _plain(parameter.name) in GENERATOR_NAMES


def _plain(name: str) -> str:
    return name.strip("_").lower()


def swapped(release: Callable[..., Any]) -> tuple[str, str] | None:
    """Return the names of the generator and the data, if the names do not tell which is which."""
    if not takes_generator(release):
        return None
    needed = [*inspect.signature(release).parameters.values()][:2]
    return None if _is_generator(needed[0]) else (needed[0].name, needed[1].name)
