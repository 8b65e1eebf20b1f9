"""Claims about Rényi divergences or events of dp-accounting, and claims written as text."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from dpframe.claims.claim import Claim, check_parameter
from dpframe.common.text import typographic
from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from collections.abc import Callable

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
    The accountant rounds pessimistically, so it never underestimates the loss. For a claim this is
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
    # The accountant walks over all losses above ε, in Python: down to 0 takes longest.
    return float(_composed(claim).get_epsilon(delta)) if delta < _delta(claim, 0.0) else 0.0


@functools.lru_cache(maxsize=4096)
def _delta(claim: AccountedDP, epsilon: float) -> float:
    return min(1.0, max(0.0, float(_composed(claim).get_delta(epsilon))))


@functools.lru_cache(maxsize=64)  # every cell of an audit makes its own claim
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
    parts = [part.strip() for part in text.split(",")]
    for place, part in enumerate(parts):
        name, _, number = (piece.strip() for piece in part.partition("="))
        try:
            values[name] = float(number)
        except ValueError:
            advice = _slip(parts, place) or typographic(part)
            raise DpframeError(
                f"--claim {text}: {part!r} is not NAME=NUMBER"
                f"{advice and f'; {advice}'}\n   {accepts}"
            ) from None
    kind = next((cls for names, cls in kinds.items() if set(names) == set(values)), None)
    if kind is None:
        close = [f"{_SHORT[name]}={value:g}" for name, value in values.items() if name in _SHORT]
        hint = f"; use {','.join(close)}" if close else ""
        raise DpframeError(
            f"--claim {text}: no claim takes {', '.join(values)}{hint}\n   {accepts}"
        )
    try:
        return kind(**values)
    except ValueError as error:
        raise DpframeError(f"--claim {text}: {error}") from error


_SHORT = {"eps": "epsilon", "ε": "epsilon", "δ": "delta", "μ": "mu", "ρ": "rho"}


def _slip(parts: list[str], place: int) -> str:
    """Name the mistake in a part of a claim that has no name, with the remedy; "" if unknown."""
    if not re.fullmatch(r"\d+(\.\d+)?(e[+-]?\d+)?", parts[place]):
        return ""
    if place and re.search(r"=\s*\d+$", parts[place - 1]):
        return f"this looks like a decimal comma; write {parts[place - 1]}.{parts[place]}"
    named = zip(("epsilon", "delta"), parts, strict=False)
    return f"use --claim {','.join(f'{name}={number}' for name, number in named)}"


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


# Claims about Rényi divergences.
#
# They become (ε, δ) by proposition 12 of [CanonneKS2020]: if D_α ≤ ε_α then δ(ε) ≤ exp((α −
# 1)(ε_α − ε)) (1 − 1/α)^{α−1} / α. Near ε = 0 the total variation distance says more. It is at
# most √(KL/2) (Pinsker) and √(1 − e^{−KL}) [Bretagnolle1979], and KL is at most every D_α of an
# order above 1.


GRID_POINTS = 2000  # points from which the curve of zero-concentrated DP is made
SMALLEST_LOG_DELTA = -745.0  # of a float64


@dataclasses.dataclass(frozen=True)
class RenyiDP(Claim):
    """(α, ε)-Rényi differential privacy [Mironov2017]: D_α ≤ ε in both directions, at one order.

    ε(δ), δ(ε) and the curve come from conversions that are not tight, so a verdict is lenient.
    At δ = 0 ε is infinite, unless the divergence is 0.

    Raises:
        ValueError: the order is not above 1 and finite, or ε is negative or not finite.
    """

    order: float
    epsilon: float
    kind: ClassVar[str] = "renyi-dp"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.order) and self.order > 1):
            raise ValueError(f"a claimed order must be finite and above 1, got {self.order}")
        check_parameter("epsilon", self.epsilon)

    def epsilon_at(self, delta: float) -> float:
        if delta >= _total_variation(self.epsilon):
            return 0.0
        return (
            max(0.0, _renyi_epsilon(self.order - 1, self.epsilon, delta)) if delta > 0 else math.inf
        )

    def delta_at(self, epsilon: float) -> float:
        return _renyi_delta(self.order - 1, self.epsilon, epsilon)


@dataclasses.dataclass(frozen=True)
class ZeroConcentratedDP(Claim):
    """ρ-zero-concentrated differential privacy [Bun2016]: D_α ≤ ρα for all α > 1.

    ε(δ), δ(ε) and the curve come from the best order. At δ = 0 ε is infinite, unless ρ = 0.

    Raises:
        ValueError: ρ is negative or not finite.
    """

    rho: float
    kind: ClassVar[str] = "zero-concentrated-dp"

    def __post_init__(self) -> None:
        check_parameter("rho", self.rho)

    # With b = α − 1, the best order for ε solves (2b + 1)ρ + ln(b/(1 + b)) = ε, and there ln δ is
    # −ρb² − ln(1 + b). Both are monotone, and every order is valid, so an inexact root only makes ε
    # and δ larger.

    def epsilon_at(self, delta: float) -> float:
        if delta >= _total_variation(self.rho):
            return 0.0
        return _zero_concentrated_epsilon(self.rho, delta) if delta > 0 else math.inf

    def delta_at(self, epsilon: float) -> float:
        rho = self.rho
        b = _root(lambda b: (2 * b + 1) * rho + math.log(b) - math.log1p(b) - epsilon)
        return min(_renyi_delta(b, rho * (1 + b), epsilon), _total_variation(rho))

    def _profile(self) -> tuple[Floats, Floats]:
        import numpy as np

        if self.rho == 0:
            return np.zeros(1), np.zeros(1)
        # From the order that is best at ε = 0 to that at the smallest δ of float64.
        low = _root(lambda b: (2 * b + 1) * self.rho + math.log(b) - math.log1p(b))
        high = max(math.sqrt(-SMALLEST_LOG_DELTA) / math.sqrt(self.rho), 2 * low)
        b = np.append(np.geomspace(low, high, GRID_POINTS), np.linspace(low, high, GRID_POINTS))
        epsilon = (2 * b + 1) * self.rho + np.log(b) - np.log1p(b)
        delta = np.exp(-self.rho * b * b) / (1 + b)
        return np.append(np.maximum(epsilon, 0.0), 0.0), np.append(delta, self.delta_at(0.0))


@functools.lru_cache(maxsize=4096)
def _zero_concentrated_epsilon(rho: float, delta: float) -> float:
    b = _root(lambda b: rho * b * b + math.log1p(b) + math.log(delta))
    return max(0.0, _renyi_epsilon(b, rho * (1 + b), delta))


def _renyi_epsilon(b: float, divergence: float, delta: float) -> float:
    """Return ε at δ from a divergence of order 1 + b."""
    return divergence + math.log(b) - math.log1p(b) - (math.log(delta) + math.log1p(b)) / b


def _renyi_delta(b: float, divergence: float, epsilon: float) -> float:
    """Return δ at ε from a divergence of order 1 + b."""
    log_delta = b * (divergence - epsilon + math.log(b) - math.log1p(b)) - math.log1p(b)
    return min(math.exp(min(0.0, log_delta)), _total_variation(divergence))


def _total_variation(divergence: float) -> float:
    """Bound the total variation distance from above."""
    return min(math.sqrt(divergence / 2), math.sqrt(-math.expm1(-divergence)))


def _root(rising: Callable[[float], float]) -> float:
    """Return the b > 0 above which an increasing function is positive, by bisection of ln b."""
    low, high = -700.0, 700.0
    while (middle := (low + high) / 2) not in (low, high):
        if rising(math.exp(middle)) > 0:
            high = middle
        else:
            low = middle
    return math.exp(high)
