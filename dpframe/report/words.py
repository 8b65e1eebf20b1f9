"""Numbers and verdicts in words: the same in every report."""

from __future__ import annotations

import contextlib
import json
import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Any

import tomli
from rich.cells import cell_len

if TYPE_CHECKING:
    from dpframe.results.model import Record


# Verdicts in words and signs: the same in every report.


SYMBOL: dict[str | None, str] = {
    "violated": "✗",
    "consistent": "○",
    "inconclusive": "?",
    "failed": "!",
    None: "~",
}
WORDS: dict[str | None, str] = {
    "violated": "violated",
    "consistent": "no violation found",
    "inconclusive": "inconclusive",
    "failed": "failed",
    None: "no verdict",
}
"""What a verdict is called. Nothing here says "private": no audit can show that."""

UNEXPECTED = "▶"


# What the [run] table of a record's spec says of how draws are made.


KEYS = ("precision", "prng", "chunk")
"""What may decide whether a finding comes again: the others say when a run ends."""


def drawn_with(record: Record) -> dict[str, Any]:
    """The part of [run] that others need to make such draws, without what is left to its default.

    Args:
        record: of a run; its spec is TOML, or JSON where it was no file.
    """
    found: dict[str, Any] = {}
    for read in (tomli.loads, json.loads):
        with contextlib.suppress(ValueError, RecursionError, AttributeError):
            found = dict(read(record.spec.text).get("run", {}))
            break
    for override in record.spec.overrides:
        key, _, value = override.partition("=")
        if key.startswith("run."):
            found[key.removeprefix("run.")] = _read(value)
    return {key: found[key] for key in KEYS if key in found}


def _read(value: str) -> Any:
    """A value of --set: TOML, else text."""
    try:
        return tomli.loads(f"value = {value}")["value"]
    except ValueError:
        return value


# Theorems and other sources of the numbers of a record.


def references(record: Record) -> dict[str, str]:
    """What each estimator rests on, by the name that cells use; without those that name nothing.

    Args:
        record: of a run. Old ones name no sources.
    """
    return {
        plugin.name: plugin.reference
        for plugin in record.plugins
        if plugin.kind == "estimator" and plugin.reference
    }


# Numbers in words: as every report shows them, bounds rounded the safe way.


SMALLEST_FIXED = 0.001
"""Below this a number is written as 3.2e-4, because zeros would fill the column."""


def number(value: Any) -> float | None:
    """A number of the record, where non-finite ones are the strings "inf", "-inf" and "nan"."""
    if isinstance(value, str):
        return float(value) if value in ("inf", "-inf", "nan") else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def point(value: float | None) -> str:
    """A point value, rounded to the nearest; ∞ is allowed here."""
    return _significant(value, ROUND_HALF_EVEN)


def brief(value: float, digits: int = 3) -> str:
    """A number that was given, such as a claim: 0.1 and not 0.100."""
    text = _significant(value, ROUND_HALF_EVEN, digits)
    plain = "." in text and "e" not in text
    return text.rstrip("0").rstrip(".") if plain else text


def lower(value: float | None, digits: int = 3) -> str:
    """A certified lower bound, rounded down, so that the text never claims more than the number.

    A bound is finite; anything else is no bound and is shown as none.
    """
    if value is None or not math.isfinite(value):
        return "–"
    return _significant(value, ROUND_FLOOR, digits)


def upper(value: float | None) -> str:
    """An upper limit, rounded up."""
    return _significant(value, ROUND_CEILING)


def spread(mean: float, deviation: float) -> tuple[str, str]:
    """A mean and its standard deviation: two digits of the latter, the former to match."""
    if not (math.isfinite(mean) and math.isfinite(deviation)) or deviation <= 0:
        return point(mean), point(deviation)
    decimals = min(max(1 - math.floor(math.log10(deviation)), 0), 8)
    return f"{mean:.{decimals}f}", f"{deviation:.{decimals}f}"


def _significant(value: float | None, rounding: str, most: int = 3) -> str:
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "∞" if value > 0 else "-∞"
    exact = Decimal(repr(value))
    if not exact:
        return "0"
    digits = most if abs(value) >= SMALLEST_FIXED else most - 1
    rounded = exact.quantize(Decimal((0, (1,), exact.adjusted() - digits + 1)), rounding)
    if abs(value) < SMALLEST_FIXED:
        mantissa, exponent = f"{rounded:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    if rounded.adjusted() > exact.adjusted():  # 9.999 became 10.00
        decimals = max(digits - 1 - rounded.adjusted(), 0)
        return f"{rounded:.{decimals}f}"
    return f"{rounded:f}"


def setting(value: Any) -> str:
    """A parameter's value, as short as it can be written: 0.1, 10, zero."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:g}".replace("e-0", "e-").replace("e+0", "e")
    if isinstance(value, list | tuple):
        return ", ".join(setting(item) for item in value)
    return str(value)


def percent(probability: float) -> str:
    """A confidence: 95 %, 99.98 %; nines are never rounded up to 100 %."""
    missing = 100 * (1 - probability)
    if missing <= 0:
        return "100 %"
    decimals = max(0, -math.floor(math.log10(missing)) + 1)
    text = f"{100 - missing:.{min(decimals, 10)}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def quantity(value: float) -> str:
    """A large count in words: 840 million, 5.04 billion, 12 000."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{value / size:.3g} {word}"
    return f"{value:,.0f}".replace(",", " ")


def duration(seconds: float) -> str:
    """A time span: 0.21 s, 41.2 s, 3 min 20 s, 1 h 02 min."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def size(count: float) -> str:
    """An amount of memory: 512 KiB, 1.5 GiB."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count >= 1024**power:
            return f"{count / 1024**power:.3g} {unit}"
    return f"{count:.0f} B"


def align(texts: list[str]) -> list[str]:
    """Pads numbers to one width with their decimal points in one column."""
    halves = [_split(text) for text in texts]
    left = max((cell_len(a) for a, _ in halves), default=0)
    right = max((cell_len(b) for _, b in halves), default=0)
    return [" " * (left - cell_len(a)) + a + b + " " * (right - cell_len(b)) for a, b in halves]


def _split(text: str) -> tuple[str, str]:
    whole, dot, fraction = text.partition(".")
    return whole, dot + fraction
