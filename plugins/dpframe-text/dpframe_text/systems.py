"""DPText and ADePT as systems: a sentence goes in, a rewritten sentence comes out.

Both encode a sentence as a vector, bound it, add noise, and decode the noisy vector. The
autoencoder here is small: it is trained on the sentences of `dpframe_text.sentences` when a system
first runs.
"""

from __future__ import annotations

import functools
import threading
from typing import Annotated, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.plugins import (
    Array,
    Attack,
    Ge,
    Gt,
    HostArray,
    Key,
    Le,
    Mechanism,
    Pair,
    PureDP,
    Target,
    Tree,
)
from dpframe_text.sentences import LENGTH, all_sentences, text, tokens, vocabulary

Bounding = Literal["norm", "coordinates"]

HIDDEN = 64  # units of the hidden layers of encoder and decoder
STEPS = 600  # of Adam, with the constants below
BATCH = 128  # sentences per step
RATE = 0.01  # falls linearly to 0
DECAYS = 0.9, 0.99  # of the means of gradients and of their squares


class Weights(NamedTuple):
    """The weights of an autoencoder with codes of `d` numbers, and the range of its codes."""

    words: Array  # [LENGTH, vocabulary, HIDDEN]: a vector for each word at each position
    word_bias: Array  # [HIDDEN]
    code: Array  # [HIDDEN, d]
    hidden: Array  # [d, HIDDEN]
    hidden_bias: Array  # [HIDDEN]
    out: Array  # [HIDDEN, LENGTH * vocabulary]
    out_bias: Array
    low: Array  # [d]: smallest coordinates of codes of training sentences
    high: Array


def encode(weights: Weights, numbers: Array, bounding: Bounding) -> Array:
    """Return the bounded codes of sentences.

    Args:
        weights: of the autoencoder.
        numbers: token numbers, shape [..., LENGTH].
        bounding: "norm" scales a code down to l2 norm 1; "coordinates" moves each coordinate into
            [−1, 1].

    Returns:
        Shape [..., d].
    """
    words = weights.words[jnp.arange(LENGTH), numbers].sum(axis=-2)
    code = jnp.tanh(words + weights.word_bias) @ weights.code
    if bounding == "coordinates":
        return jnp.tanh(code)
    norm = jnp.sqrt(jnp.sum(code**2, axis=-1, keepdims=True))
    return code / jnp.maximum(norm, 1)


def decode(weights: Weights, codes: Array) -> Array:
    """Return the most probable token numbers, shape [n, LENGTH], of codes, shape [n, d].

    A coordinate outside the range of the training sentences is first moved to its nearest end.
    """
    near = jnp.clip(codes, weights.low, weights.high)
    return jnp.argmax(_logits(weights, near), axis=-1).astype(jnp.int32)


def _logits(weights: Weights, codes: Array) -> Array:
    """Return unnormalised log-probabilities of tokens, shape [n, LENGTH, vocabulary]."""
    hidden = jax.nn.relu(codes @ weights.hidden + weights.hidden_bias)
    return (hidden @ weights.out + weights.out_bias).reshape(len(codes), LENGTH, -1)


def _first_weights(dimensions: int, bounding: Bounding) -> Weights:
    """Return random weights."""
    rng = np.random.default_rng(0)
    size = len(vocabulary())

    def normal(*shape: int, scale: float) -> Array:
        return jnp.asarray(rng.normal(scale=scale, size=shape), jnp.float32)

    # Coordinates of a code are about 1 in size, or about 1/√d if its norm is bounded.
    gain = 1.0 if bounding == "norm" else dimensions**-0.5
    return Weights(
        words=normal(LENGTH, size, HIDDEN, scale=0.4),
        word_bias=jnp.zeros(HIDDEN, jnp.float32),
        code=normal(HIDDEN, dimensions, scale=HIDDEN**-0.5),
        hidden=normal(dimensions, HIDDEN, scale=gain),
        hidden_bias=jnp.zeros(HIDDEN, jnp.float32),
        out=normal(HIDDEN, LENGTH * size, scale=HIDDEN**-0.5),
        out_bias=jnp.zeros(LENGTH * size, jnp.float32),
        low=jnp.zeros(dimensions, jnp.float32),
        high=jnp.zeros(dimensions, jnp.float32),
    )


