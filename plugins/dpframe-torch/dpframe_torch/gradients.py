"""Gradient canaries: directions in place of clipped gradients, detected in the released sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dpframe.stats.gradient_canaries import LARGE, draw_directions, score_steps
from dpframe.stats.step_bets import StepBets
from dpframe_torch.checks import STEPS_AT_ONCE, norm_of
from dpframe_torch.records import CanaryError, Doubt
from dpframe_torch.scoring import in_any_rank, ranks

NEARLY_CERTAIN = 1e-6  # probability of bets at which a claim is no longer called consistent


class GradientCanaries:
    """Directions that replace the gradients of canaries before Opacus clips.

    See `dpframe.stats.gradient_canaries`.

    Args:
        number: m.
        optimizer: Opacus's.
        records: number of records in the training set from which batches are sampled.
        seed: of the directions.
        included: canaries in the training set, shape [m]; only these are sampled.
    """

    def __init__(
        self,
        number: int,
        optimizer: Any,
        records: int,
        seed: np.random.SeedSequence,
        included: npt.NDArray[np.bool_],
    ) -> None:
        self.included = torch.from_numpy(np.asarray(included))
        self.bets = StepBets()
        self.squares, self.seen = 0.0, 0  # of other records' parts in directions without canaries
        self.optimizer = optimizer
        self.records = max(1, records)
        self.params: list[Tensor] = list(optimizer.params)
        sizes = np.array([p.numel() for p in self.params])
        drawn = draw_directions(sizes, number, seed)
        if drawn is None:
            raise CanaryError(
                f"{number:,} random-gradient canaries need as many parameters, the optimiser has "
                f"{sizes.sum():,}: fewer canaries, or another kind"
            )
        self.chosen = drawn.chosen
        self.number, self.has_controls = number, len(drawn.signs) > number
        device = self.params[0].device
        self.which = torch.from_numpy(drawn.which).to(device)
        self.inner = torch.from_numpy(drawn.inner).to(device)
        self.signs = torch.from_numpy(drawn.signs).to(device, torch.float32)
        self.total = np.zeros(number)
        self.kept: list[Tensor] = []  # of the last steps, shape [rows, coordinates] each
        self.facts: list[tuple[float, float, float]] = []  # scale, noise, sampling rate
        self.spreads: list[float] = []  # of what each step released in the directions, over clip
        self.slots: Callable[[], list[Tensor]] = list
        self.done = 0

    def attach(self, slots: Callable[[], list[Tensor]]) -> None:
        """Insert the directions just before Opacus clips.

        Args:
            slots: returns, for each batch since the last step, the canary in each row, or −1.
        """
        self.slots = slots
        self.clip = self.optimizer.clip_and_accumulate
        self.optimizer.clip_and_accumulate = self._clip

    def detach(self) -> None:
        """Restore the optimiser's own clipping."""
        self.optimizer.clip_and_accumulate = self.clip

    def go_on(self, earlier: GradientCanaries | None) -> None:
        """Add the evidence that was collected with an earlier optimiser."""
        if earlier is not None:
            earlier._score()
            self.total += earlier.total
            self.spreads += earlier.spreads
            self.bets = earlier.bets
            self.squares, self.seen = earlier.squares, earlier.seen

    def scores(self) -> npt.NDArray[np.float64]:
        """Return the log-likelihood ratio of each canary, summed over all steps, shape [m]."""
        self._score()
        return self.total.copy()

    def described(self) -> dict[str, Any]:
        """Return statistics of the released values in the directions, for the record.

        Without canaries and other records, their spread would equal the noise multiplier.
        """
        self._score()
        return {"spread": float(np.mean(self.spreads)) if self.spreads else math.nan}

    def step_bets(self) -> dict[str, Any] | None:
        """Return the bets on the stated noise and clipping norm, for the record."""
        return self.bets.described(math.sqrt(self.squares / self.seen) if self.seen else None)

    def warnings(self) -> list[str]:
        """Return a `Doubt` if bets refute the stated noise of the steps almost certainly."""
        if self.bets.p_value > NEARLY_CERTAIN:
            return []
        return [
            Doubt(
                f"bets on the releases of {len(self.bets.wealth):,} steps refute the stated noise "
                f"and clipping norm (p ≤ {self.bets.p_value:.1g}, however canaries depend on each "
                "other): the noise is smaller than the noise multiplier says, or gradients are "
                "longer than the clipping norm"
            )
        ]

    def _clip(self) -> Any:
        batches = self.slots()[self.done :]
        self.done += len(batches)
        slots = torch.cat(batches) if batches else torch.zeros(0, dtype=torch.int64)
        rows = torch.nonzero(slots >= 0)[:, 0]
        names = slots[rows]
        for place, p in enumerate(self.params):
            samples = getattr(p, "grad_sample", None)
            if samples is None:
                raise CanaryError(
                    "no gradients of single records: random-gradient canaries need "
                    "grad_sample_mode='hooks'"
                )
            parts = samples if isinstance(samples, list) else [samples]
            if (made := sum(map(len, parts))) != len(slots):
                what = (
                    "call model.eval() for records not trained on"
                    if made < len(slots)
                    else "call the model itself after canaries.watch, not a copy or its forward()"
                )
                raise CanaryError(
                    f"{len(slots):,} records went through the model since the last step, but "
                    f"{made:,} have gradients: {what}"
                )
            first = 0
            for part in parts:
                own = (rows >= first) & (rows < first + len(part)) if len(parts) > 1 else ...
                self._put(part, rows[own] - first, names[own], place)
                first += len(part)
        return self.clip()

    def _put(self, part: Tensor, rows: Tensor, names: Tensor, place: int) -> None:
        """Replace the gradients of canaries in a part of a batch, for one parameter."""
        if not len(rows):
            return
        part.index_fill_(0, rows, 0.0)
        if place not in self.chosen:
            return
        flat = part.view(len(part), -1)
        at, columns = rows[:, None].expand(-1, self.inner.shape[1]), self.inner[names]
        values = (self.signs[names] * (LARGE * norm_of(self.optimizer))).to(flat.dtype)
        if len(self.chosen) > 1:
            mine = self.which[names] == self.chosen.index(place)
            at, columns, values = at[mine], columns[mine], values[mine]
        flat[at, columns] = values

    def after_step(self) -> None:
        """Store the components of a released gradient in the directions, for later scoring.

        Raises:
            CanaryError: Opacus did not clip gradients of single records, so no canary was inserted.
        """
        if self.slots() and not self.done:
            raise CanaryError(
                "this step did not clip gradients of single records, as with ghost clipping, so no "
                "canary was inserted: random-gradient canaries need grad_sample_mode='hooks'"
            )
        self.done = 0
        slots = self.slots()
        optimizer, norm = self.optimizer, norm_of(self.optimizer)
        # In distributed training expected_batch_size is that of a rank, and the mean is over ranks.
        batch = (optimizer.expected_batch_size or 0) * optimizer.accumulated_iterations
        batch *= getattr(optimizer, "world_size", 1)
        scale = batch if optimizer.loss_reduction == "mean" else 1.0
        values = self._components("grad")
        rate = min(max(batch / self.records, 1e-9), 1 - 1e-9)
        # Opacus rounds the expected batch down; a rate that is too small would favour the bets.
        most = (batch + optimizer.accumulated_iterations) / self.records
        if batch and optimizer.noise_multiplier > 0 and len(slots) == 1 and most < 1:
            self._bet(values, slots[0], scale / norm, most)
        self.kept.append(values)
        self.facts.append((scale / norm, float(optimizer.noise_multiplier), rate))
        if len(self.kept) >= STEPS_AT_ONCE:
            self._score()

    def _components(self, name: str) -> Tensor:
        """Return the components of a gradient in the directions, shape [rows, coordinates].

        Args:
            name: the attribute of the parameters, "grad" or "summed_grad" (before the noise).
        """
        values = torch.zeros_like(self.signs)
        for index, place in enumerate(self.chosen):
            gradient = getattr(self.params[place], name, None)
            if gradient is None:
                continue
            if len(self.chosen) == 1:
                return gradient.reshape(-1)[self.inner]
            mine = self.which == index
            values[mine] = gradient.reshape(-1)[self.inner[mine]].to(values.dtype)
        return values

    def _bet(self, values: Tensor, slots: Tensor, scale: float, rate: float) -> None:
        """Bet on what a step released in the directions of the canaries of the training set."""
        released = (values[: self.number] * self.signs[: self.number]).sum(1).double() * scale
        sampled = torch.zeros(self.number, dtype=torch.bool, device=self.signs.device)
        sampled[slots[slots >= 0].to(sampled.device)] = True
        sampled = in_any_rank(sampled)
        self.bets.update(
            released.cpu()[self.included].numpy(),
            sampled.cpu()[self.included].numpy(),
            float(self.optimizer.noise_multiplier),
            rate,
        )
        if ranks()[1] == 1:  # a rank has its own part of the sum
            self._look_at_others(sampled)

    def _look_at_others(self, sampled: Tensor) -> None:
        """Measure other records in the directions without a canary in the batch, before noise."""
        parts = (self._components("summed_grad") * self.signs).sum(1).double()
        unused = torch.ones(len(parts), dtype=torch.bool, device=parts.device)
        unused[: self.number] = ~sampled
        noise = norm_of(self.optimizer) * float(self.optimizer.noise_multiplier)
        self.squares += float((parts[unused] / noise).square().sum())
        self.seen += int(unused.sum())

    def _score(self) -> None:
        """Add the evidence of the stored steps."""
        if not self.kept:
            return
        scale, noise, rates = np.array(self.facts).T
        components = (torch.stack(self.kept) * self.signs).sum(2).double().cpu().numpy()
        scores, spreads = score_steps(components * scale[:, None], self.number, noise, rates)
        self.total += scores
        self.spreads += spreads.tolist()
        self.kept.clear()
        self.facts.clear()
