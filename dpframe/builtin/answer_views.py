"""Views of answers: each converts answers to columns, and describes events of a column."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from dpframe.plugins import Floats, HostArray, Ints, plain

# A view has `columns`, the kind of its columns, and `see(answers)`: columns of shape [n, k], k
# depends on the width of an answer alone. A view of codes or hashes has `describe(column, number,
# codes, rest)`: the words for "the column has one of these codes", or None. A view of numbers has
# `name(column, number)` (column −1 is a weighted sum of all), `sums` (True if a weighted sum means
# something) and `beside` (the number of its last columns, which describe the others).

# "codes": whole numbers below 256, each a category. "hashes": 32 bits of a hash, each a category.
# "numbers": intervals are categories.
Columns = Literal["codes", "hashes", "numbers"]


def output(place: int, number: int) -> str:
    """Name a number of an answer, counted from 1; there may be only one."""
    return "the output" if number == 1 else f"output {place + 1}"


def width_of(columns: int, of_width: Callable[[int], int], most: int) -> int:
    """Return the number of numbers in an answer with this many columns, up to `most`."""
    for width in range(1, most + 1):
        if of_width(width) == columns:
            return width
    return most


def first(answers: Any, most: int | None) -> HostArray:
    """Return the first numbers of answers, or all, NaN if absent; at least one column."""
    numbers: HostArray = np.asarray(answers.numbers)[:, :most]
    if not numbers.shape[1]:
        return np.full((len(numbers), 1), np.nan)
    return numbers


def listed(texts: list[str], most: int = 3) -> str:
    """List a few texts, and the number of the others."""
    shown, more = texts[:most], len(texts) - most
    if more > 0:
        rest = "another" if more == 1 else f"one of {more} others"
        return f"{', '.join(shown)} or {rest}"
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 2 else shown)


def negated(text: str) -> str:
    """Return the negation of an event in words."""
    if " or " in text and (" and " in text or " or the output is " in text):
        return f"the following is false: {text}"
    if text.startswith(("raises ", "returns ")):
        return f"does not {text}".replace("raises ", "raise ").replace("returns ", "return ")
    for verb in (" is not ", " is ", " are ", " equals ", " uses "):
        if verb in f" {text}":
            other = {" is not ": " is ", " equals ": " does not equal ", " uses ": " does not use "}
            return f" {text}".replace(verb, other.get(verb, f"{verb}not "), 1).strip()
    return f"the following is false: {text}"


# Floating-point noise has more bits near 0 than elsewhere, and loses them when it is added to a
# large number. So the last bits can reveal outputs that are impossible on one dataset
# [Mironov2012].

MOST_EXAMINED = 8  # numbers of an answer that are examined

# Range of the exponent of the last nonzero bit; others are clipped to it.
LOWEST, HIGHEST = -198, 55
ZERO, NO_NUMBER = 254, 255  # codes of zero and of non-finite numbers
MINUS = 64  # added to the number of used bits of negative numbers


class Bits:
    """Two columns for each number: the exponent of its last bit, and the number of used bits."""

    columns: ClassVar[Columns] = "codes"

    def see(self, answers: Any) -> HostArray:
        """Return the codes of both columns, shape [n, 2 × numbers]."""
        numbers = first(answers, MOST_EXAMINED).astype(np.float64)
        good = np.isfinite(numbers)
        fraction, exponent = np.frexp(np.where(good, numbers, 0.0))
        whole = np.abs(np.ldexp(fraction, 53)).astype(np.int64)
        last = whole & -whole
        zeros = np.frexp(last.astype(np.float64))[1] - 1
        lowest = np.clip(exponent - 53 + zeros, LOWEST, HIGHEST) - LOWEST
        used = np.where(whole > 0, 53 - zeros, 0) + MINUS * (numbers < 0)
        lowest = np.where(whole > 0, lowest, ZERO)
        codes = np.concatenate([lowest, used], axis=1)
        return np.where(np.tile(good, 2), codes, NO_NUMBER).astype(np.uint8)

    def describe(self, column: int, number: int, codes: list[int], rest: list[int]) -> str:
        """Describe the codes, as multiples of powers of two if possible."""
        width = width_of(number, lambda w: 2 * w, MOST_EXAMINED)
        name = output(column % width, width)
        if column >= width:
            used = [f"{c % MINUS}{' (negative)' * (c >= MINUS)}" for c in codes if c != NO_NUMBER]
            none = ["no finite"] * (NO_NUMBER in codes)
            return f"{name} uses {listed(used + none)} bits"
        powers = sorted(code + LOWEST for code in codes if code < ZERO)
        others = [code + LOWEST for code in rest if code < ZERO]
        parts = [f"{name} is 0"] * (ZERO in codes)
        parts += [f"{name} is not a finite number"] * (NO_NUMBER in codes)
        if powers and all(other > powers[-1] for other in others):
            parts.insert(0, f"{name} is not a multiple of 2^{powers[-1] + 1}")
        elif powers and all(other < powers[0] for other in others):
            parts.insert(0, f"{name} is a multiple of 2^{powers[0]}")
        elif powers:
            parts.insert(0, f"the last bit of {name} is {listed([f'2^{p}' for p in powers])}")
        return " or ".join(parts)


MOST_EQUALITIES = 12  # numbers of an answer that are compared with each other
MOST_COUNTED = 1024  # numbers of an answer among which different ones are counted

# Functions of the other numbers with which each number is compared.
OTHERS = ("sum", "mean", "largest", "smallest")
ABSENT = 2  # code if one of the two is NaN


def _names(width: int) -> list[str]:
    """Describe the equality of each column but the last."""
    two = itertools.combinations(range(width), 2)
    names = [f"{output(i, width)} equals {output(j, width)}" for i, j in two]
    if width > 2:
        names += [
            f"{output(i, width)} equals the {of} of the other outputs"
            for of in OTHERS
            for i in range(width)
        ]
    return names


class Equalities:
    """One column for each comparison, and one for the number of different numbers."""

    columns: ClassVar[Columns] = "codes"

    def see(self, answers: Any) -> HostArray:
        """Return 1 for equality; in the last column the number of different numbers."""
        numbers = first(answers, MOST_EQUALITIES)
        width = numbers.shape[1]
        left, right = np.triu_indices(width, 1)
        columns = [_equal(numbers[:, left], numbers[:, right])]
        if width > 2:
            with np.errstate(invalid="ignore", over="ignore"):
                columns += [_equal(numbers, rest) for rest in _of_the_others(numbers)]
        columns.append(_different(np.asarray(answers.numbers)[:, :MOST_COUNTED])[:, None])
        return np.concatenate(columns, axis=1).astype(np.uint8)

    def describe(self, column: int, number: int, codes: list[int], rest: list[int]) -> str | None:
        """Describe the codes, for example "output 3 equals output 7"."""
        if column == number - 1:
            counts = f"{min(codes)}" if len(codes) == 1 else f"{min(codes)} to {max(codes)}"
            one = counts == "1"
            return f"there {'is' if one else 'are'} {counts} different number{'' if one else 's'}"
        width = width_of(number, lambda w: len(_names(w)) + 1, MOST_EQUALITIES)
        name = _names(width)[column]
        if 1 in codes and 0 not in codes:
            return name + (", or one of them is not a number" if ABSENT in codes else "")
        if codes == [ABSENT]:
            return f"a number is missing on one side of: {name}"
        return negated(name)


def _equal(one: HostArray, other: HostArray) -> HostArray:
    return np.where(np.isnan(one) | np.isnan(other), ABSENT, one == other)


def _of_the_others(numbers: HostArray) -> list[HostArray]:
    """Return the sum, mean, largest and smallest of the others, for each number."""
    none = np.isnan(numbers)
    columns = []
    for place in range(numbers.shape[1]):
        part, gap = (np.delete(of, place, axis=1) for of in (numbers, none))
        total = np.where(gap, 0.0, part).sum(axis=1)
        mean = total / np.maximum((~gap).sum(axis=1), 1)
        largest = np.where(gap, -np.inf, part).max(axis=1)
        smallest = np.where(gap, np.inf, part).min(axis=1)
        columns.append([total, mean, largest, smallest])
    return [np.stack(of, axis=1) for of in zip(*columns, strict=True)]


def _different(numbers: HostArray) -> HostArray:
    """Count the different numbers of an answer, up to 255."""
    if numbers.shape[1] < 2:
        return np.ones(len(numbers), np.uint8)
    rows = np.sort(numbers, axis=1)  # NaN, which also marks absent numbers, comes last
    new = (rows[:, 1:] != rows[:, :-1]) & ~np.isnan(rows[:, 1:])
    counts: HostArray = np.minimum(new.sum(axis=1) + ~np.isnan(rows[:, 0]), 255).astype(np.uint8)
    return counts


EDGES = 80  # largest number of interval ends; NaN has a category of its own after the last
ATOMS = 8  # largest number of frequent values, each of which is an interval
OFTEN = 3  # mean occurrences of a value that make every value an interval
EACH = 5  # approximate draws of an interval, if draws are few
RARE = 50  # inverse of the least share of a frequent value
FURTHEST = 8.0  # standard deviations at which numbers in a weighted sum are clipped


def edges_of(numbers: HostArray) -> tuple[Floats, bool]:
    """Choose intervals for numbers: at ranks close together in both tails, and around atoms.

    Returns:
        The ascending edges, infinite in empty places, and True if there are no atoms, so that
        neighbouring intervals have similar densities.
    """
    padded = np.full(EDGES, np.inf)
    seen = np.sort(numbers[~np.isnan(numbers)])
    if not len(seen):
        return padded, False
    values, counts = np.unique(seen, return_counts=True)
    if len(values) <= EDGES // 2 and len(seen) >= OFTEN * len(values):
        edges: Any = values
        smooth = False
    else:
        often = np.argsort(-counts, kind="stable")[:ATOMS]
        atoms = values[often[counts[often] >= max(3, len(seen) // RARE)]]
        number = int(np.clip(len(seen) // EACH, 3, EDGES - 2 * ATOMS)) // 2
        ranks = np.geomspace(max(1, len(seen) / 200), len(seen) / 2, number + 1).astype(int)
        ends = [seen[ranks[:-1] - 1], seen[[len(seen) // 2]], seen[-ranks[:-1]]]
        with np.errstate(over="ignore"):  # after the largest float
            after = np.nextafter(atoms, np.inf)
        edges = np.unique(np.concatenate([*ends, atoms, after]))
        smooth = not len(atoms)
    padded[: len(edges)] = edges[:EDGES]
    return padded, smooth


def categories(edges: Any, numbers: Any) -> Any:
    """Return the interval of each number, below EDGES + 2; the last one is NaN."""
    at = np.searchsorted(edges, numbers, side="right")
    # Infinity is above all edges; `minimum` keeps it apart from NaN.
    return np.where(np.isnan(numbers), EDGES + 1, np.minimum(at, EDGES))


def smoothed(counts: Any) -> Any:
    """Add half of the counts of both neighbours, because densities change little between them.

    Counts have shape [..., EDGES + 2]; the last, NaN, has no neighbours.
    """
    smooth = counts.astype(np.float64)
    plain = counts[..., : EDGES + 1] / 2
    smooth[..., 1 : EDGES + 1] += plain[..., :-1]
    smooth[..., :EDGES] += plain[..., 1:]
    # An interval without any draw gets no counts.
    return np.where(counts.sum(axis=-2, keepdims=True) > 0, smooth, 0.0)


def weights(sides: Sequence[HostArray]) -> dict[str, Floats]:
    """Return standardisation and weights of the direction from D to D′; rows have shape [n, k]."""
    plain = [np.where(np.isfinite(part), part, np.nan) for part in sides]
    both = np.concatenate(plain)
    there = np.isfinite(both)
    count = np.maximum(there.sum(axis=0), 1)
    filled = np.where(there, both, 0.0)
    with np.errstate(all="ignore"):
        centre = filled.sum(axis=0) / count
        spread = np.sqrt(np.where(there, np.square(filled - centre), 0.0).sum(axis=0) / count)
        spread = np.where((spread > 0) & np.isfinite(spread), spread, 1.0)
        centre = np.where(np.isfinite(centre), centre, 0.0)
        means = [_standard(part, centre, spread).mean(axis=0) for part in plain]
    return {"centre": centre, "spread": spread, "weights": means[1] - means[0]}


def weighted(state: dict[str, Any], rows: Any) -> Any:
    """Return the weighted sum of rows, shape [n]; a non-finite entry counts as the mean."""
    standard = _standard(rows, state["centre"], state["spread"])
    return standard @ state["weights"]


def _standard(rows: Any, centre: Any, spread: Any) -> Any:
    there = np.isfinite(rows)
    scaled = np.clip((np.where(there, rows, centre) - centre) / spread, -FURTHEST, FURTHEST)
    return np.where(there, scaled, 0.0)


@dataclasses.dataclass(frozen=True)
class Kinds:
    """The kind of an answer or, if `exact`, its exact value."""

    exact: bool = False
    columns: ClassVar[Columns] = "hashes"

    def see(self, answers: Any) -> HostArray:
        """Return the first half of each code; two codes collide with probability 2⁻³²."""
        codes = np.asarray(answers.values if self.exact else answers.kinds, np.uint64)
        return (codes >> np.uint64(32)).astype(np.uint32)[:, None]

    def describe(self, column: int, number: int, codes: list[int], words: Mapping[int, str]) -> str:
        """Describe the codes by the texts in `words`."""
        known = {code >> 32: text for code, text in words.items()}
        texts = [known[code] for code in codes if code in known]
        if more := len(codes) - len(texts):
            what = "answer" if self.exact else "kind"
            some = f"{what} that was" if more == 1 else f"of {more} {what}s that were"
            texts.append(f"one {some} not stored")
        if self.exact:
            return f"is {listed(texts)}"
        raised = [text for text in texts if text.startswith("raises ")]
        given = [text for text in texts if not text.startswith("raises ")]
        parts = [listed(raised)] if raised else []
        return " or ".join([*parts, *([plain.event_of_kind(listed(given))] if given else [])])


# Labels are grouped by their value modulo GROUPS; texts are represented by a hash. So a few labels
# are usually in different groups, and many labels share groups.
GROUPS = 32
MOST_LABELS = 2048  # outputs that are examined
LARGEST = 2.0**53  # all larger floats are whole numbers


class Labels:
    """The counts of labels among the outputs, and the first place of each.

    A label is a text, a boolean or a whole number. Answers with one output are not examined,
    because the view of exact values sees as much.
    """

    columns: ClassVar[Columns] = "numbers"
    sums: ClassVar[bool] = True
    beside: ClassVar[int] = GROUPS

    def see(self, answers: Any) -> HostArray:
        """Return the counts and first places of each group, and its first label.

        Places count from 1; a group without a label has the place after the last and the label NaN.
        """
        numbers = np.asarray(answers.numbers, np.float64)[:, :MOST_LABELS]
        n, width = numbers.shape
        if width < 2:
            return np.zeros((n, 1 + GROUPS))
        with np.errstate(invalid="ignore"):
            whole = (np.abs(numbers) < LARGEST) & (numbers == np.floor(numbers))
        groups: Ints = np.where(whole, numbers, 0.0).astype(np.int64) % GROUPS
        rows = np.broadcast_to(np.arange(n)[:, None], numbers.shape)
        places = np.broadcast_to(np.arange(width), numbers.shape)
        at = (rows * GROUPS + groups)[whole]
        counts = np.bincount(at, minlength=n * GROUPS).reshape(n, GROUPS)
        earliest = np.full(n * GROUPS, width)
        np.minimum.at(earliest, at, places[whole])
        first = earliest.reshape(n, GROUPS)
        padded = np.column_stack([numbers, np.full(n, np.nan)])
        labels = np.take_along_axis(padded, first, axis=1)
        return np.concatenate([counts, first + 1.0, labels], axis=1)

    def name(self, column: int, number: int) -> str:
        """Name a column without its labels."""
        return self.name_of(column, ["a label of a group"])

    def name_of(self, column: int, labels: list[str]) -> str:
        """Name a column by the labels of its group."""
        if column < 0:
            return "a weighted sum of the counts and positions of labels"
        if column < GROUPS:
            return f"the number of times {listed(labels)} occurs"
        return f"the first position of {listed(labels)}"


def in_words(label: float, words: Mapping[int, str]) -> str:
    """Return the text whose code half is the label, else the label as a whole number."""
    known = {code >> 32: text for code, text in words.items()}
    return known.get(int(label), f"{label:.0f}")


MOST_NUMBERS = 8192  # largest number of numbers of an answer
FRACTIONS = 8  # numbers whose fractional part is examined too


class Numbers:
    """The numbers, the fractions of the first few, and their sum."""

    columns: ClassVar[Columns] = "numbers"
    sums: ClassVar[bool] = True
    beside: ClassVar[int] = 0
    fractions: ClassVar[int] = FRACTIONS

    def see(self, answers: Any) -> HostArray:
        """Return the columns, shape [n, columns]."""
        numbers = first(answers, MOST_NUMBERS).astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            some = numbers[:, : self.fractions]
            columns = [numbers, some - np.floor(some)]
            if numbers.shape[1] > 1:
                columns.append(np.nansum(numbers, axis=1)[:, None])
        return np.concatenate(columns, axis=1)

    def name(self, column: int, number: int) -> str:
        """Name a column."""
        width = number
        if number > 1:
            width = width_of(number, lambda w: w + min(w, self.fractions) + (w > 1), MOST_NUMBERS)
        if column < 0:
            return "a weighted sum of the outputs"
        if column < width:
            return output(column, width)
        if column < width + min(width, self.fractions):
            return f"{output(column - width, width)} modulo 1"
        return "the sum of the outputs"


class Thresholds(Numbers):
    """The numbers and their sum."""

    fractions: ClassVar[int] = 0


MOST_RESIDUES = 4  # numbers of an answer that are examined, besides the sum of all
DIVISORS = range(2, 17)
NO_WHOLE = 255  # code of other numbers
SIGNS = ("negative", "zero", "positive")


class Residues:
    """A column for each number and each divisor: the residue and the sign."""

    columns: ClassVar[Columns] = "codes"

    def see(self, answers: Any) -> HostArray:
        """Return the codes, 3 × residue + sign."""
        numbers = first(answers, MOST_RESIDUES)
        if numbers.shape[1] > 1:
            with np.errstate(invalid="ignore", over="ignore"):
                numbers = np.column_stack([numbers, np.nansum(answers.numbers, axis=1)])
        with np.errstate(invalid="ignore"):
            whole = (np.abs(numbers) < 2.0**53) & (numbers == np.floor(numbers))
        integers = np.where(whole, numbers, 0).astype(np.int64)
        signs = np.sign(integers) + 1
        codes = [np.where(whole, 3 * (integers % d) + signs, NO_WHOLE) for d in DIVISORS]
        columns = len(DIVISORS) * numbers.shape[1]
        return np.stack(codes, axis=2).reshape(len(numbers), columns).astype(np.uint8)

    def describe(self, column: int, number: int, codes: list[int], rest: list[int]) -> str:
        """Describe the codes, for example "positive and 0 modulo 3"."""
        width = width_of(number, lambda w: (w + (w > 1)) * len(DIVISORS), MOST_RESIDUES)
        place, at = divmod(column, len(DIVISORS))
        name = "the sum of the outputs" if place == width else output(place, width)
        by: dict[int, list[int]] = {}
        for code in codes:
            by.setdefault(code // 3 if code < NO_WHOLE else NO_WHOLE, []).append(code % 3)
        parts: list[str] = []
        for residue, signs in sorted(by.items()):
            if residue == NO_WHOLE:
                parts.append("not a whole number")
                continue
            sign = "" if len(signs) == 3 else f"{'/'.join(SIGNS[s] for s in signs)} and "
            parts.append(f"{sign}{residue} modulo {DIVISORS[at]}")
        return f"{name} is {listed(parts)}"


class Spread:
    """The spread and size of the numbers of an answer."""

    columns: ClassVar[Columns] = "numbers"
    sums: ClassVar[bool] = False
    beside: ClassVar[int] = 0

    NAMES = (
        "the standard deviation of the outputs",
        "the range of the outputs",
        "the sum of the absolute values of the outputs",
        "the Euclidean norm of the outputs",
        "the largest absolute value of the outputs",
        "the mean of the outputs",
        "the largest output",
        "the smallest output",
    )

    def see(self, answers: Any) -> HostArray:
        """Return one column for each name; NaN if an answer has no finite number."""
        numbers = first(answers, None)
        there = np.isfinite(numbers)
        count = there.sum(axis=1)
        plain = np.where(there, numbers, 0.0)
        size = np.abs(plain)
        largest = np.where(there, numbers, -np.inf).max(axis=1)
        smallest = np.where(there, numbers, np.inf).min(axis=1)
        with np.errstate(all="ignore"):
            mean = plain.sum(axis=1) / count
            from_mean = np.where(there, numbers - mean[:, None], 0.0)
            columns = [
                np.sqrt(np.square(from_mean).sum(axis=1) / count),
                largest - smallest,
                size.sum(axis=1),
                np.sqrt(np.square(plain).sum(axis=1)),
                size.max(axis=1),
                mean,
                largest,
                smallest,
            ]
        return np.where(count[:, None] > 0, np.stack(columns, axis=1), np.nan)

    def name(self, column: int, number: int) -> str:
        """Name a column."""
        return "a weighted sum of spreads" if column < 0 else self.NAMES[column]


class Time:
    """The time of each answer on this machine."""

    columns: ClassVar[Columns] = "numbers"
    sums: ClassVar[bool] = False
    beside: ClassVar[int] = 0

    def see(self, answers: Any) -> HostArray:
        """Return the times in seconds, shape [n, 1]."""
        return np.asarray(answers.seconds, np.float64)[:, None]

    def name(self, column: int, number: int) -> str:
        """Name the column."""
        return "the time of the answer, in seconds,"
