"""Write the evidence against a claim as a spec or a test that others can run."""

import contextlib
import json
import pprint
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tomli

from dpframe.common.text import escape, shown, toml, toml_key
from dpframe.errors import DpframeError
from dpframe.report.number_format import quantity
from dpframe.results.model import CellRecord, ChoiceRecord, PairRecord, Record, WitnessRecord
from dpframe.results.verdict import exceeds

PLUGIN_KINDS = ("mechanism", "pair", "attack", "estimator")  # plugins that a spec names
DRAWING_KEYS = ("precision", "prng", "chunk")  # keys of [run] that change the draws
LOCAL = "local"  # origin of plugins that a program passed as classes

DRAWS_FACTOR = 8  # limit on the draws of a witness, as a multiple of those that its search spent
LEAST_DRAWS = 1_000  # least draws of the witness of a search
MOST_LEARNED = 100_000  # limit on the draws that the attack of a black box's witness learns from


def witness_of(record: Record, name: str | None = None) -> CellRecord:
    """Return the worst violated cell, or the worst cell with a name.

    The name is a cell's id or its mechanism's label. Raises DpframeError if there is no such cell.
    """
    cells = [
        cell
        for cell in record.cells
        if cell.status == "ok" and (name is None or name in (cell.id, cell.mechanism.label))
    ]
    if not cells:
        known = ", ".join(dict.fromkeys(cell.mechanism.label for cell in record.cells))
        raise DpframeError(f"no cell is called {shown(name)}; mechanisms are {known}")
    if name is None:
        cells = [cell for cell in cells if cell.verdict == "violated" or exceeds(cell)]
        if not cells:
            raise DpframeError(
                "no claim is violated, so there is no witness; --cell NAME prints the "
                "evidence of any cell"
            )
    return min(cells, key=lambda cell: (cell.verdict != "violated", cell.p_adjusted or 1.0))


COMPUTED = "computed from the stated distribution"


def computed_excess(cell: CellRecord) -> str:
    """Describe the worst change of a query beyond its sensitivity, or else the stated loss."""
    if cell.exact is not None and cell.exact.witnesses:
        return f"sensitivity exceeded (exact, without draws): {cell.exact.witnesses[0].words}"
    assert cell.stated is not None
    return f"{COMPUTED}: {cell.stated.words}"


def excess_pair(cell: CellRecord) -> PairRecord:
    """Return the worst pair of a query beyond its sensitivity, or of a stated distribution."""
    if cell.exact is not None and cell.exact.witnesses:
        return cell.exact.witnesses[0].pair
    assert cell.stated is not None
    return cell.stated.pair


def with_finding(cell: CellRecord, number: int) -> CellRecord:
    """Return a searched cell with its leak of this number, from 1, as the witness.

    Raises DpframeError if the cell has fewer leaks.
    """
    further = cell.search.findings if cell.search is not None else []
    if not 1 <= number <= 1 + len(further):
        raise DpframeError(f"finding {number}: the cell has {1 + len(further)}")
    if number == 1 or cell.search is None:
        return cell
    finding = further[number - 2]
    fields = ("leak", "event", "more_likely", "hits", "trials", "pair_trials", "inside", "outside")
    search = cell.search.model_copy(update={name: getattr(finding, name) for name in fields})
    changed = {name: getattr(finding, name) for name in ("mechanism", "pair", "attack")}
    return cell.model_copy(update={**changed, "search": search})


def next_of(record: Record) -> str:
    """Return the [search] table that ignores what the record has found, and how to run it.

    Raises DpframeError if no search has found anything.
    """
    cells = [c for c in record.cells if c.search is not None and c.verdict == "violated"]
    searches = [cell.search for cell in cells if cell.search is not None]
    leaks = dict.fromkeys(
        leak
        for search in searches
        for leak in (*search.ignored, search.leak, *(one.leak for one in search.findings))
        if leak
    )
    if not leaks:
        raise DpframeError("no search in this record found a leak, so there is no next search")
    listed = toml(list(leaks))
    lines = ["[search]", f"ignore = {listed}"]
    if path := record.spec.path:
        files = dict.fromkeys(name for cell in cells for name in _files(cell, record))
        changes = [o for o in record.spec.overrides if not o.startswith("search.ignore=")]
        changes.append(f"search.ignore={listed}")
        lines.insert(0, f"# {escape(_command(path, changes, files))}")
    return "\n".join(lines)


def _command(path: str, changes: Iterable[str], files: Iterable[str] = ()) -> str:
    """Return the command that runs a spec with changes and files of plugins."""
    options = [word for name in files for word in ("--plugin", name)]
    options += [word for change in changes for word in ("--set", change)]
    return shlex.join(["dpframe", "run", path, *options])


