"""Noise of PyTorch, followed in processes that have imported PyTorch.

A tensor of noise has an attribute with its history: the same numbers as noise of NumPy. A
`TorchFunctionMode` sees each function of tensors, draws noise from the tape, and hands sums and
products to the functions for NumPy. Noise keeps its history in 32 and 64 bits only.
"""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from dpframe_trace.active import check_seed, note_seed, put, tape
from dpframe_trace.noise import Tape, followed, is_noise, listed, plain, wrap

_HISTORY = "dpframe_noise"
_DEFAULT = types.SimpleNamespace(fixed=None)
"""The seed that an import fixes for the default generator."""
_FRESH_SEED = 67280421310721
"""The seed of each new `torch.Generator`."""
MOST_CHOICES = 1000
"""Most choices of one call that are followed one by one."""


def _torch() -> Any:
    torch: Any = sys.modules.get("torch")
    return torch if hasattr(torch, "overrides") else None


@contextmanager
def following(on: Tape) -> Iterator[None]:
    """Follow PyTorch's noise in this block, if it is imported."""
    torch = _torch()
    if torch is None:
        yield
        return

    base: Any = torch.overrides.TorchFunctionMode

    class Mode(base):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, kinds: Any, args: Any = (), named: Any = None
        ) -> Any:
            named = named or {}
            return func(*args, **named) if tape() is None else _call(on, func, args, named)

    before = torch.get_rng_state()
    with Mode():
        yield
    if not torch.equal(before, torch.get_rng_state()):
        on.unseen = True


def as_numpy(value: Any) -> Any:
    """Return a tensor as an array of NumPy, with its history; keep other values."""
    torch = _torch()
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    noise = getattr(value, _HISTORY, None)
    if is_noise(noise):  # a copy of a tensor has a plain one
        return _current(noise, np.asarray(value.detach().cpu(), float))
    value = value.detach().cpu().resolve_conj().resolve_neg()
    if value.layout is not torch.strided:
        value = value.to_dense()
    return (value.float() if value.dtype is torch.bfloat16 else value).numpy()


def has_noise(value: Any) -> bool:
    """True for a tensor with a history."""
    torch = _torch()
    return torch is not None and isinstance(value, torch.Tensor) and hasattr(value, _HISTORY)


def _current(noise: Any, numbers: Any) -> Any:
    """Return the history of a tensor; with unknown factors if the tensor was overwritten."""
    if np.array_equal(plain(noise), numbers, equal_nan=True):
        return noise
    draws = np.broadcast_to(np.ravel(noise.draws)[0], numbers.shape)
    return wrap(noise.tape, numbers, draws, np.full(numbers.shape, math.nan))


def _tensor(values: Any, like: Any) -> Any:
    """Return values as a tensor like another, with their history."""
    torch = _torch()
    result = torch.as_tensor(np.array(plain(values)), dtype=like.dtype, device=like.device)
    return _remember(result.reshape(like.shape), values)


def _remember(tensor: Any, values: Any) -> Any:
    """Give a tensor the history of values that it holds, rounded to its type."""
    torch = _torch()
    if is_noise(values) and tensor.dtype in (torch.float32, torch.float64):
        numbers = np.asarray(tensor.detach().cpu(), float)
        draws = np.reshape(values.draws, numbers.shape)
        factor = np.reshape(values.factor, numbers.shape)
        setattr(tensor, _HISTORY, wrap(values.tape, numbers, draws, factor))
    elif hasattr(tensor, _HISTORY):
        delattr(tensor, _HISTORY)
    return tensor


def _overwrite(target: Any, values: Any) -> Any:
    """Write values and their history into a tensor."""
    torch = _torch()
    with torch.no_grad():
        target.copy_(torch.as_tensor(np.array(plain(values))).reshape(target.shape))
    return _remember(target, values)


# Functions of noise.

