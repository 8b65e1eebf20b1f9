"""Report a violation to the authors of a library: a private report, and a script to repeat it."""

from __future__ import annotations

import ast
import contextlib
import math
import re
from collections.abc import Iterable, Iterator
from decimal import ROUND_FLOOR, Decimal
from importlib.resources import files
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from dpframe import DpframeError, Record
from dpframe.plugins import Pair, clopper_pearson_lower, clopper_pearson_upper, find_plugin

MOST_RUNS = 100_000  # of a script, unless its reader asks for more
LEAST_RUNS = 1_000
LARGEST_DATA = 20_000  # characters of a dataset that is written out
LARGEST_SIZE = 1_000_000  # of a parameter of a pair, such as its dimension
LARGEST_MODULE = 200_000  # bytes of a module that a script includes
OUR_NAMES = {
    *("D", "D_PRIME", "PARAMS", "EPSILON", "DELTA", "CONFIDENCE", "RUNS", "nan", "inf", "main"),
    *(
        "releaser",
        "answers",
        "numbers",
        "features",
        "choose_event",
        "lower_limit",
        "limits",
        "loss_shown",
    ),
    *("__name__", "__future__"),
}
"""Names that the script uses, so a module must not overwrite them."""

TO_WRITE = "TO DO: put here"
"""Begins a comment where a reader has to complete a script."""


_ROOT = (
    r"(?:\bfile:/*(?:[A-Za-z]:[\\/]+)?|(?<![\w.…])[A-Za-z]:[\\/]+"
    r"|(?<![\w.…:<\\/])(?:\\\\(?=\w)|~?/(?=[\w.~+@%-])))"
)
"""The beginning of an absolute path."""

_NAME = r"(?:[^\\/\n'\"`<>|:*?,;()]|(?<=\w)['’](?=\w)|\([^()\n\\/]*\))"
_STEP = rf"{_NAME}*[\\/]+"
"""A folder, whose name may contain spaces."""

_HOME = rf"(?:home|Users)[\\/]+{_NAME}+(?=$|[\n\"`<>|:*?,;()]|'(?!\w))"
"""The home directory itself, whose last part names a user."""

_OF_MACHINE = re.compile(
    rf"{_ROOT}(?:{_HOME}|(?:{_STEP})*(?:{_HOME})?)|\b0x[0-9a-f]{{6,}}", re.IGNORECASE
)


def without_paths(text: str) -> str:
    """Remove the folders of files and addresses in memory: they belong to a machine and a run.

    A folder's name may contain spaces, so words between two separators are removed with it. The
    last part of a path is kept up to a space, because a sentence may follow.
    """
    return _OF_MACHINE.sub("…", text)


def violated(record: Record) -> list[Any]:
    """Return the cells that refute their claim, the clearest first."""
    cells = [
        cell
        for cell in record.cells
        if cell.verdict == "violated" or (cell.exact is not None and cell.exact.exceeding)
    ]
    return sorted(cells, key=lambda cell: (cell.verdict != "violated", cell.p_adjusted or 1.0))


def cell_to_report(record: Record, name: str | None) -> Any:
    """Return the violated cell that a report is about.

    Args:
        record: of a run.
        name: the id of a cell, or the label of its mechanism; default: the clearest violation.

    Raises:
        DpframeError: there is none; a report of anything else would be a false alarm.
    """
    cells = violated(record)
    if not cells:
        raise DpframeError("no claim of this record is violated: there is nothing to disclose")
    named = [cell for cell in cells if name is None or name in (cell.id, cell.mechanism.label)]
    if not named:
        known = ", ".join(cell.id for cell in cells)
        raise DpframeError(f"no violated cell is called {name!r}; violated are: {known}")
    return named[0]


# The reproduction.


