"""Find the event by which a pair leaks, name it, and recognise known leaks."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpframe.count.events import AMONG, Seen
from dpframe.draw.worker.codes import RAISES, code_of_kind, code_of_trace
from dpframe.interfaces.attack import Attack
from dpframe.interfaces.pair import Neighbourhood
from dpframe.interfaces.plain import event_of_kind
from dpframe.interfaces.plugin_calls import call_plugin
from dpframe.search import arms, wealth
from dpframe.spec.audit import Choice

VARIANT = 1.5  # factor by which a variant of a leak may have a larger loss


class Leak(NamedTuple):
    """The most telling event of a pair."""

    attack: int  # number of the attack
    event: str  # in words
    more_likely: int  # dataset under which the event is more likely
    hits: tuple[int, int]  # on D, on D′
    loss: float  # loss that the counts show
    most: float  # the same, two standard errors larger
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

    If the claim is refuted and kinds of answers leak by themselves, the event is one of these.

    `about` has δ of the loss and the resolution of the sampler.
    """
    number, loss, most = most_telling(arm.seen, *about)
    if refuted and (clear := wealth.clearest(arm.seen, arm.points)) is not None:
        number = clear
    place, description, scores, side = arm.event(number, words)
    beyond, column = divmod(number, arm.seen.above.shape[1])
    above = arm.seen.above[:, column]
    hits: Any = tuple((above if beyond in (0, 2) else arm.seen.inside - above).tolist())
    event = description or f"{attacks[place].label} {scores}"
    if refuted and (leaked := arm.leaked_kinds()) is not None:
        texts = [words.get(kind, "another kind") for kind in leaked[0].tolist()]
        texts = [text if text.startswith(RAISES) else event_of_kind(text) for text in texts]
        description = event = _short(texts) + "".join(event.partition(AMONG)[1:])
        hits, side = leaked[1], int(leaked[1][1] > leaked[1][0])
    return Leak(place, event, side, hits, loss, most, number, description is not None)


def _short(kinds: Sequence[str]) -> str:
    """List kinds of answers; of those that differ in numbers only, the first and how many more."""
    alike: dict[str, list[str]] = {}
    for kind in kinds:
        alike.setdefault(without_values(kind), []).append(kind)
    return " or ".join(
        same[0] if len(same) == 1 else f"{same[0]} or {len(same) - 1} like it"
        for same in alike.values()
    )


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


FEATURES = " · "  # in a leak's name, before each optional feature of its pair

_RAISED = re.compile(r"raises? (\S+) at (\S+:\d+)(?: in (\S+))?")
_STEP = re.compile(r"(\S+):\d+ in (\w*(?:valid|check|verif|ensure|assert|sanit)\w*)")
_NOT_FINITE = re.compile(r"\b(?:nan|inf|not a (?:finite )?number)\b", re.IGNORECASE)
_OF_OUTPUTS = re.compile(
    r"^is (?!-?(?:nan|inf)\b)|\b(?:outputs?|spreads)(?: #)?(?: modulo #)? is (?:not )?#"
)


def name_of(
    leak: Leak, arm: arms.Arm, neighbourhood: Neighbourhood, words: Mapping[int, str]
) -> str:
    """Name a leak: the event without its values, and the optional features of its pair.

    To the line of an exception is added the function that checks the data, if there is one.
    """
    event = leak.event.partition(AMONG)[0]
    for raised in {found[0] for found in _RAISED.finditer(event)}:
        steps = words.get(code_of_trace(code_of_kind(raised)), "").rpartition(" (")[2]
        if (step := _STEP.search(steps)) is not None:
            event = event.replace(raised, f"{raised} in {step[1]}:{step[2]}")
    features = call_plugin("needs", lambda: list(neighbourhood.needs(arm.pair)))
    return FEATURES.join([without_values(event), *map(str, features)])


def roots_of(name: str) -> frozenset[str]:
    """Return the roots of a leak, given its name: leaks with a common root count as one.

    A root is a line that raises or a function that checks the data, answers that are not finite,
    sizes of answers, or values of outputs. With optional features of the pair it is another one.
    """
    event, *features = name.split(FEATURES)
    beyond = FEATURES if features else ""
    if raised := _RAISED.findall(event):
        return frozenset(function or line for _, line, function in raised)
    if _OF_OUTPUTS.search(event):
        event = "outputs"
    elif _NOT_FINITE.search(event):
        event = "not finite"
    elif event.startswith(("returns ", "does not return ")) and "#" in event:
        return frozenset(["size"])
    return frozenset([event + beyond])


class KnownLeaks:
    """The leaks that a search sets aside: those it has listed, and those that the spec ignores."""

    def __init__(self, ignored: Sequence[str]) -> None:
        self._ignored = ignored
        whole = [part for part in ignored if FEATURES in part or _RAISED.search(part)]
        # With the largest losses that listed ones may have.
        self._roots = {root: 0.0 for name in whole for root in roots_of(without_values(name))}

    def __bool__(self) -> bool:
        return bool(self._ignored or self._roots)

    def add(self, name: str, most: float) -> None:
        """Set a leak aside from now on; `most` is the largest loss that it may have."""
        self._roots |= dict.fromkeys(roots_of(name), most)

    def has(self, name: str, most: float) -> bool:
        """True if a leak is known, or a variant of one, of the same root."""
        # With optional features of its pair it is one if the loss is hardly larger than without.
        roots = roots_of(name)
        plain = (self._roots.get(root.removesuffix(FEATURES), 0.0) for root in roots)
        known = not self._roots.keys().isdisjoint(roots) or most < VARIANT * max(plain)
        return known or any(is_of(part, name) for part in self._ignored)


def is_of(part: str, name: str) -> bool:
    """True if an entry of `[search] ignore` is a part of a leak's name."""
    return without_values(part) in name


def most_telling(seen: Seen, delta: float, resolution: float = 0.0) -> tuple[int, float, float]:
    """Return the event with the largest loss minus two standard errors of its logarithm.

    Without the standard errors, events with a few draws on one side only would win by chance.

    Returns:
        Its number, the loss that its counts show, and that plus two standard errors.
    """
    loss, least = wealth.least_losses(seen, delta, resolution)
    number = int(np.argmax(least))
    most = 2 * loss[number] - least[number] if loss[number] > 0 else 0.0
    return number, float(max(0.0, loss[number])), float(most)
