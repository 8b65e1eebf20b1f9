"""Find the event by which a pair leaks, name it, and recognise known leaks."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpframe.count.events import Seen
from dpframe.interfaces.attack import Attack
from dpframe.interfaces.pair import Neighbourhood
from dpframe.interfaces.plugin_calls import call_plugin
from dpframe.search import arms, wealth
from dpframe.spec.audit import Choice
from dpframe.stats.betting import events

SIMILAR_SHARE = 0.9  # share of the largest distance from a claim that counts as equally far


class Leak(NamedTuple):
    """The most telling event of a pair."""

    attack: int  # number of the attack
    event: str  # in words
    more_likely: int  # dataset under which the event is more likely
    hits: tuple[int, int]  # on D, on D′
    loss: float  # loss that the counts show
    number: int  # of the event, among those of the pair
    has_words: bool  # True if the attack has words for the event


def leak_of(
    arm: arms.Arm,
    attacks: Sequence[Choice[Attack]],
    words: Mapping[int, str],
    about: tuple[float, float],
    *,
    refuted: bool,
) -> Leak:
    """Return the most telling event of a pair; if the claim is refuted, one farthest outside it.

    `about` has δ of the loss and the resolution of the sampler.
    """
    number, loss = most_telling(arm.seen, *about)
    if refuted and (clear := clearest(arm.seen, arm.points)) is not None:
        number = clear
    place, description, scores, side = arm.event(number, words)
    (multiplied, other) = events(*arm.seen[:2])[number]
    hits = (int(multiplied), int(other)) if side else (int(other), int(multiplied))
    event = description or f"{attacks[place].label} {scores}"
    return Leak(place, event, side, hits, loss, number, description is not None)


_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|“[^”]*”")
# Numbers, but not those of lines, as in mean.py:14, or inside names.
_NUMBER = re.compile(r"(?<![:\w])[-+−]?\d[\d_]*(\.\d+)?([eE][-+]?\d+)?")


# Chance decides which end of a range an event names.
_SIDES = "below|less than|under|above|more than|over|at least|at most|between|from|to"
_SIDE = re.compile(rf"(?:(?:{_SIDES}) )*#(?: or (?:more|less))?")
_SEVERAL = re.compile(r"#(?:(?: | or | and |, )#)+")


def without_values(text: str) -> str:
    """Return a text with # for every value or range in it: numbers and quoted texts."""
    plain = _NUMBER.sub("#", _QUOTED.sub("#", text))
    return _SEVERAL.sub("#", _SIDE.sub("#", plain))


def name_of(leak: Leak, arm: arms.Arm, neighbourhood: Neighbourhood) -> str:
    """Name a leak: the event without its values, and the optional features of its pair.

    Leaks with the same name count as one.
    """
    features = call_plugin("needs", lambda: list(neighbourhood.needs(arm.pair)))
    return " · ".join([without_values(leak.event), *map(str, features)])


class KnownLeaks:
    """The leaks that a search sets aside: those it has listed, and those that the spec ignores."""

    def __init__(self, ignored: Sequence[str]) -> None:
        self._ignored, self._listed = ignored, set[str]()

    def __bool__(self) -> bool:
        return bool(self._ignored or self._listed)

    def add(self, name: str) -> None:
        """Set a leak aside from now on."""
        self._listed.add(name)

    def has(self, name: str) -> bool:
        """True if a leak is known."""
        return name in self._listed or any(is_of(part, name) for part in self._ignored)


def is_of(part: str, name: str) -> bool:
    """True if an entry of `[search] ignore` is a part of a leak's name."""
    return without_values(part) in name


def clearest(seen: Seen, points: Sequence[wealth.Point]) -> int | None:
    """Return the first event nearly as far outside a claim as any; None if all are inside.

    Attacks are in the order of the spec, the plainest first.
    """
    shares = (events(*seen[:2]) + 0.5) / (seen.trials + 1)
    q, p = shares.T
    zs = [
        (p - math.exp(e) * q - d) / np.sqrt(math.exp(2 * e) * q * (1 - q) + p * (1 - p))
        for e, d in points
    ]
    if not zs or not len(q):
        return None
    best = np.max(zs, axis=0)
    if best.max() <= 0:
        return None
    cuts = seen.above.shape[1]
    near = np.flatnonzero(best >= SIMILAR_SHARE * best.max())
    return int(min(near, key=lambda number: (number % cuts, number)))


def most_telling(seen: Seen, delta: float, resolution: float = 0.0) -> tuple[int, float]:
    """Return the event with the largest loss minus two standard errors of its logarithm.

    Without the standard errors, events with a few draws on one side only would win by chance.

    Returns:
        Its number, and the loss that its counts show.
    """
    loss, least = wealth.least_losses(seen, delta, resolution)
    number = int(np.argmax(least))
    return number, float(max(0.0, loss[number]))
