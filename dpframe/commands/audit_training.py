"""Audit a training function: the body of `dpframe.audit_training`."""

import contextlib
import copy
import functools
import hashlib
import inspect
import math
import os
import re
import sys
import types
from collections.abc import Callable, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from dpframe.claims import ApproxDP, Claim, PureDP
from dpframe.claims.relation import seen_relation
from dpframe.commands import audit as auditing
from dpframe.commands.fitted_scores import is_estimator, training_of
from dpframe.commands.run import Invocation, run
from dpframe.common.types import HostArray, Tree
from dpframe.draw.value_digest import ValueReader, code_text, data_digest, is_found_by_name
from dpframe.errors import CellError, DpframeError, UndecidedError
from dpframe.interfaces.attack import Attack
from dpframe.interfaces.estimator import Estimator
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.pair import EQUAL, Pair
from dpframe.interfaces.plugin import Plugin
from dpframe.results.model import CellRecord, Record
from dpframe.results.verdict import saw_nothing

LARGEST_SEED = 2**63  # seeds are smaller
RETURNED = "the function returned"
FEWEST_MODELS = 10  # models per dataset for a pilot or an attack, unless fewer are trained


class TrainingAudit(NamedTuple):
    """The classes of an audit, and their parameters."""

    mechanism: type[HostMechanism]
    code: str  # digest of the function: its mechanism's parameter
    pair: type[Pair]
    digest: str  # digest of the data: the pair's parameter


def training(
    train: Any, pair: Any, *, claim: Claim | None, seedable: bool, may_be_nan: bool
) -> TrainingAudit:
    """Make a mechanism of a training function, and a pair of its data, given as a pair or D and D′.

    D and D′ are sent with the function, so they may have any type and differ in size. The function
    is called as `train(seed, *data)` and returns scores; it is `seedable` if all randomness comes
    from the seed. Raises DpframeError if the function or the data cannot be used.
    """
    data = _datasets(pair)
    if is_estimator(train):
        train = training_of(train, data)
    if not callable(train):
        raise DpframeError(f"train: {train!r} is neither a function nor an estimator with fit")
    if (other := seen_relation(claim, *data)) is not None:
        raise DpframeError(other)
    with contextlib.suppress(TypeError, ValueError):  # some built-in functions have no signature
        signature = inspect.signature(train)
        for one in data:
            parts = _parts(one)
            try:
                signature.bind(0, *parts)
            except TypeError as error:
                raise DpframeError(
                    f"train: it is called with a seed and the {len(parts)} parts of a dataset: "
                    f"{error}"
                ) from None
    nan, seeds = may_be_nan, seedable

    class Trained(HostMechanism, name=name_of(train)):
        """A training function; one draw is one trained model."""

        rows = 1
        seedable = seeds
        may_be_nan = nan
        code: str
        """Digest of the function and of what it refers to."""

        def claim(self, pair: Pair) -> Claim | None:
            return claim

        def sample(self, rng: np.random.Generator, which: HostArray, n: int) -> HostArray:
            return np.stack([_scores(train, rng, data[int(which)]) for _ in range(n)])

    class Trainset(Pair, name="training-data"):
        """A pair of indices: the datasets travel with the mechanism."""

        adjacency = getattr(pair, "adjacency", "as given")
        digest: str
        """Digest of D and D′."""

        @property
        def d0(self) -> Tree:
            return np.int64(0)

        @property
        def d1(self) -> Tree:
            return np.int64(1)

    try:
        cloudpickle.dumps(train)
        code = function_digest(train)
    except Exception as error:  # a lock, an open file, a generator
        raise DpframeError(
            f"train: it cannot be sent to a worker process: {type(error).__name__}: {error}"
        ) from error
    return TrainingAudit(Trained, code, Trainset, data_digest(data))


def _datasets(pair: Any) -> tuple[Any, Any]:
    """Return D and D′ of a pair or a tuple; raise DpframeError unless they are two that differ."""
    if isinstance(pair, Pair):
        data = (pair.d0, pair.d1)
    elif isinstance(pair, tuple | list) and len(pair) == 2:
        data = (pair[0], pair[1])
    else:
        raise DpframeError("pair: should be two datasets (D, D′), each such as (x, y), or a Pair")
    check_differ(data, ("D", "D′"), "pair: ")
    return data


