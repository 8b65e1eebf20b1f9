"""Canaries in a training in JAX: they are clipped like records, and planted mistakes are named.

Right trainings are accused with probability at most 1e-6 per test.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from dpframe_dpsgd import Canaries, CanaryError
from dpframe_dpsgd.canaries import Projection
from dpframe_dpsgd.observation import NoiseTest, ResponseTest, SquaredErrors
from dpsgd_support import watched
from jax_privacy.clipping import clipped_grad
from jax_privacy.noise_addition import gaussian_privatizer
from scipy import stats

from dpframe.stats.step_bets import StepBets

STATED = {"clip": 1.0, "noise_multiplier": 1.0, "rate": 0.1}
MISTAKES = {
    "noise-off": ({"of_noise": 0.0}, "noise is too small"),
    "noise-smaller": ({"of_noise": 0.9}, "noise is too small"),
    "noise-without-clip": ({"clip": 2.0}, "noise is too small"),
    "same-key": ({}, "noise is used again"),
    "key-of-epoch": ({}, "noise is used again, such as 10 steps later"),
    "shared": ({}, "noise is used again, such as 1 step later"),
    "key-of-all-arrays": ({}, "arrays of parameters get the same noise"),
    "not-clipped": (
        {},
        "changes the release by 10 clipping norms instead of 1: gradients of single",
    ),
    "clipped-after-averaging": ({}, "clipping norms instead of 1: gradients of single records"),
    "sum-as-mean": ({}, "divided_by is another"),
    "drawn-size": ({"steps": 60}, "noise is too small"),
    "drawn-size-given": ({"steps": 60}, "divided by numbers that change"),
    "hook-not-called": ({}, "the gradients come from another loss"),
    "other-batches": ({}, "the batches are not those that step() was given"),
    "twice-the-rate": ({}, "and rate = 0.1 means"),
    "fixed-batches": ({}, "batches are not Poisson samples"),
}


@pytest.fixture(scope="module")
def right():
    return watched.trained(1)


def test_a_right_training_is_not_accused(right):
    audit = right.audit(steps=watched.STEPS)
    assert audit.warnings == []
    assert audit.verdict == "consistent"
    assert 0 < audit.epsilon_lower < audit.ceiling
    assert audit["step_bets"]["steps"] == watched.STEPS
    assert audit["step_bets"]["refuted_at"] is None
    assert audit["independent"]["supported"] is True
    assert audit["training"]["watched"]["response"] == pytest.approx(1, abs=0.15)
    assert "Not checked" not in str(audit)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(mistake):
    options, words = MISTAKES[mistake]
    audit = watched.trained(1, mistake=mistake, **options).audit()
    assert audit.verdict in ("violated", "inconclusive")
    assert words in " ".join(audit.warnings)


@pytest.mark.slow
def test_right_trainings_are_not_accused():
    """Bounds exceed the truth, and bets refute, in at most 5 % of 30 trainings each."""
    refuted = above = 0
    for seed in range(30):
        audit = watched.trained(100 + seed, steps=60).audit()
        assert audit.warnings == []
        assert audit.verdict == "consistent" or audit["rows"][0]["p_value"] <= 0.05
        refuted += audit["step_bets"]["refuted_at"] is not None
        above += audit.verdict == "violated"
    assert max(refuted, above) <= stats.binom.isf(1e-6, 30, 0.05)


# The canaries themselves.


def test_a_canary_is_clipped_to_its_direction_and_a_record_stays_as_it_is():
    canaries = Canaries(watched.data(), 100, seed=5, **STATED)
    x, y, mark = canaries.train_set
    parameters = watched.start()
    marked = jax.vmap(jax.grad(canaries.loss(watched.loss)), in_axes=(None, 0, 0, 0))
    plain = jax.vmap(jax.grad(watched.loss), in_axes=(None, 0, 0))
    raw, bare = jax.jit(lambda x, y, m: (marked(parameters, x, y, m), plain(parameters, x, y)))(
        x, y, mark
    )
    for own, other in zip(jax.tree.leaves(raw), jax.tree.leaves(bare), strict=True):
        np.testing.assert_allclose(own[mark < 0], other[mark < 0], rtol=1e-5, atol=1e-7)
    (places,) = np.nonzero(mark >= 0)
    assert 0 in mark
    directions = jax.tree.map(lambda leaf: np.asarray(leaf)[places] / 10, raw)
    squares = [(leaf**2).reshape(len(places), -1).sum(1) for leaf in directions.values()]
    np.testing.assert_allclose(sum(squares), 1.0, rtol=1e-5)
    seen = jax.jit(jax.vmap(canaries.project))(directions)
    np.testing.assert_allclose(seen.directions, np.eye(canaries.rows)[mark[places]], atol=1e-6)
    assert not np.any(seen.spare)


def test_coins_include_about_half_and_hide_until_the_audit():
    coins = [Canaries(watched.data(), 400, seed=n, **STATED) for n in range(5)]
    for one in coins:
        x, y, mark = one.train_set
        assert len(x) == len(y) == len(mark) == watched.RECORDS + (mark >= 0).sum()
        assert set(mark[mark >= 0]) == set(np.flatnonzero(one._members))
        assert stats.binomtest(int((mark >= 0).sum()), 400).pvalue > 1e-6
        with pytest.raises(CanaryError, match="hidden"):
            _ = one.members
    again = Canaries(watched.data(), 400, seed=0, **STATED)
    assert (again._members == coins[0]._members).all()
    assert (coins[1]._members != coins[0]._members).any()
    other = Canaries(watched.data(), 401, seed=0, **STATED)
    assert (other._members[:400] != coins[0]._members).any()
    assert (
        Canaries(watched.data(), 400, **STATED).seed != Canaries(watched.data(), 400, **STATED).seed
    )


def test_records_keep_their_order_and_canaries_are_spread():
    (x, y), canaries = watched.data(), Canaries(watched.data(), 300, seed=0, **STATED)
    marked_x, marked_y, mark = canaries.train_set
    np.testing.assert_array_equal(marked_x[mark < 0], x)
    np.testing.assert_array_equal(marked_y[mark < 0], y)
    places = np.flatnonzero(mark >= 0) / len(mark)
    assert stats.kstest(places, "uniform").pvalue > 1e-6


# Trainers.


def test_a_trainer_of_jax_privacy_with_a_mapping():
    """Microbatches, a mapping as the record, and padded indices as the batch."""
    x, y = watched.data()
    canaries = Canaries({"x": x, "y": y}, 150, seed=0, **STATED)
    data = {key: jnp.asarray(part) for key, part in canaries.train_set.items()}

    def loss(parameters, record, prng):
        del prng
        return watched.loss(parameters, record["x"], record["y"]), {"label": record["y"]}

    gradient = clipped_grad(
        canaries.loss(loss),
        has_aux=True,
        l2_clip_norm=1.0,
        batch_argnums=1,
        keep_batch_dim=False,
        microbatch_size=32,
        prng_argnum=2,
    )
    privatizer = gaussian_privatizer(stddev=1.0, prng_key=jax.random.key(1, impl="rbg"))

    @jax.jit
    def step(parameters, state, batch):
        records = jax.tree.map(lambda part: part[batch], data)
        key = jax.random.key(0)
        summed, _ = gradient(parameters, records, key, is_padding_example=batch < 0)
        noisy, state = privatizer.update(summed, state)
        return jax.tree.map(lambda p, g: p - 2e-4 * g, parameters, noisy), state, noisy

    parameters, rng = watched.start(), np.random.default_rng(0)
    state = privatizer.init(parameters)
    for _ in range(30):
        taken = np.flatnonzero(rng.random(len(data["x"])) < 0.1)
        batch = np.concatenate([taken, np.full(96 - len(taken), -1)])
        parameters, state, noisy = step(parameters, state, batch)
        canaries.step(noisy, batch)
    audit = canaries.audit()
    assert audit.warnings == []
    assert audit.verdict == "consistent"


def test_a_loss_that_keeps_the_axis_of_the_batch():
    """As `clipped_grad` calls it by default."""
    canaries = ready()
    x, y, mark = canaries.train_set
    (place,) = np.flatnonzero(mark >= 0)[:1]

    def loss(parameters, x, y):
        return watched.loss(parameters, x[0], y[0])

    gradient = clipped_grad(canaries.loss(loss), l2_clip_norm=1.0, batch_argnums=(1, 2, 3))
    some = slice(place, place + 1)
    arguments = watched.start(), x[some], y[some], mark[some]
    seen = jax.jit(lambda *given: canaries.project(gradient(*given)))(*arguments)
    np.testing.assert_allclose(seen.directions, np.eye(canaries.rows)[mark[place]], atol=1e-6)


def test_a_chain_of_optax():
    """Clipping, noise and the mean of a batch by optax; a tap in front of Adam."""
    canaries = Canaries(watched.data(), 150, seed=0, **STATED)
    x, y, mark = map(jnp.asarray, canaries.train_set)
    private = optax.contrib.differentially_private_aggregate(
        1.0, 1.0, key=jax.random.key(1, impl="rbg")
    )
    optimizer = optax.chain(private, canaries.tap(), optax.adam(1e-3))
    gradients = jax.vmap(jax.grad(canaries.loss(watched.loss)), in_axes=(None, 0, 0, 0))

    @jax.jit
    def step(parameters, state, batch):
        each = gradients(parameters, x[batch], y[batch], mark[batch])
        updates, state = optimizer.update(each, state, parameters)
        return optax.apply_updates(parameters, updates), state

    parameters = watched.start()
    state = optimizer.init(parameters)
    for n in range(20):
        batch = np.random.default_rng(n).choice(len(x), 48, replace=False)
        parameters, state = step(parameters, state, batch)
        canaries.step(state, batch, divided_by=48)
    (warning,) = canaries.audit().warnings
    assert "nearly all have 48 records" in warning
    assert canaries.noise.spread == pytest.approx(1, abs=0.1)


def test_steps_of_a_scan_are_those_of_a_loop():
    def observed(stacked):
        canaries = Canaries(watched.data(), 150, seed=0, **STATED)
        jax.eval_shape(
            canaries.loss(watched.loss), watched.start(), *(a[0] for a in canaries.train_set)
        )
        rng = np.random.default_rng(0)
        releases = [
            jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), watched.start())
            for _ in range(40)
        ]
        batches = rng.random((40, len(canaries.train_set[0]))) < 0.1
        if stacked:
            seen = [canaries.project(jax.tree.map(jnp.asarray, one)) for one in releases]
            canaries.step(Projection(*map(np.stack, zip(*seen, strict=True))), batches)
        else:
            for release, batch in zip(releases, batches, strict=True):
                canaries.step(release, np.flatnonzero(batch))
        return canaries.audit()

    one, other = observed(True), observed(False)
    np.testing.assert_allclose(one.scores["score"], other.scores["score"], rtol=1e-5)
    assert one["step_bets"] == other["step_bets"]


def test_bets_are_on_the_canaries_of_the_training_set():
    """Those that are out are in no batch, so they are not sampled with probability q."""
    canaries, rng, bets = ready(), np.random.default_rng(0), StepBets()
    members = np.isin(np.arange(50), canaries.train_set[2])
    for _ in range(30):
        released = rng.normal(size=canaries.rows)
        batch = rng.random(len(canaries.train_set[2])) < 0.1
        canaries.step(Projection(released, np.zeros(0), np.zeros(0)), batch)
        sampled = np.isin(np.arange(50), canaries.train_set[2][batch])
        bets.update(released[:50][members], sampled[members], 1.0, 0.1)
    assert canaries.bets.wealth == bets.wealth


# The audit.


def test_a_smaller_claim_is_doubted_and_then_decides(right):
    steps = right.audit()["claim"]
    low = right.audit(epsilon=0.1)
    assert "epsilon = 0.1 is claimed" in low.warnings[-1]
    assert low.verdict == "violated"
    assert right.audit(epsilon=50.0)["claim"] == steps
    assert right.audit(epsilon=float("inf"))["claim"] == steps


def test_another_number_of_steps_is_doubted(right):
    audit = right.audit(steps=100)
    assert "counted 100 steps, and 120 were observed" in audit.warnings[0]
    assert audit.verdict == "inconclusive"


def test_a_second_look_shares_the_error():
    trained = watched.trained(2, steps=20)
    first, again, second = trained.audit(), trained.audit(), trained.audit(delta=1e-3)
    assert first["audit"] == again["audit"]
    assert second["audit"]["confidence"] == pytest.approx(1 - 0.05 / 6)
    assert "look 2" in second.warnings[0]
    assert trained.members.sum() == second.scores["included"].sum()


def test_a_folder_keeps_the_audit(tmp_path):
    audit = watched.trained(2, steps=20, out=tmp_path / "run").audit()
    kept = json.loads((tmp_path / "run/record.json").read_text(encoding="utf-8"))
    assert kept["training"]["kind"] == "random-gradient"
    lines = (tmp_path / "run/scores.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + watched.CANARIES == 1 + len(audit.scores)


def test_without_noise_nothing_is_claimed_and_everything_is_found():
    audit = watched.trained(1, noise_multiplier=0.0, steps=30).audit()
    assert audit.verdict is None
    assert "adds no noise" in " ".join(audit.warnings)
    assert audit.epsilon_lower > 2


def test_tiny_noise_has_only_a_bound():
    trained = watched.trained(1, noise_multiplier=0.02, steps=20)
    audit = trained.audit()
    assert audit.verdict is None
    assert "too large to refute" in audit.warnings[-1]
    assert trained.audit(epsilon=1e6)["claim"]["epsilon"] == 1e6


def test_a_small_model_has_no_controls_and_says_what_was_not_checked():
    canaries = Canaries(watched.data(), 64, seed=0, **STATED)
    x, y, mark = canaries.train_set

    def loss(weights, x, y):
        return jnp.logaddexp(0, x @ weights) - y * (x @ weights)

    gradients = jax.jit(jax.vmap(jax.grad(canaries.loss(loss)), in_axes=(None, 0, 0, 0)))
    rng, weights = np.random.default_rng(0), np.zeros(64, np.float32)
    for _ in range(20):
        batch = rng.random(len(x)) < 0.1
        each = np.asarray(gradients(weights, x, y, mark))[batch]
        each /= np.maximum(1, np.linalg.norm(each, axis=1, keepdims=True))
        canaries.step(each.sum(axis=0) + rng.normal(size=64), batch)
    audit = canaries.audit()
    assert audit["independent"]["supported"] is False
    assert any("Not checked" in one for one in audit["limits"])
    assert audit.warnings == []


def test_full_batches_say_what_was_not_checked():
    canaries = Canaries(watched.data(), 100, seed=0, **{**STATED, "rate": 1.0})
    jax.eval_shape(
        canaries.loss(watched.loss), watched.start(), *(a[0] for a in canaries.train_set)
    )
    rng, everything = np.random.default_rng(0), np.ones(len(canaries.train_set[0]), bool)
    inside = np.isin(np.arange(canaries.rows), canaries.train_set[2])
    for _ in range(3):
        noisy = 5 * rng.normal(size=canaries.rows) + inside
        canaries.step(Projection(noisy, rng.normal(size=64), np.zeros(0)), everything)
    audit = canaries.audit()
    assert audit.warnings == []
    assert any("because every batch has all records" in one for one in audit["limits"])
    assert audit["step_bets"] is None


def test_a_record_twice_in_a_batch_is_doubted(right):
    canaries = Canaries(watched.data(), 50, seed=0, **STATED)
    jax.eval_shape(
        canaries.loss(watched.loss), watched.start(), *(a[0] for a in canaries.train_set)
    )
    canaries.step(watched.start(), np.array([3, 3, 4, -1]))
    assert "1 of 1 batches contain a record twice" in canaries.audit().warnings


def observed(number=50, seed=0, change=lambda leaf, name: leaf):
    """Return canaries that were given 30 releases of pure noise, changed by parameter."""
    canaries = Canaries(watched.data(), number, seed=seed, **STATED)
    jax.eval_shape(
        canaries.loss(watched.loss), watched.start(), *(a[0] for a in canaries.train_set)
    )
    rng = np.random.default_rng(seed)
    for _ in range(30):
        release = {
            name: change(rng.normal(size=leaf.shape), name)
            for name, leaf in watched.start().items()
        }
        canaries.step(release, rng.random(len(canaries.train_set[2])) < 0.1)
    return canaries


def test_small_arrays_that_are_not_trained_are_no_mistake():
    biases = ("bias", "output_bias")
    canaries = observed(change=lambda leaf, name: 0 * leaf if name in biases else leaf)
    assert canaries.noise.warnings() == []
    none = observed(change=lambda leaf, name: 0 * leaf)
    assert "nothing was released in the largest arrays" in none.noise.warnings()[0]


def test_a_training_that_diverged_is_inconclusive():
    audit = observed(change=lambda leaf, name: np.nan * leaf).audit()
    assert audit.verdict == "inconclusive"
    assert "50 scores are NaN" in " ".join(audit.warnings)


@pytest.mark.parametrize("seed", range(4))
def test_one_canary_is_enough_for_a_bound_of_zero(seed):
    audit = observed(number=1, seed=seed).audit()
    assert audit.epsilon_lower == 0
    assert audit.verdict == "inconclusive"


# Errors.


def ready():
    canaries = Canaries(watched.data(), 50, seed=0, **STATED)
    jax.eval_shape(
        canaries.loss(watched.loss), watched.start(), *(a[0] for a in canaries.train_set)
    )
    return canaries


ERRORS = {
    "no-records": (lambda: Canaries((np.zeros((0, 3)),), 5, **STATED), "rows"),
    "unequal": (lambda: Canaries((np.zeros(3), np.zeros(4)), 5, **STATED), "rows"),
    "no-arrays": (lambda: Canaries(([1], [2]), 5, **STATED), "must be an array"),
    "one-array": (lambda: Canaries(np.zeros(3), 5, **STATED), "tuple or a mapping"),
    "number": (lambda: Canaries(watched.data(), 0, **STATED), "at least 1"),
    "clip": (lambda: Canaries(watched.data(), 5, **{**STATED, "clip": 0.0}), "clip: 0.0"),
    "noise": (
        lambda: Canaries(watched.data(), 5, **{**STATED, "noise_multiplier": np.nan}),
        "noise_multiplier: nan",
    ),
    "rate": (lambda: Canaries(watched.data(), 5, **{**STATED, "rate": 1.5}), "not a probability"),
    "seed": (lambda: Canaries(watched.data(), 5, seed=-1, **STATED), "seed: -1"),
    "keywords": (
        lambda: ready().loss(watched.loss)(watched.start(), x=np.zeros(64), y=0, mark=-1),
        "its mark by position",
    ),
    "no-step": (lambda: ready().audit(), "no step was observed"),
    "epsilon": (lambda: ready().audit(epsilon=-1.0), "epsilon: -1.0"),
    "delta": (lambda: ready().audit(delta=1.0), "delta: 1.0"),
    "loss-not-taken": (
        lambda: Canaries(watched.data(), 5, **STATED).step(watched.start(), [0]),
        "no gradient of canaries.loss",
    ),
    "form": (lambda: ready().step({"weights": np.zeros(3)}, [0]), "form of the parameters"),
    "mask": (lambda: ready().step(watched.start(), np.ones(7, bool)), "truth value for each"),
    "floats": (lambda: ready().step(watched.start(), np.ones(7)), "indices in canaries.train_set"),
    "index": (lambda: ready().step(watched.start(), [10_000]), "has index 10,000"),
    "batches": (
        lambda: ready().step(Projection(np.zeros((3, 50)), np.zeros((3, 9)), np.zeros((3, 0))), []),
        "3 releases, but 0 batches",
    ),
    "whole-batch": (
        lambda: jax.grad(ready().loss(lambda p, x, y: jnp.sum(p["bias"])))(
            watched.start(), np.zeros((4, 64)), np.zeros(4), np.zeros(4, int)
        ),
        "no gradient of a single record exists",
    ),
    "parameters": (
        lambda: Canaries(watched.data(), 10_000, **STATED).loss(watched.loss)(
            watched.start(), *(part[0] for part in (*watched.data(), np.zeros(1, int)))
        ),
        "10,000 canaries need as many parameters",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_says_what_to_do(name):
    call, words = ERRORS[name]
    with pytest.raises(CanaryError, match=words):
        call()


# The tests of noise and response.

LEVELS = (0.05, 0.01, 1e-3)


def naive(releases):
    """Return the sums of squared errors of predictions by 0, and by the release k steps before."""
    steps = len(releases)
    lags = [
        sum(((releases[t] - releases[t - k]) ** 2).sum() for t in range(k, steps))
        for k in range(1, steps)
    ]
    return (releases**2).sum(), lags


def test_squared_errors_are_those_of_their_words():
    releases = np.random.default_rng(0).normal(size=(7, 20))
    noise = NoiseTest()
    for release in releases:
        noise.update(release, np.zeros(0))
    by_zero, by_lags = naive(releases)
    assert noise.by_zero.sums[0] == pytest.approx(by_zero)
    np.testing.assert_allclose(noise.by_earlier.sums[:6], by_lags)
    assert list(noise.by_earlier.degrees[:7]) == [120, 100, 80, 60, 40, 20, 0]
    assert noise.spread == pytest.approx((by_zero / 140) ** 0.5)


@pytest.mark.parametrize("kind", ["none", "constant", "reacting"])
def test_noise_as_stated_is_refuted_as_rarely_as_stated(kind):
    """Gradients may be anything that earlier noise decides, even what undoes it; 100 trainings."""
    p_values = []
    for seed in range(100):
        rng, noise, last = np.random.default_rng(seed), NoiseTest(), np.zeros(40)
        for _ in range(60):
            gradient = {"none": 0.0, "constant": 0.5, "reacting": 0.9 * last}[kind]
            last = rng.normal(size=40) + gradient
            noise.update(last, rng.normal(size=20) + 0.3)
        p_values.append(noise.p_value())
        assert noise.warnings() == []
    for level in LEVELS:
        assert (np.array(p_values) <= level).sum() <= stats.binom.isf(1e-6, 100, level)


@pytest.mark.parametrize(("size", "words"), [(0.9, "too small"), (0.0, "too small")])
def test_smaller_noise_is_refuted_behind_constant_gradients(size, words):
    rng, noise = np.random.default_rng(0), NoiseTest()
    for _ in range(100):
        noise.update(size * rng.normal(size=200) + 0.7, np.zeros(0))
    assert words in noise.warnings()[0]


def test_one_step_without_noise_is_enough():
    rng, noise = np.random.default_rng(0), NoiseTest()
    for step in range(100):
        noise.update((step != 50) * rng.normal(size=64), np.zeros(0))
    assert noise.warnings()


def test_no_coordinates_refute_nothing():
    noise, errors = NoiseTest(), SquaredErrors(2)
    noise.update(np.zeros(3), np.zeros(0))
    assert noise.p_value() == errors.p_value() == 1.0
    assert np.isnan(noise.spread)
    assert np.isnan(noise.rest)


def response(seed, size, *, noise=1.0, steps=50):
    rng, found = np.random.default_rng(seed), ResponseTest()
    for _ in range(steps):
        coins = (rng.random(100) < 0.1).astype(float)
        found.update(size * coins + noise * rng.normal(size=100) + 0.3, coins, 0.1)
    return found


def test_a_response_of_one_is_not_accused():
    z = [response(seed, 1.0).z for seed in range(200)]
    assert stats.kstest(z, "norm").pvalue > 1e-6
    assert not any(response(seed, 1.0).warnings() for seed in range(200))


@pytest.mark.parametrize(
    ("size", "words"),
    [(0.0, "another loss"), (0.5, "averages are clipped"), (2.0, "are not clipped to clip")],
)
def test_another_response_is_named(size, words):
    found = response(0, size)
    assert found.value == pytest.approx(size, abs=0.2)
    assert words in found.warnings()[0]


def test_no_canary_in_a_batch_has_no_response():
    assert np.isnan(ResponseTest().value)
    assert ResponseTest().warnings() == []
