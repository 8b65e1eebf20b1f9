"""Messages of `assert_dp` and `search_violation`: the result, its reason, and further steps."""

import contextlib
import math
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpframe.claims import Claim
from dpframe.claims.relation import CLAIMED
from dpframe.commands.assertion_terms import GIVEN_PAIR, VECTOR_ADJACENCIES, AssertionTerms
from dpframe.commands.release_signature import swapped
from dpframe.common.text import escape
from dpframe.draw.worker.codes import RAISES, code_of_trace
from dpframe.draw.worker.generators import GAVE, advice
from dpframe.interfaces.plugin import Plugin
from dpframe.interfaces.registry import load
from dpframe.report.number_format import brief, duration, percent, quantity, setting
from dpframe.report.verdict_text import by_distance, raised
from dpframe.report.witness import COMPUTED, as_tables, computed_excess, excess_pair, with_finding
from dpframe.results.model import CellRecord, Record
from dpframe.results.verdict import CONSISTENT, VIOLATED, covered, exceeds, found_consistent
from dpframe.search.black_box_arms import draws_needed

MOST_CHARACTERS = 400  # characters of a dataset
BUDGET_FACTOR = 2.0  # factor of the budget that is proposed if nothing was decided
LARGE_EPSILON = 6.0  # a claimed ε from which on the draws of a refutation are many
MOST_RUNS = 1e9  # a larger number of runs is not proposed
LARGEST_READABLE = 40.0  # a larger ε has an e^ε without a readable number


def sentence(record: Record) -> str:
    """Return one line about the result."""
    (cell,) = record.cells
    runs = f"{cell.draws:,} run{'' if cell.draws == 1 else 's'}, {_lasted(record.summary.seconds)}"
    if cell.search is not None and cell.search.pairs > 1:
        runs += f", on {cell.search.pairs} pairs"
    if exceeds(cell):
        return f"{_claim(cell)} violated, {computed_excess(cell)}"
    notes = cell.estimate.notes if cell.estimate is not None else ()
    given = "".join(f"; note: {note}" for note in notes if note.startswith(GAVE))
    if cell.verdict == VIOLATED:
        return f"{_claim(cell)} violated, after {runs}{raised(record)}{given}"
    if cell.stated is not None and (cell.verdict == CONSISTENT or found_consistent(cell)):
        computed = f"{COMPUTED} of {cell.stated.pairs:,} pair{'s' * (cell.stated.pairs > 1)}"
        agree = f"{cell.stated.draws:,} draws from each dataset agree with it"
        return f"no violation of {_claim(cell)}, {computed}: {cell.stated.words}; {agree}"
    if cell.verdict == CONSISTENT:
        limits = f"\n  {text}" if (text := covered(cell)) else ""
        return f"no violation of {_claim(cell)} found in {runs}{raised(record)}{given}{limits}"
    return f"no verdict on {_claim(cell)} after {runs}"


def failure(record: Record, mechanism: type[Plugin], texts: Mapping[int, str]) -> Iterator[str]:
    """Yield the claim, the exceptions if they show the leak, the bound, the witness and its reason.

    `texts` are those of the codes in answers.
    """
    (cell,) = record.cells
    label = cell.mechanism.label
    if cell.exact is not None and cell.exact.exceeding and cell.verdict != VIOLATED:
        yield f"{label} has less noise than its query needs, at a claim of {_claim(cell)}"
    else:
        yield f"{label} violates its claim, {_claim(cell)}{raised(record)}"
    for kind, text in texts.items():
        if text.startswith(RAISES) and cell.search is not None and text in cell.search.event:
            yield f"  exception: {escape(texts.get(code_of_trace(kind), text))}"
    if exceeds(cell):
        yield f"  {computed_excess(cell)}"
    if cell.stated is not None and cell.stated.exceeding and cell.verdict != VIOLATED:
        yield f"  agreement: {cell.stated.draws:,} draws from D and D′ each fit that distribution"
        yield from _data(cell)
        yield from _reasons(cell, mechanism, texts)
        return
    if cell.estimate is not None:
        heading = "bound" if cell.verdict == VIOLATED else "draws"
        yield f"  {heading}: {cell.reason}; confidence {percent(record.audit.confidence)}"
    for number in range(1, 2 + len(cell.search.findings if cell.search else ())):
        yield from _leak(with_finding(cell, number))
    yield f"  runs: {cell.draws:,}, {_lasted(record.summary.seconds)}"
    yield from _reasons(cell, mechanism, texts)


