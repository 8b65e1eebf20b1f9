"""Exact tests of events that a correct training run hardly ever shows: batch sizes and noise."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import torch
from scipy import special
from torch import Tensor

from dpframe.stats.sampling import RARE, p_of_evenness, p_of_total

__all__ = [
    "RARE",
    "NoiseMeter",
    "norm_of",
    "p_of_evenness",
    "p_of_missing",
    "p_of_squares",
    "p_of_total",
]

NOISE_COORDINATES = 512  # of the gradient, in which the noise is measured
STEPS_AT_ONCE = 32  # examined together: fewer small operations, and less waiting for a GPU


def p_of_missing(missing: int, canaries: int, chance: float) -> float:
    """Bound the probability that at least this many canaries are in no batch.

    Each canary is in no batch with probability at most `chance`. exp(−n kl(missing/n ‖ chance))
    holds for negatively associated events, such as those of records in batches of given sizes
    [Panconesi and Srinivasan 1997].
    """
    share = missing / canaries
    if share <= chance:
        return 1.0
    rest = special.rel_entr(1 - share, 1 - chance) if chance < 1 else 0.0
    return math.exp(-canaries * float(special.rel_entr(share, chance) + rest))


def p_of_squares(squares: float, number: int) -> float:
    """Return the two-sided p-value of a sum of squares of standard normal variables."""
    rounding = 1e-3 * number  # of float32, at most
    above = special.chdtrc(number, max(0.0, squares - rounding))
    return min(1.0, 2 * float(min(above, special.chdtr(number, squares + rounding))))


def norm_of(optimizer: Any) -> float:
    """Return the clipping norm of a whole gradient; Opacus keeps a number, a tensor or a list."""
    norm = optimizer.max_grad_norm
    return math.hypot(*norm) if isinstance(norm, list | tuple) else float(norm)


class NoiseMeter:
    """The noise that Opacus's optimiser adds, measured in some coordinates of the gradient."""

    def __init__(self) -> None:
        self.number = 0
        self.squares = 0.0  # of the noise, in units of its claimed standard deviation
        self.by_step: list[tuple[int, float]] = []  # coordinates, and the squares of their noise
        self.pairs = 0  # of successive steps
        self.products = 0.0  # of their noise, in units of the earlier one's length
        self.silent = 0  # steps without noise although some is claimed
        self.kept: list[Tensor] = []  # noise of the last steps
        self.deviations: list[float] = []  # claimed for them
        self.last: Tensor | None = None
        self.claimed: set[float] = set()
        self.fingerprint: str | None = None  # of the first step's noise, as a digest of its signs
        self.clip = 0.0  # the norm before a step, for adaptive clipping
        self.looks = 0  # at single parameters, one after the other
        self.parts: dict[int, tuple[int, Tensor]] = {}  # coordinates of each, squares of its noise

    def start(self, optimizer: Any) -> None:
        """Note the clipping norm before the first step."""
        self.clip = norm_of(optimizer) if optimizer is not None else 0.0

    def look(self, optimizer: Any) -> None:
        """Compare the released gradient with the clipped sum."""
        clip, noise = norm_of(optimizer), float(optimizer.noise_multiplier)
        self.claimed.add(noise)
        if share := getattr(optimizer, "unclipped_num_std", None):
            # Adaptive clipping spends a part of the budget on the share of clipped records, and
            # has changed the norm since it added the noise.
            clip, self.clip = self.clip, clip
            noise = noise and (noise**-2 - (2 * share) ** -2) ** -0.5
        deviation = noise * clip
        scale = 1.0
        if optimizer.loss_reduction == "mean":
            scale = optimizer.expected_batch_size * optimizer.accumulated_iterations
        own = [p for p in optimizer.params if p.grad is not None]
        own = [p for p in own if getattr(p, "summed_grad", None) is not None]
        if deviation:
            self._look_at_some(own, scale, deviation)
        pieces, left = [], NOISE_COORDINATES
        for p in own:
            summed = p.summed_grad
            pieces.append(p.grad.reshape(-1)[:left] * scale - summed.reshape(-1)[:left])
            left -= len(pieces[-1])
            if left <= 0:
                break
        if not pieces or not deviation:
            return
        noise = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        if self.fingerprint is None:
            signs = np.packbits((noise > 0).cpu().numpy())
            self.fingerprint = hashlib.sha256(signs.tobytes()).hexdigest()
        if self.kept and len(self.kept[-1]) != len(noise):
            self._add_up()
        self.kept.append(noise)
        self.deviations.append(deviation)
        if len(self.kept) >= STEPS_AT_ONCE:
            self._add_up()

    def _look_at_some(self, params: list[Any], scale: float, deviation: float) -> None:
        """Measure the noise of some parameters; each has its turn."""
        for _ in range(-(-len(params) // STEPS_AT_ONCE)):
            place, self.looks = self.looks % len(params), self.looks + 1
            p, stride = params[place], -(-params[place].grad.numel() // NOISE_COORDINATES)
            noise = p.grad.reshape(-1)[::stride] * scale - p.summed_grad.reshape(-1)[::stride]
            number, squares = self.parts.get(place, (0, 0.0))
            squares = squares + (noise.double() / deviation).square().sum()
            self.parts[place] = number + len(noise), squares

    def _parts_warnings(self) -> list[str]:
        """Return a warning if single parameters have no noise, or other noise than stated."""
        parts = [(number, float(squares)) for number, squares in self.parts.values()]
        if silent := sum(squares < 1e-6 * number for number, squares in parts):
            return [
                f"{silent} of {len(parts)} parameters were released without noise, although some "
                "is claimed"
            ]
        wrong = [
            math.sqrt(squares / number)
            for number, squares in parts
            if p_of_squares(squares, number) < RARE / len(parts)
        ]
        if not wrong:
            return []
        return [
            f"the noise of {len(wrong)} of {len(parts)} parameters has {min(wrong):.2g} to "
            f"{max(wrong):.2g} times the standard deviation that the optimiser states"
        ]

    def _add_up(self) -> None:
        """Add the stored steps to the sums."""
        if not self.kept:
            return
        noise = torch.stack(self.kept).double()
        noise /= torch.tensor(self.deviations, dtype=torch.float64, device=noise.device)[:, None]
        squares = noise.square().sum(1)
        self.number += noise.numel()
        self.squares += float(squares.sum())
        self.silent += int((squares < 1e-6 * noise.shape[1]).sum())
        self.by_step += [(noise.shape[1], one) for one in squares.tolist()]
        if self.last is not None and len(self.last) == noise.shape[1]:
            noise = torch.cat([self.last[None], noise])
        # Given the earlier noise, its product with the next is normal with its length as deviation.
        lengths = noise[:-1].norm(dim=1).clamp(min=1e-30)
        self.products += float(((noise[1:] * noise[:-1]).sum(1) / lengths).sum())
        self.pairs += len(lengths)
        self.last = noise[-1].clone()
        self.kept.clear()
        self.deviations.clear()

    @property
    def ratio(self) -> float:
        """Return the measured standard deviation of the noise ÷ the claimed one."""
        self._add_up()
        return math.sqrt(self.squares / self.number) if self.number else math.nan

    def p_of_size(self) -> float:
        """Return the p-value of the claimed deviation: squares of normal noise are χ²."""
        self._add_up()
        return p_of_squares(self.squares, self.number)

    def p_of_dispersion(self, ratio: float = 1.0) -> float:
        """Return the p-value for a deviation that varies from step to step.

        Normal scores of the steps' χ² variables have a sum of squares that is χ².

        Args:
            ratio: of the deviation in all steps to the claimed one.
        """
        self._add_up()
        if not self.by_step:
            return 1.0
        number, squares = np.array(self.by_step).T
        squares, rounding = squares / ratio**2, 1e-3 * number  # of float32, at most
        near = np.clip(number, squares - rounding, squares + rounding)
        tails = np.minimum(special.chdtr(number, near), special.chdtrc(number, near))
        scores = special.ndtri(np.clip(tails, 1e-300, 0.5))
        return float(special.chdtrc(len(scores), np.sum(scores**2)))

    def p_of_repetition(self) -> float:
        """Return the p-value for independent noise in successive steps."""
        self._add_up()
        away = abs(self.products) / max(1.0, self.ratio) / math.sqrt(max(1, self.pairs))
        return 2 * float(special.ndtr(-away))

    def warnings(self) -> list[str]:
        """Return warnings about the noise."""
        self._add_up()
        if not self.number:
            if self.claimed == {0.0}:
                return ["the optimiser adds no noise: noise_multiplier is 0"]
            return []
        if self.silent:
            return [f"{self.silent:,} steps were released without noise, although some is claimed"]
        warnings = []
        wrong = self.p_of_size() < RARE
        if self.p_of_dispersion(self.ratio if wrong else 1.0) < RARE:
            warnings.append(
                "the standard deviation of the noise varies from step to step, as if sums were "
                "divided by the number of records drawn, which depends on the data"
            )
        elif wrong:
            warnings.append(
                f"the noise has {self.ratio:.2g} times the standard deviation that the "
                "optimiser states"
            )
        if self.p_of_repetition() < RARE:
            warnings.append("the noise of successive steps is correlated: a generator is reseeded")
        return warnings or self._parts_warnings()

    def described(self) -> dict[str, float] | None:
        """Return the measured noise for the record."""
        ratio = self.ratio
        return {"ratio": ratio, "coordinates": self.number} if self.number else None
