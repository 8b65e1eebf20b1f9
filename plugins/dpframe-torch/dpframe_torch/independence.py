"""Check that records do not mix: outputs and gradients of one must not depend on the others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

MOST_RECORDS = 4  # records of a kind in a trial batch
SEED = 0x5EED
LOW = {torch.float16: 1e-2, torch.bfloat16: 5e-2}
TOLERANCE = 2e-5  # of the largest output: batches of one shape are computed in one order
ZERO = 1e-4  # of the largest gradient: below, gradients may be nothing but rounding
OF_GRADIENTS = 2e-2  # samplers may add in another order

MIXED = "the output of a record depends on the other records of its batch in module {}: replace it"
SAMPLED = (
    "Opacus gets other gradients of single records than autograd in module {}: its gradient "
    "sampler is wrong, or records mix"
)


class MixtureError(Exception):
    """A module in which records depend on each other, or whose gradients of records are wrong."""


def check(module: torch.nn.Module, args: Any, kwargs: Mapping[str, Any], rows: int) -> bool:
    """Check on parts of a batch if the records of a model mix.

    The first records of two batches are the same and the others differ; both batches get the same
    random numbers, so dropout is equal. Buffers and the state of random generators are restored.

    Args:
        module: the model, in the mode of its training.
        args: its positional arguments.
        kwargs: its other arguments.
        rows: number of records in them.

    Returns:
        True if the model could be tried.

    Raises:
        MixtureError: the output of a record depends on the others; the message names the module.
    """
    pivots = min(MOST_RECORDS, rows // 3)
    others = min(MOST_RECORDS, (rows - pivots) // 2)
    if not pivots:
        return False
    first = list(range(pivots + others))
    second = [*range(pivots), *range(pivots + others, pivots + 2 * others)]
    with kept(module), torch.no_grad():
        one, again, other = (
            outputs(module, args, kwargs, rows, places) for places in (first, first, second)
        )
        shorter = outputs(module, args, kwargs, rows, first[:-1])
    whole, repeated, mixed, less = (each[-1][1] for each in (one, again, other, shorter))
    if whole is None or repeated is None or mixed is None or less is None:
        return False
    if len(whole) != len(first) or len(less) != len(first) - 1:
        return False  # the first axis does not count records
    if not same(whole[:pivots], repeated[:pivots]):
        return False  # the output is random in spite of the seed
    if same(whole[:pivots], mixed[:pivots]):
        return True
    for (name, ours), (_, theirs) in zip(one, other, strict=True):
        if ours is None or theirs is None or len(ours) != len(first):
            continue
        if not same(ours[:pivots], theirs[:pivots]):
            raise MixtureError(MIXED.format(name))
    raise MixtureError(MIXED.format(type(module).__name__))


def outputs(
    module: torch.nn.Module, args: Any, kwargs: Any, rows: int, places: Sequence[int]
) -> list[tuple[str, Tensor | None]]:
    """Return names of modules and their first output tensors, in the order in which they end."""
    outputs: list[tuple[str, Tensor | None]] = []

    def note(name: str) -> Callable[..., None]:
        def hook(one: Any, given: Any, output: Any) -> None:
            tensor = first_tensor(output)
            outputs.append((name, None if tensor is None else tensor.detach().clone()))

        return hook

    handles = []
    for name, one in module.named_modules():
        title = type(one).__name__
        handles.append(one.register_forward_hook(note(f"{name} ({title})" if name else title)))
    try:
        torch.manual_seed(SEED)
        module(*part(args, rows, places), **part(kwargs, rows, places))
    finally:
        for handle in handles:
            handle.remove()
    return outputs


def first_tensor(value: Any) -> Tensor | None:
    """Return the first floating-point tensor with an axis in an output."""
    if torch.is_tensor(value):
        return value if value.ndim and value.is_floating_point() else None
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return next((one for one in map(first_tensor, value) if one is not None), None)
    return None


def part(value: Any, rows: int, places: Sequence[int]) -> Any:
    """Return some records of each tensor that has one row for each record."""
    if torch.is_tensor(value):
        has_rows = value.ndim > 0 and len(value) == rows
        return value.detach()[list(places)].clone() if has_rows else value
    if isinstance(value, Mapping):
        return {key: part(item, rows, places) for key, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)(part(item, rows, places) for item in value)
    return value


def same(one: Tensor, other: Tensor, tolerance: float = TOLERANCE, least: float = 0.0) -> bool:
    """True if two tensors are equal up to rounding, or up to `least`."""
    tolerance = LOW.get(one.dtype, tolerance)
    one, other = one.double(), other.double()
    if not one.numel() or not (one.isfinite().all() and other.isfinite().all()):
        return True  # nothing can be compared
    scale = float(torch.maximum(one.abs().max(), other.abs().max()))
    return float((one - other).abs().max()) <= max(tolerance * scale, least)


@contextlib.contextmanager
def kept(module: torch.nn.Module) -> Iterator[None]:
    """Restore buffers and random numbers after trial calls."""
    buffers = [(one, one.detach().clone()) for one in module.buffers()]
    devices = sorted({p.device.index or 0 for p in module.parameters() if p.is_cuda})
    with torch.random.fork_rng(devices):
        try:
            yield
        finally:
            with torch.no_grad():
                for one, value in buffers:
                    one.copy_(value)


def check_samples(wrapper: Any, args: Any, kwargs: Mapping[str, Any], rows: int) -> bool:
    """Compare gradients of single records from Opacus's hooks with those of autograd.

    Args:
        wrapper: Opacus's model.
        args: its positional arguments.
        kwargs: its other arguments.
        rows: number of records in them.

    Returns:
        True if they could be compared.

    Raises:
        MixtureError: they differ; the message names the module.
    """
    module, number = wrapper._module, min(MOST_RECORDS, rows)
    owners = {
        id(p): f"{name} ({type(one).__name__})"
        for name, one in module.named_modules()
        for p in one.parameters(recurse=False)
    }
    params = [p for p in module.parameters() if p.requires_grad]
    hooked = any(p._backward_hooks or p._post_accumulate_grad_hooks for p in params)
    busy = any(getattr(one, "activations", None) for one in module.modules())
    if number < 2 or hooked or busy:
        return False
    inputs = part(args, rows, range(number)), part(kwargs, rows, range(number))
    reduce = torch.mean if wrapper.loss_reduction == "mean" else torch.sum

    def weighted() -> Tensor | None:
        """Return a random combination of the outputs of each record."""
        torch.manual_seed(SEED)
        output = wrapper(*inputs[0], **inputs[1])
        tensor = first_tensor(output)
        if tensor is None or len(tensor) != number:
            return None
        draws = torch.Generator().manual_seed(SEED)
        weights = torch.randn(tensor.shape, generator=draws).to(tensor.device, tensor.dtype)
        return (tensor * weights).reshape(number, -1).sum(1)

    with kept(module), _without_gradients(module, params), torch.enable_grad():
        try:
            wrapper.disable_hooks()
            each = weighted()
            if each is None or not each.requires_grad:
                return False
            exact = [
                torch.autograd.grad(each[row], params, retain_graph=True, allow_unused=True)
                for row in range(2)
            ]
            wrapper.enable_hooks()
            sampled = weighted()
            assert sampled is not None
            reduce(sampled).backward()
            samples = [getattr(p, "grad_sample", None) for p in params]
        finally:
            wrapper.enable_hooks()
    for row, truths in enumerate(exact):
        largest = max((float(one.abs().max()) for one in truths if one is not None), default=0.0)
        for p, truth, sample in zip(params, truths, samples, strict=True):
            if sample is None or isinstance(sample, list) or len(sample) != number:
                continue
            exactly = torch.zeros_like(p) if truth is None else truth
            if not same(sample[row], exactly, OF_GRADIENTS, ZERO * largest):
                raise MixtureError(SAMPLED.format(owners[id(p)]))
    return True


@contextlib.contextmanager
def _without_gradients(module: torch.nn.Module, params: Sequence[Any]) -> Iterator[None]:
    """Restore gradients, and what Opacus keeps between its hooks, after a trial."""
    names = ("grad", "grad_sample", "_forward_counter")
    before = [[getattr(p, name, None) for name in names] for p in params]
    for p in params:
        p.grad = p.grad_sample = None
    try:
        yield
    finally:
        for p, values in zip(params, before, strict=True):
            for name, value in zip(names, values, strict=True):
                if value is not None or hasattr(p, name):
                    setattr(p, name, value)
        for one in module.modules():
            if getattr(one, "activations", None):
                one.activations.clear()