def _reasons(cell: CellRecord, mechanism: type[Plugin], texts: Mapping[int, str]) -> Iterator[str]:
    """Yield what may be the reason if one event tells all answers on D and D′ apart."""
    witness = cell.search or cell.event
    if witness is None:
        return
    rates = [
        hits / max(trials, 1) for hits, trials in zip(witness.hits, witness.trials, strict=True)
    ]
    if sorted(rates) != [0, 1]:
        return
    if text := advice([mechanism]):
        yield f"  perhaps its noise is always the same{text}"
    elif witness.event.startswith("is ") and " or " not in witness.event:
        yield (
            "  note: on one dataset its answer never changed: it adds no noise, or noise that was "
            "drawn once, outside the function"
        )
    if "None" in texts.values() and witness.event.startswith("returns "):
        side = rates.index(1 if witness.event == "returns None" else 0)
        yield (
            f"  note: it returned None in all of these runs on {('D', 'D′')[side]}; did a branch "
            "forget `return`?"
        )


def _leak(cell: CellRecord) -> Iterator[str]:
    """Yield one leak with its witness."""
    if (event := cell.search or cell.event) is not None:
        counts = zip(event.hits, event.trials, ("D", "D′"), strict=True)
        rates = [f"{hits:,} of {trials:,} on {name}" for hits, trials, name in counts]
        yield f"  witness: {event.event}: {', '.join(rates)}"
        for place, outputs in (("in", event.inside), ("outside", event.outside)):
            if outputs:
                yield f"  outputs {place} this event: {'; '.join(outputs)}"
    if cell.search is not None and cell.search.parameters:
        with_values = (f"{name} = {value}" for name, value in cell.search.parameters.items())
        yield f"  parameters: {', '.join(with_values)}"
    if cell.search is not None and cell.search.pairs > 1 and cell.verdict == VIOLATED:
        yield f"  for other leaks: ignore=[{cell.search.leak!r}]"
    exact = [excess_pair(cell)] if exceeds(cell) else []
    for need in {
        need.feature: need for pair in (cell.pair, *exact) for need in pair.needs
    }.values():
        without = ", ".join(f"{key}={value!r}" for key, value in need.without.items())
        yield f"  needs: {need.feature}, outside the schema; without: {without}"
    yield from _data(cell)


def _data(cell: CellRecord) -> Iterator[str]:
    """Yield D and D′ if a search found them."""
    tables = as_tables(cell)["pair"]
    if tables["use"] == GIVEN_PAIR:  # the test's own pair: its author knows it
        return
    entry = load().find("pair", tables["use"])
    with contextlib.suppress(Exception):  # a file that is gone, a plugin of another distribution
        pair: Any = entry.cls.from_params(tables["params"])
        data = [" ".join(repr(one).split()) for one in (pair.d0, pair.d1)]
        if description := getattr(pair, "description", ""):
            yield f"  pair: {description}"
        for name, one in zip(("D", "D′"), data, strict=True):
            text = one if len(one) <= MOST_CHARACTERS else f"{one[:MOST_CHARACTERS]}…"
            yield f"  {name}: {escape(text)}"


def undecided(record: Record, terms: AssertionTerms, release: Callable[..., Any]) -> Iterator[str]:
    """Yield why nothing was decided, and the budget that would decide."""
    (cell,) = record.cells
    if cell.status == "failed":
        yield f"{cell.mechanism.label} could not be audited: {cell.reason}"
        yield from _order(cell, release)
        return
    if cell.untested is not None:
        yield f"no verdict on {cell.mechanism.label}: {cell.untested}"
        return
    yield (
        f"no verdict on {cell.mechanism.label}: {_claim(cell)} cannot be "
        f"refuted with {quantity(cell.draws)} runs"
    )
    yield f"  why: {cell.reason}"
    claim = terms.claimed()
    alone = as_tables(cell)["pair"]["use"] == GIVEN_PAIR
    needed = draws_needed(claim, 1 - record.audit.confidence, alone=alone)
    enough = "more runs than can be made" if needed is None else _budget(needed, record, terms)
    yield f"  needed: {enough}"
    epsilon = claim.epsilon_at(min(claim.telling_deltas, default=0.0))
    if epsilon >= LARGE_EPSILON:
        factor = (
            f" = {quantity(float(f'{math.exp(epsilon):.2g}'))}"
            if epsilon < LARGEST_READABLE
            else ""
        )
        yield (
            f"  why so many: at ε = {brief(epsilon)} an event "
            f"must be more than e^ε{factor} times likelier on one dataset, so it takes at least as "
            "many runs"
        )
        yield from (f"  instead of runs: {way}" for way in _other_ways(cell, terms))


