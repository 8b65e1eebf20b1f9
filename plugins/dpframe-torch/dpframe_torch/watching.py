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
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from dpframe_torch import clipping, independence
from dpframe_torch.checks import NoiseMeter, norm_of
from dpframe_torch.gradients import GradientCanaries
from dpframe_torch.records import CanaryError, keys_of
from dpframe_torch.scoring import check_model, inner_of, ranks

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

MOST_BATCHES = 1_000  # kept before they are packed
KEY = "dpframe_run"
"""The key under which the metadata of a state_dict names the run."""
FEWEST_ROWS = 3  # of a batch with which independence is checked
TRIAL_BATCHES = 3  # such batches: a head that starts at zero hides everything in the first
SUM_ROUNDING = 1e-3  # of sums in float32, at most


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
        self.frozen = [(p, sum_of(p)) for p in frozen]
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


def sum_of(p: Tensor) -> tuple[float, float]:
    """Return the sum of a parameter and that of its magnitudes, in place of a copy."""
    try:
        total = float(torch.sum(p.detach(), dtype=torch.float64))
        return total, float(p.detach().abs().sum(dtype=torch.float64))
    except (RuntimeError, TypeError):  # numbers of less than eight bits have no sums
        return 0.0, 0.0


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
