"""Promises of mechanisms."""

import copy
import dataclasses
import functools
from typing import Any

import numpy as np

from dpframe.claims import Claim
from dpframe.common import trees
from dpframe.common.arrays import jax, jnp
from dpframe.common.types import HostArray
from dpframe.draw import independence, row_checks, streams, threefry, trace
from dpframe.draw.in_process import InProcessWorkers
from dpframe.draw.sensitivity import norm_of, sensitivity_of
from dpframe.draw.stated import StatedCheck
from dpframe.draw.streams import EVAL, Stream
from dpframe.draw.worker.query import Refused, ask, parse_reply
from dpframe.errors import CellError, SampleError
from dpframe.interfaces.mechanism import HostMechanism, Mechanism
from dpframe.interfaces.pair import Pair, same
from dpframe.spec.audit import RunSettings
from dpframe.testing import plugins
from dpframe.testing.plugins import LeftOut, Trial

ROWS = 256  # outputs of one call
CALLS = 16  # calls that are compared
DTYPE = np.dtype(np.float32)


@dataclasses.dataclass(frozen=True)
class MechanismOnPair:
    """A mechanism, resolved for a pair of datasets."""

    mechanism: Mechanism | HostMechanism
    pair: Pair

    @property
    def traced(self) -> bool:
        """True if JAX traces it."""
        return not isinstance(self.mechanism, HostMechanism)

    @functools.cached_property
    def data(self) -> tuple[Any, Any]:
        """D and D′, as the mechanism gets them."""
        if self.traced:
            return streams.for_jax((self.pair.d0, self.pair.d1), DTYPE)
        return self.pair.d0, self.pair.d1

    def call(self, number: int, index: int, n: int = ROWS, *, compiled: bool = True) -> HostArray:
        """Return n outputs on D (index 0) or D′ (1); equal numbers give equal randomness."""
        mechanism: Any = self.mechanism
        if not self.traced:
            rng = streams.host_generator(
                streams.Stream(0, "testing", 0, streams.PROBE), number, index
            )
            given = mechanism.sample(rng, self.data[index], n)
        else:
            run = _sample if compiled else _plainly
            given = run(trace.unstacked(mechanism, DTYPE), _key(number, index), self.data[index], n)
        _dims(np.shape(given), n)
        return np.asarray(given)

    def dims(self, index: int, n: int) -> tuple[int, ...]:
        """Return the shape of one output among n, without compiling a traced mechanism."""
        if not self.traced:
            return self.call(0, index, n).shape[1:]
        own = trace.unstacked(self.mechanism, DTYPE)
        given = jax.eval_shape(
            lambda mechanism, key, data: mechanism.sample(key, data, n),
            *(own, _key(0, index), self.data[index]),
        )
        return _dims(np.shape(given), n)

    @functools.cached_property
    def calls(self) -> tuple[list[HostArray], list[HostArray]]:
        """Outputs of independent calls on D and on D′, each [CALLS][ROWS, *dims]."""
        zero, one = ([self.call(number, index) for number in range(CALLS)] for index in (0, 1))
        return zero, one


def _dims(shape: tuple[int, ...], n: int) -> tuple[int, ...]:
    assert shape[:1] == (n,), f"sample(…, n={n}) gave shape {shape}; the first axis must be n"
    return shape[1:]


@functools.partial(jax.jit, static_argnums=3)
def _sample(mechanism: Any, key: Any, data: Any, n: int) -> Any:
    return mechanism.sample(key, data, n)


def _plainly(mechanism: Any, key: Any, data: Any, n: int) -> Any:
    return mechanism.sample(key, trees.map(jnp.asarray, data), n)


def _key(number: int, index: int) -> Any:
    return jax.random.fold_in(
        threefry.base_key(
            streams.Stream(0, "testing", number, streams.PROBE), streams.generator_name("default")
        ),
        index,
    )


def _claims(subject: MechanismOnPair) -> None:
    claim = subject.mechanism.claim(subject.pair)
    if claim is None:
        raise LeftOut("it claims nothing for this pair, so no audit gives a verdict")
    assert isinstance(claim, Claim), f"claim returned {claim!r}; it must be a Claim or None"
    truth = subject.mechanism.truth(subject.pair)
    assert truth is None or isinstance(truth, Claim), f"truth returned {truth!r}"


def _rows_first(subject: MechanismOnPair) -> None:
    shapes = {subject.dims(index, n) for index in (0, 1) for n in (1, 2, ROWS)}
    assert len(shapes) == 1, f"one output has the shapes {sorted(shapes)}; it must have one"
    kinds = {subject.call(0, index).dtype for index in (0, 1)}
    assert len(kinds) == 1, f"outputs on D and on D′ are {sorted(map(str, kinds))}"


def _numbers(subject: MechanismOnPair) -> None:
    zero, one = subject.calls
    kind = zero[0].dtype
    assert np.issubdtype(kind, np.number) or kind == np.bool_, f"outputs are {kind}, no numbers"
    nan = any(np.isnan(part).any() for part in (*zero, *one) if part.dtype.kind == "f")
    assert not nan or subject.mechanism.may_be_nan, (
        "sample returned NaN; if that is intended, set may_be_nan = True in the class"
    )


def _same_key(subject: MechanismOnPair) -> None:
    if not getattr(subject.mechanism, "seedable", True):
        raise LeftOut("it sets seedable = False, so its record cannot be replayed")
    for index in (0, 1):
        again = subject.call(0, index)
        assert again.tobytes() == subject.calls[index][0].tobytes(), (
            "the same randomness gave different outputs: all of it must come from the argument"
        )


def _other_key(subject: MechanismOnPair) -> None:
    for chunks in subject.calls:
        row_checks.check_outputs_vary(chunks)