def _budget(needed: int, record: Record, terms: AssertionTerms) -> str:
    """Return the runs, the time and the settings for the draws per dataset that are needed."""
    (cell,) = record.cells
    trials = float(f"{BUDGET_FACTOR * needed:.2g}")
    settings: list[str] = []
    if trials > MOST_RUNS:
        return f"more than {quantity(MOST_RUNS)} runs"
    text = f"about {quantity(2 * trials)} runs"
    if terms.trials is not None and terms.trials < trials:
        settings.append(f"trials={trials:.0f}")
    if cell.trials[0]:
        longer = record.summary.seconds * BUDGET_FACTOR * needed / cell.trials[0]
        rough = math.ceil(float(f"{max(longer, 1.0):.2g}"))
        text += f"; at this speed about {_about(rough)}"
        if terms.seconds is not None and terms.seconds < rough:
            settings.append(f"seconds={rough}")
    return ", ".join([text, *settings])


def _other_ways(cell: CellRecord, terms: AssertionTerms) -> Iterator[str]:
    """Yield the ways to examine a large claim without many runs that apply and were not used."""
    if terms.choices is None:
        yield "choices=FUNCTION computes the loss, if the probability of each answer is known"
    params = cell.search.neighbourhood.params if cell.search is not None else {}
    if not terms.trace and params.get("adjacency") not in VECTOR_ADJACENCIES:
        yield (
            "trace=True names lines that leak, if noise is added to numbers; it does not decide "
            "the test (plugin dpframe-trace)"
        )


def _lasted(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 59.95 else duration(seconds)


def _about(seconds: float) -> str:
    """Write a time span roughly: 40 s, 18 min, 3 h."""
    for size, word in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {word}"
    return f"{seconds:,.0f} s"


def neighbours(claim: Claim, d0: Any, d1: Any) -> Iterator[str]:
    """Yield questions if D and D′ of a test are no neighbours, or not those of the claim.

    Entries that are answers to queries in place of records may all differ.
    """
    old, new = _entries(d0), _entries(d1)
    if old is None or new is None:
        return
    changed = [both for both in zip(old, new, strict=False) if both[0] != both[1]]
    differ, most = len(changed), max(len(old), len(new))
    if len(old) != len(new):
        fewer, more = sorted((old, new), key=len)
        # Records that were added are one difference each, wherever they are.
        same = 0
        for one in more:
            same += same < len(fewer) and one == fewer[same]
        differ = most - same
    relation = getattr(claim, "relation", "replace-one")
    if differ > 1:
        yield (
            f"  note: D and D′ differ in {differ} of {most} entries; is that one step of your "
            "adjacency?"
        )
    elif (
        differ == 1
        and relation != "replace-one"
        and len(old) == len(new)
        and all(one.strip("[]() ,0.") for both in changed for one in both)
    ):
        yield (
            f"  note: the claim is for neighbours by {CLAIMED[relation]}, but one entry of D is "
            "replaced by another; if entries are records, state the claim for replaced ones"
        )


def _entries(data: Any) -> list[str] | None:
    """Return the records of a dataset as texts; None if it has none."""
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # a frame
        data = {str(name): data[name].tolist() for name in data.columns}
    parts: list[Any] | None = None
    if isinstance(data, dict):
        parts = [*data.values()]
    elif isinstance(data, tuple) and data and all(isinstance(one, np.ndarray) for one in data):
        parts = [*data]  # (X, y)
    elif isinstance(data, np.ndarray):
        return [repr(row.tolist()) for row in data] if data.ndim else None
    if parts is None:
        return [repr(one) for one in data] if isinstance(data, list | tuple) else None
    columns = [entries for part in parts if (entries := _entries(part)) is not None]
    if len(columns) < len(parts) or len({*map(len, columns)}) != 1:
        return None
    return [repr(row) for row in zip(*columns, strict=True)]


def _order(cell: CellRecord, release: Callable[..., Any]) -> Iterator[str]:
    """Yield a question about the order of two arguments, if names do not tell and all runs failed.

    A function whose arguments are swapped gets the generator in the place of the data.
    """
    if "Error: " in (cell.reason or "") and (names := swapped(release)) is not None:
        yield f"  note: {', '.join(names)} got the generator and the data, in this order"


def again(path: Path, aside: str | None) -> Iterator[str]:
    """Yield a remark on how the audit was run, and how to see it again."""
    if aside is not None:
        yield f"  note: {aside}"
    yield f"  record: dpframe show {shlex.quote(str(path.parent))}"
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if test:
        yield f"  again: pytest {shlex.quote(test)}"


def _claim(cell: CellRecord) -> str:
    claim = cell.claim
    if claim is None:
        return "the claim"
    at = f", δ = {setting(claim.delta)}" if claim.delta else ""
    return f"ε = {brief(claim.epsilon)}{by_distance(claim)}{at}"
