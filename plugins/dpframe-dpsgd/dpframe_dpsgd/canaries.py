"""Canaries in a training in JAX: directions in place of gradients, found in what steps release."""

from __future__ import annotations

import hashlib
import itertools
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpframe import Doubt, RunAudit, audit_run
from dpframe.plugins import AccountedDP, ApproxDP, Claim, DpframeError, Floats, Ints, Tree
from dpframe.stats.gradient_canaries import (
    LARGE,
    Directions,
    draw_directions,
    score_steps,
)
from dpframe.stats.sampling import RARE, p_of_evenness, p_of_total
from dpframe.stats.step_bets import StepBets
from dpframe_dpsgd.observation import COORDINATES, NoiseTest, ResponseTest

MARK = "canary"
"""Key of the marks in a training set that is a mapping."""
STREAM = 0xD9F4A3F  # so that coins differ from the numbers of a script that uses the same seed
HEADS = 16  # first coordinates of each array of parameters, compared with those of the next one
MOST_HEADS = 32  # arrays
NEARLY_CERTAIN = 1e-6  # probability of bets at which a claim is no longer called consistent
FEWEST_STEPS = 10  # before batches are judged
MATERIAL = 0.02  # share by which a sampling rate may differ
STEPS_AT_ONCE = 32  # scored together
LARGEST = 100.0  # ε above which no claim is stated, because no canaries can refute it
ORDERS = (*range(2, 65), 128, 256, 512)
TOLERANCE = 0.01  # share by which a stated ε may be below that of the steps
LIMITS = (
    "One run does not show what was computed from private data outside the training: "
    "preprocessing, hyper-parameters, early stopping, the best of several runs. ε does not cover "
    "it.",
    "One run does not show steps that canaries.step was not given, or noise that it shares with "
    "another run.",
)


class CanaryError(DpframeError):
    """Canaries cannot be used in this way, or the training was not observed."""


class Projection(NamedTuple):
    """The part of a release that an audit reads: a pytree of three arrays."""

    directions: Any
    """Components in the directions of canaries and controls, shape [rows]."""
    spare: Any
    """Coordinates without canaries, shape [n]."""
    differences: Any
    """Between arrays of parameters, shape [k]; NaN if both are 0."""