def reproduction(record: Record, cell: Any, folders: Iterable[Path] = ()) -> str:
    """Return a script that counts the event of a violation with NumPy and the library alone.

    Args:
        record: the record.
        cell: a violated cell.
        folders: where the module of the mechanism may lie.
    """
    d0, d1 = _datasets(cell)
    label = without_paths(cell.mechanism.label)
    about = f"{label} violates its claim: {_claim(cell)}.", _seen(cell)
    parts = {
        "ABOUT": "\n".join(_line(each) for each in about).replace("\\", "\\\\").replace('"', "'"),
        "D0": d0,
        "D1": d1,
        "PARAMS": repr(_floats(_arguments(cell))),
        "EPSILON": repr(float(cell.claim.epsilon) if cell.claim else 0.0),
        "DELTA": repr(cell.claim.delta if cell.claim else 0.0),
        "CONFIDENCE": repr(record.audit.confidence),
        "RUNS": str(_runs(record, cell)),
        "MODULE": _module(cell, folders),
    }
    # One pass, so that a text of the record that looks like a placeholder is not replaced.
    script = _template("witness.py.txt")
    return re.sub(r"@@([A-Z0-9]+)@@", lambda mark: parts[mark[1]], script)


def _template(name: str) -> str:
    return (files("dpframe_watch") / "templates" / name).read_text(encoding="utf-8")


def _datasets(cell: Any) -> tuple[str, str]:
    """Write D and D′ as Python, or a placeholder for them."""
    pair = _pair(cell)
    try:
        texts = [each for each in pair.params.values() if isinstance(each, str)]
        if "file" in pair.params or any(_is_file(text) for text in texts):
            raise ValueError("they are in a file, which is not opened")  # it may be private
        if any(type(each) is int and each > LARGEST_SIZE for each in pair.params.values()):
            raise ValueError("they are too large")
        made: Pair = find_plugin("pair", pair.use).from_params(_floats(pair.params))
        d0, d1 = repr(_written(made.d0)), repr(_written(made.d1))
        if max(len(d0), len(d1)) > LARGEST_DATA:
            raise ValueError("they are too large")
    except Exception as error:  # of a forged record, any
        problem = f"pair {pair.use}, {pair.params}: {error or type(error).__name__}"
        d0 = d1 = f"None  # {TO_WRITE} the data: {_line(without_paths(problem))[:500]}"
    return d0, d1


def _is_file(text: str) -> bool:
    """True if a text is an absolute path, or names a file."""
    return Path(text).is_absolute() or (text.isprintable() and Path(text[:1000]).is_file())


def _line(text: str) -> str:
    """Write a text on one line, without control and formatting characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _pair(cell: Any) -> Any:
    """Return the pair that shows the violation."""
    if cell.verdict != "violated" and cell.exact is not None and cell.exact.witnesses:
        return cell.exact.witnesses[0].pair
    return cell.pair


class _Expression:
    """A string whose `repr` is the string itself."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _written(value: Any) -> Any:
    """Return a value whose `repr` is Python with NumPy; raise ValueError if it has none."""
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        if value.dtype.kind not in "biufcSU":
            raise ValueError(f"an array of {value.dtype} cannot be written as Python")
        return _Expression(f"np.array({value.tolist()!r}, dtype={str(value.dtype)!r})")
    if isinstance(value, dict):
        return {key: _written(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_written, value))
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    raise ValueError(f"{type(value).__name__} cannot be written as Python")


