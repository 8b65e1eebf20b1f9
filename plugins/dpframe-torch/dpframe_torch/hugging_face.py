"""Audit Hugging Face's `Trainer` through a callback."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from dpframe_torch.auditing import Audit
from dpframe_torch.canaries import FILE, Canaries
from dpframe_torch.scoring import evaluating, inner_of, is_first_rank


class CanaryCallback(TrainerCallback):  # type: ignore[misc]  # nothing is known of its class here
    """A callback that watches a `Trainer`, and audits its model at the end of training.

    Pass `canaries.train_set` to the trainer. Every checkpoint gets a copy of the run's file, so a
    training run that continues on another machine keeps its canaries.

    With Opacus, pass its optimiser in `optimizers=`, return its loader from
    `get_train_dataloader`, set `max_grad_norm=0.0`, and clear gradients with the optimiser's
    `zero_grad` in `on_step_end`; `engine=` is one of the options here.

    Args:
        canaries: those whose `train_set` the trainer uses.
        epsilon: the claim at δ; None for no claim.
        delta: of the claim.
        options: further arguments of `Canaries.audit`, such as `collate`.
    """

    def __init__(
        self, canaries: Canaries, epsilon: float | None = None, delta: float = 1e-5, **options: Any
    ) -> None:
        self.canaries = canaries
        self.epsilon = epsilon
        self.delta = delta
        self.options = options
        self.audit: Audit | None = None
        """The result, after training."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.canaries.watch(given["model"], given.get("optimizer"))

    def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if self.canaries.folder is not None and is_first_rank():
            checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            if checkpoint.is_dir():
                shutil.copy(self.canaries.folder / FILE, checkpoint / FILE)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        model = given["model"]
        with evaluating(inner_of(model)):  # a `Trainer` leaves it in train mode
            self.audit = self.canaries.audit(model, self.epsilon, self.delta, **self.options)
