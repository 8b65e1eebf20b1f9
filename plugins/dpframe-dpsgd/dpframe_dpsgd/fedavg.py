"""Federated averaging with client-level privacy, and canary clients in one run."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.plugins import AccountedDP, Array, Claim, Ge, Gt, Key, Le, Mechanism, Pair
from dpframe_dpsgd import network
from dpframe_dpsgd.training import SPACING, as_vector

NORMAL_MAD = 1.4826  # standard deviation of a normal variable over its median absolute deviation
AT_ONCE = 1  # runs that train together; more of them take more memory, not less time


class Clients(NamedTuple):
    """Clients that take part in every run, and canary clients."""

    x: Any
    """Features, shape [clients, records, features]."""
    y: Any
    """Labels, shape [clients, records]."""
    canary_x: Any
    """Data of canary clients, shape [m, records, features]; no records if they send directions."""
    canary_y: Any
    """Labels of canary clients, shape [m, records]."""


class FederatedTraining(Mechanism):
    """Base class of federated averaging with clipped client updates and Gaussian noise.

    One release is one run.

    In each round every client takes part with probability q. It trains the global model on its own
    records by gradient descent, and sends the difference, which the server clips to norm C. The
    server sums the updates, adds N(0, σ²C²) in every coordinate, divides by the expected number of
    clients, and adds this mean to the model [McMahan2018, Algorithm 1].

    An independent coin includes each canary client in the run with probability ½. It trains on its
    own records or, without records, sends a new random direction in each round [AndrewK2024]. Its
    score is the log-likelihood ratio of all rounds: the released sum in the direction of its update
    is about N(s, v) if a canary with an update of norm s takes part, and N(0, v) if not. v is
    estimated from all canaries, without their coins. Claim: the privacy loss distribution of the
    composed, Poisson-sampled Gaussian mechanism, for adding or removing one client.
    """

    canaries = True

    noise_multiplier: Annotated[float, Gt(0)] = 1.0
    """σ: standard deviation of the noise divided by C."""
    clip: Annotated[float, Gt(0)] = 1.0
    """C: the largest norm of a client's update."""
    rounds: Annotated[int, Ge(1)] = 20
    """Number of releases."""
    rate: Annotated[float, Gt(0), Le(1)] = 0.5
    """q: probability that a client takes part in a round."""
    local_steps: Annotated[int, Ge(1)] = 5
    """Gradient-descent steps of each client per round."""
    local_rate: Annotated[float, Gt(0)] = 0.5
    """Step size of the clients."""
    width: Annotated[int, Ge(1)] = 32
    """Hidden units of the network."""
    canary_norm: Annotated[float, Gt(0)] = 5.0
    """Norm of a random direction before it is clipped, in units of C."""
    classes: Annotated[int, Ge(2)] | None = None
    """Number of labels; default: those in the data."""

    @property
    def rows(self) -> int:
        return AT_ONCE

    def resolve(self, pair: Pair) -> Self:
        data = pair.d0
        if not isinstance(data, Clients):
            raise ValueError("federated averaging needs clients: the pair `clients`")
        return dataclasses.replace(self, classes=self.classes or max(2, int(np.max(data.y)) + 1))

    def claim(self, pair: Pair) -> Claim | None:
        import dp_accounting as dp

        step = dp.PoissonSampledDpEvent(self.rate, dp.GaussianDpEvent(self.noise_multiplier))
        return AccountedDP(dp.SelfComposedDpEvent(step, self.rounds), discretization=SPACING)

    def release(self, key: Key, data: Array) -> Array:
        _, scores, members = self.train(key, Clients(*data))
        return jnp.stack([scores, members])

    def train(self, key: Key, data: Clients) -> tuple[Array, Array, Array]:
        """Train one model.

        Returns:
            The parameters as one vector, and the scores and coins of the canaries, each of shape
            [m].
        """
        start, coins, rounds = jax.random.split(key, 3)
        count = data.canary_x.shape[0]
        members = jax.random.bernoulli(coins, 0.5, (count,)).astype(float)
        made = network.init_network(start, data.x.shape[2], self.width, self.classes or 2)
        vector, shaped = as_vector(made)

        def updates(vector: Array, x: Array, y: Array) -> Array:
            local: Any = jax.vmap(lambda x, y: self.local_update(shaped, vector, x, y))
            return self.bounded(local(x, y))

        def step(carry: tuple[Array, Array], key: Key) -> tuple[tuple[Array, Array], None]:
            vector, scores = carry
            which, own, shake, directions = jax.random.split(key, 4)
            taken = self.taken(which, data.x.shape[0], canaries=False)
            if data.canary_x.shape[1]:
                sent = updates(vector, data.canary_x, data.canary_y)
            else:
                sent = self.bounded(self.directions(directions, count, vector.size))
            total = taken @ updates(vector, data.x, data.y)
            total += (self.taken(own, count, canaries=True) * members) @ sent
            noise = self.noise_multiplier * self.clip * jax.random.normal(shake, vector.shape)
            mean = self.mean(total, noise, data.x.shape[0])
            # The observer multiplies by the divisor of the correct server.
            seen = mean * self.expected(data.x.shape[0])
            scores += self.evidence(seen, self.clipped(sent))
            return (vector + mean, scores), None

        begin = (vector, jnp.zeros(count))
        (vector, scores), _ = jax.lax.scan(step, begin, jax.random.split(rounds, self.rounds))
        return vector, scores, members

    # The parts of a round, each a pure function.

    def directions(self, key: Key, number: int, size: int) -> Array:
        """Return the random updates of canary clients for one round, shape [number, size]."""
        drawn = jax.random.normal(key, (number, size))
        norms = jnp.linalg.norm(drawn, axis=1, keepdims=True)
        directions: Array = drawn * (self.canary_norm * self.clip / norms)
        return directions

    def local_update(self, shaped: Any, vector: Array, x: Array, y: Array) -> Array:
        """Return the update that a client sends before the server clips it, shape [parameters].

        Args:
            shaped: turns a vector into a model.
            vector: the global model.
            x: features of the client's records, shape [records, features].
            y: their labels, shape [records].
        """

        def step(own: Array, _: None) -> tuple[Array, None]:
            return own - self.local_rate * self.local_gradient(shaped, own, x, y), None

        own, _ = jax.lax.scan(step, vector, None, length=self.local_steps)
        update: Array = own - vector
        return update

    def local_gradient(self, shaped: Any, vector: Array, x: Array, y: Array) -> Array:
        """Return the gradient of a client's mean loss, shape [parameters]."""

        def loss(vector: Array) -> Array:
            each: Array = jax.vmap(network.loss, in_axes=(None, 0, 0))(shaped(vector), x, y)
            return each.mean()

        gradient: Array = jax.grad(loss)(vector)
        return gradient

    def bounded(self, updates: Array) -> Array:
        """Return the updates that the server sums: clipped, shape [clients, parameters]."""
        return self.clipped(updates)

    def clipped(self, updates: Array) -> Array:
        """Return updates of norm at most C, shape [clients, parameters]."""
        return updates * network.clip_factor(jnp.sum(updates**2, axis=1), self.clip)[:, None]

    def taken(self, key: Key, number: int, *, canaries: bool) -> Array:
        """Return the number of times that each client takes part in a round, shape [number]."""
        return jax.random.bernoulli(key, self.rate, (number,)).astype(float)

    def expected(self, clients: int) -> float:
        """Return the expected number of clients in a round, without canaries."""
        return self.rate * clients

    def mean(self, total: Array, noise: Array, clients: int) -> Array:
        """Return the mean update that the server releases.

        Args:
            total: the sum of updates, shape [parameters].
            noise: for the sum.
            clients: the number of clients, without canaries.
        """
        return (total + noise) / self.expected(clients)

    def evidence(self, released: Array, updates: Array) -> Array:
        """Return the log-likelihood ratios of one round, shape [m].

        Args:
            released: the released sum, shape [parameters].
            updates: of the canaries, clipped as by a correct server, shape [m, parameters].
        """
        norms = jnp.linalg.norm(updates, axis=1)
        projections = updates @ released / jnp.maximum(norms, 1e-12) / self.clip
        shift = norms / self.clip
        # For one canary all other updates are noise; the spread of the scores shows its size.
        spread = NORMAL_MAD * jnp.median(jnp.abs(projections))
        variance = jnp.maximum(spread, self.noise_multiplier) ** 2
        ratio = (2 * shift * projections - shift**2) / (2 * variance)
        return jnp.logaddexp(jnp.log1p(-self.rate), jnp.log(self.rate) + ratio)


