"""Searches of callables for pairs of neighbours that refute their claims."""

from __future__ import annotations

import math
import resource
import tempfile
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from dpframe import DpframeError, audit
from dpframe.plugins import (
    ApproxDP,
    Claim,
    ForeignMechanism,
    GaussianDP,
    Pair,
    PureDP,
    Record,
    ZeroConcentratedDP,
)
from dpframe_scan.guesses import PREPARED
from dpframe_scan.proposals import Proposal
from dpframe_scan.sources import source_of
from dpframe_scan.trials import PROGRAM, Called, busyness

CONFIDENCE = 0.999
"""Confidence of all verdicts of a scan together."""

BATCH = 6
"""Callables of one audit: its workers import the package once, and Ctrl-C loses at most these."""

PER_ANSWER = 8e-5
"""Processor seconds in which an answer is sent, scored and bet on."""

FEWEST, MOST = 500, 60_000
"""Draws of each dataset in one search; more of them hardly find more of what a scan looks for."""

AGAIN = 0.4
"""Share of the time for a second search of callables that were called a few times only."""

FEW = 2_000
"""Draws of each dataset below which a callable is searched again."""

Stage = Literal["within", "beyond", "bits"]
"""Data within the declared bounds; also beyond them; releases visible to the last bit."""

SHARES: Mapping[Stage, float] = {"within": 0.5, "beyond": 0.25, "bits": 0.25}


class Scanned(ForeignMechanism):
    """A callable of a package, as a release; the scan itself wrote the source."""

    module: ClassVar[Any] = PROGRAM

    source: str
    """The source of `release(data)`."""
    epsilon: float = 0.0
    """ε of the claim."""
    delta: float = 0.0
    """δ of the claim."""
    rho: float = 0.0
    """ρ of a claim of zero-concentrated DP, in place of ε."""
    mu: float = 0.0
    """μ of a claim of Gaussian DP, in place of ε."""

    def claim(self, pair: Pair) -> Claim:
        return claim_from({"epsilon": self.epsilon, "delta": self.delta} | self._others())

    def _others(self) -> dict[str, float]:
        return {name: value for name in ("rho", "mu") if (value := getattr(self, name))}


def claim_from(numbers: Mapping[str, float]) -> Claim:
    """Return the claim that some numbers make."""
    if numbers.get("rho"):
        return ZeroConcentratedDP(numbers["rho"])
    if numbers.get("mu"):
        return GaussianDP(numbers["mu"])
    epsilon, delta = numbers.get("epsilon", 0.0), numbers.get("delta", 0.0)
    return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)


LARGEST_DELTA = 1 - 1e-6  # in place of 1, which a claim may not have; a scan cannot refute it


def tested_claim(proposal: Proposal) -> dict[str, float]:
    """Return the claim for the pairs that a search proposes.

    If neighbours are not documented, records are replaced. Whoever meant adding and removing has
    two steps there, so the claim is that of two steps.
    """
    claim = {name: value for name, value in proposal.claim.items() if value}
    if proposal.data.form != "records" or proposal.data.adjacency != "unknown":
        return claim or {"epsilon": 0.0}
    if "delta" in claim:
        two_steps = claim["delta"] * (1 + math.exp(claim.get("epsilon", 0.0)))
        claim["delta"] = min(LARGEST_DELTA, two_steps)
    factors = {"epsilon": 2.0, "rho": 4.0, "mu": 2.0}
    return {name: value * factors.get(name, 1.0) for name, value in claim.items()} or {
        "epsilon": 0.0
    }


def claim_words(claim: Mapping[str, float]) -> str:
    """Return a claim in words."""
    letters = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ"}
    words = [f"{letters[name]} = {value:.4g}" for name, value in claim.items()]
    return ", ".join(words) or "ε = 0"


class Cell(NamedTuple):
    """One search: a callable at a stage."""

    called: Called
    proposal: Proposal
    stage: Stage

    @property
    def name(self) -> str:
        """The callable, with the option that is changed."""
        option = self.proposal.option
        return self.called.target.name + (f" ({option})" if option else "")

    @property
    def label(self) -> str:
        """Its name in the record."""
        return f"{self.name}, {self.stage}"


EXCEPTION = "an exception counts as a release"


class Found(NamedTuple):
    """A violation, or the reason why a search ended without one."""

    cell: Cell
    verdict: str
    """"violated", "consistent", "inconclusive" or "failed"."""
    reason: str
    event: str = ""
    counts: str = ""
    pair: tuple[Any, Any] = ()  # type: ignore[assignment]  # D and D′ as plain values
    described: str = ""
    conditions: tuple[str, ...] = ()
    """A violation holds if these do, each in words."""
    draws: int = 0
    """Draws of each dataset, over all pairs."""

    @property
    def accuses(self) -> bool:
        """True if it is a violation that depends on no guess, only on the kinds of records.

        Whoever refuses a record beyond the bounds, with an exception, may have documented that.
        """
        refused = self.cell.stage == "beyond" and EXCEPTION in self.conditions
        return self.verdict == "violated" and not (self.cell.proposal.conditions or refused)