def event_in_words(
    title: str, witness: WitnessRecord, details: Sequence[str] = ()
) -> Iterator[str]:
    """Describe an event, with outputs inside and outside it if the record has some."""
    zero, one = map(_share, witness.hits, witness.trials)
    counts = f"in {zero} draws from D, and in {one if witness.hits[1] else 'none'} from D′"
    yield f"{title}: {', '.join([f'{witness.event} {counts}', *details])}."
    for place, outputs in (("in", witness.inside), ("outside", witness.outside)):
        if outputs:
            yield f"Outputs {place} this event: {'; '.join(outputs)}."


def _share(hits: int, trials: int) -> str:
    """Write a number of draws among all: 3 of 10, all 10, none of 10."""
    if hits == trials > 0:
        return f"all {quantity(trials)}"
    return f"{quantity(hits) if hits else 'none'} of {quantity(trials)}"


def needs(
    cell: CellRecord, record: Record | None = None, pair: PairRecord | None = None
) -> Iterator[str]:
    """Name the optional features of a pair, a sentence each, and how to search without them.

    The pair is the cell's, unless another one is given.
    """
    path = record.spec.path if record is not None else ""
    for need in (pair or cell.pair).needs:
        given = {key: toml(value) for key, value in need.without.items()}
        how = f"params of [search]: {', '.join(f'{k} = {v}' for k, v in given.items())}"
        if path:
            how = _command(path, (f"search.{key}={value}" for key, value in given.items()))
        yield (
            f"This pair needs {need.feature}, which the schema does not allow. If such data "
            f"never occur, search without ({how})."
        )


def as_tables(cell: CellRecord, record: Record | None = None) -> dict[str, Any]:
    """Return a spec that runs one cell again on other draws and expects the same verdict.

    It fixes the pair and the attack that a search chose by its draws. `record`, if given, adds the
    confidence, the [run] table and the requirements of the cell's environment.
    """
    pair = cell.pair
    if exceeds(cell) and cell.verdict != "violated":
        pair = excess_pair(cell)
    trials = max(cell.trials)
    if cell.is_searched:  # it learned on draws that do not count here
        trials = max(DRAWS_FACTOR * trials, LEAST_DRAWS)
    name = f"witness-{re.sub(r'[^0-9A-Za-z_.+-]+', '-', cell.mechanism.label)}"
    audit: dict[str, Any] = {"name": name, "seed": cell.seed + 1, "trials": trials}
    if cell.claim is not None and cell.estimate is not None:
        audit["delta"] = cell.estimate.delta
    if record is not None:
        audit["confidence"] = record.audit.confidence
    where = cell.mechanism.params.get("environment")
    environments = record.environments if record is not None else []
    built = {one.name: one.requirements for one in environments if one.name == where}
    refuted = cell.verdict == "violated" or exceeds(cell)
    spec = {
        "schema": 1,
        "audit": audit,
        "pair": {"use": pair.use, "params": _given(pair.params)},
        "mechanism": [_entry(cell.mechanism) | _asked(cell)],
        "attack": [_entry(cell.attack)],
        "estimator": [_entry(cell.estimator)],
        "run": _run(cell, record),
        "expect": [{"verdict": "violated"}] if refuted else [],
        "environments": built if any(built.values()) else {},
    }
    return {key: value for key, value in spec.items() if value}


def as_toml(cell: CellRecord, record: Record | None = None) -> str:
    """Return the spec of a cell as TOML, with the evidence above it as comments."""
    lines = [f"# {line}" for line in _evidence(cell, record)]
    if files := _files(cell, record):
        options = " ".join(f"--plugin {shlex.quote(name)}" for name in files)
        lines.append(f"# It needs code that a spec cannot contain: {escape(options)}")
    for key, value in as_tables(cell, record).items():
        if not isinstance(value, dict | list):
            lines += ["", f"{key} = {toml(value)}"]
            continue
        for table in value if isinstance(value, list) else [value]:
            header = f"[[{key}]]" if isinstance(value, list) else f"[{key}]"
            lines += ["", header, *(f"{toml_key(k)} = {toml(v)}" for k, v in table.items())]
    return "\n".join(lines) + "\n"


def as_test(cell: CellRecord, record: Record | None = None) -> str:
    """Return a test that fails as long as the claim is violated."""
    tables = {k: v for k, v in as_tables(cell, record).items() if k != "expect"}
    files = _files(cell, record)
    name = re.sub(r"\W+", "_", cell.mechanism.label).strip("_").lower() or "mechanism"
    # The record may be a stranger's: no label ends the docstring.
    evidence = "\n".join(_evidence(cell, record)).replace("\\", "\\\\").replace('"', "'")
    body = pprint.pformat(tables, width=96, sort_dicts=False)
    # Python has no literals for these numbers. If a text contains the word, the import is harmless.
    odd = ", ".join(word for word in ("inf", "nan") if re.search(rf"\b{word}\b", body))
    imports = f"from math import {odd}\n\n" if odd else ""
    checks = "".join(
        f"    assert not (cell.{name} and cell.{name}.exceeding), cell.{name}\n"
        for name in ("exact", "stated")
        if getattr(cell, name) is not None
    )
    return (
        f'"""{evidence}"""\n\n{imports}import dpframe\n\nSPEC = {body}\n\n\n'
        f"def test_{name}_keeps_its_claim() -> None:\n"
        f"    (cell,) = dpframe.audit(SPEC{f', plugins={files}' if files else ''}).cells\n"
        '    assert cell.status == "ok", cell.reason\n'
        '    assert cell.verdict != "violated", cell.reason\n'
        f"{checks}"
    )


