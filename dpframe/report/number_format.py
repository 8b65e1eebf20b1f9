"""Numbers as text, the same in every report; bounds are rounded conservatively."""

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any

SMALLEST_FIXED = 0.001  # smaller numbers are written as 3.2e-4, because zeros would fill the column


def number(value: Any) -> float | None:
    """Read a number of a record; the strings "inf", "-inf" and "nan" are numbers too."""
    if isinstance(value, str):
        return float(value) if value in ("inf", "-inf", "nan") else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def point(value: float | None) -> str:
    """Write a point value, rounded to the nearest; it may be ∞."""
    return _significant(value, ROUND_HALF_EVEN)


def brief(value: float, digits: int = 3) -> str:
    """Write a number that was given, such as a claim: 0.1 and not 0.100."""
    text = _significant(value, ROUND_HALF_EVEN, digits)
    plain = "." in text and "e" not in text
    return text.rstrip("0").rstrip(".") if plain else text


def lower(value: float | None, digits: int = 3) -> str:
    """Write a certified lower bound, rounded down so that the text never exceeds the number.

    A bound is finite; any other number is not a bound and is shown as "–".
    """
    if value is None or not math.isfinite(value):
        return "–"
    return _significant(value, ROUND_FLOOR, digits)


def upper(value: float | None) -> str:
    """Write an upper limit, rounded up."""
    return _significant(value, ROUND_CEILING)


def spread(mean: float, deviation: float) -> tuple[str, str]:
    """Write a mean and its standard deviation: two digits of the latter, the former to match."""
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
    """Write a parameter's value briefly: 0.1, 10, zero."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:g}".replace("e-0", "e-").replace("e+0", "e")
    if isinstance(value, list | tuple):
        return ", ".join(setting(item) for item in value)
    return str(value)


def percent(probability: float) -> str:
    """Write a confidence: 95 %, 99.98 %; nines are never rounded up to 100 %."""
    missing = 100 * (1 - probability)
    if missing <= 0:
        return "100 %"
    decimals = max(0, -math.floor(math.log10(missing)) + 1)
    text = f"{100 - missing:.{min(decimals, 10)}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def quantity(value: float) -> str:
    """Write a large count: 840 million, 5.04 billion, 12,000."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{value / size:.3g} {word}"
    return f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Write a time span: 0.21 s, 41.2 s, 3 min 20 s, 1 h 02 min."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def plural(count: int, noun: str) -> str:
    """Write a number of things: 1 cell, 2 cells."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


_TOGETHER = re.compile(
    r"(?<=\d) (?=%|(?:s|ms|min|h|nats|[KMGT]iB|[mb]illion|trillion)\b)"
    r"|(?<=[=≥≤±>]) (?=[\d.∞−-])|(?<=[░▒▓█]) (?=[≤>])|(?<=(?<!\w)[εδμρσmnp]) (?=[=≥≤±] |[\d∞])"
    r"|(?<=\bin) (?=nats\b)|(?<=\bother) (?=\d)| (?=[\d.]+$)"
)


def together(text: str, glue: str = "\u00a0") -> str:
    """Replace the blanks between a number and its unit or relation, so that no line ends there."""
    return _TOGETHER.sub(glue, text)


def size(count: float) -> str:
    """Write an amount of memory: 512 KiB, 1.5 GiB."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count >= 1024**power:
            return f"{count / 1024**power:.3g} {unit}"
    return f"{count:.0f} B"
