"""An entry for the Differential Privacy Deployments Registry, from the record of an audit.

The fields are those of https://github.com/opendp/deployments-registry-data. A record knows the
claim, the neighbours, the mechanism and the result of the audit; the rest is left to its author.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from dpframe import Record
from dpframe.plugins import DpframeError

MOST_CELLS = 20  # results that the entry lists
LONGEST = 300  # characters of a text from the record
VARIANTS = {
    "pure-dp": "Pure DP",
    "approx-dp": "Approximate DP",
    "zero-concentrated-dp": "Zero-concentrated DP",
    "renyi-dp": "Renyi DP",
}
"""Variants of the registry, by the kind of a claim; others are custom."""
CHANNELS = {
    "time": "run time",
    "bits": "last bits of numbers",
    "messages": "messages of exceptions",
}
"""Side channels of an output, by their names in a record."""
WORDS = {"consistent": "no violation found"}

ENTRY = """\
# Draft for the Differential Privacy Deployments Registry. Fill in what is empty, and what applies
# of the lines that begin with "#". The audit knows nothing about them.
url_slug: {slug}
status: Draft
tier: 1  # 2 or 3 if its fields are complete
deployment:
  basic:
    name: ''
    data_curators:
      - ''
    description: ''
    intended_use: ''
    data_product_type: ''  # Summary statistics, Dataset, Machine learning model, …
    data_product_region: ''
    publication_date: ''  # '2026-01-31'
    # data_product_sector: Technology
  dp_variant:
    variant_name: {variant}
    # data_domain: ''
    # unprotected_quantities: ''
  privacy_loss:
    privacy_unit: ''
    privacy_unit_details: {relation}
    privacy_parameters:{parameters}
    privacy_parameters_details: {details}
  # deployment_model:
  #   model_name: Central  # Local, Shuffle or Federated
  #   actors: ''
  #   release_type: One release  # Many releases
  #   data_source_type: Static  # Dynamic
  #   access_type: Non-interactive  # Interactive
  # accounting:
  #   post_processing: ''
  #   composition: ''
  implementation:
    # preprocessing_and_hyperparameter_tuning: ''
    mechanisms: |
{mechanisms}
    justification: |
{justification}
  administrative:
    notes: {notes}
    registry_authors:
      - ''
"""


def entry(record: Record, mechanism: str | None = None) -> str:
    """Return the entry of one mechanism with one claim, as YAML.

    Args:
        record: of a run.
        mechanism: its label; default: the only one.

    Raises:
        DpframeError: there is not exactly one mechanism with one claim that was tested.
    """
    cells = [c for c in record.cells if mechanism in (None, c.mechanism.label)]
    tested = [(cell, cell.claim) for cell in cells if cell.verdict and cell.claim is not None]
    claims = {
        (cell.mechanism.label, claim.kind, repr(claim.parameters), claim.epsilon, claim.delta)
        for cell, claim in tested
    }
    if len(claims) != 1:
        names = ", ".join(dict.fromkeys(cell.mechanism.label for cell in record.cells))
        raise DpframeError(
            f"an entry is about one tested claim of one mechanism; here are {len(claims)}. Name "
            f"the mechanism (--mechanism; {names}), and run the setting that is deployed alone"
        )
    claim, tested_cells = tested[0][1], [cell for cell, _ in tested]
    given = ", ".join(f"{name} = {value}" for name, value in claim.parameters.items())
    return ENTRY.format(
        slug=json.dumps(re.sub(r"[^a-z0-9]+", "-", record.audit.name.lower()).strip("-")),
        variant=VARIANTS.get(claim.kind, "Custom"),
        relation=json.dumps(_plain(f"Neighbours in the audit: {_relations(tested_cells)}.")),
        parameters="".join(_parameters(claim)) or " {}",
        details=json.dumps(_plain(f"Claimed: {claim.kind} with {given}."), ensure_ascii=False),
        mechanisms=_block(_mechanisms(record, tested_cells)),
        justification=_block(_results(record, tested_cells)),
        notes=json.dumps(f"Audited with dpframe {record.environment.dpframe}; {record.digest}."),
    )


def _relations(cells: list[Any]) -> str:
    return "; ".join(dict.fromkeys(cell.pair.relation or "not stated" for cell in cells))


def _parameters(claim: Any) -> Iterator[str]:
    """Write the parameters of a claim: ρ, or ε at the audit's δ; nothing if ε is infinite."""
    values = {}
    if claim.kind == "zero-concentrated-dp":
        values["rho"] = claim.parameters["rho"]
    elif claim.kind != "renyi-dp" and math.isfinite(claim.epsilon):
        values["epsilon"] = claim.epsilon
        if claim.kind != "pure-dp":
            values["delta"] = claim.delta
    for name, number in values.items():
        yield f"\n      {name}: {_yaml(number)}"