def _evidence(cell: CellRecord, record: Record | None) -> list[str]:
    """Describe the evidence in lines that nothing in a record breaks."""
    lines = [f"{cell.mechanism.label}: {cell.verdict or 'no verdict'}. {cell.reason or ''}".strip()]
    lines += needs(cell, record)
    if exceeds(cell):
        lines.append(f"{computed_excess(cell)}.")
    if (event := cell.search or cell.event) is not None:
        lines += event_in_words("Event", event)
    # Neither a spec nor an option can name a function of a test or a class of a notebook.
    if kinds := [kind for kind, origin in _origins(cell, record).items() if origin == LOCAL]:
        names = ", ".join(f"{kind} {shown(getattr(cell, kind).use)}" for kind in kinds)
        lines.append(
            f"It needs objects that a program passed in ({names}): repeat the test, or run this "
            "there with dpframe.audit(…, plugins=[…])."
        )
    return list(map(escape, lines))


def _files(cell: CellRecord, record: Record | None) -> list[str]:
    """Return the files that the command line must name to run a cell."""
    files = [*_origins(cell, record).values()]
    program = cell.mechanism.params.get("module")
    files += [program] if cell.mechanism.use == "program" and isinstance(program, str) else []
    return list(dict.fromkeys(name for name in files if name.endswith(".py")))


def _origins(cell: CellRecord, record: Record | None) -> dict[str, str]:
    """Return the distribution of each plugin of a cell, "" if it is not known."""
    plugins = {(one.kind, one.name): one.distribution for one in record.plugins} if record else {}
    return {kind: plugins.get((kind, getattr(cell, kind).use), "") for kind in PLUGIN_KINDS}


def _entry(choice: ChoiceRecord) -> dict[str, Any]:
    params = _given(choice.params)
    label = {"label": choice.label} if choice.label != choice.use else {}
    return {"use": choice.use, **label, **({"params": params} if params else {})}


def _asked(cell: CellRecord) -> dict[str, Any]:
    """Return the settings of a black box that differ from their default, as in its table."""
    if (asked := cell.asked) is None:
        return {}
    names = "time", "bits", "messages", "only"
    outputs = {name: value for name in names if (value := getattr(asked, name))}
    settings = {"raises": asked.raises, "limit": asked.limit, "outputs": outputs or None}
    settings["constant"] = asked.constant or None
    return {key: value for key, value in settings.items() if value is not None}


def _run(cell: CellRecord, record: Record | None) -> dict[str, Any]:
    """Return the [run] table; the witness of a search stops when it is decided."""
    settings = {} if record is None else _drawing(record)
    if cell.is_searched:
        settings["stop"] = "decided"
        if cell.asked is not None:  # a slow black box learns from as few draws as it decides by
            settings["fit"] = min(max(cell.trials), MOST_LEARNED)
    return settings


def _drawing(record: Record) -> dict[str, Any]:
    """Return the part of a record's [run] table that decides how draws are made."""
    settings: dict[str, Any] = {}
    for parse in (tomli.loads, json.loads):  # JSON if the spec was no file
        with contextlib.suppress(ValueError, RecursionError, AttributeError):
            settings = dict(parse(record.spec.text).get("run", {}))
            break
    for override in record.spec.overrides:
        key, _, value = override.partition("=")
        if key.startswith("run."):
            try:
                settings[key.removeprefix("run.")] = tomli.loads(f"value = {value}")["value"]
            except ValueError:  # --set also takes plain text
                settings[key.removeprefix("run.")] = value
    return {key: settings[key] for key in DRAWING_KEYS if key in settings}


def _given(params: dict[str, Any]) -> dict[str, Any]:
    return {name: _read(value) for name, value in params.items() if value is not None}


_NUMBERS = {word: float(word) for word in ("nan", "inf", "-inf", "NaN", "Infinity", "-Infinity")}


def _read(value: Any) -> Any:
    """Turn the JSON words for non-finite numbers back into numbers."""
    if isinstance(value, list):
        return [_read(part) for part in value]
    if isinstance(value, dict):
        return _given(value)
    return _NUMBERS.get(value, value) if isinstance(value, str) else value
