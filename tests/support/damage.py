"""Ways in which a record goes wrong: by an editor, a full disk, a merge, or on purpose."""

from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Place = tuple[str | int, ...]

WRONG: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 10**30, 0.0, -0.5, 1e308, "", "inf", "nan", "\x1b[31m", "ε" * 1000,
    [], [[]], [None], {}, {"a": {}}, {"id": 1}, [1, 2, 3],
)  # fmt: skip


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Yield the paths of all JSON values, the containers too."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        yield (*at, key)
        yield from places(item, (*at, key))


def value_at(contents: Any, place: Place) -> Any:
    for key in place:
        contents = contents[key]
    return contents


def put(contents: Any, place: Place, value: Any) -> None:
    value_at(contents, place[:-1])[place[-1]] = value


def _delete(contents: Any, place: Place, rng: random.Random) -> None:
    del value_at(contents, place[:-1])[place[-1]]


def _retype(contents: Any, place: Place, rng: random.Random) -> None:
    put(contents, place, copy.deepcopy(rng.choice(WRONG)))


def _nudge(contents: Any, place: Place, rng: random.Random) -> None:
    """Another number, another word, another order, a copy."""
    value = value_at(contents, place)
    if isinstance(value, bool) or value is None:
        put(contents, place, not value)
    elif isinstance(value, int | float):
        others: list[Callable[[Any], Any]] = [
            lambda x: x + 1, lambda x: x - 1, lambda x: -x, lambda x: 2 * x, lambda x: x / 2,
            float, lambda x: x * (1 + 1e-6),
        ]  # fmt: skip
        put(contents, place, rng.choice(others)(value))
    elif isinstance(value, str):
        words = ("violated", "consistent", "inconclusive", "ok", "failed", value + " ", value[1:])
        put(contents, place, rng.choice(words))
    elif isinstance(value, list):
        put(contents, place, rng.choice((value[::-1], value + value[:1], value[1:], value * 2)))
    else:
        put(contents, place, {**value, "more": 1})


def _swap(contents: Any, place: Place, rng: random.Random) -> None:
    """The value of the same name in another place: two cells, two tables."""
    others = [
        p
        for p in places(contents)
        if p[-1] == place[-1] and p[: len(place)] != place and place[: len(p)] != p
    ]
    if others:
        other = rng.choice(others)
        mine, theirs = value_at(contents, place), value_at(contents, other)
        put(contents, place, theirs)
        put(contents, other, mine)


def damaged(text: str, rng: random.Random) -> bytes:
    """A record after one to three things went wrong.

    Args:
        text: the whole record.
        rng: decides what happens.
    """
    if rng.random() < 0.1:
        return _torn(text.encode(), rng)
    changed: Any = json.loads(text)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        # First how deep, then where: most places are points of curves.
        found = list(places(changed))
        depth = rng.randint(1, max(map(len, found)))
        place = rng.choice([p for p in found if len(p) <= depth])
        rng.choice((_delete, _retype, _nudge, _nudge, _swap))(changed, place, rng)
    return json.dumps(changed).encode()


def _torn(text: bytes, rng: random.Random) -> bytes:
    at, other = sorted(rng.randrange(len(text)) for _ in range(2))
    return rng.choice(
        (
            text[:at],
            text[at:],
            text[:at] + text[other:],
            text[:other] + text[at:],
            text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :],
            text[:at] + bytes(other - at) + text[other:],
        )
    )