def _mechanisms(record: Record, cells: list[Any]) -> Iterator[str]:
    """Describe the code that ran, and the side channels that the audit looked at."""
    first = cells[0]
    origins = {one.name: f"{one.distribution} {one.version}" for one in record.plugins}
    yield f"{_code(first.mechanism.use)} ({origins.get(first.mechanism.use, 'origin unknown')})"
    for name, value in first.mechanism.params.items():
        if value is not None and name != "module":
            yield f"{name}: {_code(json.dumps(value, ensure_ascii=False))}"
    used = first.mechanism.params.get("environment")
    for one in record.environments:
        if one.name == used:
            packages = ", ".join(one.requirements or one.installed)
            yield f"Python {one.python}: {_code(packages)}"
    asked = [cell.asked for cell in cells if cell.asked is not None]
    seen = [words for name, words in CHANNELS.items() if any(getattr(one, name) for one in asked)]
    left = [words for words in CHANNELS.values() if words not in seen]
    yield f"Audited: the values of outputs{''.join(f', {words}' for words in seen)}."
    yield f"Not audited: {', '.join([*left, 'security, access to the raw data'])}."


def _results(record: Record, cells: list[Any]) -> Iterator[str]:
    """Give the verdicts with their bounds, and what they do not say."""
    for cell in cells[:MOST_CELLS]:
        bound = cell.estimate.epsilon_lower if cell.estimate is not None else None
        shown = ""
        if bound is not None:
            floor = math.floor(bound * 1000) / 1000
            level = 100 * cell.estimate.confidence
            delta = f"{cell.estimate.delta:g}".replace("e-0", "e-")
            shown = f"; loss at least {floor:g} at δ = {delta}, {level:.10g} %"
        by = f"{_code(cell.attack.label)}, {_code(cell.estimator.label)}"
        verdict = WORDS.get(cell.verdict, cell.verdict)
        yield f"**{verdict}** by {by}, {max(cell.trials)} draws on each dataset{shown}."
        yield f"Reason: {_code(cell.reason or 'none given')}"
        for what in (cell.exact, cell.stated):
            if what is not None and what.exceeding:
                yield "The claim is exceeded exactly, without draws."
    if (rest := len(cells) - MOST_CELLS) > 0:
        yield f"and {rest} more results; the record has all"
    yield (
        f"Confidence {100 * record.audit.confidence:g} % (multiplicity "
        f"{record.audit.multiplicity}, m = {record.summary.m}). An audit can refute a claim; no "
        "violation found is not a proof: other data or attacks may show one."
    )


def _block(lines: Iterator[str]) -> str:
    """Return lines as a list in a block of YAML, which keeps line breaks."""
    return "\n".join(f"      - {_plain(line)}" for line in lines)


def _plain(text: str) -> str:
    """Put a text on one line, without control characters."""
    line = " ".join(text.split())
    return "".join(char if char.isprintable() else "\ufffd" for char in line)


def _code(text: str) -> str:
    """Quote a text of the record, so that a page shows it and does nothing else."""
    short = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return f"`{_plain(short).replace('`', chr(39))}`"


def _yaml(number: float) -> str:
    """Write a number that every reader of YAML takes for one: 1.0e-05, not 1e-05."""
    text = repr(float(number))
    return text if "." in text else text.replace("e", ".0e")