def check_differ(data: tuple[Any, Any], names: tuple[str, str], start: str = "") -> None:
    """Raise DpframeError, prefixed by `start`, unless both datasets are readable and differ."""
    digests = []
    for name, one in zip(names, data, strict=True):
        try:
            digests.append(data_digest((one, one)))
        except CellError as error:
            raise DpframeError(f"{start}{name}: {error}") from error
    if digests[0] == digests[1]:
        raise DpframeError(f"{start}{EQUAL}")


def name_of(train: Callable[..., Any]) -> str:
    """Return the name of a function for reports."""
    inner = getattr(train, "func", train)  # of a partial
    name = str(getattr(inner, "__name__", type(inner).__name__))
    return "train" if not name.isidentifier() else name


def _parts(data: Any) -> tuple[Any, ...]:
    return tuple(data) if isinstance(data, tuple | list) else (data,)


def _scores(train: Callable[..., Any], rng: np.random.Generator, data: Any) -> HostArray:
    """Return the scores of one model; the function gets a copy of the data."""
    seed = int(rng.integers(LARGEST_SEED))
    returned = train(seed, *_parts(copy.deepcopy(data)))
    if returned is None:
        raise TypeError(f"{RETURNED} None, forgot `return`?")
    scores = np.asarray(returned)
    if scores.dtype.kind not in "fiub":
        raise TypeError(f"{RETURNED} {scores.dtype}, scores must be numbers")
    return scores.astype(np.float64)