def stages(called: Called) -> Iterator[Stage]:
    """Yield the stages of a callable."""
    yield "within"
    assert called.proposal is not None
    plan = called.proposal.data
    bounded = any("low" in column for column in plan.schema)
    if plan.form == "records" and bounded and not PREPARED.search(called.target.doc):
        yield "beyond"
    if plan.form == "numbers" and called.kind.startswith("float"):
        yield "bits"


def cells_of(called: Sequence[Called]) -> list[Cell]:
    """Return all searches of some callables."""
    return [
        cell
        for one in called
        if one.outcome == "release" and one.proposal is not None
        for cell in (
            *(Cell(one, one.proposal, stage) for stage in stages(one)),
            *(Cell(one, variant, "within") for variant in one.variants),
        )
    ]


def _neighbourhood(cell: Cell) -> tuple[str, dict[str, Any]]:
    """Return a neighbourhood and its parameters."""
    plan = cell.proposal.data
    if plan.form == "numbers":
        (entry,) = plan.schema
        relation = "one-by-one" if plan.adjacency == "one-by-one" else "each-by-one"
        bounds = {"low": entry["low"], "high": entry["high"], "whole": bool(entry.get("integer"))}
        if cell.stage == "bits" and plan.length == 1:  # low bits are fewest beside 0
            bounds |= {"low": 0.0, "high": 2.0}
            return "grid", {"length": 1, "step": 1.0, "points": 3, "adjacency": relation, **bounds}
        return "climb", {"length": plan.length, "step": 1.0, "adjacency": relation, **bounds}
    params: dict[str, Any] = {"table": list(plan.table), "schema": [dict(c) for c in plan.schema]}
    params["form"] = "record" if plan.form == "record" else "rows"
    params["beyond"] = cell.stage == "beyond"
    params["adjacency"] = "add-remove" if plan.adjacency == "add-remove" else "replace"
    return "records", params


class Searcher:
    """Runs searches in an interpreter, and divides processor time among them.

    Args:
        python: path of the interpreter.
        package: what the workers import before their time begins.
        seconds: processor time of all searches together.
        cells: all searches.
    """

    def __init__(self, python: str, package: str, seconds: float, cells: Sequence[Cell]) -> None:
        self._python, self._cells = python, list(cells)
        self._left, self._package = seconds * (1 - AGAIN), package
        self._later = seconds * AGAIN
        self._open = sum(SHARES[cell.stage] for cell in cells)
        # Each callable may be searched twice, on other draws.
        self._level = (1 - CONFIDENCE) / max(1, 2 * len(cells))
        self._seed = 0
        self._folder = tempfile.TemporaryDirectory(prefix="dpframe-scan-")

    def __enter__(self) -> Searcher:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def run(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Found, Record | None]]:
        """Run some searches, and yield their results."""
        groups: dict[tuple[str, Stage], list[Cell]] = {}
        for cell in cells:
            groups.setdefault((_neighbourhood(cell)[0], cell.stage), []).append(cell)
        for (neighbourhood, stage), some in groups.items():
            before, share = processor_seconds(), self._left / max(self._open, 1e-9)
            cost = max(cell.called.cost for cell in some)
            try:
                record = self._audit(neighbourhood, some, share * SHARES[stage], cost)
            except DpframeError as error:
                for cell in some:
                    yield cell, Found(cell, "failed", str(error).splitlines()[0]), None
            else:
                for cell, result in zip(some, record.cells, strict=True):
                    yield cell, found_in(cell, result), record
            self._left = max(1.0, self._left - (processor_seconds() - before))
            self._open -= sum(SHARES[cell.stage] for cell in some)

    def again(self, results: Sequence[Found]) -> list[Cell]:
        """Return the searches that ended after a few draws, with the rest of the time for them."""
        few = [one.cell for one in results if one.verdict != "violated" and one.draws < FEW]
        self._left, self._later = max(1.0, self._left - 1.0) + self._later, 0.0
        self._open = sum(SHARES[cell.stage] for cell in few)
        self._seed += 1
        return few

    def _audit(
        self, neighbourhood: str, cells: Sequence[Cell], seconds: float, cost: float
    ) -> Record:
        """Search with as many draws as fit into processor seconds of each cell."""
        draws = int(seconds / (2 * (cost + PER_ANSWER)))
        program = Path(self._folder.name) / "scanned.py"
        homes = sorted({cell.proposal.target.rpartition(".")[0] for cell in cells})
        program.write_text(program_of([self._package, *homes], cells), encoding="utf-8")
        body = {"module": str(program), "__doc__": Scanned.__doc__, "__module__": __name__}
        scanned = types.new_class(
            "ScannedHere", (Scanned,), {"name": "scanned"}, lambda ns: ns.update(body)
        )
        spec: dict[str, Any] = {
            "schema": 1,
            "audit": {
                "name": "scan",
                "trials": min(MOST, max(FEWEST, draws)),
                "confidence": 1 - self._level * len(cells),
                "seed": self._seed,
            },
            "search": {"use": neighbourhood, "params": _neighbourhood(cells[0])[1]},
            "mechanism": [_entry(cell) for cell in cells],
            "run": {"stop": "decided", "seconds": busyness() * max(1.0, seconds)},
        }
        return audit(spec, plugins=[scanned], pythons={"scan": self._python})


