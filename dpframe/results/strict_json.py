"""Turn values of plugins into strict JSON, and hash records."""

import contextlib
import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence, Set
from numbers import Integral, Real
from typing import Any

from dpframe.common.text import shown

DEEPEST = 50  # values nested deeper become text, because readers of JSON limit the depth


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON holds it: lists, dicts with text keys, numbers, text, bool and None.

    NumPy and JAX arrays become lists; a value without a counterpart in JSON becomes its `repr`. The
    function never fails, so that no plugin can make a record impossible.
    """
    if type(value) in (float, int):  # the usual types; the checks below are slow
        return value
    if value is None or isinstance(value, bool | str | Integral | Real):
        return _scalar(value)
    if depth < DEEPEST:
        if isinstance(value, Mapping):
            return {text(str(key)): plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | Set):
            return [plain(item, depth + 1) for item in value]
        with contextlib.suppress(Exception):
            return plain(value.tolist(), depth + 1)
    return shown(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        return text(value)
    if value is None or isinstance(value, bool):
        return value
    try:
        return int(value) if isinstance(value, Integral) else float(value)
    except Exception:  # a number class of a plugin that fails to convert
        return shown(value)


def text(value: str) -> str:
    """Escape lone surrogates, which occur in file names and have no UTF-8 encoding."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def profile_problem(points: Sequence[Sequence[float]]) -> str | None:
    """Return why points (ε, δ) cannot be lower bounds of a privacy profile; None if they can."""
    for epsilon, delta in points:
        if not (0 <= epsilon < math.inf and 0 <= delta <= 1):
            return f"has δ ≥ {delta} at ε = {epsilon}"
    for (e0, d0), (e1, d1) in itertools.pairwise(points):
        if e1 < e0 or d1 > d0:
            return f"does not fall from ε = {e0} to {e1}"
    return None


def in_words(number: float) -> float | str:
    """Return a number as strict JSON: "inf", "-inf" and "nan" are strings."""
    if math.isfinite(number):
        return number
    return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"


def strict(value: Any) -> Any:
    """Replace the numbers in a JSON value that are not finite by words."""
    if isinstance(value, float):
        return in_words(value)
    if isinstance(value, dict):
        return {key: strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return value


def digest_of(contents: dict[str, Any]) -> str:
    """Return a hash of a record, given as strict JSON values, without its own digest.

    It detects accidents and careless edits. It does not detect forgery, because anyone can compute
    it.
    """
    content = {key: value for key, value in contents.items() if key != "digest"}
    written = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(written.encode()).hexdigest()
