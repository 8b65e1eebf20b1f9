"""An audit of a plain training function: PyTorch, Opacus, JAX, anything that Python can call."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpframe.attack import Attack
from dpframe.commands import audit as auditing
from dpframe.commands.run import Invocation, run
from dpframe.commands.trainer import name_of, training
from dpframe.errors import DpframeError
from dpframe.estimator import Estimator

if TYPE_CHECKING:
    import os

    from dpframe.claims import Claim
    from dpframe.pair import Pair
    from dpframe.plugin import Plugin
    from dpframe.record.model import Record

FEWEST = 10
"""Models per dataset that a pilot or an attack gets to see, unless fewer are trained."""


def audit_training(
    train: Callable[..., Any],
    pair: Pair | tuple[Any, Any],
    *,
    models: int = 1000,
    seconds: float | None = None,
    claim: Claim | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    attack: str | Attack = "identity",
    estimators: Sequence[str | Estimator] = ("order-statistics",),
    seed: int = 0,
    learn: int | None = None,
    seedable: bool = True,
    may_be_nan: bool = False,
    out: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    quiet: bool = False,
) -> Record:
    """Audits a training function: many models on D, as many on D′, told apart by their scores.

    Models are trained in worker processes, one per core. The function is called as
    `train(seed, *D)` or `train(seed, *D′)`, so with D = (x, y) as `train(seed, x, y)`, on a copy
    of the data. All randomness must come from the seed; two processes try that out. It returns a
    score, larger if the model looks more like one of D′, such as minus its loss on the record
    that D′ has and D has not; or several, for an attack that takes several.

    With `out` the run can be interrupted at any moment, and the same call goes on. What
    the function is, with everything that it refers to in the script or notebook, belongs to the
    address of its models: another function begins anew.

    Args:
        train: the function. One of a script or a notebook travels to the workers as code.
        pair: the two neighbouring datasets, (D, D′), each a tuple of arrays of any shape and
            length; or a pair.
        models: trained on each of them.
        seconds: time budget; what was trained by then is judged.
        claim: what is claimed for the function and this pair; None gives bounds and no verdict.
        delta: δ at which ε is bounded; default: the claim's own, else 0.
        confidence: of all bounds and verdicts together.
        attack: what makes scores of what the function returns: its name, or an attack.
        estimators: their names, or estimators; they share the error.
        seed: every model's seed is derived from it.
        learn: models per dataset from which thresholds are chosen and attacks learn, beside those
            that are counted; default: a tenth of `models`, at least 10.
        seedable: False for a function that ignores its seed; the record is then not replayable.
        may_be_nan: whether NaN is a score like any other; else it fails the audit.
        out: directory for the record and for what is trained; None keeps nothing.
        fresh: discard what the directory holds.
        quiet: show no progress.

    Returns:
        The record; `record.cells` has an entry for each estimator.

    Raises:
        DpframeError: the arguments cannot be used, or the directory cannot be written to.
    """
    _check_numbers(models=models, learn=1 if learn is None else learn)
    if seconds is not None and not (_is_number(seconds) and 0 < seconds < math.inf):
        raise DpframeError(f"seconds: {seconds!r} is not a number above 0")
    if isinstance(estimators, str | Estimator) or not estimators:
        raise DpframeError("estimators: a list of names or estimators is wanted")
    made = training(train, pair, claim=claim, seedable=seedable, may_be_nan=may_be_nan)
    attack_entry, *others = [_entry(one) for one in (attack, *estimators)]
    sized = min(models, max(FEWEST, models // 10)) if learn is None else learn
    spec: dict[str, Any] = {
        "schema": 1,
        "audit": {
            "name": name_of(train),
            "seed": seed,
            "trials": models,
            "confidence": confidence,
            **({} if delta is None else {"delta": delta}),
        },
        "pair": {"use": made.pair.name, "params": {"digest": made.digest}},
        "mechanism": [{"use": made.mechanism.name, "params": {"code": made.code}}],
        "attack": [attack_entry],
        "estimator": others,
        "run": {
            "fit": sized,
            "pilot": sized,
            **({} if seconds is None else {"seconds": float(seconds)}),
        },
    }
    plugins: list[type[Plugin]] = [made.mechanism, made.pair]
    plugins += [type(one) for one in (attack, *estimators) if isinstance(one, Attack | Estimator)]
    record = _recorded(spec, plugins, out, fresh=fresh, quiet=quiet)
    if not record.cells:
        reasons = sorted({skip.reason for skip in record.skipped})
        raise DpframeError(f"nothing was audited: {'; '.join(reasons)}")
    return record


def _recorded(
    spec: dict[str, Any],
    plugins: list[type[Plugin]],
    out: str | os.PathLike[str] | None,
    *,
    fresh: bool,
    quiet: bool,
) -> Record:
    loaded = auditing.load(spec, plugins=plugins)
    shown = _shown(quiet=quiet)
    if out is not None:
        return run(loaded, Invocation(out=Path(out), resume=not fresh), shown)
    return auditing.recorded(loaded, shown)


def _entry(one: str | Attack | Estimator) -> dict[str, Any]:
    """The entry of a spec."""
    if isinstance(one, str):
        return {"use": one}
    if not isinstance(one, Attack | Estimator):
        raise DpframeError(f"{one!r} is neither a name nor an attack or estimator")
    return {"use": one.name, "params": one.params()}


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_numbers(**numbers: Any) -> None:
    for name, value in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise DpframeError(f"{name}: {value!r} is not a number of models, at least 1")


def _shown(*, quiet: bool) -> Any:
    """A display of the progress on standard error, if that is a terminal."""

    @contextlib.contextmanager
    def display(cells: int, draws: int) -> Iterator[Any]:
        from rich.console import Console

        from dpframe.report.progress import run_progress

        console = Console(stderr=True)
        with run_progress(console, cells, draws, quiet=quiet, unit="models") as progress:
            yield progress

    return display
