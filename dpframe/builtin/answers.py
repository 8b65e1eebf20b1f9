"""Attacks on the answers of black boxes, each through one view of the answers."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from dpframe.builtin import answer_views as views
from dpframe.builtin.columns import frequent, tallied
from dpframe.plugins import (
    Answers,
    Array,
    Attack,
    Floats,
    HostArray,
    HostMechanism,
    Ints,
    Key,
    Target,
    Tree,
)
from dpframe.stats.histograms import half_line

SMOOTHING = 0.5  # added to every count, because a missing category proves nothing
CAUTION = 1.5  # standard errors by which the logarithm of a ratio shrinks towards 0
LARGEST = 50.0  # larger losses are clipped to this
MOST_POINTS = 4  # points of a claim by which columns are judged


def points(target: Target) -> list[tuple[float, float]]:
    """Return a few (ε, δ) of the claim for a pair; (0, 0) without a claim."""
    claim = target.mechanism.claim(target.pair)
    if claim is None:
        return [(0.0, 0.0)]
    deltas = list(claim.telling_deltas)
    step = -(-len(deltas) // MOST_POINTS)
    values = [(min(claim.epsilon_at(delta), LARGEST), delta) for delta in deltas[::step]]
    return [(epsilon, delta) for epsilon, delta in values if not math.isnan(epsilon)]


def ratios(counts: Ints) -> Floats:
    """Return logarithms of ratios of shares, D′ over D, shrunk towards 0 by their standard error.

    Args:
        counts: shape [..., 2, categories].

    Returns:
        Shape [..., categories]; 0 for a category that was not seen.
    """
    smooth = counts + SMOOTHING
    total = np.maximum(counts.sum(axis=-1, keepdims=True), 1)
    logs = np.log(smooth / total)
    plain = logs[..., 1, :] - logs[..., 0, :]
    error = np.sqrt((1 / smooth).sum(axis=-2))
    drawn = np.sign(plain) * np.maximum(np.abs(plain) - CAUTION * error, 0)
    # Ratios that shrink to 0 keep a small value, so that the categories stay in order.
    ordered = np.where(drawn == 0, 1e-3 * plain / (1 + error), drawn)
    return np.where(counts.sum(axis=-2) > 0, ordered, 0.0)


def farthest(learned: Floats, counts: Ints, claimed: list[tuple[float, float]]) -> Floats:
    """Return the largest violation of a claim by an event of each column, in standard errors.

    Args:
        learned: ratios from other draws, shape [k, categories]; an event is all categories from
            some ratio on.
        counts: shape [k, 2, categories].
        claimed: (ε, δ).

    Returns:
        Shape [k].
    """
    order = np.argsort(-learned, axis=-1, kind="stable")
    ordered = np.take_along_axis(counts, order[:, None, :], axis=-1)
    trials = counts.sum(axis=-1)[:, :, None]
    first = np.cumsum(ordered, axis=-1)
    best: Any = np.full(len(counts), -np.inf)
    for hits, (side, other) in ((first, (1, 0)), (trials - first, (0, 1))):
        share = (hits + 0.5) / (trials + 1)
        p, q = share[:, side], share[:, other]
        n = np.maximum(trials.min(axis=1), 1)
        for epsilon, delta in claimed:
            slope = math.exp(epsilon)
            noise = np.sqrt((slope**2 * q * (1 - q) + p * (1 - p)) / n)
            best = np.maximum(best, ((p - slope * q - delta) / noise).max(axis=-1))
    return np.asarray(best, np.float64)


def counted(codes: HostArray, categories: int) -> Ints:
    """Count each category in each column, shape [k, categories]; codes have shape [n, k]."""
    k = codes.shape[1]
    flat = codes.astype(np.int64) + categories * np.arange(k)
    return np.bincount(flat.reshape(-1), minlength=k * categories).reshape(k, categories)


def describe(
    view: Any, state: Any, edge: float, above: bool, words: Mapping[int, str]
) -> str | None:
    """Describe the event "score ≥ edge", or "score < edge" if not `above`."""
    if "nan" in state:
        name = view.name(int(state["column"]), len(np.asarray(state["weights"])))
        rest = " or not a number" if state["nan"] and not above else ""
        return f"{name} is {half_line(edge, is_above=above)}{rest}"
    scores = np.asarray(state["scores"])
    # The score may have been rounded since then, so scores next to the edge count as lying on it.
    chosen = (scores >= edge - 1e-6 * abs(edge)) == above
    if view.columns == "hashes":
        return _of_hashes(view, state, chosen, words)
    if view.columns == "numbers":
        return _of_numbers(view, state, chosen, words)
    return _of_codes(view, state, chosen)


def _of_codes(view: Any, state: Any, chosen: Any) -> str | None:
    # A code that was never seen is named on neither side.
    seen = np.asarray(state["scores"]) != 0
    codes, rest = (np.flatnonzero(side & seen).tolist() for side in (chosen, ~chosen))
    place = int(state["column"]), int(state["columns"])
    if not codes or (rest and len(rest) < len(codes) and chosen[~seen].all()):
        text: str | None = view.describe(*place, rest, codes) if rest else None
        return views.negated(text) if text else None
    words: str | None = view.describe(*place, codes, rest)
    return words


def _of_hashes(view: Any, state: Any, chosen: Any, words: Mapping[int, str]) -> str:
    known = int(state["known"])
    inside, rest = chosen[:known], bool(chosen[-1])
    size = -np.abs(np.asarray(state["scores"])[:known])
    hashes = np.asarray(state["hashes"])[:known].astype(np.int64)
    order = np.argsort(size, kind="stable")
    of = [[int(hashes[i]) for i in order if inside[i] == wanted] for wanted in (True, False)]
    if not rest:
        return str(view.describe(0, 1, of[0], words)) if of[0] else "is no answer at all"
    if not of[1]:
        return "is any answer"
    return views.negated(view.describe(0, 1, of[1], words))


def _of_numbers(view: Any, state: Any, chosen: Any, words: Mapping[int, str]) -> str:
    edges = np.asarray(state["edges"], np.float64)
    number = len(np.asarray(state["weights"]))
    column = int(state["column"])
    if view.beside and column >= 0:
        name = view.name_of(column, _labels(state, column % view.beside, words))
    else:
        name = view.name(column, number)
    used = int(np.isfinite(edges).sum())
    ends = np.flatnonzero(np.diff(chosen[: used + 1], prepend=False, append=False)).reshape(-1, 2)
    parts = [_interval(edges, start, stop, used) for start, stop in ends.tolist()]
    if chosen[views.EDGES + 1] and np.asarray(state["scores"])[views.EDGES + 1]:
        parts.append("not a number")
    return f"{name} is {views.listed(parts)}" if parts else f"{name} is nothing at all"


def _labels(state: Any, group: int, words: Mapping[int, str]) -> list[str]:
    """Return the most frequent labels of a group, and empty places for the others."""
    values = np.asarray(state["beside"], np.float64)[group]
    labels = [views.in_words(value, words) for value in values[~np.isnan(values)].tolist()]
    return [*labels, *[""] * int(np.asarray(state["more"])[group])] or ["a label of a group"]


def _interval(edges: Any, start: int, stop: int, used: int) -> str:
    """Describe the categories in [start, stop) as an interval of numbers."""
    low = "" if start == 0 else half_line(edges[start - 1], is_above=True)
    high = "" if stop > used else half_line(edges[stop - 1], is_above=False)
    if low and high and edges[stop - 1] == np.nextafter(edges[start - 1], np.inf):
        return f"{edges[start - 1] + 0.0:.6g}"
    if low.endswith(" or more") and high.startswith("less than "):
        return f"from {low.removesuffix(' or more')} to below {high.removeprefix('less than ')}"
    return " and ".join(filter(None, (low, high))) or "anything"


# Learners choose one column and learn the ratio of each of its categories. A state is a dict of
# arrays whose shapes depend on the shape of the columns alone.


Train = tuple[HostArray, HostArray]
State = dict[str, Any]

CODES = 256  # categories of a column of codes

# Number of hashes with a ratio of their own, the most frequent ones.
HASHES = 1024
LEAST = 2  # occurrences that a hash needs for a ratio of its own
TOO_FEW = 3  # up to this many columns, from one or two numbers, there is no weighted sum

# Largest number of columns tried alone, from the front and from the end.
ALONE, DERIVED = 64, 9
REMEMBERED = 3  # values kept of a column that only describes others
JUDGED_BY = 2**21  # approximate number of entries by which a column is chosen


def learn_codes(target: Target, train: Train) -> State:
    """Learn from columns of codes."""
    few = _few(train)
    column = _telling(points(target), few)
    whole = np.stack([counted(part[:, column : column + 1], CODES)[0] for part in train])
    return {
        "column": np.int32(column),
        "columns": np.int32(train[0].shape[1]),
        "scores": ratios(whole),
    }


def _telling(claimed: list[tuple[float, float]], few: list[HostArray]) -> int:
    """Choose the column of codes that violates the claim most; constant columns never do."""
    places = _that_vary(few, np.arange(few[0].shape[1]))
    if len(places) == 1:
        return int(places[0])
    few = [part[:, places] for part in few]
    most = 1 + max(int(part.max()) for part in few)
    halves = [[counted(part[half::2], most) for part in few] for half in (0, 1)]
    counts = np.stack([np.stack(half, axis=1) for half in halves])
    strengths = sum(farthest(ratios(counts[h]), counts[1 - h], claimed) for h in (0, 1))
    return int(places[np.argmax(strengths)])


def score_codes(state: State, seen: Any) -> Any:
    """Return the ratio of the code of the chosen column."""
    return state["scores"][seen[:, state["column"]]]


def learn_hashes(target: Target, train: Train) -> State:
    """Learn from one column of hashes."""
    seen, counts = tallied([part[:, 0] for part in train])
    kept, counts = frequent(counts, HASHES, LEAST)
    learned = ratios(counts)
    hashes = np.full(HASHES, 2**32 - 1, np.uint32)
    scores = np.full(HASHES + 1, learned[-1])
    hashes[: len(kept)], scores[: len(kept)] = seen[kept], learned[:-1]
    return {"hashes": hashes, "scores": scores, "known": np.int32(len(kept))}


def score_hashes(state: State, seen: Any) -> Any:
    """Return the ratio of a known hash, or that of all others together."""
    hashes = state["hashes"]
    at = np.minimum(np.searchsorted(hashes, seen[:, 0]), HASHES - 1)
    known = (hashes[at] == seen[:, 0]) & (at < state["known"])
    return state["scores"][np.where(known, at, HASHES)]


def learn_numbers(target: Target, train: Train, sums: bool, beside: int = 0) -> State:
    """Learn from columns of numbers by intervals, with `sums` also from a weighted sum of them.

    The values of the last `beside` columns are remembered and not learned from.
    """
    if beside:
        kept = _remembered(np.concatenate([part[:, -beside:] for part in train]))
        rest = train[0][:, :-beside], train[1][:, :-beside]
        return {**learn_numbers(target, rest, sums), **kept}
    few = _few(train)
    every = np.arange(train[0].shape[1])  # the last ones are derived from all
    places = _that_vary(few, np.unique(np.concatenate([every[:ALONE], every[-DERIVED:]])))
    claimed = points(target)
    strengths: Any = 0.0
    for half in (0, 1):
        direction = views.weights([part[half::2] for part in few])
        halves = [[part[start::2] for part in few] for start in (half, 1 - half)]
        here, there = (
            [np.column_stack([p[:, places], views.weighted(direction, p)]) for p in part]
            for part in halves
        )
        edges, smooth = zip(*map(views.edges_of, np.concatenate(here).T), strict=True)
        counts = _counts(edges, here)
        learned = ratios(np.where(np.array(smooth)[:, None, None], views.smoothed(counts), counts))
        strengths = strengths + farthest(learned, _counts(edges, there), claimed)
    if not sums or train[0].shape[1] <= TOO_FEW:
        strengths[-1] = -np.inf
    column = int(np.argmax(strengths))
    own = views.weights([part[: len(few[0])] for part in train])
    column = -1 if column == len(places) else int(places[column])
    chosen = [views.weighted(own, p) if column < 0 else p[:, column] for p in train]
    ends, is_smooth = views.edges_of(np.concatenate(chosen))
    counts = _counts([ends], [part[:, None] for part in chosen])[0]
    scores = ratios(views.smoothed(counts) if is_smooth else counts)
    return {"column": np.int32(column), **own, "edges": ends, "scores": scores}


def learn_thresholds(target: Target, train: Train) -> State:
    """Choose the column of numbers, or their weighted sum, whose thresholds violate the claim most.

    Unlike ratios of intervals, a threshold has no noise of its own: after few answers it shows a
    shift or a wrong scale more clearly.
    """
    few = _few(train)
    every = np.arange(train[0].shape[1])
    places = _that_vary(few, np.unique(np.concatenate([every[:ALONE], every[-DERIVED:]])))
    own = views.weights([part[: len(few[0])] for part in train])
    column, state = int(places[0]), {**own, "nan": np.bool_(np.isnan(np.concatenate(train)).any())}
    if len(places) > 1:
        parts = [np.column_stack([part[:, places], views.weighted(own, part)]) for part in few]
        edges = [views.edges_of(of)[0] for of in np.concatenate(parts).T]
        counts, rising = _counts(edges, parts), np.arange(views.EDGES + 2.0)
        rising[-1] = -1.0  # NaN is above no threshold
        directions = np.stack([rising, -rising])[:, None].repeat(len(counts), axis=1)
        shown = np.maximum(*(farthest(each, counts, points(target)) for each in directions))
        if train[0].shape[1] <= TOO_FEW:
            shown[-1] = -np.inf
        chosen = int(np.argmax(shown))
        column = -1 if chosen == len(places) else int(places[chosen])
    return {"column": np.int32(column), **state}


def score_thresholds(state: State, seen: Any) -> Any:
    """Return the chosen column, or the weighted sum."""
    column = state["column"]
    return views.weighted(state, seen) if column < 0 else seen[:, column]


def _remembered(columns: HostArray) -> State:
    """Return the most frequent values of each column, and the number of others."""
    values = np.full((columns.shape[1], REMEMBERED), np.nan)
    more = np.zeros(columns.shape[1], np.int32)
    for place, column in enumerate(columns.T):
        seen, counts = np.unique(column[~np.isnan(column)], return_counts=True)
        most = seen[np.argsort(-counts, kind="stable")[:REMEMBERED]]
        values[place, : len(most)], more[place] = most, len(seen) - len(most)
    return {"beside": values, "more": more}


def _that_vary(few: list[HostArray], places: Ints) -> Ints:
    """Return the columns that vary between rows; at least one."""
    first = few[0][:1, places]
    varies = [
        ((part[:, places] != first) & ~(np.isnan(part[:, places]) & np.isnan(first)))
        for part in few
    ]
    varying = places[np.any([each.any(axis=0) for each in varies], axis=0)]
    return varying if len(varying) else places[:1]


def _counts(edges: Sequence[Any], sides: list[HostArray]) -> Any:
    """Count each interval of each column, shape [k, 2, intervals]."""
    of = []
    for part in sides:
        codes = [views.categories(ends, part[:, c]) for c, ends in enumerate(edges)]
        of.append(counted(np.stack(codes, axis=1), views.EDGES + 2))
    return np.stack(of, axis=1)


def score_numbers(state: State, seen: Any) -> Any:
    """Return the ratio of the interval in which the chosen column lies."""
    column, seen = state["column"], seen[:, : state["weights"].shape[0]]
    chosen = views.weighted(state, seen) if column < 0 else seen[:, column]
    return state["scores"][views.categories(state["edges"], chosen)]


def _few(train: Train) -> list[HostArray]:
    """Return the draws of each dataset by which columns are chosen."""
    most = int(np.clip(JUDGED_BY // max(1, train[0].shape[1]), 64, 8192))
    return [part[:most] for part in train]


VIEWS: dict[str, Any] = {
    "kinds": views.Kinds(),
    "values": views.Kinds(exact=True),
    "thresholds": views.Thresholds(),
    "numbers": views.Numbers(),
    "bits": views.Bits(),
    "residues": views.Residues(),
    "equalities": views.Equalities(),
    "spread": views.Spread(),
    "labels": views.Labels(),
    "time": views.Time(),
}

# Abilities that an observer needs to see an event, if not every observer has them.
OBSERVERS = {
    "bits": "sees every bit of a float",
    "time": "measures how long an answer takes, on a machine like this one",
}

TOGETHER = [look for look in VIEWS if look not in (*OBSERVERS, "thresholds")]
"""Views that `look = "all"` chooses from; intervals of numbers include thresholds."""

FEWEST = 2  # answers per dataset; fewer teach nothing


class OfAnswers(Attack, name="answers"):
    """Log-odds of D′ from one view of answers of any kind, learned from their shares.

    A view has one or more columns of categories: the kind of an answer, its exact value, the
    exponent of the last bit, a residue, an interval of numbers. The column that violates the claim
    most is chosen, on draws other than those from which its shares were learned. The score of an
    answer is the logarithm of the ratio of the shares of its category, D′ over D, shrunk towards 0
    by its standard error, except for "thresholds", which scores by the number itself. Unseen values
    are a category too.
    """

    gives = "score"
    portable = True

    look: Literal[
        "all",
        "kinds",
        "values",
        "thresholds",
        "numbers",
        "bits",
        "residues",
        "equalities",
        "spread",
        "labels",
        "time",
    ] = "all"
    """The view. "all": the one that violates the claim most, "bits" and "time" apart. "kinds":
    type, shape, positions of NaN, which exception. "values": the exact value. "thresholds": one
    number in it, or a weighted sum of all, above a threshold. "numbers": intervals of the same.
    "bits": the last bits of the numbers. "residues": whole numbers modulo 2 to 16. "equalities":
    which numbers are equal, to each other or to the sum, mean or extreme of the others. "spread":
    standard deviation, norms and extremes of the numbers. "labels": how often texts and whole
    numbers occur among several outputs, and their first positions. "time": how long it took, with
    outputs.time."""

    @property
    def observer(self) -> str:
        return OBSERVERS.get(self.look, "")

    def unsuited(self, target: Target) -> str | None:
        if isinstance(target.mechanism, HostMechanism):
            return None
        return "answers are what black boxes give; outputs of a traced mechanism are arrays"

    def see(self, answers: Answers) -> HostArray:
        seen: HostArray = see_all(answers) if self.look == "all" else VIEWS[self.look].see(answers)
        return seen

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        number = train[0].shape[1]
        if min(map(len, train)) < FEWEST:
            few = np.zeros((4, number), train[0].dtype)
            if self.look == "all" and any(map(len, train)):
                few[:, : len(TOGETHER)] = np.concatenate(train)[0, : len(TOGETHER)]
            train = few, few
        return learn_all(target, train) if self.look == "all" else learn(self.look, target, train)

    def score(self, state: Tree, outputs: Array) -> Array:
        scores: Array = score_any(self.look, state, outputs)
        return scores

    def words(self, state: Tree, edge: float, above: bool, words: Mapping[int, str]) -> str | None:
        look: str = self.look
        if look == "all":
            look = TOGETHER[int(np.asarray(state["chosen"]))]
            state = state[look]
        return describe(VIEWS[look], state, edge, above, words)


def learn(look: str, target: Target, train: Train) -> State:
    """Learn from the columns of one view."""
    view = VIEWS[look]
    if look == "thresholds":
        return learn_thresholds(target, train)
    if view.columns == "codes":
        return learn_codes(target, train)
    if view.columns == "hashes":
        return learn_hashes(target, train)
    return learn_numbers(target, train, view.sums, view.beside)


# All views together: their numbers of columns, then the columns of each. A hash has two columns,
# because float32 holds only half of one.

HALF = 1 << 16
CLEAR = 4.0  # standard errors, added up over two halves, beyond which a view violates the claim


def see_all(answers: Answers) -> HostArray:
    """Return the columns of the views that every observer has."""
    parts = []
    for look in TOGETHER:
        seen = VIEWS[look].see(answers)
        is_hash = VIEWS[look].columns == "hashes"
        parts.append(np.hstack([seen // HALF, seen % HALF]) if is_hash else seen)
    widths = np.tile([float(part.shape[1]) for part in parts], (len(parts[0]), 1))
    return np.concatenate([widths, *parts], axis=1)


def learn_all(target: Target, train: Train) -> State:
    """Learn from each view, and choose one by draws that it was not learned from."""
    widths = [int(number) for number in train[0][0, : len(TOGETHER)]]
    if not all(widths):  # there are no answers
        widths = [2 if VIEWS[look].columns == "hashes" else 1 for look in TOGETHER[:-1]]
        widths.append(train[0].shape[1] - len(TOGETHER) - sum(widths))
    state: State = {"widths": [np.zeros(width, np.float32) for width in widths]}
    claimed, gains = points(target), []
    for look, *parts in zip(TOGETHER, *(_apart(widths, part) for part in train), strict=True):
        beyond, apart = 0.0, 0.0
        for half in (0, 1):
            own = learn(look, target, (parts[0][half::2], parts[1][half::2]))
            scores = [score_any(look, own, part[1 - half :: 2]) for part in parts]
            order, counts = tallied(scores)
            beyond += float(farthest(order[None], counts[None], claimed)[0])
            apart += float(farthest(order[None], counts[None], [(0.0, 0.0)])[0])
        state[look] = learn(look, target, (parts[0], parts[1]))
        # If no view clearly violates the claim, the one that tells D and D′ apart best.
        gains.append((max(beyond, CLEAR), apart))
    return state | {"chosen": np.int32(gains.index(max(gains)))}


def score_any(look: str, state: State, seen: Any) -> Any:
    """Return the scores of a view, or of the one chosen among all."""
    if look != "all":
        by = score_thresholds if look == "thresholds" else SCORE[VIEWS[look].columns]
        return by(state, seen)
    chosen = int(state["chosen"])
    parts = _apart([len(part) for part in state["widths"]], seen)
    return score_any(TOGETHER[chosen], state[TOGETHER[chosen]], parts[chosen])


def _apart(widths: Sequence[int], seen: Any) -> list[Any]:
    """Return the columns of each view."""
    parts, first = [], len(TOGETHER)
    for look, width in zip(TOGETHER, widths, strict=True):
        part, first = seen[:, first : first + width], first + width
        if VIEWS[look].columns == "hashes":
            whole = part.astype("uint32")
            part = whole[:, :1] * np.uint32(HALF) + whole[:, 1:]
        elif VIEWS[look].columns == "codes":
            part = part.astype("uint8")
        parts.append(part)
    return parts


SCORE = {"codes": score_codes, "hashes": score_hashes, "numbers": score_numbers}
