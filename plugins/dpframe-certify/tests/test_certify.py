"""Certificates: their contents, and a checker that accepts valid ones and rejects altered ones."""

from __future__ import annotations

import ast
import copy
import functools
import hashlib
import json
import math
import random
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import certcheck
import dpframe_certify
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dpframe_certify import canonical, certificate
from scipy import special
from typer.testing import CliRunner

import dpframe
from dpframe import ApproxDP, GaussianDP, PureDP, SubsampledGaussianDP
from dpframe.claims import LaplaceDP
from dpframe.plugins import (
    DpframeError,
    Mechanism,
    Query,
    clopper_pearson_upper,
    estimate_from_boxes as estimated,
)
from dpframe.stats.histograms import one_sided_radius
from dpframe.stats.joint import bonferroni, holm, joint_staircases
from dpframe.stats.one_run import (
    approximate_blow_up,
    one_run_epsilon,
    one_run_fdp_epsilon,
    one_run_fdp_p_value,
    one_run_p_value,
    one_run_rejects,
)
from dpframe.stats.output_bets import Lines, largest_sum, largest_sum_of_line, lines

CHECKER = Path(certcheck.__file__)
CLOSE = 2e-6  # the checker's relative tolerance of a bound, twice
ERRORS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)


class Coins(Mechanism, name="coins"):
    """Scores of 200 canaries with independent coins, identified as by randomized response."""

    canaries = True
    epsilon: float = 1.0
    is_curve: bool = False
    is_approx: bool = False

    def claim(self, pair: Any) -> Any:
        if self.is_approx:
            return ApproxDP(2 * self.epsilon, 1e-5)
        return GaussianDP(self.epsilon) if self.is_curve else PureDP(self.epsilon)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        del data
        first, second = jax.random.split(key)
        member = jax.random.bernoulli(first, 0.5, (n, 200))
        honest = jax.random.uniform(second, (n, 200)) < jax.nn.sigmoid(2 * self.epsilon)
        return jnp.stack([member == honest, member], axis=1).astype(jnp.float32)


class Curved(Mechanism, name="curved"):
    """Noise for a shift of 1, with claims that are curves."""

    curve: str = "gaussian"
    noise: float = 1.0

    def claim(self, pair: Any) -> Any:
        sampled = SubsampledGaussianDP(0.25, 0.5)
        return {"gaussian": GaussianDP(1.0), "laplace": LaplaceDP(1.0)}.get(self.curve, sampled)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        draw = jax.random.laplace if self.curve == "laplace" else jax.random.normal
        return self.noise * draw(key, (n, 1)) + data[:1]


def spec(*estimators: dict[str, Any], **audit: Any) -> dict[str, Any]:
    laplace = {"use": "laplace", "params": {"epsilon": 1.0}}
    half = {"use": "laplace-half-scale", "params": {"epsilon": 1.0}}
    gaussian = {"use": "gaussian", "params": {"epsilon": 1.0, "delta": 1e-5}}
    return {
        "schema": 1,
        "audit": {"name": "certified", "trials": 1000, **audit},
        "pair": {"use": "zeros-ones"},
        "mechanism": [laplace, half, gaussian],
        "attack": [{"use": "identity"}],
        "estimator": list(estimators),
        "run": {"pilot": 500},
    }


GIVEN = {"use": "threshold", "params": {"threshold": 0.5}}


@pytest.fixture(scope="module")
def certificates() -> dict[str, dict[str, Any]]:
    """Return certificates of every theorem, and of every kind of claim that is recomputed."""
    curves = [
        {
            "use": "curved",
            "label": f"{curve}-{noise}",
            "params": {"curve": curve, "noise": noise},
        }
        for curve in ("gaussian", "sampled")
        for noise in (1.0, 0.3)
    ]
    specs = {
        "thresholds": spec(GIVEN, {"use": "histogram"}, delta=1e-3),
        "ranks": spec({"use": "order-statistics"}, trials=300),
        "one-run": {
            **spec({"use": "one-run"}, trials=5),
            "mechanism": [{"use": "coins"}],
            "attack": [{"use": "canaries"}],
        },
        "curves of one run": {
            **spec(
                {"use": "one-run-fdp", "params": {"guesses": [50, 200], "side": "both"}}, trials=2
            ),
            "mechanism": [
                {"use": "coins"},
                {"use": "coins", "label": "told", "params": {"epsilon": 1.5, "is_approx": True}},
            ],
            "attack": [{"use": "canaries"}],
        },
        "bets": spec({"use": "betting"}, {"use": "histogram-split"}, multiplicity="bonferroni"),
        "certified bets": spec({"use": "certified-betting"}, trials=300, delta=1e-3),
        "bets on curves": spec({"use": "certified-betting"}, trials=300, delta=1e-3),
        "few": spec(GIVEN, trials=4),
        "curves": {**spec(GIVEN, delta=1e-3, multiplicity="none"), "mechanism": curves},
    }
    specs["bets"]["mechanism"] = specs["bets"]["mechanism"][:1]
    specs["bets on curves"]["mechanism"] = curves[:4:3]
    told = {"use": "coins", "label": "curve", "params": {"epsilon": 2.0, "is_curve": True}}
    specs["one-run"]["mechanism"].append(told)
    made = {name: dpframe.audit(one, plugins=[Coins, Curved]) for name, one in specs.items()}
    return {name: certificate(record) for name, record in made.items()}


def written(contents: dict[str, Any]) -> str:
    """A certificate with a digest of its own, as a forger would write it."""
    rest = {key: value for key, value in contents.items() if key != "digest"}
    digest = hashlib.sha256(canonical(rest).encode()).hexdigest()
    return canonical({**rest, "digest": f"sha256:{digest}"}) + "\n"


def checked(contents: dict[str, Any]) -> dict[int, str]:
    return certcheck.check(json.loads(written(contents), parse_float=Decimal))