class DPFedAvg(FederatedTraining, name="dp-fedavg"):
    """Federated averaging with clipped client updates and Gaussian noise; one release is one run.

    Clients are sampled independently, and each sends a clipped update [McMahan2018, Algorithm 1].
    An independent coin includes each canary client [AndrewK2024], and its score depends only on the
    releases of the rounds. Claim: the privacy loss distribution of the composed, Poisson-sampled
    Gaussian mechanism, for adding or removing one client.
    """


class MistakenFedAvg(FederatedTraining, name="dp-fedavg-mistaken"):
    """`dp-fedavg` with one planted mistake; the claim is that of the correct server.

    none: no mistake. clipped-per-example: clients clip the gradients of single records, and the
    server does not clip their updates. noise-of-all-clients: the noise is divided by the number of
    all clients instead of the expected number in a round. canary-twice: canary clients are
    registered twice, and both copies are sampled.
    """

    mistake: Literal["none", "clipped-per-example", "noise-of-all-clients", "canary-twice"]
    """The planted mistake."""

    def local_gradient(self, shaped: Any, vector: Array, x: Array, y: Array) -> Array:
        if self.mistake != "clipped-per-example":
            return super().local_gradient(shaped, vector, x, y)
        weights = jnp.full(len(y), 1 / max(1, len(y)))
        clipped = network.clipped_sum(shaped(vector), x, y, weights, self.clip)
        return as_vector(clipped)[0]

    def bounded(self, updates: Array) -> Array:
        return updates if self.mistake == "clipped-per-example" else super().bounded(updates)

    def taken(self, key: Key, number: int, *, canaries: bool) -> Array:
        first, second = jax.random.split(key)
        once = super().taken(first, number, canaries=canaries)
        if canaries and self.mistake == "canary-twice":
            return once + super().taken(second, number, canaries=canaries)
        return once

    def mean(self, total: Array, noise: Array, clients: int) -> Array:
        if self.mistake == "noise-of-all-clients":
            return total / self.expected(clients) + noise / clients
        return super().mean(total, noise, clients)
