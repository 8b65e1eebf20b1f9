"""The plan of a run, and the largest ε that it could find."""

from collections.abc import Iterator
from typing import TypedDict

from rich.console import Console

from dpframe.report.number_format import (
    brief,
    lower,
    plural,
    point,
    quantity,
    setting,
    size,
    upper,
)
from dpframe.report.tables import Line, Part, ReportTable, Row
from dpframe.report.terminal.text import show_parts
from dpframe.report.verdict_text import SYMBOL, unadjusted

MOST_LINES = 12  # longer lists end in a count of the rest


class Reach(TypedDict):
    """The most that one estimator could certify."""

    label: str  # the estimator's label; with the attack's if the attack matters
    trials: int  # draws per dataset
    delta: float
    certifies: bool
    assumption: str
    largest_epsilon: float | None
    """The bound from the most extreme counts possible; None if it does not certify."""
    largest_claim: float | None
    """The largest claim that could be refuted; float32 samplers limit it further."""


class Skipped(TypedDict):
    """Combinations that are left out, and why."""

    reason: str
    cells: int


class PowerRow(TypedDict):
    """The power of the cells that ask the same question."""

    label: str
    cells: int
    claimed: float
    delta: float
    trials: int
    """Planned trials per dataset, or canaries, as `unit` says."""
    unit: str
    model: str
    """The pair of distributions that stands for a true loss."""
    probability: float
    epsilon: float | None
    """The smallest true loss that refutes the claim with this probability; None if none does."""
    curve: dict[float, float]
    """Power by the true loss as a multiple of the claim."""
    against: float | None
    """A true loss, and in `needed` the number of trials that shows it."""
    needed: int | None
    by_trials: dict[float, list[tuple[int, float]]]
    """Power by the trials, for each multiple of the claim; empty unless it is drawn."""


class Outlook(TypedDict):
    """The input of `render_plan`: a plain dict, ready for JSON."""

    name: str
    cells: int  # cells that would run, repeats included
    m: int  # cells that have a claim and a certifying estimator
    repeats: int
    draw_groups: int  # sets of draws that cells share
    searches: int  # cells that are searched: each spends up to its trials on draws of its own
    draws: int  # draws in all, both datasets, shared ones counted once
    calls: int  # releases that will be requested from black boxes, for any purpose
    memory_bytes: int  # estimated peak
    confidence: float
    multiplicity: str
    level: float
    """Error of one cell's bound: (1 − confidence) / m, or 1 − confidence without adjustment."""
    estimators: list[Reach]
    inconclusive: list[Skipped]
    """Claims that the most extreme counts possible would not refute, and their cells."""
    skipped: list[Skipped]
    power: list[PowerRow]
    """Losses that the run would show; empty if power was not requested."""
    without_power: list[Skipped]
    """Cells whose power is unknown, and why; empty if power was not requested."""


def render_plan(plan: Outlook, console: Console) -> None:
    """Print the plan of a run."""
    show_parts(console, _parts(plan))


def _parts(plan: Outlook) -> Iterator[Part]:
    rows = [Row([name, text]) for name, text in facts_of(plan)]
    yield ReportTable(("", ""), rows, title=plan["name"])
    if plan["m"] > 1 and plan["multiplicity"] == "none":
        yield Line(f"! {unadjusted(plan['m'], plan['confidence'])}", "failed")
    if reached := plan["estimators"]:
        yield _reach(reached)
        yield Line(
            "The largest ε is what perfectly separated outputs would certify: a larger claim "
            f"cannot be refuted, and its verdict would be inconclusive.{_coarse(reached)}",
            "dim",
        )
    inconclusive = [
        f"{claim['reason']}, {plural(claim['cells'], 'cell')}: could only be inconclusive"
        for claim in plan["inconclusive"]
    ]
    if rest := len(inconclusive[MOST_LINES:]):
        inconclusive[MOST_LINES:] = [f"… and {rest} more such claims"]
    sign = SYMBOL["inconclusive"]
    yield from (Line(f"{sign} {text}", "inconclusive") for text in inconclusive)
    if powers := plan["power"]:
        yield power_table(powers)
        yield Line(meaning_of_power(powers), "dim")
    for what, left in (("power unknown", plan["without_power"]), ("skipped", plan["skipped"])):
        for skip in left:
            yield Line(f"– {what}, {plural(skip['cells'], 'cell')}: {skip['reason']}")