class Canaries:
    """Canaries for one training with clipped gradients and Gaussian noise, and its audit.

    An independent coin includes each canary in `train_set` with probability ½. The loss that `loss`
    returns has a canary's own direction as its gradient, ten times as long as the clipping norm, so
    your own code samples, clips and noises it like any record. `step` reads what a step released.

        canaries = Canaries((x, y), number=500, clip=1.0, noise_multiplier=1.1, rate=0.05)
        x, y, mark = canaries.train_set
        gradient = clipped_grad(canaries.loss(loss), batch_argnums=(1, 2, 3), ...)
        ...
            canaries.step(noisy, batch)  # after every step
        ...
        print(canaries.audit(epsilon=3.0, delta=1e-5))

    Args:
        train_set: a tuple or a mapping of arrays with a row for each record.
        number: m, the number of canaries, each with its own coordinates of the parameters.
        clip: C, the norm to which the gradient of a record is clipped.
        noise_multiplier: σ; the standard deviation of the noise in the sum is σC.
        rate: q, the probability that a record is in a batch.
        divided_by: number by which released sums are divided, such as the expected batch size.
        seed: for canaries and coins; default: a new one from the system. A rerun with the same seed
            tosses the same coins, which the first audit has revealed, so it is no new audit.
        out: folder for the record, the scores and the picture; None writes no files.

    Raises:
        CanaryError: the training set has no records, or a number is out of range.
    """

    train_set: Any
    """Records with the included canaries, and the marks: −1 for a record, i for canary i."""

    def __init__(
        self,
        train_set: Any,
        number: int = 500,
        *,
        clip: float,
        noise_multiplier: float,
        rate: float,
        divided_by: float = 1.0,
        seed: int | None = None,
        out: str | Path | None = None,
    ) -> None:
        self.by_name = isinstance(train_set, Mapping)
        size = _size_of(train_set)
        _check(number, clip=clip, noise_multiplier=noise_multiplier, rate=rate, divided=divided_by)
        self.number, self.clip, self.rate = number, float(clip), float(rate)
        self.noise_multiplier, self.divided_by = float(noise_multiplier), float(divided_by)
        if seed is not None and (not isinstance(seed, int) or seed < 0):
            raise CanaryError(f"seed: {seed!r} is not a whole number of at least 0")
        self.folder = None if out is None else Path(out)
        self.seed = secrets.randbits(128) if seed is None else seed
        sequence = np.random.SeedSequence([STREAM, self.seed, number])
        coins, places, self._of_directions = sequence.spawn(3)
        self._members = np.random.default_rng(coins).random(number) < 0.5
        self.train_set, self._marks, self._made_from = self._with_canaries(
            train_set, size, np.random.default_rng(places)
        )
        self._arity = len(self.train_set) - 1
        self._directions: Directions | None = None
        self._sizes: list[int] = []
        self._project = jax.jit(self.project)
        self._kept: list[Floats] = []
        self._total, self._spreads = np.zeros(number), list[float]()
        self._rows, self._seen = list[int](), np.zeros(number, np.int64)
        self._repeated, self._divisors = 0, set[float]()
        self.noise, self.response, self.bets = NoiseTest(), ResponseTest(), StepBets()
        self._looks: list[str] = []

    @property
    def members(self) -> Any:
        """The coins, shape [m]; hidden until the audit, because scores must not depend on them."""
        if not self._looks:
            raise CanaryError("the coins are hidden until the audit")
        return self._members.copy()

    def loss(self, loss: Callable[..., Any]) -> Callable[..., Any]:
        """Return a loss of one record and its mark, with directions as the gradients of canaries.

        Args:
            loss: of the trained parameters, the parts of a record and further arguments, as a
                scalar or a tuple that begins with it.

        Returns:
            A loss that takes the mark after the parts of the record; for a mapping, in it.
        """

        def marked(parameters: Tree, *arguments: Any, **keywords: Any) -> Any:
            if len(arguments) <= (0 if self.by_name else self._arity):
                raise CanaryError(
                    "the loss takes the parameters, the parts of a record and its mark by position"
                )
            if self.by_name:
                record = dict(arguments[0])
                mark, rest = record.pop(MARK), (record, *arguments[1:])
            else:
                mark = arguments[self._arity]
                rest = (*arguments[: self._arity], *arguments[self._arity + 1 :])
            value = loss(parameters, *rest, **keywords)
            own, *more = value if isinstance(value, tuple) else (value,)
            if np.size(mark) != 1:
                raise CanaryError(
                    f"the loss got {np.size(mark):,} records at once, so no gradient of a single "
                    "record exists: use jax.vmap(jax.grad(loss)) or clipped_grad"
                )
            changed = self._replaced(parameters, jnp.reshape(mark, ()), own)
            return (changed, *more) if more else changed

        return marked

    def project(self, released: Tree) -> Projection:
        """Return the part of a release that `step` reads; a pure function for `jit` and `scan`."""
        if self._directions is None:
            raise CanaryError(
                "step: no gradient of canaries.loss(…) was taken before it, so no canary was in"
            )
        leaves = _floating(released)
        if [np.size(leaf) for leaf in leaves] != self._sizes:
            raise CanaryError(
                "step: the release does not have the form of the parameters: pass the noisy sum "
                "of clipped gradients"
            )
        flat = self._flat(leaves)
        heads = [jnp.ravel(leaf)[:HEADS] for leaf in leaves[:MOST_HEADS]]
        differences = [jnp.zeros(0)]
        for one, other in itertools.pairwise(heads):
            size = min(np.size(one), np.size(other))
            untrained = (one[:size] == 0) & (other[:size] == 0)  # neither gradient nor noise
            differences.append(jnp.where(untrained, jnp.nan, other[:size] - one[:size]))
        return Projection(
            (flat[self._coordinates] * jnp.asarray(self._directions.signs, flat.dtype)).sum(1),
            flat[self._spare],
            jnp.concatenate(differences),
        )

    def tap(self) -> Any:
        """Return an optax transformation that keeps what passes through it, and changes nothing.

        Put it behind the one that adds the noise: `optax.chain(private, canaries.tap(), adam)`; and
        pass the state of the chain to `step`.
        """
        import optax

        def init(parameters: Tree) -> Projection:
            self._bind(parameters)
            return Projection(*map(jnp.zeros_like, self.project(parameters)))

        def update(updates: Tree, state: Any, parameters: Any = None) -> tuple[Tree, Projection]:
            return updates, self.project(updates)

        return optax.GradientTransformation(init, update)

    def step(self, released: Any, batch: Any, *, divided_by: float | None = None) -> None:
        """Read what a step released, or many steps.

        Args:
            released: the noisy sum of clipped gradients, in the form of the parameters; or what
                `project` returned for it, for several steps stacked; or the state of an optax chain
                with `tap`.
            batch: indices of the batch in `train_set`, −1 for padding, or a mask of its records;
                for several steps an array or a list with one for each.
            divided_by: as in the constructor, if it changes from step to step, as in
                `optax.contrib.differentially_private_aggregate`, which divides by the batch size.

        Raises:
            CanaryError: the release has another form, or the loss is not that of `loss`.
        """
        taps = jax.tree.leaves(released, is_leaf=lambda one: isinstance(one, Projection))
        tapped = [one for one in taps if isinstance(one, Projection)]
        seen = tapped[0] if tapped else self._project(released)
        parts = Projection(*(np.asarray(part, np.float64) for part in seen))
        if parts.directions.ndim == 1:
            self._step(parts, batch, divided_by or self.divided_by)
            return
        if len(batch) != len(parts.directions):
            raise CanaryError(
                f"step: {len(parts.directions):,} releases, but {len(batch):,} batches"
            )
        for *own, batch_of_step in zip(*parts, batch, strict=True):
            self._step(Projection(*own), batch_of_step, divided_by or self.divided_by)

    def audit(
        self,
        epsilon: float | None = None,
        delta: float = 1e-5,
        *,
        steps: int | None = None,
        confidence: float = 0.95,
        estimators: Sequence[Any] | None = None,
        assume: str | None = None,
    ) -> RunAudit:
        """Bound the privacy loss of the training, and compare the bound with the claim.

        The claim is the whole curve of the observed steps with the stated noise multiplier and
        sampling rate; refuting it takes fewer canaries than refuting ε at one δ. If `epsilon` is
        smaller than these steps give, the claim is `epsilon`. The verdict is "inconclusive" instead
        of "consistent" if something that was observed does not agree with what is stated; a warning
        says what.

        Args:
            epsilon: as your accountant computed it at δ; None for the curve of the observed steps.
            delta: of the claim, and of the bound.
            steps: that the accountant counted; the audit doubts another number.
            confidence: of the bound and the verdict.
            estimators: from dpframe's one-run family. Default: one-run, guessing equally many
                canaries in and out.
            assume: "independent" for bound and verdict under the assumption that the score of each
                canary depends on no coin but its own; see `dpframe.score_one_run`.

        Raises:
            CanaryError: no step was observed, or a number is out of range.
        """
        if epsilon is not None and not (_is_number(epsilon) and epsilon >= 0):
            raise CanaryError(f"epsilon: {epsilon!r} is not a number of at least 0")
        if not (_is_number(delta) and 0 <= delta < 1):
            raise CanaryError(f"delta: {delta!r} is not a number from 0 to below 1")
        if not self._rows:
            raise CanaryError("no step was observed: call canaries.step(released, batch)")
        self._score()
        warnings: list[str] = [*map(Doubt, self._doubts(steps))]
        claim, more = self._claim(epsilon, delta)
        question = repr((epsilon, delta, confidence, assume, *(estimators or ()), len(self._rows)))
        look = self._look(question)
        price = look * (look + 1) if look > 1 else 1
        if look > 1:
            warnings.append(
                f"these coins were audited before: this is look {look}, with 1/{price} of the "
                f"error, so that all looks together hold at {100 - 150 * (1 - confidence):.1f} %"
            )
        m, controls = self.number, self.rows - self.number
        audit = audit_run(
            self._total,
            self._members,
            claim=claim,
            delta=delta,
            confidence=1 - (1 - confidence) / price,
            estimators=estimators,
            parameters={"side": "both"} if estimators is None else {},
            warnings=[*warnings, *more],
            limits=[*self._unchecked(), *LIMITS],
            training=self._described(look),
            name=f"{m:,} random-gradient canaries in JAX",
            assume=assume,
            independent=controls > 0,
            step_bets=self.bets.described(self._others),
        )
        audit.scores["record"] = self._made_from
        if self.folder is not None:
            audit.save(self.folder)
        return audit

    @property
    def rows(self) -> int:
        """Number of directions: of canaries and controls."""
        return 0 if self._directions is None else len(self._directions.signs)

    # The data and the loss.

    def _with_canaries(
        self, data: Any, size: int, rng: np.random.Generator
    ) -> tuple[Any, Ints, Ints]:
        """Insert copies of random records at random places; their content is not used."""
        inside = np.flatnonzero(self._members)
        sources = rng.integers(size, size=self.number)
        places = rng.integers(size + 1, size=len(inside))
        order = np.insert(np.arange(size), places, -1 - inside)  # −1 − i for canary i
        marks = np.where(order < 0, -1 - order, -1)
        rows = np.where(order < 0, sources[marks], order)
        if self.by_name:
            parts = {key: part[rows] for key, part in data.items()}
            return {**parts, MARK: marks.astype(np.int32)}, marks, sources
        return (*(part[rows] for part in data), marks.astype(np.int32)), marks, sources

    def _bind(self, parameters: Tree) -> None:
        """Draw the directions for the parameters; do nothing at later calls."""
        leaves = _floating(parameters)
        sizes = [int(np.size(leaf)) for leaf in leaves]
        if self._directions is not None:
            if sizes != self._sizes:
                raise CanaryError("the loss was called with parameters of another form than before")
            return
        drawn = draw_directions(np.array(sizes), self.number, self._of_directions)
        if drawn is None:
            raise CanaryError(
                f"{self.number:,} canaries need as many parameters, the model has {sum(sizes):,}: "
                "fewer canaries"
            )
        self._sizes, self._directions = sizes, drawn
        starts = np.concatenate([[0], np.cumsum([sizes[place] for place in drawn.chosen])])
        self._coordinates = starts[drawn.which] + drawn.inner
        free = np.setdiff1d(np.arange(starts[-1]), self._coordinates[: self.number])
        rng = np.random.default_rng(self._of_directions.spawn(1)[0])
        self._spare = rng.permutation(free)[:COORDINATES]

    def _flat(self, leaves: list[Any]) -> Any:
        """Return the coordinates that directions lie in."""
        assert self._directions is not None
        return jnp.concatenate([jnp.ravel(leaves[place]) for place in self._directions.chosen])

    def _replaced(self, parameters: Tree, mark: Any, own: Any) -> Any:
        """Return the loss of a record, or for a canary a function that is linear in parameters."""
        self._bind(parameters)
        assert self._directions is not None
        canary = jnp.maximum(mark, 0)
        values = self._flat(_floating(parameters))[jnp.asarray(self._coordinates)[canary]]
        signs = jnp.asarray(self._directions.signs, values.dtype)[canary]
        linear = LARGE * self.clip * (values * signs).sum()
        return jnp.where(mark >= 0, linear.astype(own.dtype), own)

    # Steps.

    def _step(self, parts: Projection, batch: Any, divided_by: float) -> None:
        marks, rows = self._marks_in(batch)
        seen = np.zeros(self.number, np.bool_)
        seen[marks] = True
        self._divisors.add(float(divided_by))
        units = divided_by / self.clip
        directions = parts.directions * units
        self._rows.append(rows)
        self._seen += seen
        self._kept.append(directions)
        inside, coins = directions[: self.number][self._members], seen[self._members]
        self.response.update(inside, coins.astype(np.float64), self.rate)
        if self.noise_multiplier > 0:
            scale = units / self.noise_multiplier
            differences = parts.differences[~np.isnan(parts.differences)]
            self.noise.update(parts.spare * scale, differences * scale)
            if 0 < self.rate < 1 and len(inside):
                self.bets.update(inside, coins, self.noise_multiplier, self.rate)
        if len(self._kept) >= STEPS_AT_ONCE:
            self._score()

    def _marks_in(self, batch: Any) -> tuple[Ints, int]:
        """Return the canaries in a batch, and its number of records."""
        places = np.asarray(batch)
        if places.dtype == np.bool_ and places.shape == self._marks.shape:
            places = np.flatnonzero(places)
        elif places.dtype.kind not in "iu" and places.size:
            raise CanaryError(
                "step: batch must be indices in canaries.train_set, or a mask with a truth value "
                f"for each of its {len(self._marks):,} records"
            )
        places = places.astype(np.int64).ravel()
        places = places[places >= 0]
        if len(places) and places.max() >= len(self._marks):
            raise CanaryError(
                f"step: batch has index {places.max():,}, canaries.train_set has "
                f"{len(self._marks):,} records"
            )
        self._repeated += len(np.unique(places)) < len(places)
        marks = self._marks[places]
        return marks[marks >= 0], len(places)

    def _score(self) -> None:
        """Add the evidence of the stored steps."""
        if not self._kept:
            return
        steps = len(self._kept)
        rate = min(max(self.rate, 1e-9), 1 - 1e-9)
        scores, spreads = score_steps(
            np.array(self._kept),
            self.number,
            np.full(steps, self.noise_multiplier),
            np.full(steps, rate),
        )
        self._total += scores
        self._spreads += spreads.tolist()
        self._kept.clear()

    # The audit.

    def _doubts(self, steps: int | None) -> list[str]:
        """Name what was observed and does not agree with what is stated."""
        made = len(self._rows)
        doubts = [*self.response.warnings(), *self.noise.warnings(), *self._of_batches()]
        if steps is not None and steps != made:
            doubts.append(f"the accountant counted {steps:,} steps, and {made:,} were observed")
        if len(self._divisors) > 1:
            doubts.append(
                "sums are divided by numbers that change, such as the size of the drawn batch, "
                "which is private: divide by the expected size"
            )
        if self.noise_multiplier == 0:
            doubts.append("the training adds no noise: noise_multiplier is 0")
        if self.bets.p_value <= NEARLY_CERTAIN:
            doubts.append(
                f"bets on the releases of {made:,} steps refute the stated noise and clipping norm "
                f"(p ≤ {self.bets.p_value:.1g}, however canaries depend on each other): the noise "
                "is smaller than the noise multiplier says, or gradients are longer than clip"
            )
        return doubts

    def _of_batches(self) -> list[str]:
        rows, n, made = np.array(self._rows, float), len(self._marks), len(self._rows)
        inside = self._seen[self._members]
        doubts = []
        if self._repeated:
            doubts.append(f"{self._repeated:,} of {made:,} batches contain a record twice")
        if made < FEWEST_STEPS or self.rate >= 1:
            return doubts
        share = rows.sum() / (n * made)
        differs = abs(share / self.rate - 1) > MATERIAL
        if differs and p_of_total(rows.sum(), n * made, self.rate, self.rate) < RARE:
            doubts.append(
                f"batches had {rows.mean():.1f} records on average, and rate = {self.rate:g} means "
                f"{self.rate * n:.1f}"
            )
        meaning = "the ε of an accountant that assumes Poisson sampling is then wrong"
        if p_of_evenness(rows, n) < RARE:
            doubts.append(
                "batches are not Poisson samples: nearly all have "
                f"{round(float(np.median(rows))):,} records; {meaning}"
            )
        elif len(inside) and p_of_evenness(inside, made) < RARE:
            doubts.append(
                "batches are not Poisson samples: all canaries were seen about equally often; "
                f"{meaning}"
            )
        return doubts

    def _claim(self, epsilon: float | None, delta: float) -> tuple[Claim | None, list[str]]:
        """Return the claim about the training, and what is inconsistent about a stated ε."""
        import dp_accounting as dp
        from dp_accounting.rdp import RdpAccountant

        stated = None if epsilon is None or math.isinf(epsilon) else ApproxDP(epsilon, delta)
        if self.noise_multiplier == 0:
            return stated, []
        step = dp.PoissonSampledDpEvent(self.rate, dp.GaussianDpEvent(self.noise_multiplier))
        event = dp.SelfComposedDpEvent(step, len(self._rows))
        rough = RdpAccountant(ORDERS).compose(event).get_epsilon(delta or 1e-9)
        claim = (
            AccountedDP(event, discretization=max(1e-4, 2e-4 * rough)) if rough <= LARGEST else None
        )
        exact = rough if claim is None else claim.epsilon_at(delta)
        if epsilon is not None and epsilon < exact * (1 - TOLERANCE):
            return stated, [
                Doubt(
                    f"epsilon = {epsilon:.4g} is claimed, but {len(self._rows):,} observed steps "
                    f"with the stated noise multiplier {self.noise_multiplier:g} and sampling rate "
                    f"{self.rate:g} give {exact:.4g} at δ = {f'{delta:g}'.replace('e-0', 'e-')}"
                )
            ]
        if claim is None:
            return stated, [f"the steps give an ε of about {rough:.2g}, too large to refute"]
        return claim, []

    def _look(self, question: str) -> int:
        """Return the number of the look of a question at these coins."""
        digest = hashlib.sha256(question.encode()).hexdigest()
        if digest not in self._looks:
            self._looks.append(digest)
        return self._looks.index(digest) + 1

    @property
    def _others(self) -> float | None:
        """Root mean square of what other records add in a direction, in units of σ, if known."""
        errors = self.noise.by_zero
        if not errors.degrees[0] or self.noise.warnings():
            return None
        return math.sqrt(max(0.0, float(errors.sums[0] / errors.degrees[0]) - 1))

    def _unchecked(self) -> list[str]:
        sentences = []
        if not self.noise.by_zero.degrees[0]:
            sentences.append(
                "Not checked: the noise by itself, because canaries use every coordinate of the "
                "largest parameters."
            )
        if self.rate >= 1:
            sentences.append(
                "Not checked: by how much a canary changes a release, because every batch has all "
                "records."
            )
        return sentences

    def _described(self, look: int) -> dict[str, Any]:
        """Return the description of the run, for the record."""
        noise = self.noise
        return {
            "run": hashlib.sha256(self._members.tobytes() + str(self.seed).encode()).hexdigest()[
                :16
            ],
            "kind": "random-gradient",
            "seed": str(self.seed),
            "score": "gradient",
            "look": look,
            "looks": len(self._looks),
            "watched": {
                "steps": len(self._rows),
                "records": int(sum(self._rows)),
                "largest_batch": max(self._rows),
                "noise": {
                    "ratio": noise.spread,
                    "predicted": noise.rest,
                    "coordinates": int(noise.by_zero.degrees[0]),
                    "p_value": noise.p_value(),
                },
                "response": self.response.value,
                "directions": {"spread": float(np.mean(self._spreads))},
            },
        }


