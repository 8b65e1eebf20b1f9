"""Judge a training by what was observed: canaries, batches, clipping, noise and the accountant."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpframe_torch import clipping
from dpframe_torch.accounting import Loss
from dpframe_torch.checks import RARE, p_of_evenness, p_of_missing, p_of_total
from dpframe_torch.records import CanaryError, Doubt
from dpframe_torch.scoring import gathered_objects, inner_of
from dpframe_torch.watching import Bools, Floats, Watch, sum_of

FEWEST_STEPS = 10  # before batches are judged
SUM_OF_FROZEN = 1e-9  # rounding of sums in float64, at most


def check_model(watch: Watch, model: torch.nn.Module) -> None:
    """Raise CanaryError unless this model was trained in this run."""
    if watch.foreign is not None:
        raise CanaryError(
            f"the weights are those of run {watch.foreign}, the canaries are of run {watch.run}: "
            "load the checkpoint of this run"
        )
    inner = inner_of(model)
    watch.unlike = inner is not watch.model and not _same_weights(inner, watch.model)
    if inner is watch.model or watch.loaded is not None:
        now = [p for p in inner.parameters() if p.requires_grad]
        same = len(now) == len(watch.start) and all(
            a.shape == b.shape and torch.equal(a.detach().to(b.device), b)
            for a, b in zip(now, watch.start, strict=False)
        )
        if same:
            raise CanaryError(
                "the model has the weights from before the training, those it had when "
                "canaries.watch was called: nothing to audit; call watch before the first step"
            )


def warnings_of(
    watch: Watch,
    members: Bools,
    epsilon: float | None,
    engine: Any,
    others: Callable[[], Iterable[Tensor]] = tuple,
) -> list[str]:
    """Return warnings in words, from the counts of all ranks.

    Args:
        watch: observations of the training.
        members: the coins, shape [m].
        epsilon: of the claim.
        engine: Opacus's PrivacyEngine, or None.
        others: returns inputs of records that are no canaries. It is called only if canaries
            seem to be missing or misplaced, because equal inputs cause the same.
    """
    places = torch.cat([torch.zeros(0, dtype=torch.int64), *(one.cpu() for one in watch.found)])
    own = np.bincount(places[places >= 0].numpy(), minlength=len(members))
    seen = np.sum(gathered_objects(own), axis=0)
    # A batch of distributed training is what all ranks had in a step.
    every = zip_longest(*gathered_objects(watch.rows), fillvalue=0)
    rows = np.array([sum(one) for one in every], float)
    apart = ~watch.canaries.shared()
    warnings = _of_canaries(watch, seen[apart], rows, members[apart])
    uneven = _of_batches(watch, rows, seen[apart & members], epsilon, engine)
    if (warnings or uneven) and seen.any():
        apart = ~watch.canaries.shared(others())
        warnings = _of_canaries(watch, seen[apart], rows, members[apart])
        uneven = _of_batches(watch, rows, seen[apart & members], epsilon, engine)
    if watch.held_out_rows:
        warnings.append(
            f"records of held_out were trained on, {watch.held_out_rows:,} times: "
            "measurements on them say nothing about new data"
        )
    warnings += map(Doubt, watch.noise.warnings())
    claimed = engine is not None or (epsilon is not None and math.isfinite(epsilon))
    if watch.optimizer is None:
        text = "the optimiser was not watched: batches, clipping and noise were not checked"
        warnings.append(Doubt(f"{text}; pass it to canaries.watch") if claimed else text)
    elif not watch.rows and not watch.before:
        warnings.append(
            Doubt(
                "the watched optimiser made no step: pass the one that trains the model; "
                "canaries, batches and noise were not checked"
            )
        )
    else:
        warnings += uneven
        warnings += _of_other_parameters(watch)
        warnings += map(Doubt, _of_accountant(watch, rows, engine))
    warnings += map(Doubt, _of_clipping(watch, claimed, engine))
    if watch.unlike or (watch.rows and watch.loaded_unnamed == len(watch.rows)):
        warnings.append(
            Doubt(
                "the weights may not be those of the end of this training: "
                + (
                    "the model is not the one that was watched and its weights differ"
                    if watch.unlike
                    else "they were loaded after it from a file that does not name its run"
                )
                + "; an earlier checkpoint, an average of weights or another run shows less of "
                "what this training leaked, or nothing"
            )
        )
    made = watch.before + len(watch.rows)
    if watch.before:
        text = (
            f"{watch.before:,} of {made:,} steps were made by an earlier process, so their "
            "canaries, batches and noise were not checked, and gradient scores do not include "
            "them"
        )
        warnings.append(Doubt(text) if watch.before > made / 2 else text)
    if watch.loaded and (step := watch.loaded[0] + len(watch.rows) - watch.loaded[1]) != made:
        text = (
            f"the weights are those after step {step:,} of {made:,}: "
            "the claim covers the whole training, so this audit sees only part of it"
        )
        warnings.append(Doubt(text) if step < made / 2 else text)
    return warnings


def _of_canaries(watch: Watch, seen: Any, rows: Floats, members: Bools) -> list[str]:
    """Compare the canaries with unique inputs with what was trained on."""
    warnings: list[str] = []
    trained = int(rows.sum())
    inside, outside = int(members.sum()), int((~members).sum())
    present, absent = int((seen[members] > 0).sum()), int((seen[~members] > 0).sum())
    if not trained:
        unseen = len(rows) or (watch.optimizer is None and not watch.before)
        return [
            Doubt(
                "the model was given no batch in train mode and with gradients, so neither its "
                "records nor its batches were checked: it was trained in eval mode, as a copy, "
                "or compiled after canaries.watch (watch the compiled model)"
            )
        ] * bool(unseen)
    if not len(seen):
        return [
            Doubt(
                "other records have the same inputs as the canaries, so it was not checked "
                "that the training saw them: use canaries with inputs of their own, such as "
                "random-gradient, or own records="
            )
        ]
    if not seen.any():
        return [
            Doubt(
                "no canary was recognised in what the model was given: an augmentation, a "
                "normalisation after the loader or another precision changes canaries, or the "
                "loader reads other data than canaries.train_set; the bound holds, but shows "
                "little"
            )
        ]
    if absent > outside / 10:
        warnings.append(
            Doubt(
                f"{absent:,} of {outside:,} canaries that are out were trained on: the loader "
                "reads other data than canaries.train_set, or has the indices of the original "
                "data"
            )
        )
    # A record is in no batch with probability ∏(1 − b/n) ≤ exp(−Σb/n), b being the sizes.
    missing = inside - present
    chance = math.exp(-trained / max(1, watch.records))
    if trained >= watch.records and p_of_evenness(seen[members], len(rows)) < RARE / 2:
        # A shuffled loader leaves out less than a batch in its first epoch.
        chance = min(chance, float(np.median(rows)) / watch.records)
    if missing and p_of_missing(missing, inside, chance) < RARE / 2:
        text = (
            f"{missing:,} of {inside:,} canaries that are in were never trained on: a sampler, "
            "drop_last, a subset or an augmentation leaves them out"
        )
        warnings.append(Doubt(text) if missing > inside / 2 else text)
    elif missing > inside / 2:
        warnings.append(
            Doubt(
                f"only {present:,} of {inside:,} canaries that are in were trained on: the "
                "training was short, or a sampler, a subset or an augmentation leaves them out"
            )
        )
    # In uniform batches of given sizes the canaries' number varies at most like a binomial.
    hits, share = int(seen[members].sum()), inside / max(1, watch.records)
    rare = share < 1 and p_of_missing(trained - hits, max(1, trained), 1 - share) < RARE
    if rare and hits < 0.9 * trained * share and not warnings:
        text = (
            f"canaries were recognised {hits:,} times in what was trained on, and "
            f"{trained * share:,.0f} times were expected: an augmentation changes some of "
            "them, a sampler prefers other records, or other data are trained on too"
        )
        warnings.append(Doubt(text) if hits < trained * share / 2 else text)
    return warnings


def _of_batches(
    watch: Watch, rows: Floats, seen: Any, epsilon: float | None, engine: Any
) -> list[str]:
    steps, n = len(rows), watch.records
    if steps < FEWEST_STEPS or not n:
        return []
    warnings = []
    accounted = engine is not None or hasattr(watch.optimizer, "expected_batch_size")
    rate = min(rows.mean() / n, 1.0)
    if (accounted or epsilon is not None) and rate < 0.999:
        meaning = (
            "Opacus's accountant assumes Poisson sampling, so its ε does not hold here"
            if accounted
            else "do not claim an ε whose accountant assumes Poisson sampling, as Opacus's does"
        )
        if p_of_evenness(rows, n) < RARE:
            size = round(float(np.median(rows)))
            dropped = (
                ", and drop_last leaves out the rest of every epoch"
                if n % size and rows.min() == rows.max() and steps > 2 * n // size
                else ""
            )
            warnings.append(
                f"batches are not Poisson samples: nearly all have {size:,} records, as from a "
                f"shuffled loader{dropped}; {meaning}"
            )
        elif p_of_evenness(seen, steps) < RARE:
            warnings.append(
                "batches are not Poisson samples: all canaries were seen about equally "
                f"often, as from a shuffled loader; {meaning}"
            )
    expected = getattr(watch.optimizer, "expected_batch_size", None)
    if expected:
        world = getattr(watch.optimizer, "world_size", 1)
        expected *= watch.accumulated * world
        rounded = watch.accumulated * world  # Opacus rounds down, in each rank
        now = rows[watch.since :]  # Opacus's optimiser may be a second one
        if len(now) and _differs(now, n, expected / n, (expected + rounded) / n):
            warnings.append(
                f"a step had {now.mean():.1f} records on average, but Opacus's "
                f"expected_batch_size is {expected:g}: the batch size that is trained with is "
                "not the one that is accounted for"
            )
    return [*map(Doubt, warnings)] if accounted else warnings


def _of_other_parameters(watch: Watch) -> list[str]:
    """Name parameters that changed although the watched optimiser does not train them."""
    if watch.loaded is not None or watch.loaded_unnamed is not None:
        return []
    own = {id(p) for group in watch.optimizer.param_groups for p in group["params"]}
    changed = sum(
        id(p) not in own
        and (p.shape, p.dtype) == (old.shape, old.dtype)
        and not torch.equal(p.detach().to(old.device), old)
        for p, old in zip(watch.trainable, watch.start, strict=True)
    )
    changed += sum(
        id(p) not in own and _is_thawed(watch, p) and has_other_sum(p, old)
        for p, old in watch.frozen
    )
    if not changed:
        return []
    of = len(watch.trainable) + len(watch.frozen)
    text = (
        f"{changed} of {of} parameters changed although the watched optimiser "
        "does not train them, so another one does: its steps were not checked"
    )
    if not hasattr(watch.optimizer, "noise_multiplier"):
        return [text]
    return [Doubt(f"{text}, and the accountant's ε does not cover them")]


def _is_thawed(watch: Watch, p: Tensor) -> bool:
    """True if a frozen parameter was trained; merging LoRA changes its value, too."""
    return p.requires_grad or p.grad is not None or id(p) in watch.thawed


def _of_clipping(watch: Watch, claimed: bool, engine: Any) -> Iterator[str]:
    """Name steps whose gradients of single records were not clipped, or not noised."""
    made = len(watch.rows)
    if claimed and watch.mixed:
        yield f"{watch.mixed}, so clipping does not limit what a single record changes"
    if watch.bare:
        yield (
            f"{watch.bare:,} of {made:,} steps were made by {type(watch.plain).__name__}.step() "
            "and not by the optimiser that make_private returned: they had no clipping and no "
            "noise, and the accountant did not count them; call step() of the private optimiser"
        )
    if watch.others:
        names = ", ".join(sorted(watch.others))
        yield (
            f"another optimiser ({names}) made {watch.others.total():,} steps on the watched "
            "parameters, and their clipping and noise were not seen: train with the watched "
            "optimiser alone"
        )
    if claimed and watch.beside[1]:
        yield (
            f"between its steps, a model with the same parameters was trained, "
            f"{watch.beside[1]:,} steps without gradients of single records: ε does not cover "
            "that model, nor an average of its weights; do not release it"
        )
    if watch.longest > 1 + clipping.TOLERANCE and not watch.unclipped:
        yield (
            f"the gradient of a record was {watch.longest:.2g} times as long as the clipping "
            "norm in the sum of a step: gradients of single records were not clipped"
        )
    if watch.ghost > 1 + clipping.TOLERANCE:
        yield (
            f"ghost clipping clips to a norm {watch.ghost:.2g} times as large as the "
            "optimiser's, by which the noise is scaled: gradients of single records were not "
            "clipped"
        )
    if watch.unclipped:
        yield (
            f"{watch.unclipped:,} of {made:,} steps summed their gradients to more than the "
            "clipping norm times their records: gradients of single records were not clipped"
        )
    if watch.unscaled:
        yield (
            f"{watch.unscaled:,} of {made:,} steps of ghost clipping had no norms of single "
            "records, so nothing was clipped: call the criterion that make_private returned"
        )
    if claimed and watch.optimizer is not None and not watch.opacus and made:
        if engine is not None or any(hasattr(p, "grad_sample") for p in watch.trainable):
            yield (
                f"the watched optimiser ({type(watch.plain).__name__}) is not Opacus's, so "
                "clipping and noise were not checked: call canaries.watch after make_private"
            )
        elif watch.whole:
            yield (
                f"{watch.whole:,} of {made:,} steps had no gradients of single records: the "
                "backward pass covered a whole batch, and clipping its gradient "
                "(clip_grad_norm_) does not limit any record; clip the gradient of each record"
            )


def doubts_of_epsilon(watch: Watch, epsilon: float | None, delta: float, engine: Any) -> list[str]:
    """Compare a stated ε with that of the observed steps, unless an accountant counted them."""
    counted = getattr(getattr(engine, "accountant", None), "history", None)
    spent = {key: steps for key, steps in watch.spent.items() if key[0] > 0}
    if epsilon is None or counted or not spent:
        return []
    more = Loss(spent, float(delta)).exceeds(float(epsilon))
    if more is None:
        return []
    noises = ", ".join(f"{noise:g}" for noise in sorted({noise for noise, _ in spent}))
    rates = ", ".join(f"{rate:.4g}" for rate in sorted({rate for _, rate in spent}))
    return [
        Doubt(
            f"epsilon = {epsilon:.4g} is claimed, but {sum(spent.values()):,} observed steps "
            f"with noise multiplier {noises} and sampling rate {rates} give {more:.4g} at "
            f"δ = {f'{delta:g}'.replace('e-0', 'e-')}"
        )
    ]


def unchecked(watch: Watch) -> list[str]:
    """Return sentences on what could not be checked, for the report."""
    sentences = []
    if (counts := watch.evaluated[1].tolist()) != [0, 0]:
        sentences.append(
            f"Between steps the model was evaluated on canaries, {counts[1]:,} times on some "
            f"that are in and {counts[0]:,} times on some that are out: ε covers no choice "
            "that uses this, such as when to stop or which weights to keep."
        )
    if watch.opacus and hasattr(watch.wrapper, "_per_sample_gradient_norms"):
        sentences.append(
            "Not checked: with ghost clipping, gradients of single records exist only inside "
            "Opacus."
        )
    elif watch.opacus and watch.rows and not watch.computed:
        sentences.append(
            "Not checked: by how much gradients of single records were clipped (batches that "
            f"are split, or larger than {clipping.MOST_ROWS}), but for the norm of their sum."
        )
    if not watch.tried and not watch.mixed:
        sentences.append(
            "Not checked: that the model's output for a record does not depend on the other "
            "records of its batch."
        )
    if watch.optimizer is not None and not watch.opacus:
        sentences.append("Not checked: noise and clipping of an optimiser that is not Opacus's.")
    return sentences


def _of_accountant(watch: Watch, rows: Floats, engine: Any) -> list[str]:
    history = getattr(getattr(engine, "accountant", None), "history", None)
    if not history:
        return []
    warnings = []
    counted = sum(steps for _, _, steps in history)
    if counted != (made := watch.before + len(rows)):
        warnings.append(
            f"the accountant counted {counted:,} steps, and {made:,} were made since "
            "canaries.watch was called"
        )
    noises = {noise for noise, _, _ in history}
    if watch.noise.claimed and noises != watch.noise.claimed:
        counted_noises, used = (
            ", ".join(f"{x:g}" for x in sorted(s)) for s in (noises, watch.noise.claimed)
        )
        warnings.append(
            f"the accountant counted noise multipliers {counted_noises}, the optimiser used {used}"
        )
    rate = sum(rate * steps for _, rate, steps in history) / counted
    mean = float(rows.mean()) if len(rows) else 0.0
    n = watch.records
    if len(rows) and n and _differs(rows, n, rate, rate):
        warnings.append(
            f"the accountant assumed batches of {rate * n:.1f} records on average, but "
            f"they had {mean:.1f}"
        )
    return warnings


def has_other_sum(p: Tensor, old: tuple[float, float]) -> bool:
    """True if the values of a frozen parameter have another sum than before."""
    total, magnitude = sum_of(p)
    return abs(total - old[0]) > SUM_OF_FROZEN * max(magnitude, old[1])


def _same_weights(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    """True if two models have equal parameters, up to the rounding of half precision."""
    pairs = list(zip_longest(one.parameters(), other.parameters()))
    return all(
        a is not None
        and b is not None
        and a.shape == b.shape
        and torch.allclose(a.detach().float().cpu(), b.detach().float().cpu(), 1e-2, 1e-4)
        for a, b in pairs
    )


def _differs(rows: Floats, n: int, low: float, high: float) -> bool:
    """True if steps use more or fewer of n records than probabilities low to high allow.

    Differences below 2 % are ignored: they hardly change ε, and drop_last causes them.
    """
    share = rows.mean() / n
    if low * 0.98 <= share <= high * 1.02:
        return False
    return p_of_total(rows.sum(), n * len(rows), low, high) < RARE
