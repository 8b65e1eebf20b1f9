"""The frameworks whose arrays are followed if the process has imported them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from dpframe_trace import jax_noise, jax_samplers, torch_noise
from dpframe_trace.noise import Tape


@contextmanager
def following(on: Tape) -> Iterator[None]:
    """Follow the noise of PyTorch and JAX in this block."""
    with torch_noise.following(on), jax_noise.following(on):
        yield


def start() -> None:
    """Start a trace of a function."""
    jax_noise.start()


def as_numpy(value: Any) -> Any:
    """Return an array of a framework as one of NumPy, with its history; keep other values."""
    return jax_noise.as_numpy(torch_noise.as_numpy(value))


def has_noise(value: Any) -> bool:
    """True for an array of a framework that is noise."""
    return torch_noise.has_noise(value) or jax_noise.has_noise(value)


def replace(stack: ExitStack, swap: Callable[[Any, str, Any], None]) -> None:
    """Replace the functions of the frameworks that draw or convert noise."""
    torch_noise.replace(stack, swap)
    jax_samplers.replace(stack, swap)


__all__ = ["as_numpy", "following", "has_noise", "replace", "start"]