def audit_training(
    train: Callable[..., Any] | Any,
    pair: Pair | tuple[Any, Any],
    *,
    models: int = 1000,
    seconds: float | None = None,
    claim: Claim | None = None,
    epsilon: float | None = None,
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
    """Audit a training: train many models on D and on D′, and compare their scores.

    Models are trained in worker processes, one per core. The function is called on a copy of the
    data, as `train(seed, *D)` or `train(seed, *D′)`; with D = (x, y) that is `train(seed, x, y)`.
    All randomness must come from the seed, which two processes check. The function returns a score
    that is larger if the model was more likely trained on D′, such as minus its loss on the record
    that only D′ has. It returns several scores for an attack that takes several.

    Instead of a function, `train` may be an estimator of scikit-learn or diffprivlib, or another
    object with `fit(X, y)`. A copy is fitted for every model with `random_state` from the seed, and
    its score is how much better it fits the record that only D′ has: the margin of the label (by
    `decision_function`, else `predict_proba`), or minus the squared error of `predict`.

    With `out` the run can be interrupted at any moment, and the same call continues it. Models are
    reused only for the same function, including everything that it refers to in the script or
    notebook.

    Args:
        train: the function, or an estimator with `fit` that is not fitted yet. The code of a
            function in a script or a notebook is sent to the workers.
        pair: the two neighbouring datasets, (D, D′), each a tuple of arrays of any shape and
            length; or a pair.
        models: trained on each of them.
        seconds: time budget; the models trained within it are judged.
        claim: of the function for this pair; None gives bounds and no verdict.
        epsilon: instead of a claim: ε-DP, or (ε, δ)-DP if `delta` is given.
        delta: δ at which ε is bounded; default: the claim's own, else 0.
        confidence: of all bounds and verdicts together.
        attack: makes scores of the function's answers: its name, or an attack.
        estimators: their names, or estimators; they share the error.
        seed: every model's seed is derived from it.
        learn: models per dataset from which thresholds are chosen and attacks learn, beside those
            that are counted; default: a tenth of `models`, at least 10.
        seedable: False for a function that ignores its seed; the record is then not replayable.
        may_be_nan: True if NaN is a score like any other; else it fails the audit.
        out: directory for the record and the models' scores; None keeps nothing.
        fresh: discard what the directory holds.
        quiet: show no progress.

    Returns:
        The record; `record.cells` has an entry for each estimator.

    Raises:
        DpframeError: the arguments cannot be used, the directory cannot be written to, or no
            estimator got scores, such as because the function raised an exception.
        UndecidedError: all models on D and D′ got the same score, so nothing was tested.
    """
    for name, number in (("models", models), ("learn", 1 if learn is None else learn)):
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise DpframeError(f"{name}: {number!r} is not a positive number of models")
    if seconds is not None:
        check_positive("seconds", seconds)
    if isinstance(estimators, str | Estimator) or not estimators:
        raise DpframeError("estimators: should be a list of names or estimators")
    if epsilon is not None:
        claim = _epsilon_claim(epsilon, delta, claim)
    made = training(train, pair, claim=claim, seedable=seedable, may_be_nan=may_be_nan)
    attack_entry, *others = [_entry(one) for one in (attack, *estimators)]
    sized = min(models, max(FEWEST_MODELS, models // 10)) if learn is None else learn
    spec: dict[str, Any] = {
        "schema": 1,
        "audit": {
            "name": name_of(train),
            "seed": seed,
            "trials": models,
            "confidence": confidence,
            "delta": delta,
        },
        "pair": {"use": made.pair.name, "params": {"digest": made.digest}},
        "mechanism": [{"use": made.mechanism.name, "params": {"code": made.code}}],
        "attack": [attack_entry],
        "estimator": others,
        "run": {"fit": sized, "pilot": sized, "seconds": seconds and float(seconds)},
    }
    plugins: list[type[Plugin]] = [made.mechanism, made.pair]
    plugins += [type(one) for one in (attack, *estimators) if isinstance(one, Attack | Estimator)]
    loaded = auditing.load(spec, plugins=plugins)
    from rich.console import Console

    from dpframe.report.progress import run_progress

    display: Any = functools.partial(run_progress, Console(stderr=True), quiet=quiet, unit="models")
    if out is not None:
        record = run(loaded, Invocation(out=Path(out), resume=not fresh), display)
    else:
        record = auditing.recorded(loaded, display)
    if not record.cells:
        reasons = sorted({skip.reason for skip in record.skipped})
        raise DpframeError(f"nothing was audited: {'; '.join(reasons)}")
    _check_scores(record, train)
    return record


def _epsilon_claim(epsilon: float, delta: float | None, claim: Claim | None) -> Claim:
    if claim is not None:
        raise DpframeError("epsilon: a claim is given too; pass one of them")
    try:
        return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
    except (TypeError, ValueError) as error:
        raise DpframeError(f"epsilon: {error}") from None


def _check_scores(record: Record, train: Callable[..., Any]) -> None:
    """Raise if there are no scores to judge: `verdict != "violated"` would pass in a test."""
    name = name_of(train)
    if all(cell.status == "failed" for cell in record.cells):
        reasons = "; ".join(sorted({str(cell.reason) for cell in record.cells}))
        raise DpframeError(f"{name}: nothing was tested: {_in_terms_of(train, reasons)}")
    if all(saw_nothing(cell) or _all_nan(cell) for cell in record.cells if cell.status == "ok"):
        value = "NaN" if any(map(_all_nan, record.cells)) else "the same number"
        raise UndecidedError(
            f"{name} returned {value} for all {record.cells[0].trials[0]:,} models on D and on D′, "
            "so nothing was tested: return a score that depends on the trained model",
            record,
        )


def _in_terms_of(train: Callable[..., Any], reason: str) -> str:
    """Reword the reason of a failed cell for an author who wrote a function and no plugin."""
    for old, new in (
        (r"sample (raised|returned|gave)", r"\1"),
        (r"For other randomness, .*$", "For other randomness, pass seedable=False"),
        (r"set may_be_nan = True in the mechanism", "pass may_be_nan=True"),
    ):
        reason = re.sub(old, new, reason)
    code = getattr(getattr(train, "func", train), "__code__", None)
    if code is None:
        return reason
    file = Path(code.co_filename).name  # a pickled function has lost it
    if RETURNED in reason:
        reason = re.sub(r" \(<dynamic-code>:\d+\)", "", reason)
        reason += f" ({file}:{code.co_firstlineno})"
    return reason.replace("<dynamic-code>", file)


def _all_nan(cell: CellRecord) -> bool:
    """True if every score was NaN, which has the first bin."""
    return isinstance(cell.counts, list) and all(
        len(row) > 2 and not any(row[1:]) for row in cell.counts
    )


def _entry(one: str | Attack | Estimator) -> dict[str, Any]:
    """Return the entry of a spec."""
    if isinstance(one, str):
        return {"use": one}
    if not isinstance(one, Attack | Estimator):
        raise DpframeError(f"{one!r} is neither a name nor an attack or estimator")
    return {"use": one.name, "params": one.params()}


def is_number(value: Any) -> bool:
    """True for a real number that a float can hold, but not for a truth value or NaN."""
    try:
        return type(value) is not bool and isinstance(value, Real) and not math.isnan(float(value))
    except OverflowError:
        return False


def check_positive(name: str, value: Any) -> None:
    """Raise DpframeError unless a value is a finite number above 0."""
    if not (is_number(value) and 0 < value < math.inf):
        raise DpframeError(f"{name}: {value!r} is not a number above 0")


# A digest of a function that is the same in every process.
#
# Pickled bytes differ, because classes of a script are pickled under a random number. So the digest
# covers the bytecode of a function of a script or a notebook, its closure, and everything in the
# script that it refers to by name. For imported code it covers the name, and the files unless they
# belong to an installed library.


def function_digest(function: Any) -> str:
    """Return the digest of a function and of everything in the script that it refers to."""
    hasher = hashlib.blake2b(digest_size=8)
    _CodeReader(hasher.update).read(function)
    return hasher.hexdigest()


class _CodeReader(ValueReader):
    """Reads functions and classes by their code, and other values as data."""

    def __init__(self, update: Callable[[bytes], object]) -> None:
        super().__init__(update)
        self._known: dict[int, int] = {}  # functions and classes, by identity, in order
        self._kept: list[Any] = []  # keeps them alive, so that no other value gets their identity

    def read(self, value: Any) -> None:
        if isinstance(value, types.ModuleType):
            self._tell_names("module", value.__name__)
        elif isinstance(value, functools.partial):
            self.read(["partial", value.func, value.args, value.keywords])
        elif isinstance(value, types.MethodType):
            self.read(["method", value.__func__, value.__self__])
        elif isinstance(value, staticmethod | classmethod):
            self.read([type(value).__name__, value.__func__])
        elif isinstance(value, property):
            self.read(["property", value.fget, value.fset, value.fdel])
        elif isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
            self._read_code(value)
        else:
            super().read(value)

    def _read_code(self, value: Any) -> None:
        if id(value) in self._known:
            self._tell_names("again", self._known[id(value)])
            return
        self._known[id(value)] = len(self._known)
        self._kept.append(value)
        self._tell_names(type(value).__name__, value.__module__, value.__qualname__)
        if isinstance(value, types.BuiltinFunctionType):
            return
        if value.__module__ != "__main__" and is_found_by_name(value):  # a worker imports it
            for file in _files(value.__module__):
                self.tell(file.read_bytes())
        elif isinstance(value, type):
            self.read(value.__bases__)
            self.read({key: part for key, part in vars(value).items() if key not in _OF_ANY_CLASS})
        else:
            text, names = code_text(value.__code__)
            self.add("code", text.encode("utf-8", "surrogatepass"))
            self.read([value.__defaults__, value.__kwdefaults__])
            for cell in value.__closure__ or ():
                self.read(cell.cell_contents)
            for name in sorted(names & value.__globals__.keys()):
                self._tell_names("global", name)
                self.read(value.__globals__[name])

    def parts_of(self, value: Any) -> list[Any]:
        try:
            return super().parts_of(value)
        except CellError:  # pickled bytes may differ in every process; then models are not reused
            return ["pickled", cloudpickle.dumps(value)]

    def _tell_names(self, kind: str, *names: object) -> None:
        self.add(kind, repr(names).encode("utf-8", "surrogatepass"))


_OF_ANY_CLASS = ("__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__")


@functools.cache
def _files(module: str) -> tuple[Path, ...]:
    """Return the Python files of a module's package; () for Python's own and for libraries."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return ()
    places = [Path(place) for place in getattr(sys.modules.get(top), "__path__", ())]
    if places and any("site-packages" in place.parts for place in places):
        return ()  # a library; another version of it is another environment
    files = [file for place in places for file in sorted(place.rglob("*.py"))]
    own = getattr(sys.modules.get(module), "__file__", None)
    return tuple(files) or ((Path(own),) if own and Path(own).is_file() else ())