def _entry(cell: Cell) -> dict[str, Any]:
    params = {"environment": "scan", "source": source_of(cell.proposal)}
    entry: dict[str, Any] = {
        "use": "local/scanned",
        "label": cell.label,
        "params": params | tested_claim(cell.proposal),
        "search": {"params": _neighbourhood(cell)[1]},
        "constant": True,
    }
    return entry | ({"outputs": {"bits": True}} if cell.stage == "bits" else {})


SLOW_START = 0.1
"""Processor seconds of a first call, beyond those of others, that workers spend beforehand."""


def program_of(modules: Sequence[str], cells: Sequence[Cell] = ()) -> str:
    """Return the program with imports before it, and first calls of those that start slowly.

    A worker makes them while it loads the program, so they cost no time of a search.
    """
    imports = "".join(
        f"try:\n    import {name}\nexcept Exception:\n    pass\n" for name in modules if name
    )
    slow = [one for one in cells if one.called.first_cost > one.called.cost + SLOW_START]
    calls = "".join(
        f"try:\n    _compiled({source_of(one.proposal)!r})({one.proposal.data.cases()[0]!r})\n"
        "except Exception:\n    pass\n"
        for one in slow
    )
    text = PROGRAM.read_text(encoding="utf-8")
    first, last = "from __future__ import annotations\n", '\nif __name__ == "__main__":\n'
    head, _, rest = text.partition(first)
    body, _, _ = rest.rpartition(last)
    return f"{head}{first}\n{imports}{body}\n{calls}"


def processor_seconds() -> float:
    """Return the processor time of this process and its children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


# Verdicts.


def found_in(cell: Cell, result: Any) -> Found:
    """Read the result of a search, a cell of a record."""
    if result.status != "ok":
        return Found(cell, "failed", result.reason or "")
    witness, reason = result.search, result.reason or ""
    if result.verdict != "violated" or witness is None:
        verdict = result.verdict or "inconclusive"
        return Found(cell, verdict, reason, draws=min(result.trials))
    pair = pair_of(result.pair.params, cell.proposal.data.form)
    sides = [f"{k}/{n}" for k, n in zip(witness.hits, witness.trials, strict=True)]
    return Found(
        cell,
        "violated",
        reason,
        witness.event,
        f"{sides[0]} on D, {sides[1]} on D′",
        pair,
        str(result.pair.params.get("description", "")),
        conditions(cell, witness.event, pair),
        min(result.trials),
    )


def conditions(cell: Cell, event: str, pair: tuple[Any, Any]) -> tuple[str, ...]:
    """Return the guesses and the circumstances on which a violation depends."""
    found = [*cell.proposal.conditions]
    if cell.stage == "beyond" and (kind := _outside(cell, pair)):
        found.append(kind)
    if cell.stage == "bits":
        found.append("releases are visible to the last bit")
    if "raises" in event:
        found.append(EXCEPTION)
    return tuple(found)


def _outside(cell: Cell, pair: tuple[Any, Any]) -> str:
    """Describe records beyond the declared bounds; "" if there are none."""
    columns = cell.proposal.data.schema
    odd = False
    for row in (row for rows in pair for row in rows):
        cells = row if isinstance(row, list) else [row]
        for value, column in zip(cells, columns, strict=False):
            if value is None or (isinstance(value, float) and math.isnan(value)):
                return "a record may be NaN"
            if "low" in column and not column["low"] <= value <= column["high"]:
                odd = True
            if "categories" in column and value not in column["categories"]:
                odd = True
    return "a record may lie beyond the declared bounds" if odd else ""


def pair_of(params: Mapping[str, Any], form: str) -> tuple[Any, Any]:
    """Return D and D′ as plain values."""
    if form == "numbers":
        return [float(x) for x in params["d0"]], [float(x) for x in params["d1"]]
    rows, edit = list(params["table"]), params["edit"]
    new = list(rows)
    if "replace" in edit:
        new[edit["replace"]] = edit["by"]
    elif "remove" in edit:
        del new[edit["remove"]]
    else:
        at = edit.get("at", -1)
        new.insert(len(new) if at == -1 else at, edit["add"])
    if form == "record":
        return rows[0], new[0]
    return rows, new
