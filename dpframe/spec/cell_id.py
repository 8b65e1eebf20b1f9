"""Names cells so that a name outlives every change to the spec that leaves the cell alone."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import unicodedata
from typing import Any

_LONGEST_SLUG = 100
_HASH_DIGITS = 12


class Identity:
    """The id of a cell, of which the repeats of one cell share all but the end.

    It hashes what the cell *is*: plugins, labels, effective parameters, swept values, repeat.
    Position does not count, nor does what the whole audit has in common, such as trials, seed,
    δ and confidence, unless the spec sweeps it.

    Args:
        labels: of mechanism, attack and estimator.
        plugins: what identifies each plugin and its parameters, plain JSON values.
        swept: swept keys and this cell's values.
    """

    def __init__(self, labels: list[str], plugins: list[Any], swept: list[tuple[str, Any]]) -> None:
        swept = [(key, _same_if_equal(value)) for key, value in swept]
        values = [f"{key.partition('.')[2]}-{_short(value)}" for key, value in swept]
        self._slug = "-".join(filter(None, map(_slug, [*labels, *values])))[:_LONGEST_SLUG]
        what = [labels, plugins, sorted(swept, key=lambda pair: pair[0])]
        self._content = json.dumps(what, sort_keys=True, default=str)

    def of_repeat(self, repeat: int) -> str:
        """The id of one repeat; the first has none in its slug."""
        digest = hashlib.sha256(f"{self._content}|{repeat}".encode()).hexdigest()[:_HASH_DIGITS]
        suffix = f"-r{repeat}" if repeat else ""
        return f"{self._slug}{suffix}-{digest}"


def _same_if_equal(value: Any) -> Any:
    """10 for 10.0: a spec may write either."""
    if isinstance(value, list):
        return [_same_if_equal(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


@functools.lru_cache(4096)
def _slug(text: str) -> str:
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9.]+", "-", ascii_text.lower()).strip("-.")
