"""The tape of the current run, and the seeds that traced code fixes."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dpframe_trace.noise import Tape

_active: list[Tape] = []
_importing: list[Tape] = []
_RUNS = str(Path(__file__).with_name("runs.py"))


def tape() -> Tape | None:
    """Return the tape of the current run; None while the run imports a module."""
    return _active[-1] if _active and not _in_import() else None


def _in_import() -> bool:
    """True if the traced function is importing a module, which may seed and draw for itself."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != _RUNS:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


@contextmanager
def recording(on: Tape) -> Iterator[None]:
    """Record the primitives on a tape. Replacements must be in place."""
    _active.append(on)
    try:
        yield
    finally:
        _active.pop()


@contextmanager
def importing() -> Iterator[Tape]:
    """Give a tape with the seeds that modules fix when they are imported in this block."""
    _importing.append(Tape(0))
    try:
        yield _importing[-1]
    finally:
        _importing.pop()


def note_seed(seed: Any, owner: Any = None) -> None:
    """Note that the traced code fixes a seed; in an import, only if the generator is used later."""
    sequence = getattr(seed, "seed_seq", seed)  # of a bit generator
    if isinstance(sequence, np.random.SeedSequence):
        entropy = sequence.entropy
        seed = entropy if not isinstance(entropy, int) or entropy < 2**64 else None
    fixed = isinstance(seed, int | str | bytes | np.integer | list | tuple | np.ndarray)
    imported = bool(_active) and _in_import()
    if owner is not None:
        owner.fixed = seed if fixed and imported else None
    watching = None if imported else tape() or (_importing[-1] if _importing else None)
    if fixed and watching is not None:
        watching.seeded(seed)


def check_seed(source: Any, on: Tape) -> None:
    """Note generators whose seed was fixed before the trace or in an import."""
    fixed = getattr(source, "fixed", None)
    if fixed is not None:
        on.seeded(fixed)
    if getattr(source, "known", True):
        return
    entropy = getattr(getattr(source.bit_generator, "seed_seq", None), "entropy", None)
    if isinstance(entropy, int) and entropy < 2**64:
        on.seeded(entropy)


def put(stack: ExitStack, holder: Any, name: str, new: Any) -> None:
    """Set an attribute until the stack is closed."""
    own = name in vars(holder)
    old = getattr(holder, name)
    if own:
        stack.callback(
            setattr, holder, name, vars(holder)[name] if isinstance(holder, type) else old
        )
    else:
        stack.callback(delattr, holder, name)
    setattr(holder, name, new)


__all__ = ["check_seed", "importing", "note_seed", "put", "recording", "tape"]