def _floats(value: Any) -> Any:
    """Turn the words that JSON has for numbers that are not finite into numbers again."""
    if isinstance(value, dict):
        return {key: _floats(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [*map(_floats, value)]
    return float(value) if value in ("nan", "inf", "-inf") else value


def _arguments(cell: Any) -> dict[str, Any]:
    """Return what `prepare` gets."""
    given = _params(cell)
    return dict(given.get("params", {})) if cell.mechanism.use == "program" else given


def _params(cell: Any) -> dict[str, Any]:
    """Return the parameters of a mechanism, with the names of files instead of their paths."""

    def shown(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shown(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [*map(shown, value)]
        return without_paths(value).removeprefix("…") if isinstance(value, str) else value

    given = cell.mechanism.params
    return {key: shown(value) for key, value in given.items() if key != "environment"}


def source_of(cell: Any, folders: Iterable[Path]) -> tuple[Path, str] | None:
    """Find the module of a mechanism in some folders; return its place and its text.

    The record may come from a stranger, so only a module that defines `prepare` is read: a small
    Python file inside a folder, by a relative path without "..", links followed.
    """
    name = cell.mechanism.params.get("module") if cell.mechanism.use == "program" else None
    if not isinstance(name, str) or not name.endswith(".py") or not name.isprintable():
        return None
    kinds = PurePosixPath(name), PureWindowsPath(name)
    if any(kind.anchor or ".." in kind.parts for kind in kinds) or "\\" in name:
        return None
    for folder in folders:
        with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            path = (folder / name).resolve()
            if not path.is_relative_to(folder.resolve()) or not path.is_file():
                continue
            if path.suffix != ".py" or path.stat().st_size > LARGEST_MODULE:
                continue
            source = path.read_text(encoding="utf-8").strip()
            tree = ast.parse(source)
            made = any(isinstance(n, ast.FunctionDef) and n.name == "prepare" for n in tree.body)
            if made and not OUR_NAMES & {*compile(tree, "module", "exec").co_names}:
                return path, source
    return None


def _module(cell: Any, folders: Iterable[Path]) -> str:
    """Return the source of a mechanism's module, or a place to write it; it is never imported."""
    if source := source_of(cell, folders):
        return source[1]
    named = cell.mechanism.params.get("module") if cell.mechanism.use == "program" else None
    missing = "the call of the library"
    if isinstance(named, str) and named:
        missing = f"prepare() of {_line(PureWindowsPath(named).name)[:80]!r}"
    return f"def prepare(params, data):\n    sys.exit({f'{TO_WRITE} {missing}'!r})"


def _runs(record: Record, cell: Any) -> int:
    """Return the runs of the script: twice the number expected to show the event again."""
    search, claim = cell.search, cell.claim
    if search is None or claim is None or not min(search.trials):
        most: int = max(*cell.trials, LEAST_RUNS)
        return min(most, MOST_RUNS)
    shares = sorted(hits / trials for hits, trials in zip(search.hits, search.trials, strict=True))
    error, runs = (1 - record.audit.confidence) / 2, 64
    while runs < MOST_RUNS:
        few, many = (round(share * runs) for share in shares)
        low = float(clopper_pearson_lower(many, runs, error)) - claim.delta
        high = float(clopper_pearson_upper(few, runs, error))
        if low > 0 and math.log(low / high) > claim.epsilon:
            break
        runs *= 2
    return min(2 * runs, MOST_RUNS)


# The report.


def report(record: Record, cell: Any, folders: Iterable[Path] = ()) -> str:
    """Return the private report of a violation as Markdown.

    Args:
        record: the record.
        cell: a violated cell.
        folders: where the module of the mechanism may lie.
    """
    script = reproduction(record, cell, folders).rstrip()
    missing = " First complete it where it says TO DO." if TO_WRITE in script else ""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", script)), default=0))
    listed = "\n".join(f"* {line}" for line in _facts(record, cell))
    mends = "\n".join(f"* {line}" for line in _mends(cell)) or (
        "The record suggests no fix. Start from the event and the two datasets above."
    )
    return _template("report.md.txt").format(
        label=_code(cell.mechanism.label),
        claim=_claim(cell),
        facts=listed,
        missing=missing,
        runs=f"{_runs(record, cell):,}",
        script=f"{fence}python\n{script}\n{fence}",
        mends=mends,
        sure="\n".join(f"* {line}" for line in _certainty(record, cell)),
    )


def _facts(record: Record, cell: Any) -> Iterator[str]:
    where = cell.mechanism.params.get("environment")
    for one in record.environments:
        if one.name == where:
            packages = without_paths(", ".join(one.installed))
            yield f"installed: Python {_code(one.python)}, {_code(packages)}"
    yield f"mechanism: {_code(cell.mechanism.use)} with {_code(_params(cell))}"
    yield f"claim: {_claim(cell)}"
    pair = _pair(cell)
    yield f"neighbours: {_code(pair.relation or 'not named')}; pair {_code(pair.use)}"
    if description := pair.params.get("description"):
        yield f"the pair: {_code(description)}"
    if seen := _seen(cell):
        yield seen
    estimate = cell.estimate
    if estimate is not None and estimate.certified and estimate.epsilon_lower is not None:
        claim = None if cell.claim is None else float(cell.claim.epsilon)
        lower = rounded_down(estimate.epsilon_lower, claim)
        delta = f"{estimate.delta:g}".replace("e-0", "e-")
        yield f"certified: ε ≥ {lower} at δ = {delta}, confidence {estimate.confidence:.6g}"
    for witness in cell.exact.witnesses if cell.exact is not None else ():
        yield f"exactly, without draws: {_code(witness.words)}"


def _mends(cell: Any) -> Iterator[str]:
    """Yield likely fixes, if the record names them."""
    for one in cell.exact.witnesses if cell.exact is not None else ():
        mend = "Clip the input of the query, or scale the noise for this change."
        mend = mend if one.kind == "change" else "Answers must have the same form on both datasets."
        yield f"The query without noise: {_code(one.words)}. {mend}"
    words = without_paths(cell.search.event) if cell.search is not None else ""
    if words.startswith("raises "):
        yield (
            f"An exception depends on the data ({_code(words)}). Check only public "
            "properties, or treat such records in the same way regardless of the others."
        )
    elif re.match(r"returns |the output is (NaN|-?inf)\b", words):
        yield (
            f"The kind of the answer depends on the data ({_code(words)}). Type, shape and missing "
            "values must be the same on neighbouring datasets."
        )
    for need in _pair(cell).needs:
        yield (
            f"The pair needs {_code(need.feature)}. Refusing or clipping such records, on both "
            "datasets alike, would close this leak. If the documentation excludes them, this "
            "does not violate it."
        )


def _certainty(record: Record, cell: Any) -> Iterator[str]:
    """Yield sentences about the confidence of the violation."""
    confidence, alone = record.audit.confidence, record.audit.multiplicity == "none"
    if cell.verdict == "violated":
        of = "this claim were true, it" if alone else "every claim of this audit were true, any"
        yield (
            f"If {of} would be called violated with a probability of at most {1 - confidence:.3g}."
        )
        if cell.p_value is not None:
            yield (
                f"Counts this extreme would occur with a probability of at most {cell.p_value:.3g} "
                "if this claim were true."
            )
        if confidence < 0.999:
            yield "This confidence is low: run the audit again with `--set audit.confidence=0.999`."
    if cell.exact is not None and cell.exact.exceeding:
        yield "If pair and query are correct, the change of the query is exact, without chance."
    yield f"Seed of the draws: {cell.seed}. dpframe {_code(record.environment.dpframe)}."
    yield "Please check whether the pair lies in the documented domain of the library."


def _claim(cell: Any) -> str:
    """Write a claim on one line."""
    if cell.claim is None:
        return "no claim"
    delta = f", δ = {f'{cell.claim.delta:g}'.replace('e-0', 'e-')}" if cell.claim.delta else ""
    return f"ε = {float(cell.claim.epsilon):g}{delta} ({_line(cell.claim.kind)})"


def _seen(cell: Any) -> str:
    """Write the event with its counts; "" if no search has chosen one."""
    if cell.search is None:
        return ""
    one = cell.search
    event = _code(one.event)
    return (
        f"event: {event}, {one.hits[0]:,} of {one.trials[0]:,} on D, {one.hits[1]:,} of "
        f"{one.trials[1]:,} on D′"
    )


def rounded_down(value: float, claim: float | None) -> str:
    """Return a lower bound as text, rounded down, distinguishable from the claim."""
    if not value:
        return "0"
    exact = Decimal(repr(value))
    for digits in range(3, 18):
        rounded = exact.quantize(Decimal((0, (1,), exact.adjusted() - digits + 1)), ROUND_FLOOR)
        if claim is None or not value > claim or float(rounded) > claim:
            break
    return f"{rounded:f}" if abs(value) >= 0.001 else f"{rounded:.2e}"


def _code(value: Any) -> str:
    """Write a text of the record as code of Markdown, on one line."""
    text = _line(without_paths(str(value)))
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}"
