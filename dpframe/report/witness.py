"""What holds against a claim, in a form that others can run: a spec of its own, or a test."""

from __future__ import annotations

import json
import math
import pprint
import re
import shlex
from typing import TYPE_CHECKING, Any

from dpframe.common.text import shown
from dpframe.errors import DpframeError
from dpframe.report.sentences import noise_too_small
from dpframe.report.words import drawn_with
from dpframe.results.verdict import exceeds

if TYPE_CHECKING:
    from dpframe.results.model import CellRecord, ChoiceRecord, Record


KINDS = ("mechanism", "pair", "attack", "estimator")
"""Plugins that a spec names."""

MORE = 8
"""Draws of a witness, as a multiple of what its search has spent; fewer where it is decided."""

LEAST = 1_000
"""Draws of a witness of a search, at least."""

MOST_LEARNED = 100_000
"""Draws that the attack of a witness of a black box learns from, at most."""


def witness_of(record: Record, name: str | None = None) -> CellRecord:
    """The cell whose evidence is told.

    Args:
        record: of a run.
        name: a cell's id, or the label of its mechanism; default: the worst violated cell.

    Raises:
        DpframeError: there is none, or its plugins cannot be named in a spec.
    """
    cells = [c for c in record.cells if c.status == "ok" and _is_called(c, name)]
    if not cells:
        known = ", ".join(dict.fromkeys(cell.mechanism.label for cell in record.cells))
        raise DpframeError(f"no cell is called {shown(name)}; mechanisms are {known}")
    if name is None:
        cells = [cell for cell in cells if cell.verdict == "violated" or exceeds(cell)]
        if not cells:
            raise DpframeError(
                "no claim is violated, so that there is no witness; --cell NAME tells what a cell "
                "has come to"
            )
    return min(cells, key=lambda cell: (cell.verdict != "violated", cell.p_adjusted or 1.0))


def as_tables(cell: CellRecord, record: Record | None = None) -> dict[str, Any]:
    """A spec that plays one cell again, on other draws, and expects what was found.

    A search has chosen pair and attack by its draws; here they are fixed beforehand.

    Args:
        cell: of a record.
        record: that, which knows what was installed where the mechanism ran.
    """
    pair = cell.pair
    if cell.exact is not None and cell.exact.witnesses and cell.verdict != "violated":
        pair = cell.exact.witnesses[0].pair
    spec: dict[str, Any] = {
        "schema": 1,
        "audit": {
            "name": f"witness-{re.sub(r'[^0-9A-Za-z_.+-]+', '-', cell.mechanism.label)}",
            "seed": cell.seed + 1,
            "trials": _trials(cell),
        },
        "pair": {"use": pair.use, "params": _given(pair.params)},
        "mechanism": [_entry(cell.mechanism) | _asked(cell)],
        "attack": [_entry(cell.attack)],
        "estimator": [_entry(cell.estimator)],
    }
    if cell.claim is not None and cell.estimate is not None:
        spec["audit"]["delta"] = cell.estimate.delta
    if record is not None:
        spec["audit"]["confidence"] = record.audit.confidence
    if run := _run(cell, record):
        spec["run"] = run
    if cell.verdict == "violated" or exceeds(cell):
        spec["expect"] = [{"verdict": "violated"}]
    where = cell.mechanism.params.get("environment")
    for one in record.environments if record else ():
        if one.name == where and one.requirements:
            spec["environments"] = {one.name: one.requirements}
    return spec


LOCAL = "local"
"""Where plugins come from that a program has handed over as classes."""


def _handed_over(cell: CellRecord, record: Record | None) -> list[str]:
    """What neither a spec nor an option can name: functions of a test, classes of a notebook."""
    of = {(one.kind, one.name): one.distribution for one in record.plugins} if record else {}
    kinds = [kind for kind in KINDS if of.get((kind, getattr(cell, kind).use)) == LOCAL]
    if not kinds:
        return []
    names = ", ".join(f"{kind} {shown(getattr(cell, kind).use)}" for kind in kinds)
    return [
        f"It takes what a program has handed over ({names}): repeat the test, or run this there "
        "with dpframe.audit(…, plugins=[…])."
    ]


def _files(cell: CellRecord, record: Record | None) -> list[str]:
    """Names of the files that the command line has to name for a cell."""
    plugins = {(one.kind, one.name): one.distribution for one in record.plugins} if record else {}
    found = [plugins.get((kind, getattr(cell, kind).use), "") for kind in KINDS]
    program = cell.mechanism.params.get("module")
    found += [program] if cell.mechanism.use == "program" and isinstance(program, str) else []
    return list(dict.fromkeys(name for name in found if name.endswith(".py")))