@functools.partial(jax.jit, static_argnames="bounding")
def _trained(weights: Weights, data: Array, batches: Array, bounding: Bounding) -> Weights:
    """Minimise the cross-entropy of decoded sentences by Adam; no noise is added in training."""

    def loss(now: Weights, numbers: Array) -> Array:
        logs = jax.nn.log_softmax(_logits(now, encode(now, numbers, bounding)))
        return -jnp.mean(jnp.take_along_axis(logs, numbers[..., None], axis=-1))

    def step(at: Array, state: tuple[Weights, Weights, Weights]) -> tuple[Weights, ...]:
        now, means, squares = state
        slopes = jax.grad(loss)(now, data[batches[at]])
        count = (at + 1).astype(jnp.float32)
        first, second = DECAYS
        means = jax.tree.map(lambda m, g: first * m + (1 - first) * g, means, slopes)
        squares = jax.tree.map(lambda s, g: second * s + (1 - second) * g**2, squares, slopes)
        rate = RATE * (1 - count / len(batches))

        def moved(value: Array, mean: Array, square: Array) -> Array:
            spread = jnp.sqrt(square / (1 - second**count)) + 1e-8
            return value - rate * mean / (1 - first**count) / spread

        return jax.tree.map(moved, now, means, squares), means, squares

    zeros = jax.tree.map(jnp.zeros_like, weights)
    last: Weights = jax.lax.fori_loop(0, len(batches), step, (weights, zeros, zeros))[0]
    codes = encode(last, data, bounding)
    return last._replace(low=codes.min(axis=0), high=codes.max(axis=0))


_TRAINING = threading.Lock()  # cells of a run may need the same autoencoder at the same time


def autoencoder(dimensions: int, bounding: Bounding) -> Weights:
    """Return a trained autoencoder: the same for the same arguments, kept in this process.

    Args:
        dimensions: length of its codes.
        bounding: how it bounds them.
    """
    with _TRAINING:
        return _autoencoder(dimensions, bounding)


@functools.cache
def _autoencoder(dimensions: int, bounding: Bounding) -> Weights:
    rows = np.array([tokens(sentence) for sentence in all_sentences()])
    batches = np.random.default_rng(1).integers(len(rows), size=(STEPS, BATCH), dtype=np.int32)
    # In float32 whatever the precision of the run, and outside the program that JAX may be tracing.
    with jax.enable_x64(False), jax.ensure_compile_time_eval():
        first = _first_weights(dimensions, bounding)
        last = _trained(first, jnp.asarray(rows), jnp.asarray(batches), bounding)
        arrays: Weights = jax.tree.map(np.asarray, last)
        return arrays


class RewritingSystem(Mechanism):
    """A system that encodes a sentence, bounds its code, adds noise, and decodes it.

    Data and outputs are token numbers, shape [LENGTH]. Any two sentences are neighbours.
    """

    epsilon: Annotated[float, Gt(0)] = 1.0
    """The claim, and the inverse scale of the noise."""
    dimensions: Annotated[int, Ge(2), Le(128)] = 16
    """Length of a code."""

    @property
    def bounding(self) -> Bounding:
        """How codes are bounded."""
        raise NotImplementedError

    @property
    def diameter(self) -> float:
        """Largest l1 distance of two bounded codes: the sensitivity."""
        each = self.dimensions**0.5 if self.bounding == "norm" else float(self.dimensions)
        return 2 * each

    def noise(self, key: Key, shape: tuple[int, int], dtype: np.dtype) -> Array:
        """Draw noise for codes, of the given shape."""
        raise NotImplementedError

    def resolve(self, pair: Pair) -> Self:
        autoencoder(self.dimensions, self.bounding)  # train before programs are traced
        return self

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        dtype = jnp.asarray(self.epsilon).dtype
        trained = autoencoder(self.dimensions, self.bounding)
        weights = jax.tree.map(lambda one: jnp.asarray(one, dtype), trained)
        code = encode(weights, data, self.bounding)
        return decode(weights, code + self.noise(key, (n, self.dimensions), dtype))

    def rewrite(self, sentence: str, n: int, seed: int = 0) -> list[str]:
        """Rewrite a sentence n times.

        Raises ValueError if a word is unknown.
        """
        rows = self.sample(jax.random.key(seed), jnp.asarray(tokens(sentence)), n)
        return [text(row) for row in np.asarray(rows)]