def _floating(tree: Tree) -> list[Any]:
    """Return the arrays of parameters that are trained: those of floating-point numbers."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if hasattr(leaf, "dtype")]
    return [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]


def _size_of(data: Any) -> int:
    """Return the number of records; raise CanaryError for data without rows."""
    parts = list(data.values()) if isinstance(data, Mapping) else data
    if not isinstance(data, Mapping | tuple | list) or not parts:
        raise CanaryError("train_set: must be a tuple or a mapping of arrays, such as (x, y)")
    if not all(isinstance(part, np.ndarray | jax.Array) and part.ndim for part in parts):
        raise CanaryError("train_set: each part must be an array with a row for each record")
    sizes = {len(part) for part in parts}
    if len(sizes) > 1 or not max(sizes):
        raise CanaryError(f"train_set: its parts have {sorted(sizes)} rows; all need as many")
    return sizes.pop()


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and np.ndim(value) == 0 and np.isreal(value)


def _check(number: Any, **given: Any) -> None:
    """Raise CanaryError for a number that is out of range."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise CanaryError(f"number: {number!r} is not a number of canaries, at least 1")
    for name, value in given.items():
        least = value >= 0 if name == "noise_multiplier" else value > 0
        if not (_is_number(value) and least and math.isfinite(value)):
            raise CanaryError(f"{name}: {value!r} is not a finite number above 0")
    if given["rate"] > 1:
        raise CanaryError(f"rate: {given['rate']!r} is not a probability")