def _independent(subject: MechanismOnPair) -> None:
    watcher = independence.Independence(ROWS, 1)
    for number in range(CALLS):
        for index in (0, 1):
            watcher.see(0, index, number, subject.calls[index][number], counted=True)
    watcher.conclude()


def _input_left(subject: MechanismOnPair) -> None:
    if subject.traced:
        raise LeftOut("JAX arrays cannot be changed")
    before = copy.deepcopy(subject.data)
    # Copies of unknown types may have other pickles, so they are compared as texts.
    equal = same if same(before, subject.data) else lambda one, other: str(one) == str(other)
    for index in (0, 1):
        subject.call(0, index)
    assert equal(before, subject.data), "sample changes the data that it is given"


def _compiled(subject: MechanismOnPair) -> None:
    if not subject.traced:
        raise LeftOut("it is never traced")
    plain, fast = subject.call(0, 0, compiled=False), subject.call(0, 0)
    different = ~plugins.close(plain, fast)
    assert different.sum() <= 1 + len(plain) // 64, (
        f"when compiled, it gives {different.sum()} of {len(plain)} outputs differently: it is not "
        "a pure function of key, data and parameters"
    )


def _singly(subject: MechanismOnPair) -> None:
    if not subject.traced:
        one_by_one = [
            np.concatenate([subject.call(1000 + n, index, 1) for n in range(ROWS)])
            for index in (0, 1)
        ]
    else:
        alone = jax.jit(jax.vmap(lambda m, k, d: m.sample(k, d, 1), in_axes=(None, 0, None)))
        leaves: Any = trace.unstacked(subject.mechanism, DTYPE)
        one_by_one = [
            np.asarray(
                alone(leaves, jax.random.split(_key(1, index), ROWS * CALLS), subject.data[index])
            )[:, 0]
            for index in (0, 1)
        ]
    for index, outputs in enumerate(one_by_one):
        plugins.demand_same_law(outputs, np.concatenate(subject.calls[index]), "one by one")


def _one_trace(subject: MechanismOnPair) -> None:
    mechanism: Any = subject.mechanism
    floats = [name for name in mechanism.leaves if getattr(mechanism, name) is not None]
    if not subject.traced or not floats:
        raise LeftOut("it has no parameters that are traced")
    traces = 0

    @jax.jit
    def sample(mechanism: Any, key: Any, data: Any) -> Any:
        nonlocal traces
        traces += 1
        return mechanism.sample(key, data, ROWS)

    for scale in (1.0, 0.75):
        varied = dataclasses.replace(
            mechanism, **{name: scale * getattr(mechanism, name) for name in floats}
        )
        sample.trace(trace.unstacked(varied, DTYPE), _key(0, 0), subject.data[0])
    assert traces == 1, f"{traces} traces for two values of {', '.join(floats)}"


def _density(subject: MechanismOnPair) -> None:
    mechanism: Any = subject.mechanism
    if not subject.traced or not mechanism.has_log_density():
        raise LeftOut("it has no log_density")
    leaves = trace.unstacked(mechanism, DTYPE)
    log_density = jax.jit(lambda m, d, x: m.log_density(d, x))
    ratios = []
    for chunks in subject.calls:
        outputs = np.concatenate(chunks)
        densities = [np.asarray(log_density(leaves, data, outputs)) for data in subject.data]
        shapes = {part.shape for part in densities}
        assert shapes == {(len(outputs),)}, f"log_density gave {shapes} for {len(outputs)} outputs"
        ratios.append(densities[1] - densities[0])
    plugins.demand_ratio(*ratios)


def _distribution(subject: MechanismOnPair) -> None:
    for data, chunks in zip(subject.data, subject.calls, strict=True):
        outputs = np.concatenate(chunks).astype(float)
        x = np.sort(outputs.ravel())
        given = (
            subject.mechanism.cdf(np.asarray(data, float), x) if x.size == len(outputs) else None
        )
        if given is None:
            raise LeftOut("it has no cdf for this pair, or an output is several numbers")
        plugins.demand_distribution(x, given)


def _query(subject: MechanismOnPair) -> None:
    mechanism: Any = subject.mechanism
    if not mechanism.has_query():
        raise LeftOut("it has no query")
    try:
        for data in (subject.pair.d0, subject.pair.d1):
            queries = [functools.partial(mechanism.query, copy.deepcopy(data)) for _ in range(2)]
            one, other = (repr(parse_reply(ask(query))) for query in queries)
            assert one == other, "query returned two different answers for the same data"
        sensitivity_of(mechanism, subject.pair)
        norm_of(mechanism)
    except Refused as error:
        raise AssertionError(str(error)) from None


def _choices(subject: MechanismOnPair) -> None:
    mechanism: Any = subject.mechanism
    if not mechanism.has_choices():
        raise LeftOut("it has no choices")
    check = StatedCheck(mechanism, InProcessWorkers(), RunSettings(), Stream(0, "", 0, EVAL))
    try:
        check.compare(subject.pair)
    except (CellError, SampleError) as error:
        raise AssertionError(str(error)) from None


TRIALS: tuple[Trial, ...] = (
    ("claims a privacy loss for the pair", _claims),
    ("returns n outputs along the first axis", _rows_first),
    ("outputs are numbers, without NaN unless declared", _numbers),
    ("same key, same bits", _same_key),
    ("different key, different bits", _other_key),
    ("outputs are independent", _independent),
    ("does not change its input", _input_left),
    ("same results compiled and uncompiled", _compiled),
    ("same distribution one by one and in a batch", _singly),
    ("one trace for all values of its floats", _one_trace),
    ("its density matches its outputs", _density),
    ("its distribution function matches its outputs", _distribution),
    ("its query has a sensitivity and no noise", _query),
    ("its outputs have the distribution that it states", _choices),
)