_UFUNCS = {
    **dict.fromkeys(("add", "add_", "__radd__", "__iadd__"), np.add),
    **dict.fromkeys(("sub", "sub_", "subtract", "subtract_", "__isub__", "__rsub__"), np.subtract),
    "rsub": np.subtract,
    **dict.fromkeys(("mul", "mul_", "multiply", "multiply_", "__rmul__", "__imul__"), np.multiply),
    **dict.fromkeys(("div", "div_", "divide", "divide_", "true_divide"), np.true_divide),
    **dict.fromkeys(("__rtruediv__", "__rdiv__", "__idiv__", "__itruediv__"), np.true_divide),
    **dict.fromkeys(("neg", "neg_", "negative"), np.negative),
    **dict.fromkeys(("lt", "less"), np.less),
    **dict.fromkeys(("le", "less_equal"), np.less_equal),
    **dict.fromkeys(("gt", "greater"), np.greater),
    **dict.fromkeys(("ge", "greater_equal"), np.greater_equal),
}
_SWAPPED = {"__rsub__", "rsub", "__rtruediv__", "__rdiv__"}
_MOVING = (
    "view reshape flatten ravel squeeze unsqueeze transpose permute t swapaxes movedim expand "
    "expand_as view_as reshape_as broadcast_to __getitem__ select narrow index_select "
    "unflatten split chunk unbind repeat flip roll __get__ take gather masked_select diagonal"
)
_COPYING = "clone contiguous detach detach_ to float double cpu cuda type type_as requires_grad_"
_MOVES, _COPIES = set(_MOVING.split()), set(_COPYING.split())
_FORMS = {"zeros_like", "ones_like", "empty_like", "full_like", "new_zeros", "new_ones"}
_FORMS |= {"new_full", "new_empty", "new_tensor", "new"}
_JOINS = {"stack", "cat", "concat", "concatenate", "hstack", "vstack"}
_READS = {"item": lambda noise: noise.item(), "tolist": lambda noise: noise.tolist()}