def code(text: str, folder: Path) -> int:
    """Return the exit code of the checker on a text."""
    file = folder / "cert.json"
    file.write_text(text)
    return certcheck.main([str(file)])


# --- the arithmetic


@pytest.mark.parametrize(
    ("n", "k", "p"),
    [
        *((10, 3, 0.5), (1, 1, 0.25), (1000, 1, 0.1), (1000, 1000, 0.5)),
        *((1000, 60, 0.0625), (10**6, 500_300, 0.5), (10**6, 499_000, 0.5)),
        (10**7, 3, 2.0**-24),
    ],
)
def test_tails_are_enclosed(n: int, k: int, p: float) -> None:
    low, high = certcheck.tail(n, k, Decimal(p))
    expected = float(special.betainc(k, n - k + 1, p))
    assert low <= high <= low * (1 + Decimal("1e-12"))
    assert float(low) == pytest.approx(expected, rel=2e-10, abs=0)


def test_tails_of_few_draws_are_exact_sums() -> None:
    for n in (1, 2, 5, 30):
        for k in range(1, n + 1):
            for p in (Decimal("0.03"), Decimal("0.5"), Decimal("0.97")):
                exact = sum(math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k, n + 1))
                low, high = certcheck.tail(n, k, p)
                assert low <= exact <= high


@pytest.mark.parametrize("z", [-9.0, -2.0, 0.0, 0.5, 3.0, 6.99, 7.01, 12.0, 37.0])
def test_normal_tails(z: float) -> None:
    assert float(certcheck.normal_tail(z)) == pytest.approx(float(special.ndtr(-z)), rel=1e-13)


@pytest.mark.parametrize("n", [1, 2, 300, 10**6])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("level", ["1e-200", "1e-9", "0.01", "0.6", "0.9999"])
def test_limits_are_enclosed(n: int, share: float, level: str) -> None:
    k = round(n * share)
    low, high = (certcheck.limit(side, k, n, Decimal(level)) for side in (-1, 1))
    exact = 1.0 if k == n else float(special.betainccinv(k + 1, n - k, float(level)))
    assert low <= high
    assert float(low) == pytest.approx(exact, rel=1e-9)
    assert float(high) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(("weight", "wider"), [(0.02, 1e-3), (0.3, 1e-9), (0.98, 1e-9)])
def test_corners_of_joint_regions(weight: float, wider: float) -> None:
    (exact,) = joint_staircases([50], [1000], [400], [1000], [weight], 1e-3)
    term = 50, 1000, 400, 1000, Decimal(weight), 1
    found = certcheck.region("joint", term, Decimal("0.001"), 1)
    for corner, values in zip(found, exact, strict=True):
        for limit, value in zip(corner, values, strict=True):
            assert float(certcheck.limit(1, *limit)) == pytest.approx(value, rel=wider)


@pytest.mark.parametrize("x", [1e-9, 1e-3, 0.02, 0.1, 0.3])
def test_curves_are_those_of_the_claims(x: float) -> None:
    for q, mu in ((1.0, 1.0), (0.25, 2.0), (0.9, 0.3)):
        claim = GaussianDP(mu) if q == 1 else SubsampledGaussianDP(q, 1 / mu)
        exact = float(claim.tradeoff(np.array([x]))[0])
        curve = "gaussian-dp", mu, q
        found = certcheck.gap((curve, [], 0), (Decimal(x), Decimal(exact)), 0)
        assert x > exact or float(found) == pytest.approx(0, abs=1e-12)


ONE_RUN = {"estimate": {"evidence": {"theorem": "one-run-fdp"}}}


def rejects(m: int, r: int, v: int, level: float, claim: Any, raised: float, side: int) -> bool:
    """True if guesses in one run reject a line by the checker's arithmetic, rounded to a side."""
    curve = ("approx-dp", claim.epsilon, claim.delta), [], Decimal(raised)
    terms = [(m, r, v, Decimal(1))]
    found: bool = certcheck.by_guesses(ONE_RUN, terms, Decimal(level), curve, side)
    return found


@pytest.mark.parametrize("raised", [0.0, 1e-3])
@pytest.mark.parametrize("claim", [ApproxDP(1.0, 1e-5), ApproxDP(3.0, 0.01), ApproxDP(0.0, 0.0)])
@pytest.mark.parametrize(
    ("m", "r", "v"),
    [(100, 100, 100), (1000, 100, 98), (1000, 1000, 650), (200, 12, 12), (50, 1, 1), (50, 9, 0)],
)
def test_curves_of_one_run_are_refuted_at_the_same_error(
    m: int, r: int, v: int, claim: Any, raised: float
) -> None:
    level = one_run_fdp_p_value(m, r, v, blow_up(claim, raised))  # rounded up by 3e-5
    for near, is_beyond in ((0.9999, False), (1.0001, True)):
        if 2e-12 < level * near < 1:  # the smallest p-value is 1e-12
            assert one_run_rejects(m, r, v, blow_up(claim, raised), level * near) == is_beyond
            assert [rejects(m, r, v, level * near, claim, raised, s) for s in (1, -1)] == [
                is_beyond
            ] * 2


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 40.0])
@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_a_curve_of_one_run_by_hand(epsilon: float, delta: float) -> None:
    """One guess about one canary is right with probability (e^ε + δ)/(1 + e^ε) at most."""
    claim = ApproxDP(epsilon, delta)
    right = (math.exp(epsilon) + delta) / (1 + math.exp(epsilon))
    for side in (1, -1):
        assert not rejects(1, 1, 1, right * (1 - 1e-7), claim, 0.0, side)
        if right * (1 + 1e-7) < 1:
            assert rejects(1, 1, 1, right * (1 + 1e-7), claim, 0.0, side)


# --- certificates