def laplace(key: Key, shape: tuple[int, int], dtype: np.dtype) -> Array:
    """Draw Lap(0, 1) by the inverse CDF of v ~ Uni(−½, ½) [Habernal2022, equations 6 and 7]."""
    v = jax.random.uniform(key, shape, dtype, minval=-0.5, maxval=0.5)
    return -jnp.sign(v) * jnp.log(1 - 2 * jnp.abs(v))


class DPTextSystem(RewritingSystem, name="dptext-system"):
    """DPText's noise on the codes of an autoencoder [Habernal2022, equations 8 and 9].

    Here coordinates of a code lie in [−1, 1], so Laplace noise of scale 2·`dimensions`/ε would be
    right. Claim: ε for any two sentences; true without a mistake. With one, noise is never negative
    and the claim is wrong: the loss of the noisy code is infinite. An audit measures how much of it
    is left after decoding.
    """

    mistake: Literal["none", "nan-zero", "nan-redrawn"] = "none"
    """nan-zero: v ~ Uni(0, 1) in the inverse CDF for Uni(−½, ½), and undefined noise becomes 0;
    nan-redrawn: the same, and undefined noise is drawn again."""

    @property
    def bounding(self) -> Bounding:
        return "coordinates"

    def noise(self, key: Key, shape: tuple[int, int], dtype: np.dtype) -> Array:
        scale = self.diameter / self.epsilon
        if self.mistake == "none":
            return scale * laplace(key, shape, dtype)
        v = jax.random.uniform(key, shape, dtype)
        if self.mistake == "nan-redrawn":
            return -scale * jnp.log(1 - v)  # 2v given that v < ½ is uniform on (0, 1) again
        return jnp.where(v < 0.5, -scale * jnp.log(1 - 2 * jnp.minimum(v, 0.5)), 0)


class ADePTSystem(RewritingSystem, name="adept-system"):
    """ADePT: Laplace noise on the bounded codes of an autoencoder [Krishna2021].

    ADePT scales a code down to l2 norm C (here 1) and draws noise of scale 2C/ε, as if the l1
    distance of two codes were at most 2C. It is up to 2C√n for n dimensions [Habernal2021], so the
    loss is up to ε√n. The simulation of [Habernal2022] bounds each coordinate, where it is up to
    εn. Claim: ε for any two sentences; true without the mistake, and wrong with it.
    """

    clip: Literal["norm", "coordinates"] = "norm"
    """Bound for codes: "norm", as ADePT does, or "coordinates", as in the simulation."""
    mistake: Literal["none", "one-dimension"] = "none"
    """one-dimension: noise of scale 2/ε in every dimension, whatever their number."""

    @property
    def bounding(self) -> Bounding:
        return self.clip

    def noise(self, key: Key, shape: tuple[int, int], dtype: np.dtype) -> Array:
        sensitivity = 2.0 if self.mistake == "one-dimension" else self.diameter
        return sensitivity / self.epsilon * laplace(key, shape, dtype)


class TokenOdds(Attack, name="token-odds"):
    """Sum over positions of ln of the ratio of the token's shares in the fit stream, D′ over D.

    For texts as token numbers, shape [length]. It is the likelihood ratio if the tokens of an
    output are independent. With counts c of a token at its position and n texts, the share is
    (c + s)/(n + s·tokens).
    """

    gives = "score"

    tokens: Annotated[int, Ge(2), Le(65_536)] = 1024
    """Number of tokens: 0, 1, …; larger numbers count as the last."""
    smoothing: Annotated[float, Gt(0)] = 0.5
    """s, added to every count, because a token that is missing on one dataset proves nothing."""

    def unsuited(self, target: Target) -> str | None:
        if len(target.dims) == 1 and target.dims[0]:
            return None
        return f"requires token numbers, [length]; outputs have shape {target.dims}"

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        logs = []
        for outputs in train:
            places = np.clip(np.asarray(outputs).astype(np.int64), 0, self.tokens - 1)
            counts = [np.bincount(column, minlength=self.tokens) for column in places.T]
            total = len(places) + self.smoothing * self.tokens
            logs.append(np.log((np.stack(counts) + self.smoothing) / total))
        return {"odds": logs[1] - logs[0]}

    def score(self, state: Tree, outputs: Array) -> Array:
        places = jnp.clip(outputs.astype(int), 0, self.tokens - 1)
        return jnp.sum(state["odds"][jnp.arange(places.shape[1]), places], axis=1)