def as_toml(cell: CellRecord, record: Record | None = None) -> str:
    """The same as the text of a spec, with what was found above it."""
    lines = [f"# {line}" for line in (*_told(cell), *_handed_over(cell, record))]
    if files := _files(cell, record):
        options = " ".join(f"--plugin {shlex.quote(name)}" for name in files)
        lines.append(f"# It takes code that no spec can bring: {options}")
    for key, value in as_tables(cell, record).items():
        if not isinstance(value, dict | list):
            lines += ["", f"{key} = {_toml(value)}"]
            continue
        for table in value if isinstance(value, list) else [value]:
            header = f"[[{key}]]" if isinstance(value, list) else f"[{key}]"
            lines += ["", header, *(f"{_key(k)} = {_toml(v)}" for k, v in table.items())]
    return "\n".join(lines) + "\n"


def as_test(cell: CellRecord, record: Record | None = None) -> str:
    """A test that fails as long as the claim is violated."""
    tables = {k: v for k, v in as_tables(cell, record).items() if k != "expect"}
    files = _files(cell, record)
    name = re.sub(r"\W+", "_", cell.mechanism.label).strip("_").lower() or "mechanism"
    told = "\n".join([*_told(cell), *_handed_over(cell, record)])
    body = pprint.pformat(_in_python(tables), width=96, sort_dicts=False)
    exact = "    assert not (cell.exact and cell.exact.exceeding), cell.exact\n"
    # A text in it may look like that too.
    needs = "import math\n\n" if "math." in body else ""
    return (
        f'"""{told}"""\n\n{needs}import dpframe\n\nSPEC = {body}\n\n\n'
        f"def test_{name}_keeps_its_claim() -> None:\n"
        f"    (cell,) = dpframe.audit(SPEC{f', plugins={files}' if files else ''}).cells\n"
        '    assert cell.status == "ok", cell.reason\n'
        '    assert cell.verdict != "violated", cell.reason\n'
        f"{exact if cell.exact is not None else ''}"
    )


class _Expression(float):
    """A number that Python has no literal for."""

    def __repr__(self) -> str:
        return f"{'-' * (self < 0)}math.{'nan' if math.isnan(self) else 'inf'}"


def _in_python(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_python(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_in_python(part) for part in value]
    odd = isinstance(value, float) and not math.isfinite(value)
    return _Expression(value) if odd else value


def _is_called(cell: CellRecord, name: str | None) -> bool:
    return name is None or name in (cell.id, cell.mechanism.label)


def _told(cell: CellRecord) -> list[str]:
    told = [f"{cell.mechanism.label}: {cell.verdict or 'no verdict'}. {cell.reason or ''}".strip()]
    if exceeds(cell):
        told.append(f"{noise_too_small(cell)}.")
    if cell.search is not None:
        found = cell.search
        told.append(
            f"The event “{found.event}” came {found.hits[0]:,} times in {found.trials[0]:,} on D "
            f"and {found.hits[1]:,} times in {found.trials[1]:,} on D′."
        )
    return told


def _entry(choice: ChoiceRecord) -> dict[str, Any]:
    params = _given(choice.params)
    label = {"label": choice.label} if choice.label != choice.use else {}
    return {"use": choice.use, **label, **({"params": params} if params else {})}


def _asked(cell: CellRecord) -> dict[str, Any]:
    """How a box is asked, as its table in a spec has it, but what is left to its default."""
    asked = cell.asked
    if asked is None:
        return {}
    found: dict[str, Any] = {"raises": asked.raises, "limit": asked.limit}
    seen = {name: True for name in ("time", "bits") if getattr(asked, name)}
    return {k: v for k, v in found.items() if v is not None} | ({"outputs": seen} if seen else {})


def _trials(cell: CellRecord) -> int:
    """What a search needed, and more: it has learned on draws that do not count here."""
    spent = max(cell.trials)
    return max(MORE * spent, LEAST) if cell.is_searched else spent


def _run(cell: CellRecord, record: Record | None) -> dict[str, Any]:
    """How it is drawn; it ends when it is decided, as the search did."""
    found = {} if record is None else drawn_with(record)
    if cell.is_searched:
        found["stop"] = "decided"
        if cell.asked is not None:  # a slow box decides in a few draws, and learns from as many
            found["fit"] = min(max(cell.trials), MOST_LEARNED)
    return found


def _given(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters but those that are left to their default."""
    return {name: _read(value) for name, value in params.items() if value is not None}


def _read(value: Any) -> Any:
    """Numbers that JSON has no form for, as numbers again."""
    if isinstance(value, list):
        return [_read(part) for part in value]
    if isinstance(value, dict):
        return {key: _read(part) for key, part in value.items() if part is not None}
    return _NUMBERS.get(value, value) if isinstance(value, str) else value


_NUMBERS = {word: float(word) for word in ("nan", "inf", "-inf", "NaN", "Infinity", "-Infinity")}


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)  # TOML writes inf, nan and exponents as Python does
    # JSON lets stand what TOML has to have escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)
