"""Answers of a black box without noise, from its process to the run."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.workers.program.query_numbers import numbers, told
from dpframe.workers.program.sampling import Refused, Sampler

if TYPE_CHECKING:
    from collections.abc import Sequence


class Queried(NamedTuple):
    """What a query gave on one dataset."""

    raised: str | None
    """The exception in words, with its numbers taken out; None if there was none."""
    form: str
    """How the answer is made up, in words."""
    numbers: tuple[int | float | Fraction, ...]
    """Exactly; NaN and infinities may be among them."""
    sensitivity: float | None = None
    """What the noise is made for, where a module in another interpreter says so."""


def ask(mechanism: Any, data: Any) -> tuple[dict[str, Any], bytes]:
    """Asks a mechanism for its query.

    Args:
        mechanism: one that gives `query`.
        data: a copy of the dataset, which is nobody else's.

    Returns:
        Header and content of a frame.

    Raises:
        Refused: it gave something else than numbers.
    """
    header: dict[str, Any] = {"tell": "queried", "raised": None, "form": ""}
    try:
        answer = mechanism.query(data)
    except (Exception, SystemExit) as error:
        return {**header, "raised": told(error)}, b"[]"
    try:
        form, found = numbers(answer)
    except TypeError as error:
        raise Refused(str(error)) from None
    return {**header, "form": form}, json.dumps(found).encode()


def asked_of(sampler: Sampler, wanted: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The same of a box with its data.

    Args:
        sampler: the box with its data.
        wanted: `data`, which dataset is meant.
    """
    try:
        return ask(sampler.mechanisms[0], sampler.handouts[wanted["data"]].copy())
    finally:
        if os.getpid() != sampler.process:  # a fork of the box came back too
            os._exit(0)


def heard(header: dict[str, Any], content: bytes | bytearray) -> Queried:
    """What stands in a frame."""
    found = _read(json.loads(bytes(content)))
    said = header.get("sensitivity")
    sensitivity = None if said is None else float(_number(said))
    return Queried(header["raised"], header["form"], found, sensitivity)


def _read(texts: Sequence[str]) -> tuple[int | float | Fraction, ...]:
    return tuple(map(_number, texts))


def _number(text: str) -> int | float | Fraction:
    if "/" in text:
        return Fraction(text)
    if "x" in text or "n" in text:  # inf and nan have an n
        return float.fromhex(text)
    return int(text)