def facts_of(plan: Outlook) -> Iterator[tuple[str, str]]:
    """Yield names and values of the size and cost of a run."""
    repeats = f", {plan['repeats']} repeats of each" if plan["repeats"] > 1 else ""
    yield "cells", f"{plan['cells']}{repeats}; claims that can be tested: m = {plan['m']}"
    draws = [quantity(plan["draws"])]
    if groups := plan["draw_groups"]:
        draws.append(f"in {plural(groups, 'set')}" + " that cells share" * (plan["cells"] > groups))
    if searches := plan["searches"]:
        draws.append(f"at most, by {searches} search{'' if searches == 1 else 'es'}")
    yield "draws", ", ".join(draws)
    if plan["calls"]:
        yield "calls", f"{quantity(plan['calls'])} releases of black boxes, for all purposes"
    yield "memory", f"about {size(plan['memory_bytes'])} at the peak"
    error = f"{1 - plan['confidence']:.2g}"
    how = f"{error} / {plan['m']}" if plan["multiplicity"] != "none" else f"{error}, not adjusted"
    level = point(plan["level"])
    yield "level", f"{level} per cell ({how}; multiplicity {plan['multiplicity']})"


POWER = (
    "Detectable is the smallest true loss that these trials detect with probability {:g}. Columns "
    "such as 1.5× give the probability of detecting 1.5 times the claimed loss. Model of the true "
    "loss: {}, for an attack that sees all of it and has equal error rates on D and D′. With a "
    "weaker attack, another pair, or a search of more pairs, a loss is detected less often. The "
    "numbers for bets, canaries and searches are simulated: standard error at most 0.0125."
)


def meaning_of_power(rows: list[PowerRow]) -> str:
    """Explain the table of powers."""
    models = " or ".join(sorted({row["model"] for row in rows}))
    return POWER.format(rows[0]["probability"], models)


def power_table(rows: list[PowerRow]) -> ReportTable:
    """Return the table of powers."""
    heads = ["cells", "claimed", "detectable"]
    heads += [f"{multiple:g}×" for multiple in rows[0]["curve"]]
    if wanted := rows[0]["against"]:
        heads.append(f"trials, {wanted / rows[0]['claimed']:g}×")
    lines = []
    for row in rows:
        shown = "no loss" if row["epsilon"] is None else f"ε ≥ {upper(row['epsilon'])}"
        texts = [brief(row["claimed"]), shown]
        texts += [f"{share:.2f}" for share in row["curve"].values()]
        if row["against"]:
            texts.append("none" if row["needed"] is None else quantity(row["needed"]))
        lines.append(Row([f"{row['label']} ×{row['cells']}", *texts]))
    return ReportTable(heads, lines, right=heads[1:])


def _reach(rows: list[Reach]) -> ReportTable:
    lines = []
    for row in rows:
        largest = row["largest_epsilon"] if row["certifies"] else None
        reach = Line("no bound", "inconclusive") if largest is None else lower(largest)
        numbers = [quantity(row["trials"]), setting(row["delta"]), reach]
        lines.append(Row([row["label"], *numbers, row["assumption"]]))
    heads = ("estimator", "trials", "δ", "largest ε", "assumption")
    return ReportTable(heads, lines, right=heads[1:4])


def _coarse(rows: list[Reach]) -> str:
    """Warn of claims that float32 samplers cannot refute, if there are any."""
    known = [(row["largest_claim"], row["largest_epsilon"]) for row in rows]
    limits = [x for x, bound in known if x is not None and bound is not None and x < bound]
    if not limits:
        return ""
    return (
        f" In float32 no claim above {lower(min(limits))} can be refuted, because the "
        "tails of samplers end; this does not apply to black boxes."
    )