def _call(on: Tape, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    name = getattr(func, "__name__", "")
    if name in _RANDOM:
        return _RANDOM[name](on, func, args, named)
    flat = [*args, *named.values()]
    flat += [each for value in flat if isinstance(value, list | tuple) for each in value]
    if any(map(_history, flat)):
        return _of_noise(func, name, args, named)
    return _seeded(on, func, name, args, named)


def _history(value: Any) -> bool:
    return is_noise(value) or is_noise(getattr(value, _HISTORY, None))


def _of_noise(  # noqa: PLR0911  # one for each kind of function
    func: Any, name: str, args: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    torch = _torch()
    one = next((v for v in args if _history(v) and isinstance(v, torch.Tensor)), None)
    if name in ("tensor", "as_tensor") and is_noise(listed(args[0])):
        return _remember(func(plain(args[0]), **named), listed(args[0]))
    if name in _READS and one is not None:
        noise = as_numpy(one)
        return noise if np.ndim(noise) == 0 or name == "numpy" else _READS[name](noise)
    if name in _MOVES and one is args[0]:
        return _moved(func, args, named)
    if name in _JOINS and all(map(_history, args[0])):
        return _joined(func, args, named)
    inputs = tuple(map(as_numpy, args))
    result = func(*map(plain, args), **named)
    if not isinstance(result, torch.Tensor):
        return result
    if name in _FORMS:
        return result
    if name in _COPIES:
        return _remember(result, as_numpy(one))
    ufunc = _UFUNCS.get(name)
    if ufunc is not None and len(args) == 2:
        alpha = named.get("alpha", 1)
        inputs = inputs if alpha == 1 else (inputs[0], inputs[1] * alpha)
        inputs = inputs[::-1] if name in _SWAPPED else inputs
        ufunc = None if {*named} - {"alpha"} else ufunc
    noises = [value for value in inputs if is_noise(value)] or _inner(args)
    answer = followed(ufunc, "__call__", inputs, noises, _number(result))
    if name.endswith("_") and result is args[0]:
        return _overwrite(result, answer)
    if ufunc is None or is_noise(answer):
        return _remember(result, answer)
    if result.requires_grad:
        result.detach().copy_(torch.as_tensor(np.array(answer)))  # keeps the graph
        return result
    return _tensor(answer, result)


def _number(tensor: Any) -> Any:
    """Return a plain tensor in the precision in which noise is followed."""
    array = plain(as_numpy(tensor))
    return np.asarray(array, float) if array.dtype.kind == "f" else array


def _inner(args: tuple[Any, ...]) -> list[Any]:
    """Return the noise in lists among the arguments."""
    lists = [value for value in args if isinstance(value, list | tuple)]
    return [as_numpy(each) for values in lists for each in values if _history(each)]


def _parts(tensor: Any) -> tuple[Any, Any]:
    """Return the draws and the factors of noise as tensors."""
    torch, noise = _torch(), as_numpy(tensor)
    draws, factor = np.array(noise.draws), np.array(noise.factor, float)
    return torch.as_tensor(draws).reshape(tensor.shape), torch.as_tensor(factor).reshape(
        tensor.shape
    )


def _moved(func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    torch = _torch()
    result = func(*args, **named)
    several = isinstance(result, list | tuple) and not isinstance(result, torch.Size)
    if not several and not isinstance(result, torch.Tensor):
        return result
    tape_of = as_numpy(args[0]).tape
    draws, factor = (func(part, *args[1:], **named) for part in _parts(args[0]))
    each = zip(result, draws, factor, strict=True) if several else [(result, draws, factor)]
    for tensor, mine, factors in each:
        if isinstance(mine, torch.Tensor) and mine.shape == tensor.shape:
            _remember(tensor, wrap(tape_of, np.zeros(mine.shape), mine.numpy(), factors.numpy()))
    return result


def _joined(func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    result = func(*args, **named)
    parts = zip(*map(_parts, args[0]), strict=True)
    draws, factor = (func(list(part), *args[1:], **named).numpy() for part in parts)
    return _remember(result, wrap(as_numpy(args[0][0]).tape, np.zeros(draws.shape), draws, factor))


# Functions that draw.


def _seeded(on: Tape, func: Any, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Call a function, with the numbers that it may draw inside fixed by the tape."""
    if not isinstance(func, types.FunctionType) and name not in _DROPS:
        return func(*args, **named)
    torch = _torch()
    saved = torch.get_rng_state()
    on_key = on.key(f"torch.{name}?")
    torch.default_generator.manual_seed(int(on.generator(on_key).integers(2**62)))
    try:
        before = torch.get_rng_state()
        result = func(*args, **named)
        drew = not torch.equal(before, torch.get_rng_state())
    finally:
        torch.set_rng_state(saved)
    if drew:
        on.opaque(f"torch.{name}", ("", ""), lambda rng: rng.random())
    return result


_DROPS = {"dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "rrelu"}


def _check(on: Tape, named: dict[str, Any]) -> None:
    """Note a generator with a fixed seed."""
    generator = named.get("generator")
    if generator is None:
        check_seed(_DEFAULT, on)
    elif generator.initial_seed() < 2**32 or generator.initial_seed() == _FRESH_SEED:
        on.seeded(generator.initial_seed())


def _uniform(rng: np.random.Generator, shape: Any) -> Any:
    return rng.random(shape)


def _normal(rng: np.random.Generator, shape: Any) -> Any:
    return rng.standard_normal(shape)


def _exponential(rng: np.random.Generator, shape: Any) -> Any:
    return rng.standard_exponential(shape)


_STANDARD = {
    "normal": _normal,
    "uniform": _uniform,
    "exponential": _exponential,
    "laplace": lambda rng, shape: rng.laplace(size=shape),
    "gumbel": lambda rng, shape: rng.gumbel(size=shape),
}


def _shift(on: Tape, name: str, family: str, loc: Any, scale: Any, like: Any) -> Any:
    """Draw noise for a tensor; `loc` and `scale` are numbers or tensors."""
    loc, scale = as_numpy(loc), as_numpy(scale)
    wide = str(like.dtype) == "torch.float64"
    given = loc, scale, tuple(like.shape)
    dtype = np.float64 if wide else np.float32
    return on.shift(f"torch.{name}", family, given, _STANDARD[family], dtype)


def _filled(family: str, *names: str) -> Callable[..., Any]:
    """Return the handler of a function that fills a tensor with noise, such as `normal_`."""
    defaults = {"mean": 0.0, "std": 1.0, "from": 0.0, "to": 1.0, "a": 0.0, "b": 1.0, "lambd": 1.0}

    def handler(on: Tape, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        _check(on, named)
        target = args[0] if args else named["tensor"]
        numbers = [defaults[name] for name in names]
        given = args[1 : 1 + len(names)]
        numbers[: len(given)] = given
        for at, name in enumerate(names):
            other = {"from": "a", "to": "b"}.get(name, name)  # of torch.nn.init.uniform_
            numbers[at] = named.get(name, named.get(other, numbers[at]))
        loc, scale = (0.0, 1 / numbers[0]) if family == "exponential" else numbers
        scale = scale - loc if family == "uniform" else scale
        noise = _shift(on, func.__name__, family, loc, scale, target)
        return _overwrite(target, noise)

    return handler


def _made(family: str) -> Callable[..., Any]:
    """Return the handler of a function that makes a tensor of standard noise, such as `randn`."""

    def handler(on: Tape, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        _check(on, named)
        like = _drawn(func, args, named)
        return _write_made(like, _shift(on, func.__name__, family, 0.0, 1.0, like), named)

    return handler


def _write_made(like: Any, noise: Any, named: dict[str, Any]) -> Any:
    return _overwrite(like, noise) if named.get("out") is like else _like(like, noise)


def _like(like: Any, noise: Any) -> Any:
    result = _tensor(noise, like)
    return result.requires_grad_() if like.requires_grad else result


def _drawn(func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Call a function that draws, without moving the default generator."""
    torch = _torch()
    with torch.random.fork_rng(devices=[]):
        return func(*args, **named)


def _torch_normal(on: Tape, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    _check(on, named)
    given = dict(zip(("mean", "std", "size"), args, strict=False)) | named
    plainly = {key: value for key, value in given.items() if key not in ("mean", "std")}
    mean, std = given.get("mean", 0.0), given.get("std", 1.0)
    like = _drawn(func, (mean, std), plainly)
    return _write_made(like, _shift(on, "normal", "normal", mean, std, like), named)


def _multinomial(on: Tape, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    given = dict(zip(("input", "num_samples", "replacement"), args, strict=False)) | named
    weights = np.asarray(as_numpy(given["input"]), float)
    rows, number = weights.reshape(-1, weights.shape[-1]), int(given["num_samples"])
    single = number == 1 or given.get("replacement", False)
    like = _drawn(func, args, named)
    if not single or like.numel() > MOST_CHOICES:
        return _opaque(on, func, args, named)
    _check(on, named)
    drawn = [
        _choose(on, "multinomial", len(row), row / row.sum()) for row in rows for _ in range(number)
    ]
    return _write_made(like, np.array(drawn), named)


def _choose(on: Tape, name: str, pool: Any, law: Any) -> Any:
    return on.choice(f"torch.{name}", pool, law, lambda rng: int(rng.choice(len(law), p=law)))


def _bernoulli(on: Tape, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    torch, name = _torch(), func.__name__
    given = dict(zip(("input", "p"), args, strict=False)) | named
    place = args[0] if name == "bernoulli_" else _drawn(func, args, named)
    chance = given.get("p", 0.5 if name == "bernoulli_" else given["input"])
    if place.numel() > MOST_CHOICES:
        return _opaque(on, func, args, named)
    _check(on, named)
    chances = np.broadcast_to(np.asarray(as_numpy(chance), float), tuple(place.shape))
    drawn = [_choose(on, "bernoulli", [0.0, 1.0], np.array([1 - p, p])) for p in np.ravel(chances)]
    values = np.array(drawn, float).reshape(tuple(place.shape))
    return _overwrite(place, values) if isinstance(place, torch.Tensor) else place


def _opaque(on: Tape, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Draw in a way that the trace does not follow."""
    torch, name = _torch(), func.__name__
    _check(on, named)
    named = {key: value for key, value in named.items() if key != "generator"}
    in_place = name.endswith("_") and bool(args)
    inputs = [tuple(args[0].shape), *args[1:]] if in_place else [*args]
    law = repr([np.asarray(as_numpy(v)).tolist() if torch.is_tensor(v) else v for v in inputs])

    def draw(rng: np.random.Generator) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(rng.integers(2**62)))
            return as_numpy(func(*args, **named)).copy()

    values = on.opaque(f"torch.{name}", (law, law), draw)
    return _overwrite(args[0], values) if in_place else _tensor(values, _drawn(func, args, named))


_RANDOM: dict[str, Callable[..., Any]] = {
    **{"randn": _made("normal"), "randn_like": _made("normal")},
    **{"rand": _made("uniform"), "rand_like": _made("uniform")},
    "normal_": _filled("normal", "mean", "std"),
    "uniform_": _filled("uniform", "from", "to"),
    "exponential_": _filled("exponential", "lambd"),
    "normal": _torch_normal,
    "multinomial": _multinomial,
    **{"bernoulli": _bernoulli, "bernoulli_": _bernoulli},
    **dict.fromkeys(("randint", "randint_like", "randperm", "random_", "poisson"), _opaque),
    **dict.fromkeys(("cauchy_", "geometric_", "log_normal_", "binomial"), _opaque),
    **dict.fromkeys(("_standard_gamma", "_sample_dirichlet"), _opaque),
}


# Replacements.


def replace(stack: ExitStack, swap: Callable[[Any, str, Any], None]) -> None:
    """Replace the functions of PyTorch that its mode does not see."""
    torch = _torch()
    if torch is None:
        return
    seeds, original = torch.manual_seed, torch.from_numpy

    def manual_seed(seed: Any) -> Any:
        note_seed(seed, _DEFAULT)
        on = tape()
        if on is None:
            return seeds(seed)
        return torch.default_generator  # the tape draws the noise

    def from_numpy(values: Any) -> Any:
        return _remember(original(plain(values)), values)

    swap(torch, "manual_seed", manual_seed)
    put(stack, torch.random, "manual_seed", manual_seed)
    swap(torch, "from_numpy", from_numpy)
    for name, family in (("Laplace", "laplace"), ("Gumbel", "gumbel")):
        cls = getattr(torch.distributions, name, None)
        if cls is not None:
            put(stack, cls, "rsample", _rsample(cls.rsample, name, family))
            put(stack, cls, "sample", _sample(cls))


def _rsample(original: Callable[..., Any], name: str, family: str) -> Callable[..., Any]:
    def rsample(self: Any, sample_shape: Any = ()) -> Any:
        torch, on = _torch(), tape()
        grad = torch.is_grad_enabled() and (self.loc.requires_grad or self.scale.requires_grad)
        if on is None or grad:
            return original(self, sample_shape)
        check_seed(_DEFAULT, on)
        like = torch.empty(self._extended_shape(torch.Size(sample_shape)), dtype=self.loc.dtype)
        return _tensor(_shift(on, name, family, self.loc, self.scale, like), like)

    return rsample


def _sample(cls: Any) -> Callable[..., Any]:
    original = cls.sample

    def sample(self: Any, sample_shape: Any = ()) -> Any:
        if tape() is None:
            return original(self, sample_shape)
        with _torch().no_grad():
            return self.rsample(sample_shape)

    return sample


__all__ = ["as_numpy", "following", "has_noise", "replace"]
