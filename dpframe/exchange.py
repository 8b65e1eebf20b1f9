"""What plugins hand to each other: what an attack gives, and what an estimator takes."""

from __future__ import annotations

import contextlib
import inspect
import typing
from typing import TYPE_CHECKING, Any

from dpframe.attack import KINDS_OF_SCORES, Attack
from dpframe.estimator import Estimator
from dpframe.statistic import BinCounts, Statistic

if TYPE_CHECKING:
    from dpframe.plugin import Plugin


def exchange(cls: type[Plugin]) -> dict[str, Any]:
    """What a plugin class gives or takes, as JSON values; {} for a mechanism or a pair.

    An attack: `gives`, "decision", "score" or "canaries". An estimator: `takes`, those of them
    that its statistic accepts; `bins`, whether it counts scores in bins or above thresholds;
    `raw_scores`, whether it reads scores made elsewhere as they are; `certifies`, `assumption` and
    `reference`. What cannot be known without parameters is None.
    """
    if issubclass(cls, Attack):
        return {"gives": cls.gives}
    if not issubclass(cls, Estimator):
        return {}
    statistic = _statistic(cls)
    accepts = getattr(statistic, "accepts", None)
    return {
        "takes": None if accepts is None else [kind for kind in KINDS_OF_SCORES if kind in accepts],
        "bins": None if statistic is None else issubclass(statistic, BinCounts),
        "raw_scores": cls.estimate_scores is not Estimator.estimate_scores,
        "certifies": cls.certifies,
        "assumption": cls.assumption,
        "reference": cls.reference or None,
    }


def _statistic(cls: type[Estimator]) -> type[Statistic] | None:
    """Class of the statistic, with default parameters; else the one that the author annotated."""
    # An author's code, which needs parameters that have no default, or fails: both are no news.
    with contextlib.suppress(Exception, SystemExit):
        return type(cls().statistic())
    with contextlib.suppress(Exception):
        found = typing.get_type_hints(cls.statistic).get("return")
        if inspect.isclass(found) and issubclass(found, Statistic) and found is not Statistic:
            return found
    return None