def test_every_theorem_is_recomputed(certificates: dict[str, Any]) -> None:
    theorems, verdicts = set(), set()
    for name, contents in certificates.items():
        left = checked(contents)
        evidences = [one["estimate"]["evidence"] for one in contents["conclusions"]]
        theorems |= {found and found["theorem"] for found in evidences}
        verdicts |= {one["verdict"] for one in contents["conclusions"]}
        assert len(left) == (name == "bets")
    assert theorems == {*certcheck.DESIGN, None}
    assert verdicts == {"violated", "consistent", "inconclusive"}


def test_what_is_not_checked_is_no_success(
    certificates: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code(written(certificates["bets"]), tmp_path) == 3
    said = capsys.readouterr().out
    assert said.count("NOT CHECKED: ") == 1
    assert "1 of 2 conclusions recomputed; 1 NOT CHECKED" in said
    assert code(written(certificates["ranks"]), tmp_path) == 0


def test_equal_records_make_equal_bytes(certificates: dict[str, Any]) -> None:
    again = certificate(dpframe.audit(spec({"use": "order-statistics"}, trials=300)))
    assert again["conclusions"] == certificates["ranks"]["conclusions"]


def test_a_record_that_certifies_nothing_has_no_certificate() -> None:
    with pytest.raises(DpframeError, match="certifies nothing"):
        certificate(dpframe.audit(spec({"use": "credible"})))


# --- forgeries

Place = tuple[str | int, ...]
KINDS = {
    "pure-dp": lambda epsilon, delta: PureDP(epsilon) if delta == 0 else None,
    "approx-dp": ApproxDP,
    "gaussian-dp": GaussianDP,
    "subsampled-gaussian-dp": SubsampledGaussianDP,
}


def still_right(contents: dict[str, Any]) -> bool:
    """True if bound and verdict of a single conclusion follow by dpframe's own arithmetic."""
    (one,), audit = contents["conclusions"], contents["audit"]
    estimate, basis, m = one["estimate"], one["basis"], audit["m"]
    claim: Any = KINDS[one["claim"]["kind"]](**one["claim"]["parameters"])
    evidence, error = estimate["evidence"], 1 - estimate["confidence"]
    bound, p_value, p_resolved = answer(evidence, one, claim, error, basis["resolution"])
    extreme = 1.0
    if one["verdict"] != "violated":
        extreme = answer(basis["extreme"], one, claim, error, basis["resolution"])[2]
    price = basis["look"] * (basis["look"] + 1) if basis["look"] > 1 else 1
    adjust: Any = {"holm": holm, "bonferroni": bonferroni, "none": lambda p, _: np.array(p)}
    whole = 1 - basis["confidence"]
    levels = (p * price for p in (p_value, p_resolved, extreme))
    p, resolved, extreme = (
        float(adjust[audit["multiplicity"]]([min(1.0, each)], m)[0]) for each in levels
    )
    reached = "consistent" if p > whole and extreme <= whole else "inconclusive"
    verdict = "violated" if resolved <= whole else reached
    near = math.isclose(bound, estimate["epsilon_lower"], rel_tol=CLOSE, abs_tol=CLOSE)
    spent = error * price / (1 - audit["confidence"]) <= 1 + CLOSE
    return near and spent and verdict == one["verdict"]


def answer(
    evidence: Any, one: Any, claim: Any, error: float, slack: float
) -> tuple[float, float, float]:
    """Return bound, p-value and resolved p-value that evidence gives."""
    delta, theorem, terms = one["estimate"]["delta"], evidence["theorem"], evidence["terms"]
    if theorem == "betting":
        return bet(terms, one, claim, error, slack)
    if theorem == "one-run":
        bound = max(one_run_epsilon(m, r, v, delta, error * s) for m, r, v, s in terms)
        losses = {claim.epsilon_at(each) for each in (delta, *claim.telling_deltas)} - {math.inf}
        every = [(loss, claim.delta_at(loss), 1 + math.exp(loss)) for loss in losses]
        both = [
            min(one_run_p_value(m, r, v, loss, d + raised * e) / s
                for m, r, v, s in terms for loss, d, e in every if d + raised * e < 1)
            for raised in (0.0, slack)
        ]  # fmt: skip
        return bound, both[0], both[1]
    if theorem == "one-run-fdp":
        bound = max(one_run_fdp_epsilon(m, r, v, delta, error * s) for m, r, v, s in terms)
        both = [
            min(one_run_fdp_p_value(m, r, v, blow_up(claim, raised)) / s for m, r, v, s in terms)
            for raised in (0.0, slack)
        ]
        return bound, both[0], max(both)
    columns = np.array(terms, np.float64).T

    def boxes(level: float) -> Any:
        if theorem == "joint":
            k, n, hits, n_true, weight, share = columns
            return joint_staircases(k, n, hits, n_true, weight, np.minimum(level * share, 1))
        if theorem == "clopper-pearson":
            k, n, j, t, share = columns
            sides = ((k, n), (j, t))
            limits = [clopper_pearson_upper(c, of, level * share / 2) for c, of in sides]
        else:
            k, n, hits, t, bins = columns
            sides = ((k, n), (t - hits, t))
            limits = [c / of + one_sided_radius(of, bins, level / 2) for c, of in sides]
        return np.minimum(np.stack(limits, axis=1), 1.0)

    query = Query(tuple(one["trials"]), delta, 1 - error, claim, slack)
    found = estimated(boxes, query, epsilon=0.0)
    return found.epsilon_lower or 0.0, found.p_value or 0.0, found.p_resolved or 0.0


def blow_up(claim: Any, raised: float) -> Any:
    """Return x ↦ f(1 − x) of a claimed line, with all rates raised."""
    delta = claim.delta + raised * (1 + math.exp(claim.epsilon))
    return approximate_blow_up(claim.epsilon, delta)


@functools.cache
def tangents(claim: Any, raised: float) -> Lines:
    """Return many lines of a claim, with all rates raised."""
    losses = np.linspace(0, 12, 600)
    if isinstance(claim, ApproxDP):
        losses = np.array([claim.epsilon])
    deltas = np.array([claim.delta_at(loss) for loss in losses.tolist()])
    return lines(np.exp(losses), deltas + raised * (1 + np.exp(losses)))


def bet(terms: Any, one: Any, claim: Any, error: float, slack: float) -> Any:
    """The same from bets, of which those against the bound are scaled to S = 2 at the bound."""
    rounds: dict[Any, list[Any]] = {}
    for *key, k, k_true, g, h, share in terms:
        assert share == 0.5
        if key[0] != 1 or one["verdict"] != "violated":  # the widened claim decides
            rounds.setdefault(tuple(key), []).append((k, k_true, g, h))
    wealth, trials = np.zeros((3, 2)), np.zeros((3, 2))
    stated, delta = one["estimate"]["epsilon_lower"], one["estimate"]["delta"]
    for (b, way, _), rows in rounds.items():
        k, k_true, g, h = np.array(rows).T
        assert min(k.min(), k_true.min()) >= 0
        assert k.sum() == k_true.sum()
        against, apart = (claim, slack * (b == 2)) if b else (ApproxDP(stated, delta), 0.0)
        most = largest_sum(g, h, tangents(against, apart).pair)
        spare = 1e-9 if isinstance(against, ApproxDP) else 1e-3
        assert 2 - spare - 1e-10 <= most <= 2 + spare
        wealth[b, way] += k @ np.log(g) + k_true @ np.log(h)
        trials[b, way] += k.sum()
    assert trials.max() <= min(one["trials"])
    bound, exact, widened = np.exp(-np.logaddexp.reduce(wealth, axis=1) + math.log(2))
    has = {b for b, *_ in rounds}
    unbound = 0 not in has and (stated == 0 or terms is not one["estimate"]["evidence"]["terms"])
    assert bound <= error or unbound
    return stated, float(exact if 1 in has else widened), float(widened)


def leaves(value: Any, at: Place = ()) -> Iterator[Place]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from leaves(item, (*at, key))
    else:
        yield at


DECIDES = ("claim", "estimate", "basis", "trials", "verdict", "audit")
WORDS = {
    "verdict": ("violated", "consistent", "inconclusive", None),
    "multiplicity": ("holm", "bonferroni", "none"),
    "theorem": ("joint", "clopper-pearson", "one-run", "betting", "unconditional"),
    "kind": tuple(KINDS),
}


def altered(contents: dict[str, Any], rng: random.Random) -> tuple[dict[str, Any], Place]:
    """Change one field that decides something."""
    found = copy.deepcopy(contents)
    told = {"profile", "assumption", "name", "looks"}  # says something, decides nothing
    places = [p for p in leaves(contents) if {*DECIDES} & {*p} and not told & {*p}]
    outside = [p for p in places if "terms" not in p]  # bets have thousands of terms
    place = rng.choice(places if rng.random() < 0.5 else outside)
    *way, last = place
    holder: Any = found
    for key in way:
        holder = holder[key]
    value = holder[last]
    if isinstance(value, int):
        changed: Any = value + rng.choice((-1, 1, 7, -20, 1000))
    elif isinstance(value, float):
        changed = rng.choice((value * 1.01, value * 0.9, value / 2, value + 1e-3, 1.0, 0.0, -value))
    else:
        changed = rng.choice(WORDS.get(str(last), ("other",)))
    holder[last] = changed
    return found, place


@pytest.mark.parametrize("number", [25, pytest.param(1000, marks=pytest.mark.slow)])
def test_altered_certificates_are_refused(certificates: dict[str, Any], number: int) -> None:
    rng, wrong, harmless = random.Random(24), 0, 0
    # One conclusion each: all others would be checked a thousand times.
    whole = [(each, one) for each in certificates.values() for one in each["conclusions"]]
    alone = [
        {**each, "audit": {**each["audit"], "m": 1}, "conclusions": [one]}
        for each, one in whole
        if one["estimate"]["evidence"] is not None
    ]
    alone = [one for one in alone if still_right(one)]  # some are decided by Holm's procedure
    assert len(alone) > 12
    assert all(checked(one) == {} for one in alone)
    while wrong < number:
        found, place = altered(rng.choice(alone), rng)
        try:
            same = still_right(found)
        except (*ERRORS, RuntimeWarning, AssertionError):
            same = False
        try:
            accepted = checked(found) == {}
        except ERRORS:
            accepted = False
        assert same or not accepted, place
        wrong += not same
        harmless += same
    assert number < 100 or harmless > number / 50  # a field that decides nothing may change


@pytest.mark.parametrize(
    "forged",
    [
        "", "{}", "[]", "null", "3", "\x00", "[" * 100_000, '{"certificate":1}',
        '{"certificate":1,"digest":"","conclusions":[]}', '{"a":NaN}', '{"a":1e400}',
    ],
)  # fmt: skip
def test_what_is_no_certificate_is_refused_in_a_line(forged: str, tmp_path: Path) -> None:
    assert code(forged, tmp_path) == 1


def test_any_type_in_any_place_is_survived(
    certificates: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(5)
    contents = {
        **certificates["thresholds"],
        "conclusions": certificates["thresholds"]["conclusions"][:1],
    }
    contents["audit"] = {**contents["audit"], "m": 1}
    places = [p for p in leaves(contents) if {*DECIDES} & {*p}]
    wrongs = ("x", None, [], {}, -1, True, 10**400, [[1]], math.nan, math.inf, 1e308, -0.0)
    for place in places:
        changed: Any = copy.deepcopy(contents)
        holder = changed
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = rng.choice(wrongs)
        assert code(written(changed), tmp_path) in (0, 1, 3)
    assert "Traceback" not in capsys.readouterr().out


FORGED: dict[str, Any] = {
    "nothing concluded": lambda c: c.update(conclusions=[]),
    "another version": lambda c: c.update(certificate=2),
    "a bound in a string": lambda c: first(c)["estimate"].update(epsilon_lower="1_5"),
    "a negative bound": lambda c: first(c)["estimate"].update(epsilon_lower=-1.0),
    "a level above 1": lambda c: first(c)["estimate"].update(confidence=2.0),
    "a claim below 0": lambda c: first(c)["claim"]["parameters"].update(epsilon=-1.0),
    "a δ below 0": lambda c: first(c)["claim"]["parameters"].update(delta=-0.1),
    "a δ of 1": lambda c: first(c)["claim"].update(
        kind="approx-dp", parameters={"epsilon": 0.1, "delta": 1.0}
    ),
    "another δ for ε-DP": lambda c: first(c)["claim"]["parameters"].update(delta=0.1),
    "a list for a basis": lambda c: first(c).update(basis=[]),
    "no verdict of a claim": lambda c: first(c).update(verdict=None),
    "an unknown verdict": lambda c: first(c).update(verdict="private"),
    "the look True": lambda c: first(c)["basis"].update(look=True),
    "a second look": lambda c: first(c)["basis"].update(look=2),
    "fewer tests": lambda c: c["audit"].update(m=len(c["conclusions"]) - 1),
    "more tests": lambda c: c["audit"].update(m=len(c["conclusions"]) + 1),
    "a conclusion left out": lambda c: c["conclusions"].pop(),
    "another conclusion in its place": lambda c: c["conclusions"].append(
        copy.deepcopy(c["conclusions"].pop() and c["conclusions"][-1])
    ),
    "a whole float": lambda c: c["audit"].update(m=9.0),
    "no confidence": lambda c: c["audit"].update(confidence=0.0),
    "another order": lambda c: c["conclusions"].reverse(),
    "a conclusion twice": lambda c: c["conclusions"].append(c["conclusions"][-1]),
    "a hostile name": lambda c: c["conclusions"][-1].update(id="\x1b[2J\u202e", verdict="violated"),
    "a number of failures that is a truth value": lambda c: c.update(failed=False),
    "the theorem hidden": lambda c: first(c)["estimate"].update(evidence=None),
}


ONE_RUN_FORGED: dict[str, Any] = {
    "a rule left out of both lists": lambda c: [each.pop() for each in both(c)],
    "no rules": lambda c: [each.clear() for each in both(c)],
    "more right guesses": lambda c: [one.__setitem__(2, one[2] + 1) for one in both(c)[0]],
    "more right guesses than guesses": lambda c: both(c)[0][0].__setitem__(2, 10**4),
    "more guesses": lambda c: [
        one.__setitem__(1, one[1] + 1) for one in (*both(c)[0], *both(c)[1])
    ],
    "more guesses than canaries": lambda c: both(c)[0][0].__setitem__(1, 10**4),
    # More canaries matter by the number of them times δ.
    "other canaries": lambda c: [one.__setitem__(0, 10**8) for one in (*both(c)[0], *both(c)[1])],
    "a larger share": lambda c: [each[0].__setitem__(3, 1.0) for each in both(c)],
    "a share that is no number": lambda c: both(c)[0][0].__setitem__(3, math.nan),
    "a rule twice": lambda c: [each.append(each[0]) for each in both(c)],
    "a truth value for a count": lambda c: both(c)[0][0].__setitem__(2, True),
    "a nested list": lambda c: both(c)[0].__setitem__(0, [both(c)[0][0]]),
    "another theorem": lambda c: [
        each.update(theorem="one-run")
        for each in (first(c)["estimate"]["evidence"], first(c)["basis"]["extreme"])
    ],
    "a larger bound": lambda c: first(c)["estimate"].update(
        epsilon_lower=first(c)["estimate"]["epsilon_lower"] * (1 + 3e-6)
    ),
    "a smaller bound": lambda c: first(c)["estimate"].update(
        epsilon_lower=first(c)["estimate"]["epsilon_lower"] * (1 - 3e-6)
    ),
    "another verdict": lambda c: first(c).update(
        verdict="consistent" if first(c)["verdict"] == "violated" else "violated"
    ),
    "violated, by a loss below 0": lambda c: (
        first(c).update(verdict="violated"),
        first(c)["claim"].update(losses=[-5.0], parameters={"epsilon": 2.0, "delta": 0.1}),
    ),
}


def both(contents: Any) -> Any:
    """Return the terms of the run and of the most extreme counts of the first conclusion."""
    one = contents["conclusions"][0]
    return one["estimate"]["evidence"]["terms"], one["basis"]["extreme"]["terms"]


@pytest.mark.parametrize("name", ONE_RUN_FORGED)
def test_forged_guesses_by_hand(certificates: dict[str, Any], tmp_path: Path, name: str) -> None:
    whole = certificates["curves of one run"]
    assert {one["verdict"] for one in whole["conclusions"]} == {"violated", "consistent"}
    for one in whole["conclusions"]:
        contents = {**whole, "audit": {**whole["audit"], "m": 1}}
        contents["conclusions"] = [copy.deepcopy(one)]
        assert code(written(contents), tmp_path) == 0
        ONE_RUN_FORGED[name](contents)
        assert code(written(contents), tmp_path) == 1


def test_bytes_of_another_line_ending_are_refused(
    certificates: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "cert.json"
    file.write_bytes(written(certificates["ranks"]).replace("\n", "\r\n").encode())
    assert certcheck.main([str(file)]) == 1


def first(contents: Any) -> Any:
    return contents["conclusions"][0]


@pytest.mark.parametrize("name", FORGED)
def test_forgeries_by_hand(
    certificates: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    contents = copy.deepcopy(certificates["thresholds"])
    assert first(contents)["verdict"] == "violated"
    FORGED[name](contents)
    assert code(written(contents), tmp_path) == (3 if name == "the theorem hidden" else 1)
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_a_byte_more_is_another_certificate(certificates: dict[str, Any], tmp_path: Path) -> None:
    text = written(certificates["ranks"])
    for changed in (text + " ", text.replace(":", ": ", 1), text.replace('"m":', '"m":0,"m":')):
        assert code(changed, tmp_path) == 1


# --- bets


def scaled(row: list[Any], epsilon: float) -> list[Any]:
    """Scale the weights of two groups of a bet with half of the wealth to S = 2 against ε-DP."""
    against, way, number, k, k_true, right, wrong = row
    g, h = np.array([right, wrong]), np.array([wrong, right])
    half = largest_sum_of_line(g, h, np.exp(np.array(epsilon)), np.zeros(())) / 2
    rows = zip((k, k_true), (k_true, k), g / half, h / half, strict=True)
    return [[against, way, number, *each[:2], float(each[2]), float(each[3]), 0.5] for each in rows]


STRONG = scaled([2, 0, 1, 240, 10, 0.8, 0.2], 1.0)
WEAK = scaled([2, 0, 1, 140, 110, 0.8, 0.2], 1.0)
MOST = scaled([2, 0, 1, 300, 0, 0.9, 0.1], 1.0)


def of_bets(
    verdict: str, terms: list[Any], bound: float = 0.0, name: str = "one", confidence: float = 0.95
) -> dict[str, Any]:
    """Return a conclusion from bets against 1-DP on at most 300 draws from each dataset."""
    return {
        **{"id": name, "repeat": 0, "trials": [300, 300], "verdict": verdict},
        "claim": {"kind": "pure-dp", "parameters": {"epsilon": 1.0, "delta": 0.0}, "profile": []},
        "estimate": {
            **{"delta": 0.0, "confidence": confidence, "epsilon_lower": bound},
            "evidence": {"theorem": "betting", "terms": terms},
        },
        "basis": {
            **{"confidence": 0.95, "look": 1, "resolution": 0.0},
            "extreme": {"theorem": "betting", "terms": MOST},
        },
    }


def code_of_bets(folder: Path, *conclusions: dict[str, Any]) -> int:
    audit = {
        "m": len({one["id"] for one in conclusions}),
        "confidence": 0.95,
        "multiplicity": "holm",
    }
    told = {"certificate": 1, "audit": audit, "failed": 0, "conclusions": list(conclusions)}
    return code(written(told), folder)


def test_bets_by_hand(tmp_path: Path) -> None:
    assert code_of_bets(tmp_path, of_bets("violated", STRONG)) == 0
    assert code_of_bets(tmp_path, of_bets("consistent", STRONG)) == 1
    assert code_of_bets(tmp_path, of_bets("consistent", WEAK)) == 0
    assert code_of_bets(tmp_path, of_bets("violated", WEAK)) == 1


def test_bets_whose_draws_differ_are_refused(tmp_path: Path) -> None:
    """Each of them would be right alone."""
    against_bound = scaled([0, 0, 1, 240, 10, 0.84, 0.16], 1.2)
    more = scaled([0, 0, 1, 250, 10, 0.84, 0.16], 1.2)
    other_way = scaled([2, 1, 1, 190, 0, 0.8, 0.2], 1.0)
    assert code_of_bets(tmp_path, of_bets("violated", STRONG + against_bound, 1.2)) == 0
    for terms, bound in ((STRONG + more, 1.2), (WEAK + other_way, 0.0)):
        verdict = "violated" if bound else "consistent"
        assert code_of_bets(tmp_path, of_bets(verdict, terms, bound)) == 1
    both = STRONG + scaled([2, 1, 2, 60, 0, 0.8, 0.2], 1.0)
    assert code_of_bets(tmp_path, of_bets("violated", both)) == 1  # 310 draws of 300


def test_a_bound_above_the_claim_is_not_consistent(tmp_path: Path) -> None:
    nothing = scaled([2, 0, 1, 240, 10, 0.49, 0.51], 1.0)
    against_bound = scaled([0, 0, 1, 240, 10, 0.84, 0.16], 1.2)
    assert code_of_bets(tmp_path, of_bets("consistent", nothing)) == 0
    assert code_of_bets(tmp_path, of_bets("consistent", nothing + against_bound, 1.2)) == 1


def test_extreme_counts_of_another_theorem_are_refused(tmp_path: Path) -> None:
    few = scaled([2, 0, 1, 2, 0, 0.9, 0.1], 1.0)
    one = of_bets("consistent", few)
    one["basis"]["extreme"]["terms"] = few
    assert code_of_bets(tmp_path, one) == 1
    assert code_of_bets(tmp_path, {**one, "verdict": "inconclusive"}) == 0
    one["basis"]["extreme"] = {"theorem": "one-run", "terms": [[1000, 1000, 1000, 1.0]]}
    assert code_of_bets(tmp_path, one) == 1


@pytest.mark.parametrize(
    ("theorem", "trials", "terms", "most", "more"),
    [
        ("total-variation", 100, [50, 100, 50, 100, 200], [0, 100, 100, 100, 200], (4, 1)),
        ("one-run", 1, [1000, 4, 2, 1.0], [1000, 4, 4, 1.0], (1, 100)),
        ("one-run", 1, [1000, 4, 2, 0.5], [1000, 4, 4, 0.5], (3, 1.0)),
        ("one-run-fdp", 1, [1000, 9, 4, 1.0], [1000, 9, 9, 1.0], (1, 100)),
        ("one-run-fdp", 1, [1000, 9, 4, 0.5], [1000, 9, 9, 0.5], (3, 1.0)),
        ("one-run-fdp", 1, [1000, 9, 4, 1.0], [1000, 9, 9, 1.0], (0, 9)),
        ("clopper-pearson", 12, [6, 12, 6, 12, 0.5], [0, 12, 0, 12, 0.5], (4, 1.0)),
        ("clopper-pearson", 13, [6, 13, 7, 13, 0.5], [0, 13, 0, 13, 0.5], (4, 1.0)),
        ("joint", 8, [4, 8, 4, 8, 0.7, 0.5], [0, 8, 8, 8, 0.7, 0.5], (5, 1.0)),
        ("joint", 9, [4, 9, 5, 9, 0.98, 1.0], [0, 9, 9, 9, 0.98, 1.0], (4, 0.7)),
    ],
)
def test_extreme_counts_of_another_design_are_refused(
    tmp_path: Path, theorem: str, trials: int, terms: Any, most: Any, more: tuple[int, Any]
) -> None:
    """Fewer bins, more guesses or a larger share could make any audit consistent."""
    parts = {"joint": 1, "total-variation": 1}.get(theorem, round(1 / terms[-1]))
    one = of_bets("inconclusive", [])
    one["trials"] = [trials, trials]
    one["estimate"]["evidence"] = {"theorem": theorem, "terms": [terms] * parts}
    one["basis"]["extreme"] = {"theorem": theorem, "terms": [most] * parts}
    assert code_of_bets(tmp_path, one) == 0
    assert code_of_bets(tmp_path, {**one, "verdict": "consistent"}) == 1
    one["basis"]["extreme"]["terms"] = [most := [*most]]
    place, value = more
    most[place] = value
    if theorem.startswith("one-run"):
        most[2] = most[1]
    for verdict in ("inconclusive", "consistent"):
        assert code_of_bets(tmp_path, {**one, "verdict": verdict}) == 1


@pytest.mark.parametrize("share", [0.4, 0.6, 1.0])
def test_extreme_bets_have_the_shares_of_the_run(tmp_path: Path, share: float) -> None:
    one = of_bets("consistent", WEAK + [[*row[:1], 1, *row[2:]] for row in WEAK])
    assert code_of_bets(tmp_path, one) == 0
    one["basis"]["extreme"]["terms"] = [[*row[:-1], share] for row in MOST]
    assert code_of_bets(tmp_path, one) == 1


def test_parts_of_the_error_that_no_event_had_may_be_those_of_extreme_counts(
    tmp_path: Path,
) -> None:
    """Evidence lists the events that say most, and extreme counts have others."""
    one = of_bets("consistent", [])
    one["estimate"]["evidence"] = {"theorem": "joint", "terms": [[150, 300, 150, 300, 0.7, 0.6]]}
    extreme = one["basis"]["extreme"] = {
        "theorem": "joint",
        "terms": [[0, 300, 300, 300, 0.9, 0.4]],
    }
    assert code_of_bets(tmp_path, one) == 0
    extreme["terms"][0][-1] = 0.41
    assert code_of_bets(tmp_path, one) == 1


def test_a_conclusion_that_is_listed_again_raises_no_level(tmp_path: Path) -> None:
    strong = of_bets("violated", STRONG, confidence=0.999)
    rest = of_bets("consistent", WEAK, name="other", confidence=0.975)
    assert code_of_bets(tmp_path, strong, rest) == 0
    assert code_of_bets(tmp_path, strong, strong, rest) == 1


def test_a_wealth_beyond_all_numbers_is_enough(tmp_path: Path) -> None:
    draws = 10**7
    one = of_bets("violated", scaled([2, 0, 1, draws, 0, 0.99, 0.01], 1.0))
    assert code_of_bets(tmp_path, {**one, "trials": [draws, draws]}) == 0


def test_bets_against_a_curve_are_those_of_its_p_value() -> None:
    said = spec({"use": "certified-betting"}, trials=2000, delta=1e-3)
    said["mechanism"] = [{"use": "curved", "params": {"noise": 0.7}}]
    record = dpframe.audit(said, plugins=[Curved])
    (cell,) = record.cells
    assert cell.verdict == "violated"
    contents = certificate(record)
    assert checked(contents) == {}
    claim = contents["conclusions"][0]["claim"]["parameters"]
    claim["mu"] = 0.9  # a stronger claim: they would bet too little
    with pytest.raises(ValueError, match="not at S = 2"):
        checked(contents)
    claim["mu"] = 1.02  # a weaker one: they could gain under it
    with pytest.raises(ValueError, match="not at S = 2"):
        checked(contents)
    wealth = [0.0, 0.0]
    for against, way, _, k, k_true, g, h, _ in cell.estimate.evidence.terms:
        wealth[way] += (against == 2) * (k * math.log(g) + k_true * math.log(h))
    assert np.logaddexp(*wealth) - math.log(2) == pytest.approx(-math.log(cell.basis.p_resolved))


def test_losses_of_curves_are_those_of_the_claims() -> None:
    for q, mu in ((1.0, 1.0), (0.25, 2.0), (0.01, 0.3)):
        claim = GaussianDP(mu) if q == 1 else SubsampledGaussianDP(q, 1 / mu)
        for epsilon in (0.0, 0.1, 1.0, 3.0, 6.0):
            found = certcheck.delta_at(("gaussian-dp", mu, q), epsilon)
            assert found == pytest.approx(claim.delta_at(epsilon), rel=1e-9, abs=1e-300)
    for epsilon in (0.0, 0.4, 1.0, 2.0):
        found = certcheck.delta_at(("approx-dp", 1.0, 0.01), epsilon)
        assert found == pytest.approx(ApproxDP(1.0, 0.01).delta_at(epsilon), abs=1e-15)


@pytest.mark.parametrize("raised", [0.0, 0.01])
@pytest.mark.parametrize("claim", [ApproxDP(1.0, 0.01), GaussianDP(1.0)])
def test_bets_that_gain_under_the_claim_are_refused(
    tmp_path: Path, claim: Any, raised: float
) -> None:
    """Random weights at S = 2, by dpframe's arithmetic, and a thousandth more."""
    rng = np.random.default_rng(3)
    for _ in range(3):
        share = np.sort(rng.random(5))
        g, h = share**0.6, (1 - share) ** 0.6
        half = largest_sum(g, h, tangents(claim, raised).pair) / 2
        if isinstance(claim, ApproxDP):
            assert half == pytest.approx(
                largest_sum_of_line(g, h, np.exp(1.0), np.array(0.01 + raised * (1 + math.e))) / 2,
                rel=1e-9,
            )
        for times, right in ((1 - 1e-10, True), (1.001, False)):
            rows = zip(g / half * times, h / half * times, strict=True)
            terms = [[2, 0, 1, 3, 3, float(x), float(y), 0.5] for x, y in rows]
            one = of_bets("inconclusive", terms)
            one["claim"].update(kind=claim.kind, parameters=claim.parameters())
            one["basis"] = {
                **one["basis"],
                "resolution": raised,
                "extreme": one["estimate"]["evidence"],
            }
            assert (code_of_bets(tmp_path, one) == 0) == right


def test_shares_of_the_wealth_are_at_most_all_of_it(tmp_path: Path) -> None:
    terms = STRONG + [[*row[:1], 1, *row[2:]] for row in STRONG]
    assert code_of_bets(tmp_path, of_bets("violated", terms)) == 0
    more = [[*row[:-1], 0.6] if row[1] else row for row in terms]
    assert code_of_bets(tmp_path, of_bets("violated", more)) == 1
    two = [*terms[:1], [*terms[1][:-1], 0.4], *terms[2:]]
    assert code_of_bets(tmp_path, of_bets("violated", two)) == 1


def test_claims_that_are_unknown_are_not_checked() -> None:
    said = {
        **spec(GIVEN, delta=1e-3),
        "mechanism": [{"use": "curved", "params": {"curve": "laplace"}}],
    }
    contents = certificate(dpframe.audit(said, plugins=[Curved]))
    assert checked(contents) == {0: "its claim is unknown to this program"}
    contents["conclusions"][0]["estimate"]["epsilon_lower"] *= 1.01
    with pytest.raises(ValueError, match="its bound is wrong"):
        checked(contents)
    contents["conclusions"][0]["claim"].update(kind="bound", parameters={"epsilon": 1, "delta": 0})
    with pytest.raises(ValueError, match="its bound is wrong"):
        checked(contents)


# --- the file


def test_the_checker_is_one_short_file_of_the_standard_library() -> None:
    text = CHECKER.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    names = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name) or ""
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_the_checker_runs_alone(certificates: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "cert.json"
    file.write_text(written(certificates["one-run"]))
    call = [sys.executable, "-I", "-S", CHECKER]
    done = subprocess.run([*call, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 conclusions recomputed" in done.stdout
    done = subprocess.run([*call, tmp_path / "none"], check=False, capture_output=True)
    assert done.returncode == 2


# --- the command


def certify(run: Path, out: Path, *more: Any) -> Any:
    words = [str(run), "-o", str(out), *map(str, more)]
    return CliRunner().invoke(dpframe_certify.app, words)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    record = dpframe.audit(spec(GIVEN, trials=200))
    (folder / "record.json").write_text(json.dumps(record.as_json()))
    return folder


def test_the_command_writes_a_certificate(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "cert.json"
    assert certify(run, out).exit_code == 0
    assert certcheck.main([str(out)]) == 0
    assert out.read_text() == written(certificate(dpframe.load(run)))


def test_bets_are_added_by_repeating_the_run(tmp_path: Path) -> None:
    contents = {**spec({"use": "betting"}, GIVEN), "run": {"stop": "decided"}}
    contents["mechanism"] = contents["mechanism"][:2]
    record, out = dpframe.audit(contents, trials=100), tmp_path / "cert.json"
    (tmp_path / "record.json").write_text(json.dumps(record.as_json()))
    assert certify(tmp_path, out).exit_code == 0
    assert certcheck.main([str(out)]) == 3
    assert certify(tmp_path, out, "--bets").exit_code == 0
    assert certcheck.main([str(out)]) == 0
    said = {one["id"]: one["verdict"] for one in json.loads(out.read_text())["conclusions"]}
    assert sorted(said.values()) == sorted(cell.verdict for cell in record.cells)
    drawn = record.spec.model_copy(update={"overrides": ["audit.trials=100", "audit.seed=6"]})
    with pytest.raises(DpframeError, match="repeated, it gives"):
        dpframe_certify.with_bets(record.model_copy(update={"spec": drawn}))


@pytest.mark.parametrize(
    ("key", "tool", "words"),
    [
        (
            "-----BEGIN OPENSSH PRIVATE KEY-----",
            "ssh-keygen",
            "-Y sign -f KEY -n dpframe-certificate",
        ),
        ("untrusted comment: minisign secret key", "minisign", "-S -s KEY -m"),
    ],
)
def test_signing_is_left_to_a_known_program(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, tool: str, words: str
) -> None:
    secret, out, log = tmp_path / "KEY", tmp_path / "cert.json", tmp_path / "log"
    secret.write_text(key)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = certify(run, out, "--sign", secret)
    assert isinstance(done.exception, DpframeError)
    assert f"{tool}, which is not installed" in str(done.exception)
    program = tmp_path / tool
    program.write_text(f'#!/bin/sh\necho "$@" > {log}\nexit $STATUS\n')
    program.chmod(0o755)
    monkeypatch.setenv("STATUS", "0")
    assert certify(run, out, "--sign", secret).exit_code == 0
    said = log.read_text().replace(str(secret), "KEY").replace(str(out), "").strip()
    assert said == words
    monkeypatch.setenv("STATUS", "3")
    assert "could not sign" in str(certify(run, out, "--sign", secret).exception)


def test_a_place_that_cannot_be_written_is_named(run: Path, tmp_path: Path) -> None:
    done = certify(run, tmp_path / "none" / "cert.json")
    assert "cert.json: No such file" in str(done.exception)
    done = certify(run, tmp_path / "cert.json", "--sign", tmp_path / "none")
    assert "none: No such file" in str(done.exception)
    assert not [*tmp_path.iterdir()]
