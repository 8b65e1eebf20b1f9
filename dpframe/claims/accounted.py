"""Claims that dp-accounting accounts for, and claims written as text."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from dpframe.claims.claim import Claim
from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from dp_accounting.pld import PLDAccountant

    from dpframe.common.types import Floats


DISCRETIZATION = 1e-4  # spacing of the grid of privacy losses, that of dp-accounting itself
POINTS = 4096  # points of the privacy profile from which the curve is made

Relation = Literal["add-or-remove-one", "replace-one", "replace-special"]


@dataclasses.dataclass(frozen=True)
class AccountedDP(Claim):
    """The privacy loss distribution of a dp-accounting event.

    Events are Gaussian, Laplace and other mechanisms, Poisson samples of them, and compositions.
    The accountant rounds pessimistically, so it never finds too small a loss. For a claim this is
    the lenient side.

    Raises:
        ValueError: the accountant does not know the event, the discretization is not positive, or
            there is no such relation.
    """

    event: DpEvent
    """From `dp_accounting`; noise multipliers are in units of the sensitivity."""
    discretization: float = DISCRETIZATION
    """Spacing of the grid of privacy losses. Time and memory grow with its inverse; ε is too large
    by at most about that for a single release, and in total less than it times their number."""
    relation: Relation = "add-or-remove-one"
    """The accountant's neighbours; "replace-special" is add-or-remove with datasets
    of equal size."""
    kind: ClassVar[str] = "accounted-dp"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.discretization) and self.discretization > 0):
            raise ValueError(
                f"the discretization must be finite and positive, got {self.discretization}"
            )
        if self.relation not in get_args(Relation):
            raise ValueError(f"relation must be one of {get_args(Relation)}, got {self.relation!r}")
        if not _accountant(self).supports(self.event):
            raise ValueError(f"dp-accounting cannot account for {self.event} ({self.relation})")

    def __hash__(self) -> int:
        # A composed event holds a list, so it has no hash of its own.
        return hash((repr(self.event), self.discretization, self.relation))

    def epsilon_at(self, delta: float) -> float:
        return _epsilon(self, float(delta))

    def delta_at(self, epsilon: float) -> float:
        return _delta(self, float(epsilon))

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "event": repr(self.event)}

    def _profile(self) -> tuple[Floats, Floats]:
        return _points(self)


def _accountant(claim: AccountedDP) -> PLDAccountant:
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import PLDAccountant

    relation = NeighboringRelation[claim.relation.replace("-", "_").upper()]
    return PLDAccountant(relation, claim.discretization)


@functools.lru_cache(maxsize=64)
def _composed(claim: AccountedDP) -> PLDAccountant:
    accountant = _accountant(claim)
    accountant.compose(claim.event)
    return accountant


@functools.lru_cache(maxsize=4096)
def _epsilon(claim: AccountedDP, delta: float) -> float:
    return float(_composed(claim).get_epsilon(delta)) if delta < 1 else 0.0


@functools.lru_cache(maxsize=4096)
def _delta(claim: AccountedDP, epsilon: float) -> float:
    return min(1.0, max(0.0, float(_composed(claim).get_delta(epsilon))))


@functools.lru_cache(maxsize=64)  # every cell of an audit makes its claim anew
def _points(claim: AccountedDP) -> tuple[Floats, Floats]:
    import numpy as np

    finite = [d for d in claim.telling_deltas if claim.epsilon_at(d) < math.inf]
    if not finite:
        return np.zeros(0), np.zeros(0)
    grid = np.linspace(0.0, claim.epsilon_at(finite[0]), POINTS)
    deltas = np.asarray(_composed(claim).get_delta(grid.tolist()), np.float64)  # lists are faster
    return grid, np.clip(deltas, 0.0, 1.0)


# Claims in words, as the command line takes them: epsilon=1,delta=1e-5.


def read_claim(text: str) -> Claim:
    """Make a claim from its parameters, which also determine its kind.

    Args:
        text: NAME=NUMBER, separated by commas, for example "epsilon=1,delta=1e-5" or "mu=1".

    Raises:
        DpframeError: no claim has these parameters, or it refuses their values.
    """
    kinds = _kinds()
    accepts = "accepts: " + "; ".join(",".join(f"{n}=…" for n in names) for names in kinds)
    values: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        try:
            values[name] = float(number)
        except ValueError:
            raise DpframeError(
                f"--claim {text}: {part.strip()!r} is not NAME=NUMBER\n   {accepts}"
            ) from None
    found = next((cls for names, cls in kinds.items() if set(names) == set(values)), None)
    if found is None:
        raise DpframeError(f"--claim {text}: no claim takes {', '.join(values)}\n   {accepts}")
    try:
        return found(**values)
    except ValueError as error:
        raise DpframeError(f"--claim {text}: {error}") from error


def _kinds() -> dict[tuple[str, ...], type[Claim]]:
    """Return the claims whose parameters are numbers, by the names of the parameters."""
    from dpframe import claims

    exported: list[Any] = [getattr(claims, name) for name in claims.__all__]
    kinds: dict[tuple[str, ...], type[Claim]] = {}
    for cls in exported:
        if isinstance(cls, type) and issubclass(cls, Claim) and cls is not Claim:
            fields = [field for field in dataclasses.fields(cls) if field.init]  # type: ignore[arg-type]  # all claims are
            if all(field.type in ("float", float) for field in fields):
                kinds[tuple(field.name for field in fields)] = cls
    return dict(sorted(kinds.items()))
