"""Verdicts: judge all cells of a record together."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from dpframe.results.model import CellRecord
from dpframe.stats.joint import bonferroni, holm

VIOLATED: Literal["violated"] = "violated"
CONSISTENT: Literal["consistent"] = "consistent"
INCONCLUSIVE: Literal["inconclusive"] = "inconclusive"
NOTHING_TESTED = "all scores are equal, so nothing was tested"
TOGETHER = "refuted by all pairs together"
_TOO_RARE = (
    "the deciding event is rarer than float32 sampling resolves: "
    'repeat with [run] precision = "float64"'
)


def look_price(number: int) -> int:
    """Return the factor by which a look multiplies p-values and divides the error of bounds.

    It is 1 for the first look and k(k + 1) for look k ≥ 2. All looks together then err with at most
    1.5 times the probability of the first, because 1/(2·3) + 1/(3·4) + … = 1/2.
    """
    return 1 if number == 1 else number * (number + 1)


class Looks(NamedTuple):
    """The looks at the draws of one cell, this one included."""

    earlier: tuple[tuple[int, int], ...] = ()  # trials per dataset at the known earlier looks
    number: int = 1
    """Number of this look, from 1. A repeated look keeps its number."""

    @property
    def price(self) -> int:
        """See `look_price`."""
        return look_price(self.number)

    def listed(self, trials: tuple[int, int]) -> list[list[int]]:
        """Return the trials of all looks, given those of this one."""
        shown = list(self.earlier)
        if self.number > len(shown):
            shown.append(trials)
        return [list(pair) for pair in shown]


FIRST_LOOK = Looks()


def totals(cells: Sequence[CellRecord]) -> dict[str, int]:
    """Return the part of the summary that follows from the cells; shared draws count once."""
    verdicts = [cell.verdict for cell in cells]
    shared: dict[Any, int] = {}
    for cell in cells:
        # An anytime cell that stopped early has counted a part of the draws of the other cells.
        stopped = cell.estimate is not None and cell.estimate.anytime
        number = ("anytime", cell.swept.get("audit.trials")) if stopped else cell.draws
        key = (cell.seed, cell.draw_group, cell.repeat, number)
        shared[key] = max(shared.get(key, 0), cell.draws)
    return {
        **{name: verdicts.count(name) for name in (VIOLATED, CONSISTENT, INCONCLUSIVE)},
        "failed": sum(cell.status == "failed" for cell in cells),
        "draws": sum(shared.values()),
    }


def judged(cells: Sequence[CellRecord], m: int, multiplicity: str) -> list[CellRecord]:
    """Return the cells with verdicts that are derived from their numbers.

    A cell is tested if it has an estimate, a p-value and a basis. m is the number of planned tests,
    failed ones included; the multiplicity is "holm", "bonferroni" or "none".
    """
    tests = [
        (place, cell, cell.p_value, cell.basis, look_price(cell.basis.look))
        for place, cell in enumerate(cells)
        if cell.basis is not None and cell.p_value is not None and cell.estimate is not None
    ]
    p_values = [p_value * price for _, _, p_value, _, price in tests]
    adjusted = adjusted_p_values(p_values, m, multiplicity)
    p_resolved = [basis.p_resolved * price for *_, basis, price in tests]
    resolved = adjusted_p_values(p_resolved, m, multiplicity)
    factors: dict[float, int] = {}
    results = list(cells)
    for (place, cell, _, basis, price), p, p_sampled in zip(tests, adjusted, resolved, strict=True):
        error = 1 - basis.confidence
        if error not in factors:
            # The factor for the p-value of the most extreme counts.
            unrejected = m - sum(each <= error for each in resolved)
            factors[error] = {"holm": max(1, unrejected), "bonferroni": m, "none": 1}[multiplicity]
        verdict, reason = _verdict(cell, p, p_sampled, price, factors[error])
        results[place] = cell.model_copy(
            update={"verdict": verdict, "p_adjusted": p, "reason": reason}
        )
    return results


def adjusted_p_values(p_values: list[float], m: int, multiplicity: str) -> list[float]:
    """Adjust the p-values of an audit for the number m of planned tests, as in `judged`.

    Each p-value already includes the price of its look, and may be above 1.
    """
    capped = [min(p, 1.0) for p in p_values]
    if multiplicity == "none":
        return capped
    adjust = {"holm": holm, "bonferroni": bonferroni}[multiplicity]
    return [float(p) for p in adjust(capped, m)]


def _verdict(
    cell: CellRecord, adjusted: float, resolved: float, price: int, factor: int
) -> tuple[str, str]:
    """Return the verdict on one tested cell, and its reason."""
    assert cell.basis is not None
    basis = cell.basis
    error, contrast = 1 - basis.confidence, basis.contrast
    if resolved <= error:
        return VIOLATED, _violated(cell)
    if adjusted <= error:
        return INCONCLUSIVE, _TOO_RARE
    if (untested := _untested(cell)) is not None:
        return INCONCLUSIVE, untested
    if basis.p_extreme_resolved * price * factor > error:
        enough = basis.p_extreme * price * factor <= error
        trials = min(cell.trials)
        return INCONCLUSIVE, (
            f"even the most extreme counts possible in {trials:,} trials would not reject "
            f"ε = {contrast.claimed:.4g} {at_delta(contrast.delta)}; "
            + (_TOO_RARE if enough else "more trials are needed")
            + _continued(ended(cell))
        )
    return CONSISTENT, f"no violation found; {_shown(cell)}{_power_note(cell)}"


def _untested(cell: CellRecord) -> str | None:
    """Return the reason if nothing was tested: every answer or every score was the same."""
    if cell.untested is not None:
        return cell.untested
    if cell.asked is not None and cell.asked.constant:
        return None
    return equal_scores(cell.draws, cell.attack.label) if saw_nothing(cell) else None


def equal_scores(number: int | None, attacks: str) -> str:
    """Return the reason of a cell whose draws all got the same score from the named attacks."""
    scores = "scores" if number is None else f"{number:,} scores"
    return f"all {scores} of {attacks} were equal, so nothing was tested"


def _power_note(cell: CellRecord) -> str:
    """State the loss, rounded up, that an ideal attack would have shown."""
    if (power := cell.power) is None or saw_nothing(cell):
        return ""
    return (
        f"; a loss of {_rounded_up(power.epsilon)} or more ({power.model}) would have been "
        f"detected with probability {power.probability:g}, if the attack had seen all of it"
    )


PARAMETER = "another value of "  # begins the features that are parameters never varied
MOST_UNTRIED = 3  # features that a sentence names


def _continued(text: str) -> str:
    return f"; {text}" if text else ""


def ended(cell: CellRecord) -> str:
    """Name the limit that ended a search; "" if that is unknown."""
    if cell.search is None or (coverage := cell.search.coverage) is None:
        return ""
    limit = coverage.limit or 0.0
    return {
        "decided": "stopped once the claim was decided",
        "trials": f"stopped at its limit of {limit:,.0f} trials",
        "seconds": f"stopped at its limit of {limit:g} s, after {cell.trials[0]:,} trials",
        "pairs": "stopped because no pair was left",
        "lost": "stopped when the black box crashed",
    }[coverage.ended_by]


def covered(cell: CellRecord) -> str:
    """Name the limit that ended a search, the loss that it would have shown, and what it left out.

    Return "" if that is unknown.
    """
    if cell.search is None or (coverage := cell.search.coverage) is None:
        return ""
    parts = [ended(cell)]
    if cell.claim is not None and cell.verdict != VIOLATED:
        on_largest, on_median = coverage.detectable, coverage.detectable_median
        at = "" if coverage.drawn == 1 else " on the pair with most draws"
        if on_largest is None:
            loss = f"no loss would have been detected with probability {coverage.probability:g}{at}"
        else:
            loss = (
                f"a loss of {_rounded_up(on_largest)} or more (randomised response) would have "
                f"been detected with probability {coverage.probability:g}{at}"
            )
        if at and on_largest != on_median:
            loss += ", none" if on_median is None else f", one of {_rounded_up(on_median)}"
            loss += " on a median pair"
        parts.append(loss)
    parameters = [one for one in coverage.untried if one.startswith(PARAMETER)]
    if features := [one for one in coverage.untried if one not in parameters]:
        parts.append(f"never tried: {_few(features)}")
    if parameters:
        names = _few([one.removeprefix(PARAMETER) for one in parameters])
        parts.append(
            f"not tried: other values of {names}; add [search.parameters], in Python "
            "parameters={…}"
        )
    if coverage.lost:
        pairs = "1 pair was" if coverage.lost == 1 else f"{coverage.lost:,} pairs were"
        parts.append(f"{pairs} lost to a crash or a lack of memory")
    left = coverage.proposed - coverage.drawn - coverage.raised - coverage.lost
    if left > 0:
        parts.append(f"{left:,} proposed pairs were not drawn from")
    return "; ".join(parts)


def _few(names: Sequence[str]) -> str:
    more = len(names) - MOST_UNTRIED
    return ", ".join(names[:MOST_UNTRIED]) + (f" and {more:,} more" if more > 0 else "")


_SMALLEST = 1e-300  # below it, the power of ten by which it is multiplied overflows


def _rounded_up(loss: float) -> str:
    """Write a loss with four digits, rounded up."""
    if not _SMALLEST < loss < math.inf:
        return f"{loss:.4g}"
    digits = 3 - math.floor(math.log10(loss))
    return f"{math.ceil(loss * 10.0**digits) / 10.0**digits:.4g}"


def is_refuted_together(cell: CellRecord) -> bool:
    """True if the pairs of a search refute a claim together, but no bound of one exceeds it."""
    return cell.verdict == VIOLATED and (cell.reason or "").startswith(TOGETHER)


def at_delta(delta: float) -> str:
    """Name a δ as reports write it: at δ = 1e-5."""
    return f"at δ = {delta:.3g}".replace("e-0", "e-")


def rounded_down(bound: float) -> str:
    """Write a bound with four digits, rounded down."""
    if not _SMALLEST < bound < math.inf:
        return f"{bound:.4g}"
    digits = 3 - math.floor(math.log10(bound))
    return f"{math.floor(bound * 10.0**digits) / 10.0**digits:.4g}"


def _violated(cell: CellRecord) -> str:
    assert cell.basis is not None
    assert cell.estimate is not None
    assert cell.p_value is not None
    contrast = cell.basis.contrast
    delta, lower, claimed = contrast.delta, contrast.lower, contrast.claimed
    if lower > claimed:
        return (
            f"loss certified above {rounded_down(lower)} {at_delta(delta)}, claimed {claimed:.4g}"
        )
    if cell.search is not None and cell.search.pairs:
        best = f"best single pair ≥ {rounded_down(lower)}"
        return f"{TOGETHER}; {best}, claimed {claimed:.4g} {at_delta(delta)}"
    if cell.p_value <= 1 - cell.estimate.confidence:
        return (
            "certified error rates lie below the claimed curve as a whole, although at no single δ "
            f"that was looked at; nearest {at_delta(delta)}: certified "
            f"{rounded_down(lower)}, claimed {claimed:.4g}"
        )
    return (
        f"the claim ε = {claimed:.4g} {at_delta(delta)} is rejected by the step-down test; the "
        f"bound that holds together with all others, {rounded_down(lower)}, is not above it"
    )


def _shown(cell: CellRecord) -> str:
    estimate = cell.estimate
    assert estimate is not None
    at = at_delta(estimate.delta)
    lower = rounded_down(estimate.epsilon_lower or 0.0)
    if saw_nothing(cell):
        return f"{SAW_NOTHING}; another attack may show more"
    if cell.search is not None and (number := cell.search.pairs):
        pairs = "one pair" if number == 1 else f"{number} pairs"
        return (
            f"this search of {pairs} shows a loss of at least {lower} {at}; another pair, "
            f"attack or event may show more{_continued(covered(cell))}"
        )
    least = f"this attack shows a loss of at least {lower}"
    if estimate.epsilon_upper is None or not math.isfinite(estimate.epsilon_upper):
        return f"{least} and without an upper limit {at}; another attack may show more"
    upper = _rounded_up(estimate.epsilon_upper)
    if estimate.epsilon_upper_of == "every event":
        return f"{least} and at most {upper} {at}; another attack may show more"
    if estimate.epsilon_upper_of == "every cut":
        return (
            f"{least} {at}, and no cut of its scores shows more than {upper}; another "
            "attack may show more"
        )
    return (
        f"{least} {at}, and at the chosen thresholds at most {upper}; another threshold "
        "or attack may show more"
    )


SAW_NOTHING = "this attack saw nothing: every score was equal"


def saw_nothing(cell: CellRecord) -> bool:
    """True if every draw from D and from D′ got the same decision, or the same score.

    Equal scores fall into one bin. Either its edges are adjacent floats, or all finite edges are
    equal because the scores of the pilot were.
    """
    name, edges = cell.statistic.get("name"), cell.statistic.get("edges", [])
    if not is_in_one_bin(cell.counts):
        return False
    # In a file, edges that are not finite are words.
    numbers = [edge if isinstance(edge, int | float) else math.inf for edge in edges]
    if name == "DecisionCounts" or len({e for e in numbers if math.isfinite(e)}) == 1:
        return True
    (place,) = (place for place, count in enumerate(cell.counts[0]) if count)
    return 2 <= place <= len(numbers) and _adjacent(numbers[place - 2], numbers[place - 1])


def is_in_one_bin(counts: Any) -> bool:
    """True if all draws from D and from D′ are in the same bin."""
    if not (isinstance(counts, list) and len(counts) == 2 and isinstance(counts[0], list)):
        return False
    used = [[place for place, count in enumerate(row) if count] for row in counts]
    return used[0] == used[1] and len(used[0]) == 1


def _adjacent(low: float, high: float) -> bool:
    """True if no float64, or no float32 in its shortest digits, lies between two numbers."""
    kind = np.float32 if _digits(low) == low and _digits(high) == high else np.float64
    return bool(np.nextafter(kind(low), kind(math.inf)) == kind(high))


def _digits(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(str(np.float32(value)))


def exceeds(cell: CellRecord) -> bool:
    """True if a query beyond its sensitivity, or a stated distribution, violates the claim."""
    return any(one is not None and one.exceeding > 0 for one in (cell.exact, cell.stated))


def found_consistent(cell: CellRecord) -> bool:
    """True if no draws could decide a claim that the stated distribution satisfies."""
    stated = cell.stated
    computed = stated is not None and stated.verdict == CONSISTENT
    return cell.verdict == INCONCLUSIVE and computed and not exceeds(cell)


def surprising(cell: CellRecord) -> bool:
    """True if the finding on a cell differs from the spec's expectation.

    An exact violation counts like one that the draws show.
    """
    violated = cell.verdict == VIOLATED or exceeds(cell)
    if cell.expected == VIOLATED:
        return not violated
    if cell.expected == CONSISTENT and found_consistent(cell):
        return False
    if cell.expected is not None:
        return violated or cell.verdict != cell.expected
    return violated
