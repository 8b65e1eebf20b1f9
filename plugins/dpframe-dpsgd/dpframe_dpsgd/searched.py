"""A canary found by search: the record that changes its own loss most."""

from __future__ import annotations

import functools
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from dpframe.plugins import Array, Ge, Gt, HostArray, Key
from dpframe_dpsgd.datasets import DIGITS, load_table, stamp
from dpframe_dpsgd.dense import DPSGD
from dpframe_dpsgd.pairs import Canary, CanaryPair, Kind
from dpframe_dpsgd.records import Records
from dpframe_dpsgd.training import as_vector

STARTS: tuple[Kind, ...] = ("held-out", "mislabelled", "blank")
COMPARED = 64  # models on each side for each comparison of records
PACE = 0.05  # step size of the ascent, as a share of a feature's range


class SearchedCanary(CanaryPair, name="searched-canary"):
    """A random subset of a table (D), and the same with the record that a search found (D′).

    The search trains its own models with `dpsgd` and the parameters given here, so it never sees a
    model that a bound uses. It starts from the best of a held-out, a mislabelled and a blank
    record, and changes the features by gradient ascent through the whole training, as
    [Boglioni2025] does. It maximises the influence: the mean drop of the record's own loss if the
    record is trained on, in standard deviations. The result is kept only if further models confirm
    it. Features stay within the range of the table's.
    """

    data: str = DIGITS
    """"digits" (comes with scikit-learn), a folder with MNIST's IDX files, or a .npz of x and y."""
    records: Annotated[int, Ge(1)] = 1000
    """Number of records in D."""
    index: Annotated[int, Ge(0)] = 0
    """Index of the record outside D from which the search starts."""
    subset: Annotated[int, Ge(0)] = 0
    """Seed for the choice of D."""
    noise_multiplier: Annotated[float, Gt(0)] = 1.0
    """σ of the trainer; pass the parameters of the audited trainer."""
    clip: Annotated[float, Gt(0)] = 1.0
    """C of the trainer."""
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    """Step size of the trainer."""
    steps: Annotated[int, Ge(1)] = 200
    """Number of updates of the trainer."""
    batch: Annotated[int, Ge(1)] = 50
    """Expected size of a batch of the trainer."""
    width: Annotated[int, Ge(1)] = 200
    """Hidden units of the trainer."""
    rounds: Annotated[int, Ge(0)] = 30
    """Number of steps of the ascent."""
    models: Annotated[int, Ge(2)] = 8
    """Number of models on each side for every step of the ascent."""
    seed: Annotated[int, Ge(0)] = 0
    """Seed of the models that the search trains."""

    def check(self) -> None:
        self.start("held-out").check()

    def start(self, kind: Kind) -> Canary:
        """Return the pair with a canary that the search starts from."""
        return Canary(
            data=self.data, records=self.records, canary=kind, index=self.index, subset=self.subset
        )

    @property
    def d0(self) -> Records:
        return self.start("held-out").d0

    @property
    def d1(self) -> Records:
        x, y = found(self, stamp(self.data))
        plain = self.start("held-out").d1
        labels = plain.y.copy()
        labels[-1] = y
        return plain._replace(x=np.vstack([plain.x[:-1], x]), y=labels)


@functools.lru_cache(maxsize=16)
def found(pair: SearchedCanary, stamp: tuple[Any, ...]) -> tuple[HostArray, int]:
    """Return features and label of the record with the largest influence.

    Args:
        pair: the data and the parameters of the search.
        stamp: changes whenever the files of the table change.
    """
    names = ("noise_multiplier", "clip", "learning_rate", "steps", "batch", "width")
    data: Any = jax.tree.map(jnp.asarray, pair.start("held-out").d1)
    trainer = DPSGD(
        **{name: getattr(pair, name) for name in names},
        records=pair.records,
        classes=max(2, load_table(pair.data).classes),
    )
    low, high = float(data.x.min()), float(data.x.max())
    compared, ascent = jax.random.split(jax.random.key(pair.seed))

    def compare(key: Key, records: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        """Return the best of several records, judged by the same models."""
        keys = jax.random.split(key, COMPARED)
        return max(records, key=lambda record: float(influence(trainer, data, keys, *record)))

    first, last = jax.random.split(compared)
    starts = [pair.start(kind).record() for kind in STARTS]
    best = compare(first, [(jnp.asarray(x), jnp.asarray(y)) for x, y in starts])
    x, y = best
    climb: Any = optax.adam(PACE * (high - low))
    state = climb.init(x)
    for key in jax.random.split(ascent, pair.rounds):
        gradient = jnp.nan_to_num(_slope(trainer, data, jax.random.split(key, pair.models), x, y))
        change, state = climb.update(-gradient, state, x)
        x = jnp.clip(x + change, low, high)
    x, y = compare(last, [best, (x, y)])
    return np.asarray(x), int(y)


@functools.partial(jax.jit, static_argnums=0)
def influence(trainer: DPSGD, data: Records, keys: Array, x: Array, y: Array) -> Array:
    """Return the mean drop of a record's loss if it is trained on, in standard deviations.

    Args:
        trainer: with its parameters resolved.
        data: with a last row for the record.
        keys: of the models, the same with and without the record.
        x: features of the record, shape [features].
        y: its label.
    """
    having: Any = data._replace(x=data.x.at[-1].set(x), y=data.y.at[-1].set(y))
    shapes = jax.eval_shape(lambda: trainer.init(jax.random.key(0), x.shape[0]))
    _, shaped = as_vector(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes))

    def losses(present: bool) -> Array:
        own = having._replace(present=having.present.at[-1].set(present))
        models, _ = jax.vmap(trainer.train, in_axes=(0, None))(keys, own)
        each: Array = jax.vmap(lambda model: trainer.loss(shaped(model), x, y))(models)
        return each

    without, with_it = losses(False), losses(True)
    spread = jnp.sqrt((without.var() + with_it.var()) / 2)
    drop: Array = (without.mean() - with_it.mean()) / jnp.maximum(spread, 1e-6)
    return drop


_slope = jax.jit(jax.grad(influence, argnums=3), static_argnums=0)
