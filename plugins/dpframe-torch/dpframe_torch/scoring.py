"""Scores of canaries from a trained model, without the coins; the ranks share the work."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, distributed
from torch.nn import functional

from dpframe_torch.records import LABELS, CanaryError, copy_of, fields_of

Scores = npt.NDArray[np.float64]
Result = TypeVar("Result")
Loss = Callable[..., Tensor]

References = Sequence[torch.nn.Module] | Mapping[int, torch.nn.Module]
BY_REFERENCES = ("lira", "rmia")
FEWEST_REFERENCES = 16
"""Number of references of a kind from which each canary gets its own variance."""
OFFLINE = 0.3
"""a of [Zarifzadeh2024]: if models trained without a record give it probability p, models trained
with it are assumed to give it a p + 1 − a."""

LONG = 200
"""Letters of another library's message that are shown."""
_DROPOUT = (torch.nn.modules.dropout._DropoutNd,)
LOW_PRECISION = (torch.float16, torch.bfloat16)


class Scoring:
    """A way to score canaries.

    Args:
        records: all canaries, included or not.
        loss: a function of a model and a batch that returns a loss for each record; None infers it.
        collate: turns records into a batch.
        batch: number of records scored at once.
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
        references: References = (),
        right_labels: Sequence[int] | None = None,
        inside: Callable[[int], npt.NDArray[np.bool_]] | None = None,
    ) -> Scores:
        """Return a score for each canary, larger if it looks more like a member.

        Args:
            model: the trained model; it is in eval mode while it is scored.
            score: "loss", "contrast", "lira", "rmia", or a function of the model and the records.
            references: models trained without the canaries, or models by number, each trained on
                the reference set with that number.
            right_labels: the original labels of mislabelled canaries, for "contrast" and "lira".
            inside: returns the coins of a reference set, shape [m].

        Raises:
            CanaryError: the score is unknown, or a function does not return m scores.
        """
        model = inner_of(model)  # a wrapper may keep gradients of single records between calls
        self._look_at(model)
        if callable(score):
            with evaluating(model):
                records = [copy_of(one) for one in self.records]
                scores = numbers_of(score(model, records), "score")
            if scores.shape != (len(self.records),):
                raise CanaryError(
                    f"score: returned shape {scores.shape}; one score for each of the "
                    f"{len(self.records)} canaries is required"
                )
            return scores
        if score not in ("loss", "contrast", *BY_REFERENCES):
            raise CanaryError(
                f"score: {score!r} is not one of loss, contrast, lira, rmia, gradient"
            )
        if score == "contrast" and right_labels is None:
            raise CanaryError("score: 'contrast' is for mislabelled canaries")
        if score in BY_REFERENCES and not references:
            raise CanaryError(f"score: {score!r} needs references=")
        others = None if score in ("loss", "rmia") else right_labels
        own = self._losses(model, others)
        if not references:
            return -own
        models = list(references.values() if isinstance(references, Mapping) else references)
        for one in models:
            check_model(one)
            if inner_of(one) is model:
                raise CanaryError("references: one is the audited model itself")
        losses = np.stack([self._losses(inner_of(one), others) for one in models])
        coins = np.zeros(losses.shape, bool)
        if isinstance(references, Mapping) and inside is not None:
            coins = np.stack([inside(number) for number in references])
        if score == "lira":
            scale = _same if others is not None else _logit
            return lira(scale(own), scale(losses), coins)
        if score == "rmia":
            return rmia(own, losses, coins)
        return np.asarray(_means(losses, ~coins) - own)

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
        """Return losses, shape [m]; if right labels are given, minus the losses on those."""
        first, last = share_of_rank(len(self.records))
        parts = [np.empty(0)]
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
        with evaluating(model), torch.no_grad():
            for start in range(first, last, self.batch):
                chosen = range(start, min(start + self.batch, last))
                records = [self.records[i] for i in chosen]
                losses = self._of_batch(model, records, device)
                if right is not None:
                    truth = [_labelled(self.records[i], right[i]) for i in chosen]
                    losses = losses - self._of_batch(model, truth, device)
                parts.append(losses)
        scores: Scores = gathered(np.concatenate(parts))
        return scores

    def _of_batch(self, model: torch.nn.Module, records: list[Any], device: Any) -> Scores:
        dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), None)
        try:
            batch = moved(self.collate([copy_of(one) for one in records]), device)
            made = self.loss(model, batch if dtype is None else _rounded(batch, dtype))
        except CanaryError:
            raise
        except Exception as error:
            raise CanaryError(
                f"the canaries cannot be scored: {type(error).__name__}: {brief(error)}. Is it the "
                "model that was trained on these records? If it takes them in another form, pass "
                "the script's collate= and loss="
            ) from error
        losses = numbers_of(made, "loss")
        if losses.shape != (len(records),):
            raise CanaryError(
                f"loss: returned shape {losses.shape}; one loss for each of the "
                f"{len(records)} records is required (reduction='none')"
            )
        return losses


def numbers_of(made: Any, name: str) -> Scores:
    """Return what a function of the script gave, as an array; raise CanaryError if not numbers."""
    try:
        numbers: Scores = torch.as_tensor(made).detach().cpu().double().numpy()
    except (TypeError, ValueError, RuntimeError):
        raise CanaryError(f"{name}: returned {type(made).__name__} without numbers") from None
    return numbers


def check_model(model: Any) -> None:
    """Raise CanaryError unless this is a model with weights."""
    model = inner_of(model)
    if not isinstance(model, torch.nn.Module):
        raise CanaryError(
            f"model: {type(model).__name__} is not a torch.nn.Module; load a state_dict into a "
            "model first"
        )
    if any(p.is_meta for p in model.parameters()):
        raise CanaryError("model: it is on the meta device, without weights; load them first")


def inner_of(model: Any) -> Any:
    """Return the model inside the wrappers of Opacus and of distributed training."""
    wrapper = getattr(model, "_orig_mod", model)  # of torch.compile
    classes = type(wrapper).__mro__
    if any(one.__module__.startswith("opacus.") for one in classes) and hasattr(wrapper, "_module"):
        return inner_of(wrapper._module)
    if any("Parallel" in one.__name__ for one in classes) and hasattr(wrapper, "module"):
        return inner_of(wrapper.module)
    return model


def brief(error: BaseException) -> str:
    """Return the first line of a message, cut if it is long: some contain whole tensors."""
    line = next(iter(str(error).splitlines()), "").rstrip(".:")
    return line if len(line) <= LONG else f"{line[:LONG]} …"


def _same(losses: Scores) -> Scores:
    """Return differences of losses unchanged, because they already are log-odds."""
    return -losses


def _logit(losses: Scores) -> Scores:
    """Return ln(p/(1 − p)) of the probability p = e^−loss, without rounding p to 0 or 1."""
    safe = np.maximum(losses, 1e-12)
    return np.asarray(-safe - np.log(-np.expm1(-safe)))


def _means(values: Scores, chosen: npt.NDArray[np.bool_]) -> Scores:
    """Return means over the chosen references, shape [m]; the mean over all if none is chosen."""
    number = chosen.sum(0)
    everywhere = values[chosen].mean() if chosen.any() else math.nan
    sums = np.where(chosen, values, 0.0).sum(0)
    return np.where(number > 0, sums / np.maximum(number, 1), everywhere)


def lira(own: Scores, others: Scores, inside: npt.NDArray[np.bool_]) -> Scores:
    """Return log-likelihood ratios of normal distributions [Carlini2022, algorithm 1].

    If no reference was trained with canaries, the score is the distance from the references' mean
    in standard deviations. With few references, all canaries share one variance. For a canary that
    no reference was trained with, the effect of training is assumed to be the average effect on the
    other canaries.

    Args:
        own: log-odds of the canaries under the audited model, shape [m].
        others: of the references, shape [references, m].
        inside: True for the canaries that a reference was trained with, shape [references, m].
    """

    def normal(chosen: npt.NDArray[np.bool_]) -> tuple[Scores, Scores]:
        means, number = _means(others, chosen), chosen.sum(0)
        squares = np.where(chosen, (others - means) ** 2, 0.0)
        freedom = np.maximum(number - 1, 0)
        shared = squares.sum() / max(1, freedom.sum())
        each = squares.sum(0) / np.maximum(freedom, 1)
        return means, np.maximum(np.where(number >= FEWEST_REFERENCES, each, shared), 1e-12)

    out, out_variance = normal(~inside)
    if not inside.any():
        return np.asarray((own - out) / np.sqrt(out_variance))
    within, in_variance = normal(inside)
    known = inside.any(0) & (~inside).any(0)
    shift = float(np.mean((within - out)[known])) if known.any() else 0.0
    within = np.where(inside.any(0), within, out + shift)
    out = np.where((~inside).any(0), out, within - shift)

    def log_density(mean: Scores, variance: Scores) -> Scores:
        return np.asarray(-((own - mean) ** 2) / (2 * variance) - np.log(variance) / 2)

    return np.asarray(log_density(within, in_variance) - log_density(out, out_variance))


def rmia(own: Scores, others: Scores, inside: npt.NDArray[np.bool_]) -> Scores:
    """Return logarithms of p(x | model)/p(x), where p(x) is a mean over references.

    The score of [Zarifzadeh2024] is the share of population records whose ratio is smaller. It
    grows with the ratio, and guesses depend only on the order of the scores, so no population is
    needed, and there are no ties.

    Args:
        own: losses of the audited model, shape [m].
        others: of the references, shape [references, m].
        inside: True for the canaries that a reference was trained with, shape [references, m].
    """
    probabilities = np.exp(-others)
    out = _means(probabilities, ~inside)
    offline = OFFLINE * out + 1 - OFFLINE
    within = np.where(inside.any(0), _means(probabilities, inside), offline)
    return np.asarray(-own - np.log(np.maximum((out + within) / 2, 1e-300)))


def record_losses(model: torch.nn.Module, batch: Any) -> Tensor:
    """Return the cross-entropy of each record, in float32 at least, shape [batch].

    If every token has a label, the model is a language model, and its loss is the mean over the
    next tokens, without those labelled −100.

    Args:
        model: returns logits, or an object, a mapping or a tuple with logits. A single column is
            the log-odds of class 1; rows that sum to 1 are probabilities.
        batch: (inputs, labels), or a mapping with labels; the model gets its other values.

    Raises:
        CanaryError: there are no labels, or their shape does not match the logits.
    """
    if isinstance(batch, Mapping):
        name = next((key for key in LABELS if key in batch), None)
        labels = batch[name] if name else batch.get("input_ids")
        output = model(**{key: value for key, value in batch.items() if key != name})
    else:
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise CanaryError("loss: a batch is (inputs, labels) or a mapping; else give loss=")
        labels, output = batch[1], model(batch[0])
    logits = logits_of(output)
    logits = logits.float() if logits.dtype in LOW_PRECISION else logits
    if labels is None or labels.is_floating_point() or logits.ndim not in (2, 3):
        raise CanaryError("loss: this batch has no integer labels of classes or tokens; give loss=")
    if logits.ndim == 2 and logits.shape[1] == 1:  # of two classes
        logits = functional.pad(logits, (1, 0))
    elif logits.ndim == 2 and (logits >= 0).all() and ((logits.sum(1) - 1).abs() < 1e-3).all():
        logits = logits.clamp(min=1e-30).log()  # they are probabilities
    if logits.ndim == 2:
        return functional.cross_entropy(logits, labels, reduction="none")
    targets = labels[:, 1:]
    each = functional.cross_entropy(logits[:, :-1].transpose(1, 2), targets, reduction="none")
    known = targets != -100
    return (each * known).sum(1) / known.sum(1).clamp(min=1)


def logits_of(output: Any) -> Tensor:
    """Return the logits in what a model returns: named so, or the first tensor."""
    named = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    values = output.values() if isinstance(output, Mapping) else output
    several = values if isinstance(output, Mapping | tuple | list) else [output]
    logits = named if named is not None else next((v for v in several if torch.is_tensor(v)), None)
    if not torch.is_tensor(logits):
        raise CanaryError(
            f"loss: the model returns {type(output).__name__}, not logits; give loss="
        )
    return logits


def _labelled(record: Any, label: int) -> Any:
    """Return a record with another label."""
    key = fields_of(record).label
    changed = torch.full_like(torch.as_tensor(record[key]), label)
    if isinstance(record, Mapping):
        return {**record, key: changed}
    return tuple(changed if place == key else value for place, value in enumerate(record))


@contextlib.contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Put a model into eval mode, and restore its mode afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def moved(batch: Any, device: Any) -> Any:
    """Return a batch on the given device."""
    if torch.is_tensor(batch):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: moved(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple | list):
        return type(batch)(moved(value, device) for value in batch)
    return batch


def _rounded(batch: Any, dtype: Any) -> Any:
    """Return a batch with its floating-point tensors converted to another type."""
    if torch.is_tensor(batch):
        return batch.to(dtype) if batch.is_floating_point() else batch
    if isinstance(batch, Mapping):
        return {key: _rounded(value, dtype) for key, value in batch.items()}
    return (
        type(batch)(_rounded(v, dtype) for v in batch) if isinstance(batch, list | tuple) else batch
    )


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
    """Return the result that rank 0 computes, on every rank."""
    rank, world = ranks()
    made: list[Any] = [make() if rank == 0 else None]
    if world > 1:
        distributed.broadcast_object_list(made, src=0)
    result: Result = made[0]
    return result


def share_of_rank(number: int) -> tuple[int, int]:
    """Return the range of canaries that this rank scores."""
    rank, world = ranks()
    return number * rank // world, number * (rank + 1) // world


def gathered(values: npt.NDArray[Any]) -> Any:
    """Return the values of all ranks, in rank order."""
    return np.concatenate(gathered_objects(values))


def in_any_rank(flags: Tensor) -> Tensor:
    """Return True where a flag of any rank is True."""
    if ranks()[1] == 1:
        return flags
    numbers = flags.to(torch.uint8)
    distributed.all_reduce(numbers, distributed.ReduceOp.MAX)
    return numbers.bool()


def gathered_objects(value: Any) -> list[Any]:
    """Return an object of each rank."""
    _, world = ranks()
    objects: list[Any] = [value] * world
    if world > 1:
        distributed.all_gather_object(objects, value)
    return objects
