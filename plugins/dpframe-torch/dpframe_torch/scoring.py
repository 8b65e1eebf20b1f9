"""Scores of canaries, from a trained model and without the coins; shared out among ranks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, distributed
from torch.nn import functional

from dpframe_torch.records import LABELS, CanaryError, fields_of

Scores = npt.NDArray[np.float64]
Result = TypeVar("Result")
Loss = Callable[..., Tensor]

_DROPOUT = (torch.nn.modules.dropout._DropoutNd,)
LOW_PRECISION = (torch.float16, torch.bfloat16)


class Scoring:
    """A way to score canaries.

    Args:
        records: all canaries, in and out alike.
        loss: function of a model and a batch that returns a loss for each record; None infers it.
        collate: makes a batch of records.
        batch: records at a time.
    """

    def __init__(
        self,
        records: Sequence[Any],
        loss: Loss | None,
        collate: Callable[[list[Any]], Any],
        batch: int,
    ) -> None:
        self.records = records
        self.loss = loss or record_losses
        self.collate = collate
        self.batch = batch
        self.warnings: list[str] = []

    def scores(
        self,
        model: torch.nn.Module,
        score: str | Callable[..., Any],
        references: Sequence[torch.nn.Module] = (),
        right_labels: Sequence[int] | None = None,
    ) -> Scores:
        """Return a score for each canary, larger if it looks more like a member.

        Args:
            model: the trained model; it is put into eval mode for this.
            score: "loss", "contrast", or a function of the model and the records.
            references: models whose mean loss is taken off.
            right_labels: of mislabelled canaries, for "contrast".

        Raises:
            CanaryError: the score is unknown, or a function returns something else.
        """
        self._look_at(model)
        if callable(score):
            with evaluating(model):
                found = np.asarray(torch.as_tensor(score(model, list(self.records))).detach().cpu())
            if found.shape != (len(self.records),):
                raise CanaryError(
                    f"score: returned shape {found.shape}; one score for each of the "
                    f"{len(self.records)} canaries is required"
                )
            return found.astype(np.float64)
        if score not in ("loss", "contrast"):
            raise CanaryError(f"score: {score!r} is none of loss, contrast, gradient")
        if score == "contrast" and right_labels is None:
            raise CanaryError("score: 'contrast' is for mislabelled canaries")
        others = right_labels if score == "contrast" else None
        values = -self._losses(model, others)
        if references:
            values += np.mean([self._losses(one, others) for one in references], axis=0)
        return values

    def _look_at(self, model: torch.nn.Module) -> None:
        changing = (*_DROPOUT, torch.nn.modules.batchnorm._BatchNorm)
        if any(one.training and isinstance(one, changing) for one in model.modules()):
            self.warnings.append(
                "the model was in train mode; it was scored in eval mode, without dropout and with "
                "the running statistics of its norms"
            )
        low = {p.dtype for p in model.parameters() if p.dtype in LOW_PRECISION}
        if low:
            name = " and ".join(sorted(str(one).removeprefix("torch.") for one in low))
            self.warnings.append(
                f"the model is in half precision ({name}): small differences of losses are lost, "
                "so the bound is too small rather than too large; audit the float32 weights"
            )

    def _losses(self, model: torch.nn.Module, right: Sequence[int] | None) -> Scores:
        """Return losses, shape [m]; with right labels, less the loss on these."""
        first, last = share_of_rank(len(self.records))
        found = [np.empty(0)]
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
        with evaluating(model), torch.no_grad():
            for start in range(first, last, self.batch):
                chosen = range(start, min(start + self.batch, last))
                records = [self.records[i] for i in chosen]
                losses = self._of_batch(model, records, device)
                if right is not None:
                    truth = [_labelled(self.records[i], right[i]) for i in chosen]
                    losses = losses - self._of_batch(model, truth, device)
                found.append(losses)
        scores: Scores = gathered(np.concatenate(found))
        return scores

    def _of_batch(self, model: torch.nn.Module, records: list[Any], device: Any) -> Scores:
        losses = self.loss(model, moved(self.collate(records), device))
        if losses.shape != (len(records),):
            raise CanaryError(
                f"loss: returned shape {tuple(losses.shape)}; one loss for each of the "
                f"{len(records)} records is required (reduction='none')"
            )
        own: Scores = losses.detach().double().cpu().numpy()
        return own


def record_losses(model: torch.nn.Module, batch: Any) -> Tensor:
    """Return the cross-entropy of each record, in float32 at least, shape [batch].

    Labels of every token make a language model: its loss is the mean over the next tokens, without
    those labelled −100.

    Args:
        model: returns logits, or an object that has them.
        batch: (inputs, labels), or a mapping with labels whose other values the model takes.

    Raises:
        CanaryError: there are no labels, or they do not fit the logits.
    """
    if isinstance(batch, Mapping):
        name = next((key for key in LABELS if key in batch), None)
        labels = batch[name] if name else batch.get("input_ids")
        output = model(**{key: value for key, value in batch.items() if key != name})
    else:
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise CanaryError("loss: a batch is (inputs, labels) or a mapping; else give loss=")
        labels, output = batch[1], model(batch[0])
    logits = output if torch.is_tensor(output) else output.logits
    logits = logits.float() if logits.dtype in LOW_PRECISION else logits
    if labels is None or labels.is_floating_point() or logits.ndim not in (2, 3):
        raise CanaryError("loss: no whole-number labels of classes or tokens here; give loss=")
    if logits.ndim == 2:
        return functional.cross_entropy(logits, labels, reduction="none")
    targets = labels[:, 1:]
    each = functional.cross_entropy(logits[:, :-1].transpose(1, 2), targets, reduction="none")
    known = targets != -100
    return (each * known).sum(1) / known.sum(1).clamp(min=1)


def _labelled(record: Any, label: int) -> Any:
    """Return a record with another label."""
    key = fields_of(record).label
    changed = torch.full_like(torch.as_tensor(record[key]), label)
    if isinstance(record, Mapping):
        return {**record, key: changed}
    return tuple(changed if place == key else value for place, value in enumerate(record))


@contextlib.contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Put a model into eval mode for a while."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def moved(batch: Any, device: Any) -> Any:
    """Return a batch on a device."""
    if torch.is_tensor(batch):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: moved(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple | list):
        return type(batch)(moved(value, device) for value in batch)
    return batch


# Ranks of distributed training.


def ranks() -> tuple[int, int]:
    """Return the rank of this process, and the number of ranks."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def is_first_rank() -> bool:
    """True if this process writes files."""
    return ranks()[0] == 0


def from_first_rank(make: Callable[[], Result]) -> Result:
    """Return what rank 0 makes, on every rank."""
    rank, world = ranks()
    made: list[Any] = [make() if rank == 0 else None]
    if world > 1:
        distributed.broadcast_object_list(made, src=0)
    found: Result = made[0]
    return found


def share_of_rank(number: int) -> tuple[int, int]:
    """Return the first and the last of the canaries that this rank scores."""
    rank, world = ranks()
    return number * rank // world, number * (rank + 1) // world


def gathered(values: npt.NDArray[Any]) -> Any:
    """Return the values of all ranks, in the order of ranks."""
    return np.concatenate(gathered_objects(values))


def gathered_objects(value: Any) -> list[Any]:
    """Return an object of each rank."""
    _, world = ranks()
    found: list[Any] = [value] * world
    if world > 1:
        distributed.all_gather_object(found, value)
    return found
