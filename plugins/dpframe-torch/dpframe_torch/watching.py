"""Observe training: the canaries that the model was given, the batches, and the noise.

Hooks read everything while the script runs unchanged. Their counts are compared with the coins only
after the scores have been computed.
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from dpframe_torch import clipping, independence
from dpframe_torch.accounting import Loss
from dpframe_torch.checks import RARE, NoiseMeter, norm_of, p_of_evenness, p_of_missing, p_of_total
from dpframe_torch.gradients import GradientCanaries
from dpframe_torch.records import CanaryError, Doubt, keys_of
from dpframe_torch.scoring import check_model, gathered_objects, inner_of, ranks

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

MOST_BATCHES = 1_000  # kept before they are packed
KEY = "dpframe_run"
"""The key under which the metadata of a state_dict names the run."""
FEWEST_ROWS = 3  # of a batch with which independence is checked
TRIAL_BATCHES = 3  # such batches: a head that starts at zero hides everything in the first
FEWEST_STEPS = 10  # before batches are judged
SUM_ROUNDING = 1e-3  # of sums in float32, at most
SUM_OF_FROZEN = 1e-9  # rounding of sums in float64, at most


class Hook:
    """A hook that a copy of the model does not keep.

    A copy, such as an average of weights, is not watched. Without this class, copying or pickling
    a model would also copy the optimiser and the canaries.
    """

    __slots__ = ("_from_public_api", "call")

    def __init__(self, call: Callable[..., Any] | None = None) -> None:
        self.call = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return None if self.call is None else self.call(*args, **kwargs)

    def __deepcopy__(self, memo: Any) -> Hook:
        return Hook()

    def __reduce__(self) -> Any:
        return Hook, ()


class Keys:
    """Records by key, in the precision of their inputs."""

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        self.inputs = inputs
        self.tables: dict[torch.dtype, tuple[Tensor, Tensor]] = {}

    def find(self, rows: Tensor, keys: Tensor) -> Tensor:
        """Return the index of each row among the records, or −1 if it has none, shape [batch]."""
        if not self.inputs:
            return torch.full_like(keys, -1)
        if rows.dtype not in self.tables:
            ordered, places = torch.sort(self._keys(rows.dtype))
            self.tables[rows.dtype] = ordered.to(keys.device), places.to(keys.device)
        ordered, places = self.tables[rows.dtype]
        at = torch.searchsorted(ordered, keys).clamp(max=len(ordered) - 1)
        return torch.where(ordered[at] == keys, places[at], -1)

    def _keys(self, dtype: torch.dtype | None = None) -> Tensor:
        if len({(one.shape, one.dtype) for one in self.inputs}) == 1:
            return keys_of(torch.stack(list(self.inputs)).to(dtype or self.inputs[0].dtype))
        return torch.cat([keys_of(one[None].to(dtype or one.dtype)) for one in self.inputs])

    def repeated(self) -> tuple[int, int] | None:
        """Return the indices of two equal records, if there are any."""
        first: dict[int, int] = {}
        for place, key in enumerate(self._keys().tolist()):
            if key in first:
                return first[key], place
            first[key] = place
        return None

    def shared(self, others: Iterable[Tensor] = ()) -> Bools:
        """Return True for each record whose input another record or one of `others` has."""
        keys = self._keys().numpy()
        _, inverse, number = np.unique(keys, return_inverse=True, return_counts=True)
        elsewhere = [int(keys_of(one[None])) for one in others]
        return np.asarray((number[inverse] > 1) | np.isin(keys, elsewhere))


class Watch:
    """Hooks on a model and an optimiser, and their counts.

    Args:
        run: name of the run.
        kind: of the canaries.
        records: number of records in the training set.
        inputs: of the canaries.
        held_out: inputs that must not be used for training.
        seed: of the directions of gradient canaries.
        name: key of the inputs in records, which may be that of an argument of the model.
        included: canaries in the training set, shape [m]; default: all.
    """

    def __init__(
        self,
        run: str,
        kind: str,
        records: int,
        inputs: Sequence[Tensor],
        held_out: Sequence[Tensor],
        seed: np.random.SeedSequence,
        name: Any = None,
        included: Bools | None = None,
    ) -> None:
        self.run = run
        self.kind = kind
        self.records = records
        self.canaries = Keys(inputs)
        self.held_out = Keys(held_out)
        self.included = np.ones(len(inputs), np.bool_) if included is None else included
        self.seed = seed
        self.name = name
        self.found: list[Tensor] = []  # places of canaries, for each batch
        self.held_out_rows = 0
        self.rows: list[int] = []  # of each step
        self.accumulated = 1  # batches that Opacus adds up in a step
        self.pending: list[tuple[int, Tensor]] = []  # rows and canaries of batches since a step
        self.gradients: GradientCanaries | None = None
        self.noise = NoiseMeter()
        self.foreign: str | None = None  # another run whose weights were loaded
        self.loaded: tuple[int, int] | None = None  # steps of loaded weights, and made until then
        self.before = 0  # steps that earlier processes made
        self.loaded_unnamed: int | None = None  # steps before a file without a run was loaded
        self.unlike = False  # the audited model is another one, with other weights
        self.handles: list[Any] = []
        self.optimizer: Any = None
        self.plain: Any = None  # the optimiser inside wrappers
        self.opacus = False  # the optimiser is Opacus's
        self.model: Any = None
        self.wrapper: Any = None  # the model as it was passed
        self.spent: Counter[tuple[float, float]] = Counter()  # steps by noise and sampling rate
        self.bare = 0  # steps of the optimiser inside Opacus's that Opacus did not make
        self.unclipped = 0  # steps whose sum is longer than clipped gradients can make it
        self.computed = False  # factors of clipping, from a step
        self.ghost = 0.0  # largest norm to which ghost clipping clips, in units of the optimiser's
        self.longest = 0.0  # gradient of a record in a sum, in units of the clipping norm
        self.unscaled = 0  # steps of ghost clipping without norms of single records
        self.whole = 0  # plain steps without gradients of single records
        self.mapped = False  # records went through the model one at a time, or by `vmap`
        self.tries = 0  # batches with which it was tried if records mix
        self.tried = False  # it could be tried
        self.trying = False
        self.mixed: str | None = None  # how records mix
        self.last: tuple[Any, Any] = (None, None)  # sum and norms of the last step
        self.frozen: list[tuple[Tensor, tuple[float, float]]] = []  # with sums of their values
        self.thawed: set[int] = set()  # ids of frozen parameters that another optimiser has
        self.others: Counter[str] = Counter()  # steps of other optimisers on these parameters
        self.beside = [0, 0]  # steps on a copy's parameters: since the last step, and before it
        self.evaluated = torch.zeros(2, 2, dtype=torch.int64)  # canaries out and in, as above
        self.since = 0  # steps before the present optimiser
        if kind == "random-gradient" and (pair := self.canaries.repeated()):
            raise CanaryError(
                f"canaries {pair[0]} and {pair[1]} have the same input: fewer canaries, or a "
                "larger vocabulary="
            )

    def attach(self, model: torch.nn.Module, optimizer: Any) -> None:
        """Add the hooks."""
        check_model(model)
        if "Accelerated" in type(optimizer).__name__:  # of Accelerate, around Opacus's
            optimizer = optimizer.optimizer
        plain = getattr(optimizer, "original_optimizer", optimizer)
        plain = getattr(plain, "optimizer", plain)
        if plain is not None and not hasattr(plain, "register_step_pre_hook"):
            raise CanaryError(
                f"optimizer: {type(optimizer).__name__} is not a torch.optim.Optimizer; pass one "
                "optimiser, or none"
            )
        self.model = inner = inner_of(model)
        self.since = len(self.rows)
        self.trainable = [p for p in inner.parameters() if p.requires_grad]
        self.start = [p.detach().clone() for p in self.trainable]
        self.shapes = sorted(tuple(p.shape) for p in self.trainable)
        frozen = [p for p in inner.parameters() if not p.requires_grad]
        self.frozen = [(p, _sum_of(p)) for p in frozen]
        called = [inner]
        if type(model).__name__ == "GradSampleModuleNoOp":  # it calls inner.forward, without hooks
            called.append(model)
        for one in called:
            hook = Hook(self._forward)
            self.handles.append(one.register_forward_pre_hook(hook, with_kwargs=True))
        self.handles.append(inner.register_state_dict_post_hook(Hook(self._saved)))
        self.handles.append(inner.register_load_state_dict_pre_hook(Hook(self._loaded)))
        self.optimizer, self.plain, self.wrapper = optimizer, plain, model
        self.opacus = hasattr(optimizer, "noise_multiplier")
        other = weakref.WeakMethod(self._other_step)  # the hook is global
        self.handles.append(register_optimizer_step_pre_hook(partial(_called, other)))
        if optimizer is not None:
            self.noise.start(optimizer if self.opacus else None)
            # A plain optimiser may call its closure, with the forward pass, during the step.
            when = plain.register_step_pre_hook if self.opacus else plain.register_step_post_hook
            self.handles.append(when(Hook(self._step)))
        if self.kind == "random-gradient":
            if not hasattr(optimizer, "clip_and_accumulate"):
                raise CanaryError(
                    "random-gradient canaries need Opacus's DPOptimizer: call canaries.watch("
                    "model, optimizer) with the model and optimizer that make_private returned"
                )
            earlier, self.gradients = (
                self.gradients,
                GradientCanaries(
                    len(self.canaries.inputs), optimizer, self.records, self.seed, self.included
                ),
            )
            self.gradients.go_on(earlier)
            self.gradients.attach(lambda: [slots for _, slots in self.pending])

    def detach(self) -> None:
        """Remove the hooks; what they observed is kept."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        if self.gradients is not None:
            self.gradients.detach()

    def __deepcopy__(self, memo: Any) -> Watch:
        """Return this object, because copies of canaries belong to the same training."""
        return self

    # Hooks.

    def _forward(self, module: torch.nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        if self.trying:
            return
        if not (module.training and torch.is_grad_enabled()):
            self._evaluate(args, kwargs)
            return
        inputs = self._inputs(args, kwargs)
        if inputs is None:
            return
        self._try_records(module, args, kwargs, len(inputs))
        keys = self._keys_of(inputs, kwargs)
        slots = self.canaries.find(inputs, keys)
        if self.held_out.inputs:
            self.held_out_rows += int((self.held_out.find(inputs, keys) >= 0).sum())
        self.pending.append((len(inputs), slots))
        if self.optimizer is None:  # every batch counts as a step
            self._count()

    def _evaluate(self, args: Any, kwargs: dict[str, Any]) -> None:
        """Count canaries, out and in, in what the model is given without being trained."""
        mapped = self.mapped
        try:
            if (inputs := self._inputs(args, kwargs)) is not None:
                slots = self.canaries.find(inputs, self._keys_of(inputs, kwargs)).cpu()
                coins = torch.as_tensor(self.included)[slots[slots >= 0]]
                self.evaluated[0] += torch.bincount(coins.long(), minlength=2)
        except Exception:  # an evaluation may take anything, and must not end
            pass
        self.mapped = mapped

    def _keys_of(self, inputs: Tensor, kwargs: dict[str, Any]) -> Tensor:
        mask = kwargs.get("attention_mask")
        flat = mask is not None and torch.is_tensor(mask) and mask.ndim == 2
        return keys_of(inputs, mask if flat else None)

    def _try_records(self, module: Any, args: Any, kwargs: dict[str, Any], rows: int) -> None:
        """Check at the first large batches that records do not mix in the model."""
        if self.tries >= TRIAL_BATCHES or self.mixed or rows < FEWEST_ROWS or ranks()[1] > 1:
            return
        self.tries += 1
        if self.mapped or torch.compiler.is_compiling():  # `vmap` keeps records apart
            self.tried |= self.mapped
            return
        self.trying = True
        hooks = hasattr(self.wrapper, "capture_backprops_hook")
        ghost = hasattr(self.wrapper, "_per_sample_gradient_norms")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                done = independence.check(module, args, kwargs, rows)
                if hooks and not ghost:
                    done &= independence.check_samples(self.wrapper, args, kwargs, rows)
                self.tried |= done
        except independence.MixtureError as found:
            self.mixed = str(found)
        except Exception:  # a trial must never end a training
            pass
        finally:
            self.trying = False

    def _step(self, *_: Any) -> None:
        """Observe the released gradient of a step, after clipping and noise."""
        if not self.opacus:
            self.whole += not self._shows_records()
            self._count()
            return
        if not self._made_by_opacus():
            self.bare += 1
            self._count()
            return
        if hasattr(self.optimizer, "accumulated_iterations"):
            self.accumulated = self.optimizer.accumulated_iterations
        if self.gradients is not None:
            self.gradients.after_step()
        before = self.noise.clip  # adaptive clipping has changed the norm
        if ranks()[1] == 1:
            self.noise.look(self.optimizer)
        self._look_at_clipping(max(before, norm_of(self.optimizer)))
        batch = (self.optimizer.expected_batch_size or 0) * self.accumulated
        batch *= getattr(self.optimizer, "world_size", 1)
        rate = (batch or sum(rows for rows, _ in self.pending)) / max(1, self.records)
        self.spent[float(self.optimizer.noise_multiplier), min(1.0, rate)] += 1
        self._count()

    def _made_by_opacus(self) -> bool:
        """True if Opacus summed clipped gradients for this step of the optimiser inside."""
        own = [p for p in self.optimizer.params if p.grad is not None]
        sums = [getattr(p, "summed_grad", None) for p in own]
        made = all(one is not None for one in sums)
        fresh = not sums or sums[0] is not self.last[0]
        if sums:
            self.last = sums[0], self.last[1]
        return made and fresh

    def _look_at_clipping(self, limit: float) -> None:
        """Compare the sum of a step with the longest that clipped gradients can have."""
        rows, step = sum(rows for rows, _ in self.pending), len(self.rows) + 1
        if limit and step & (step - 1) == 0:  # steps 1, 2, 4, 8 …
            longest = clipping.longest(self.optimizer, rows)
            self.computed |= longest is not None
            self.longest = max(self.longest, (longest or 0.0) / limit)
        sums = [p.summed_grad for p in self.optimizer.params if p.grad is not None]
        if rows and sums and not hasattr(self.optimizer, "unclipped_num_std"):
            norm = math.sqrt(sum(float(one.detach().float().norm()) ** 2 for one in sums))
            self.unclipped += norm > rows * norm_of(self.optimizer) * (1 + SUM_ROUNDING)
        if hasattr(self.wrapper, "_per_sample_gradient_norms"):  # ghost clipping
            norms = self.wrapper._per_sample_gradient_norms
            self.ghost = max(self.ghost, norm_of(self.wrapper) / limit if limit else 0.0)
            self.unscaled += bool(rows) and (norms is None or norms is self.last[1])
            self.last = self.last[0], norms

    def _shows_records(self) -> bool:
        """True if gradients of single records were there before a step of a plain optimiser."""
        kept = any(
            getattr(p, name, None) is not None
            for p in self.trainable
            for name in ("grad_sample", "grad_batch")
        )
        single = all(rows <= 1 for rows, _ in self.pending)
        mapped, self.mapped = self.mapped, False
        return kept or single or mapped

    def _other_step(self, optimizer: Any, *_: Any) -> None:
        """Count a step of another optimiser on the watched parameters."""
        if optimizer is self.plain or optimizer is self.optimizer:
            return
        groups = self.plain.param_groups if self.plain is not None else [{"params": self.trainable}]
        own = {id(p) for group in groups for p in group["params"]}
        params = [p for group in optimizer.param_groups for p in group["params"]]
        self.thawed |= {id(p) for p, _ in self.frozen} & {id(p) for p in params}
        if any(id(p) in own for p in params):
            self.others[type(optimizer).__name__] += 1
        elif all(getattr(p, "summed_grad", None) is None for p in params):  # not Opacus's
            self.beside[0] += sorted(tuple(p.shape) for p in params) == self.shapes

    def _count(self) -> None:
        """Count the batches of a step."""
        self.found += [slots for _, slots in self.pending]
        if len(self.found) > MOST_BATCHES:
            self.found = [torch.cat([one[one >= 0] for one in self.found])]
        # Before the first step and after the last, such steps may be those of reference models.
        for counts in (self.beside, self.evaluated):
            counts[1] += counts[0] if self.rows else 0
            counts[0] -= counts[0]
        self.rows.append(sum(rows for rows, _ in self.pending))
        self.pending.clear()

    def _saved(self, module: Any, state: Any, prefix: str, metadata: Any) -> None:
        if hasattr(state, "_metadata"):
            made = self.before + len(self.rows)
            state._metadata.setdefault(prefix[:-1], {})[KEY] = (self.run, made)

    def _loaded(
        self, module: Any, state: Any, prefix: str, metadata: dict[str, Any], *_: Any
    ) -> None:
        run, steps = metadata.get(KEY, (None, None))
        self.loaded_unnamed = len(self.rows) if run is None else None
        if run is not None:
            self.foreign = run if run != self.run else None
            self.loaded = (steps, len(self.rows))
            if run == self.run:
                self.before = max(self.before, steps - len(self.rows))

    def _inputs(self, args: Any, kwargs: dict[str, Any]) -> Tensor | None:
        """Return the tensor of records among the arguments of a model.

        It is the one with the name that inputs have in records, or else the first that has their
        shape, or else the first of all.
        """
        if len(args) == 1 and not kwargs and torch.is_tensor(args[0]):  # as most models are called
            return self._unwrapped(args[0]) if args[0].ndim else None
        tensors = list(_tensors([args, kwargs]))
        own = self.canaries.inputs[0]
        named = [one for name, one in tensors if name is not None and name == self.name]
        shaped = [one for _, one in tensors if one.shape[1:] == own.shape]
        chosen = next(iter([*named, *shaped, *(one for _, one in tensors)]), None)
        return None if chosen is None else self._unwrapped(chosen)

    def _unwrapped(self, tensor: Tensor) -> Tensor:
        """Return all rows of a tensor, also inside `torch.func.vmap` over records."""
        functorch = torch._C._functorch
        while functorch.is_functorch_wrapped_tensor(tensor):
            mapped = functorch.is_batchedtensor(tensor)
            self.mapped |= mapped
            place = functorch.maybe_get_bdim(tensor) if mapped else -1
            tensor = functorch.get_unwrapped(tensor)
            tensor = tensor.movedim(place, 0) if place >= 0 else tensor
        return tensor

    # Findings.

    def check_model(self, model: torch.nn.Module) -> None:
        """Raise CanaryError unless this model was trained in this run."""
        if self.foreign is not None:
            raise CanaryError(
                f"the weights are those of run {self.foreign}, the canaries are of run {self.run}: "
                "load the checkpoint of this run"
            )
        inner = inner_of(model)
        self.unlike = inner is not self.model and not _same_weights(inner, self.model)
        if inner is self.model or self.loaded is not None:
            now = [p for p in inner.parameters() if p.requires_grad]
            same = len(now) == len(self.start) and all(
                a.shape == b.shape and torch.equal(a.detach().to(b.device), b)
                for a, b in zip(now, self.start, strict=False)
            )
            if same:
                raise CanaryError(
                    "the model has the weights from before the training, those it had when "
                    "canaries.watch was called: nothing to audit; call watch before the first step"
                )

    def warnings(
        self,
        members: Bools,
        epsilon: float | None,
        engine: Any,
        others: Callable[[], Iterable[Tensor]] = tuple,
    ) -> list[str]:
        """Return warnings in words, from the counts of all ranks.

        Args:
            members: the coins, shape [m].
            epsilon: of the claim.
            engine: Opacus's PrivacyEngine, or None.
            others: returns inputs of records that are no canaries. It is called only if canaries
                seem to be missing or misplaced, because equal inputs cause the same.
        """
        places = torch.cat([torch.zeros(0, dtype=torch.int64), *(one.cpu() for one in self.found)])
        own = np.bincount(places[places >= 0].numpy(), minlength=len(members))
        seen = np.sum(gathered_objects(own), axis=0)
        # A batch of distributed training is what all ranks had in a step.
        every = zip_longest(*gathered_objects(self.rows), fillvalue=0)
        rows = np.array([sum(one) for one in every], float)
        apart = ~self.canaries.shared()
        warnings = self._of_canaries(seen[apart], rows, members[apart])
        uneven = self._of_batches(rows, seen[apart & members], epsilon, engine)
        if (warnings or uneven) and seen.any():
            apart = ~self.canaries.shared(others())
            warnings = self._of_canaries(seen[apart], rows, members[apart])
            uneven = self._of_batches(rows, seen[apart & members], epsilon, engine)
        if self.held_out_rows:
            warnings.append(
                f"records of held_out were trained on, {self.held_out_rows:,} times: "
                "measurements on them say nothing about new data"
            )
        warnings += map(Doubt, self.noise.warnings())
        claimed = engine is not None or (epsilon is not None and math.isfinite(epsilon))
        if self.optimizer is None:
            text = "the optimiser was not watched: batches, clipping and noise were not checked"
            warnings.append(Doubt(f"{text}; pass it to canaries.watch") if claimed else text)
        elif not self.rows and not self.before:
            warnings.append(
                Doubt(
                    "the watched optimiser made no step: pass the one that trains the model; "
                    "canaries, batches and noise were not checked"
                )
            )
        else:
            warnings += uneven
            warnings += self._of_other_parameters()
            warnings += map(Doubt, self._of_accountant(rows, engine))
        warnings += map(Doubt, self._of_clipping(claimed, engine))
        if self.unlike or (self.rows and self.loaded_unnamed == len(self.rows)):
            warnings.append(
                Doubt(
                    "the weights may not be those of the end of this training: "
                    + (
                        "the model is not the one that was watched and its weights differ"
                        if self.unlike
                        else "they were loaded after it from a file that does not name its run"
                    )
                    + "; an earlier checkpoint, an average of weights or another run shows less of "
                    "what this training leaked, or nothing"
                )
            )
        made = self.before + len(self.rows)
        if self.before:
            text = (
                f"{self.before:,} of {made:,} steps were made by an earlier process, so their "
                "canaries, batches and noise were not checked, and gradient scores do not include "
                "them"
            )
            warnings.append(Doubt(text) if self.before > made / 2 else text)
        if self.loaded and (step := self.loaded[0] + len(self.rows) - self.loaded[1]) != made:
            text = (
                f"the weights are those after step {step:,} of {made:,}: "
                "the claim covers the whole training, so this audit sees only part of it"
            )
            warnings.append(Doubt(text) if step < made / 2 else text)
        return warnings

    def _of_canaries(self, seen: Any, rows: Floats, members: Bools) -> list[str]:
        """Compare the canaries with unique inputs with what was trained on."""
        warnings: list[str] = []
        trained = int(rows.sum())
        inside, outside = int(members.sum()), int((~members).sum())
        present, absent = int((seen[members] > 0).sum()), int((seen[~members] > 0).sum())
        if not trained:
            unseen = len(rows) or (self.optimizer is None and not self.before)
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
        chance = math.exp(-trained / max(1, self.records))
        if trained >= self.records and p_of_evenness(seen[members], len(rows)) < RARE / 2:
            # A shuffled loader leaves out less than a batch in its first epoch.
            chance = min(chance, float(np.median(rows)) / self.records)
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
        hits, share = int(seen[members].sum()), inside / max(1, self.records)
        rare = share < 1 and p_of_missing(trained - hits, max(1, trained), 1 - share) < RARE
        if rare and hits < 0.9 * trained * share and not warnings:
            text = (
                f"canaries were recognised {hits:,} times in what was trained on, and "
                f"{trained * share:,.0f} times were expected: an augmentation changes some of "
                "them, a sampler prefers other records, or other data are trained on too"
            )
            warnings.append(Doubt(text) if hits < trained * share / 2 else text)
        return warnings

    def _of_batches(self, rows: Floats, seen: Any, epsilon: float | None, engine: Any) -> list[str]:
        steps, n = len(rows), self.records
        if steps < FEWEST_STEPS or not n:
            return []
        warnings = []
        accounted = engine is not None or hasattr(self.optimizer, "expected_batch_size")
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
        expected = getattr(self.optimizer, "expected_batch_size", None)
        if expected:
            world = getattr(self.optimizer, "world_size", 1)
            expected *= self.accumulated * world
            rounded = self.accumulated * world  # Opacus rounds down, in each rank
            now = rows[self.since :]  # Opacus's optimiser may be a second one
            if len(now) and _differs(now, n, expected / n, (expected + rounded) / n):
                warnings.append(
                    f"a step had {now.mean():.1f} records on average, but Opacus's "
                    f"expected_batch_size is {expected:g}: the batch size that is trained with is "
                    "not the one that is accounted for"
                )
        return [*map(Doubt, warnings)] if accounted else warnings

    def _of_other_parameters(self) -> list[str]:
        """Name parameters that changed although the watched optimiser does not train them."""
        if self.loaded is not None or self.loaded_unnamed is not None:
            return []
        own = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        changed = sum(
            id(p) not in own
            and (p.shape, p.dtype) == (old.shape, old.dtype)
            and not torch.equal(p.detach().to(old.device), old)
            for p, old in zip(self.trainable, self.start, strict=True)
        )
        changed += sum(
            id(p) not in own and self._is_thawed(p) and _has_other_sum(p, old)
            for p, old in self.frozen
        )
        if not changed:
            return []
        of = len(self.trainable) + len(self.frozen)
        text = (
            f"{changed} of {of} parameters changed although the watched optimiser "
            "does not train them, so another one does: its steps were not checked"
        )
        if not hasattr(self.optimizer, "noise_multiplier"):
            return [text]
        return [Doubt(f"{text}, and the accountant's ε does not cover them")]

    def _is_thawed(self, p: Tensor) -> bool:
        """True if a frozen parameter was trained; merging LoRA changes its value, too."""
        return p.requires_grad or p.grad is not None or id(p) in self.thawed

    def _of_clipping(self, claimed: bool, engine: Any) -> Iterator[str]:
        """Name steps whose gradients of single records were not clipped, or not noised."""
        made = len(self.rows)
        if claimed and self.mixed:
            yield f"{self.mixed}, so clipping does not limit what a single record changes"
        if self.bare:
            yield (
                f"{self.bare:,} of {made:,} steps were made by {type(self.plain).__name__}.step() "
                "and not by the optimiser that make_private returned: they had no clipping and no "
                "noise, and the accountant did not count them; call step() of the private optimiser"
            )
        if self.others:
            names = ", ".join(sorted(self.others))
            yield (
                f"another optimiser ({names}) made {self.others.total():,} steps on the watched "
                "parameters, and their clipping and noise were not seen: train with the watched "
                "optimiser alone"
            )
        if claimed and self.beside[1]:
            yield (
                f"between its steps, a model with the same parameters was trained, "
                f"{self.beside[1]:,} steps without gradients of single records: ε does not cover "
                "that model, nor an average of its weights; do not release it"
            )
        if self.longest > 1 + clipping.TOLERANCE and not self.unclipped:
            yield (
                f"the gradient of a record was {self.longest:.2g} times as long as the clipping "
                "norm in the sum of a step: gradients of single records were not clipped"
            )
        if self.ghost > 1 + clipping.TOLERANCE:
            yield (
                f"ghost clipping clips to a norm {self.ghost:.2g} times as large as the "
                "optimiser's, by which the noise is scaled: gradients of single records were not "
                "clipped"
            )
        if self.unclipped:
            yield (
                f"{self.unclipped:,} of {made:,} steps summed their gradients to more than the "
                "clipping norm times their records: gradients of single records were not clipped"
            )
        if self.unscaled:
            yield (
                f"{self.unscaled:,} of {made:,} steps of ghost clipping had no norms of single "
                "records, so nothing was clipped: call the criterion that make_private returned"
            )
        if claimed and self.optimizer is not None and not self.opacus and made:
            if engine is not None or any(hasattr(p, "grad_sample") for p in self.trainable):
                yield (
                    f"the watched optimiser ({type(self.plain).__name__}) is not Opacus's, so "
                    "clipping and noise were not checked: call canaries.watch after make_private"
                )
            elif self.whole:
                yield (
                    f"{self.whole:,} of {made:,} steps had no gradients of single records: the "
                    "backward pass covered a whole batch, and clipping its gradient "
                    "(clip_grad_norm_) does not limit any record; clip the gradient of each record"
                )

    def doubts_of_epsilon(self, epsilon: float | None, delta: float, engine: Any) -> list[str]:
        """Compare a stated ε with that of the observed steps, unless an accountant counted them."""
        counted = getattr(getattr(engine, "accountant", None), "history", None)
        spent = {key: steps for key, steps in self.spent.items() if key[0] > 0}
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
                f"δ = {delta:g}"
            )
        ]

    def unchecked(self) -> list[str]:
        """Return sentences on what could not be checked, for the report."""
        sentences = []
        if (counts := self.evaluated[1].tolist()) != [0, 0]:
            sentences.append(
                f"Between steps the model was evaluated on canaries, {counts[1]:,} times on some "
                f"that are in and {counts[0]:,} times on some that are out: ε covers no choice "
                "that uses this, such as when to stop or which weights to keep."
            )
        if self.opacus and hasattr(self.wrapper, "_per_sample_gradient_norms"):
            sentences.append(
                "Not checked: with ghost clipping, gradients of single records exist only inside "
                "Opacus."
            )
        elif self.opacus and self.rows and not self.computed:
            sentences.append(
                "Not checked: by how much gradients of single records were clipped (batches that "
                f"are split, or larger than {clipping.MOST_ROWS}), but for the norm of their sum."
            )
        if not self.tried and not self.mixed:
            sentences.append(
                "Not checked: that the model's output for a record does not depend on the other "
                "records of its batch."
            )
        if self.optimizer is not None and not self.opacus:
            sentences.append(
                "Not checked: noise and clipping of an optimiser that is not Opacus's."
            )
        return sentences

    def _of_accountant(self, rows: Floats, engine: Any) -> list[str]:
        history = getattr(getattr(engine, "accountant", None), "history", None)
        if not history:
            return []
        warnings = []
        counted = sum(steps for _, _, steps in history)
        if counted != (made := self.before + len(rows)):
            warnings.append(
                f"the accountant counted {counted:,} steps, and {made:,} were made since "
                "canaries.watch was called"
            )
        noises = {noise for noise, _, _ in history}
        if self.noise.claimed and noises != self.noise.claimed:
            counted_noises, used = (
                ", ".join(f"{x:g}" for x in sorted(s)) for s in (noises, self.noise.claimed)
            )
            warnings.append(
                f"the accountant counted noise multipliers {counted_noises}, the optimiser used "
                f"{used}"
            )
        rate = sum(rate * steps for _, rate, steps in history) / counted
        mean = float(rows.mean()) if len(rows) else 0.0
        n = self.records
        if len(rows) and n and _differs(rows, n, rate, rate):
            warnings.append(
                f"the accountant assumed batches of {rate * n:.1f} records on average, but "
                f"they had {mean:.1f}"
            )
        return warnings

    def described(self) -> dict[str, Any]:
        """Return counts for the record; none of them reveals a single canary."""
        return {
            "steps": len(self.rows),
            "records": int(sum(self.rows)),
            "largest_batch": max(self.rows, default=0),
            "noise": self.noise.described(),
            "directions": None if self.gradients is None else self.gradients.described(),
        }


def _called(method: weakref.WeakMethod[Callable[..., None]], *args: Any) -> None:
    """Call a method unless its object is gone."""
    if (call := method()) is not None:
        call(*args)


def _sum_of(p: Tensor) -> tuple[float, float]:
    """Return the sum of a parameter and that of its magnitudes, in place of a copy."""
    try:
        total = float(torch.sum(p.detach(), dtype=torch.float64))
        return total, float(p.detach().abs().sum(dtype=torch.float64))
    except (RuntimeError, TypeError):  # numbers of less than eight bits have no sums
        return 0.0, 0.0


def _has_other_sum(p: Tensor, old: tuple[float, float]) -> bool:
    total, magnitude = _sum_of(p)
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


def _tensors(value: Any, name: Any = None) -> Iterator[tuple[Any, Tensor]]:
    """Yield the tensors in the arguments of a model with their names, in order."""
    if torch.is_tensor(value):
        if value.ndim:
            yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(item, key)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item, name)
