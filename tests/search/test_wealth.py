"""The wealth of a search equals that of a plain loop, and seldom grows if the claim is true."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import bdtrc

from dpframe.count.events import Seen
from dpframe.search.wealth import (
    CAUTION,
    FINE,
    GRID,
    LOSS_LIMIT,
    SHARES,
    WAYS,
    PairWealth,
    Point,
    Wealth,
    clearest,
    farthest,
    least_losses,
    mean,
    paid,
)
from dpframe.stats.betting import choose, events, pay, project
from dpframe.stats.output_bets import bets, bets_against_each, grouped, lines
from dpframe.stats.output_bounds import _experts, history
from dpframe.stats.shares import learned

CUTS = np.linspace(-3.0, 4.0, 15)


def laplace(rng: np.random.Generator, size: int, shift: float) -> Seen:
    drawn = rng.laplace(0, size=size), rng.laplace(shift, size=size)
    return Seen(np.array([[np.sum(x >= cut) for cut in CUTS] for x in drawn]), size)


def plus(a: Seen, b: Seen) -> Seen:
    return Seen(a.above + b.above, a.trials + b.trials)


def between(above: np.ndarray, trials: int) -> list[int]:
    """Draws below the first cut, between each two, and from the last one on."""
    ends = [trials, *above, 0]
    return [int(ends[at] - ends[at + 1]) for at in range(len(ends) - 1)]


def test_it_is_what_a_loop_over_events_and_losses_gives() -> None:
    rng = np.random.default_rng(1)
    seen, wealth, delta = laplace(rng, 60, 1.5), Wealth(0.01), 0.01
    claim, chosen = Point(0.4, 0.01), GRID[[0, 150 * FINE, 300 * FINE + 3]]
    naive: dict[float, list[float]] = {e: [0.0, 0.0] for e in (claim.epsilon, *chosen)}
    best, whole, output = dict.fromkeys(naive, 0.0), 0.0, [0.0] * len(CAUTION)
    one = lines(np.exp([claim.epsilon]), np.array([claim.delta]))
    for drawn in (100, 200, 300):
        fresh = laplace(rng, 40, 1.5)
        for epsilon, ways in naive.items():
            before = (events(*seen[:2]) + 0.5) / (seen.trials + 1)
            # Losses of the grid that lie close together have the event of the first of them.
            coarse = GRID[300 * FINE] if epsilon == chosen[2] else epsilon
            slope = math.exp(coarse)
            zs = [
                (p - slope * q - delta) / math.sqrt(slope**2 * q * (1 - q) + p * (1 - p))
                for q, p in before
            ]
            slope = math.exp(epsilon)
            event = int(np.argmax(zs))
            q, p = before[event]
            if p <= slope * q + delta:
                continue
            y, x = events(*fresh[:2])[event]
            n = fresh.trials
            nearest = project(np.array([q]), np.array([p]), np.array([slope]), delta)
            for way, (bq, bp) in enumerate(
                ((q, p), ((q + nearest[0][0]) / 2, (p + nearest[1][0]) / 2))
            ):
                (q0,), (p0,) = project(np.array([bq]), np.array([bp]), np.array([slope]), delta)
                ways[way] += x * math.log(bp / p0) + (n - x) * math.log((1 - bp) / (1 - p0))
                ways[way] += y * math.log(bq / q0) + (n - y) * math.log((1 - bq) / (1 - q0))
            best[epsilon] = max(best[epsilon], np.logaddexp(*ways) - math.log(2))
        past, now = (
            np.array([between(x, part.trials) for x in part.above]) for part in (seen, fresh)
        )
        places = np.linspace(-1, 1, len(CUTS) + 1)
        supposed, group = grouped(learned(past, places, may_be_ratio=False), past.sum(axis=0))
        for way, log_weight in enumerate(bets(supposed, one, CAUTION)):
            for side in (0, 1):
                for at, hits in enumerate(now[side]):
                    output[way] += hits * log_weight[side][group[at]]
        wealth.bet(seen, fresh, (claim,), 1.0, drawn)
        seen = plus(seen, fresh)
        # The first arm has half of the divided half, and no other arm has bet.
        average = np.exp(SHARES) @ np.exp([*naive[claim.epsilon], *output])
        whole = max(whole, math.log(average / 2 + (average + 1) / 4))
    assert wealth.best == pytest.approx(whole, rel=1e-9)
    assert wealth.best > 1
    places = np.searchsorted(GRID, chosen)
    # Either share of the first pair is a quarter of the whole, and it was bet on from the start.
    assert wealth._pairs[0].best[places] == pytest.approx(
        [best[e] - math.log(2) for e in chosen], rel=1e-9
    )
    assert [drawn for drawn, _ in wealth.history] == [100, 200, 300]


def test_the_largest_loss_that_is_bet_on_overflows_nowhere() -> None:
    seen, claim = Seen(np.array([[0], [1000]]), 1000), (Point(LOSS_LIMIT, 0.0),)
    with np.errstate(over="raise"):
        assert farthest(seen, claim) is not None
        assert clearest(seen, claim) is None


def test_a_round_does_not_choose_its_own_bet() -> None:
    """The same past, two different rounds: what is bet on is the same in both."""
    rng = np.random.default_rng(2)
    past, point = laplace(rng, 300, 1.0), Point(0.2, 0.0)
    bet = choose(*past[:2], np.exp([point.epsilon]), point.delta)
    for shift in (-3.0, 3.0):
        fresh, wealth = laplace(rng, 50, shift), Wealth(0.0)
        wealth.bet(past, fresh, (point,), 1.0, 50)
        assert wealth.together[:2] == pytest.approx(
            pay(fresh.above, 50, bet, np.exp([point.epsilon]), 0.0)[:, 0]
        )


def searched(rng: np.random.Generator, claimed: float, rounds: int) -> Wealth:
    """Four pairs, of which one has the claimed loss and others less; the luckiest is followed."""
    shifts, wealth = (1.0, 0.5, 0.9, 1.0), Wealth(0.0)
    arms = [laplace(rng, 30, shift) for shift in shifts]
    claim = (Point(claimed, 0.0),)
    for drawn in range(rounds):
        zs = [guess.z if (guess := farthest(arm, claim)) else -math.inf for arm in arms]
        arm = int(np.argmax(zs))
        fresh = laplace(rng, max(10, arms[arm].trials // 3), shifts[arm])
        wealth.bet(arms[arm], fresh, claim, 1.0, drawn, arm)
        arms[arm] = plus(arms[arm], fresh)
    return wealth


def test_a_true_claim_is_seldom_refuted_however_lucky_the_pair() -> None:
    """False-alarm rate 1e-6 for each level."""
    rng, audits = np.random.default_rng(3), 50
    best = np.array([searched(rng, 1.0, 6).best for _ in range(audits)])
    for error in (0.5, 0.2):
        above = int(np.sum(best >= -math.log(error)))
        assert above == 0 or bdtrc(above - 1, audits, error) > 1e-6
    assert np.sum(best > 0) > audits / 10  # not vacuous: bets are won


def test_what_rounds_earn_by_the_same_past_adds_up() -> None:
    """The logarithm is a sum over draws only if the draws did not choose the weights."""
    rng, claim = np.random.default_rng(15), (Point(0.4, 0.01),)
    past, one, other = (laplace(rng, size, 1.5) for size in (300, 40, 70))
    parts = [paid(past, fresh, claim) for fresh in (one, other, plus(one, other))]
    assert parts[0] is not None
    assert parts[1] is not None
    assert parts[2] == pytest.approx(parts[0] + parts[1], rel=1e-9)
    assert np.all(np.abs(parts[2]) > 0.1)  # not vacuous: all ways bet


def test_an_output_that_tells_in_many_places_earns_more_than_its_best_event() -> None:
    earned, claim = np.zeros(WAYS), (Point(0.8, 0.0),)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        seen = laplace(rng, 500, 1.0)
        for _ in range(4):
            fresh = laplace(rng, 500, 1.0)
            found = paid(seen, fresh, claim)
            earned += 0.0 if found is None else found
            seen = plus(seen, fresh)
    by_event, by_output = (np.logaddexp.reduce(ways) for ways in (earned[:2], earned[2:]))
    assert by_output > 1.3 * by_event > 5


def test_only_the_output_of_the_attack_that_tells_most_is_bet_on() -> None:
    rng, claim = np.random.default_rng(14), (Point(0.5, 0.0),)
    past, fresh = laplace(rng, 400, 1.0), laplace(rng, 100, 1.0)
    expected = paid(past, fresh, claim)
    assert expected is not None
    for order in (1, -1):
        joined = []
        for told in (past, fresh):
            nothing = Seen(np.full((2, 3), told.trials // 2), told.trials)
            parts = (told.above, nothing.above)[::order]
            cuts = tuple(part.shape[1] for part in parts)
            joined.append(Seen(np.concatenate(parts, axis=1), told.trials, cuts))
        assert paid(*joined, claim) == pytest.approx(expected, rel=1e-12)


def test_a_false_claim_is_refuted_and_the_bound_comes_near() -> None:
    wealth = searched(np.random.default_rng(4), 0.5, 36)
    assert wealth.best > 10
    bounds = [wealth.bound(0.05, number) for number in range(4)]
    assert 0.7 < max(bounds) <= 1.0
    assert wealth.open(0.05) > max(bounds)


def test_losses_are_in_units_of_the_first_pair() -> None:
    """A pair of twice the claimed loss, at twice the distance, says the same of the claim."""
    past, fresh = (laplace(np.random.default_rng(seed), 3000, 2.0) for seed in (5, 6))
    bounds = []
    for scale in (1.0, 2.0):
        wealth = Wealth(0.0)
        wealth.bet(past, fresh, (), scale, 1)
        bounds.append(wealth.bound(0.05))
    assert bounds[0] > 1.5
    assert bounds[1] == pytest.approx(bounds[0] / 2, rel=0.02)


def test_a_bound_is_earned_by_its_own_pair() -> None:
    """One pair loses 20 times its claim and the other 1.5 times, in whatever order they come."""
    for first in (0, 1):
        wealth, rng = Wealth(0.0), np.random.default_rng(7)
        pairs = {first: (2.0, 0.1), 1 - first: (1.5, 1.0)}
        for number, (shift, claimed) in sorted(pairs.items()):
            past, fresh = (laplace(rng, 20_000, shift) for _ in range(2))
            wealth.bet(past, fresh, (Point(claimed, 0.0),), claimed, 1, number)
        for number, (shift, claimed) in pairs.items():
            assert 0.85 * shift < wealth.bound(0.05, number) * claimed <= shift
        assert wealth.open(0.05) > wealth.bound(0.05, first) > 15  # what is worth betting against
        left = wealth.without(first)
        assert left.bound(0.05, first) == wealth.bound(0.05, first)
        wealth.give_back(first)
        assert 1.5 > wealth.open(0.05) == left.open(0.05) > wealth.bound(0.05, 1 - first) > 1
        assert wealth.bound(0.05, 2) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("led", [False, True])
def test_the_bounds_of_all_pairs_hold_together(led: bool) -> None:
    """The shares of all pairs add up to the error: at most 1e-6 of a false alarm."""
    rng, audits, error = np.random.default_rng(8), 80, 0.4
    wrong = lucky = 0
    for _ in range(audits):
        wealth, arms = Wealth(0.0, led=led), [laplace(rng, 30, 0.3) for _ in range(4)]
        for drawn in range(12):
            arm = int(np.argmax([farthest(a, (Point(0.3, 0.0),)).z for a in arms]))  # type: ignore[union-attr]
            fresh = laplace(rng, max(10, arms[arm].trials // 3), 0.3)
            if led and drawn > 4:
                wealth.lead(arm)
            wealth.bet(arms[arm], fresh, (), 1.0, drawn, arm)
            arms[arm] = plus(arms[arm], fresh)
        wrong += any(wealth.bound(error, number) > 0.3 for number in range(4))
        lucky += any(np.any(own.now > 0) for own in wealth._pairs.values())
    assert wrong == 0 or bdtrc(wrong - 1, audits, error) > 1e-6
    assert lucky > audits / 10  # not vacuous


def followed(rng: np.random.Generator, loss: float, claimed: float, rounds: int = 16) -> Wealth:
    """Four pairs of one loss, of which the luckiest is drawn from, and leads after a while."""
    wealth, arms = Wealth(0.0, led=True), [laplace(rng, 60, loss) for _ in range(4)]
    claim = (Point(claimed, 0.0),)
    for drawn in range(rounds):
        zs = [guess.z if (guess := farthest(arm, claim)) else -math.inf for arm in arms]
        arm = int(np.argmax(zs))
        if drawn > 4:
            wealth.lead(arm)
        fresh = laplace(rng, max(20, arms[arm].trials // 2), loss)
        wealth.bet(arms[arm], fresh, claim, 1.0, drawn, arm)
        arms[arm] = plus(arms[arm], fresh)
    return wealth


def of_laplace(epsilons: np.ndarray, loss: float) -> np.ndarray:
    """Return δ(ε) of Laplace noise [Balle2018]."""
    return np.maximum(0.0, -np.expm1((epsilons - loss) / 2))


def log_mixture(own: PairWealth, epsilon: float, delta: float, experts: np.ndarray) -> float:
    """Largest logarithm of a pair's wealth against (ε, δ), by loops over what it is made of.

    An expert, (ε, δ, logarithm of its prior), bets as if against its own (ε, δ). The wealth is
    divided among the shares of the pair, the experts, and the ways to bet. A pair of draws pays
    g(x) h(y) (2/S)², with the closed form of the largest mean S that (ε, δ) allows.
    """
    slope, path = math.exp(epsilon), np.zeros(len(own.rounds))
    chosen = [bets_against_each(s, np.exp(experts[0]), experts[1])[0] for s, _ in own.rounds]
    for first, share in own.opened.values():
        path[:first] += share
        for expert, log_prior in enumerate(experts[2]):
            for way in (0, 1):
                earned = 0.0
                for number in range(first, len(own.rounds)):
                    log_g, log_h = chosen[number][way, :, expert]
                    g, h = np.exp(log_g), np.exp(log_h)
                    near = max(slope * g + h) + max(g + slope * h)
                    most = delta * (max(g) + max(h)) + (1 - delta) / (1 + slope) * near
                    in_d0, in_d1 = own.rounds[number][1]
                    earned += in_d0 @ log_g + in_d1 @ log_h - 2 * in_d0.sum() * math.log(most / 2)
                    path[number] += share * math.exp(log_prior + earned) / 2
    return float(np.log(path.max()))


def test_a_profile_is_what_plain_loops_refute() -> None:
    wealth = followed(np.random.default_rng(16), 2.0, 1.0, 6)
    number = max(range(4), key=lambda number: wealth.bound(0.05, number))
    own, found = wealth._pairs[number], wealth.profile(0.05, number)
    assert len({first for first, _ in own.opened.values()}) > 1  # shares of several ages
    near = own.bound(0.0, 0.05, 0.0)
    experts = np.array(_experts(history(own.rounds), 0.0, near))
    for epsilon, delta in found[::7]:
        assert delta > 0.03
        assert log_mixture(own, epsilon, delta * (1 - 1e-4), experts) >= -math.log(0.05)
        assert log_mixture(own, epsilon, delta * (1 + 1e-4), experts) < -math.log(0.05)
    assert wealth.profile(0.05, 99) == ()


@pytest.mark.slow
def test_the_profiles_of_all_pairs_hold_together() -> None:
    """The luckiest of four pairs is followed; false-alarm rate 1e-6."""
    audits, error, wrong, telling = 80, 0.6, 0, 0
    for seed in range(audits):
        wealth = followed(np.random.default_rng(1000 + seed), 1.0, 1.0)
        every = [np.array(found) for n in range(4) if (found := wealth.profile(error, n))]
        wrong += any(np.any(found[:, 1] > of_laplace(found[:, 0], 1.0)) for found in every)
        telling += any(found[0, 1] > of_laplace(np.zeros(1), 0.7)[0] for found in every)
    assert wrong == 0 or bdtrc(wrong - 1, audits, error) > 1e-6
    assert telling > audits / 2  # not vacuous


def test_pairs_that_lose_do_not_ruin_the_one_that_is_found() -> None:
    rng, claim = np.random.default_rng(7), (Point(0.3, 0.0),)
    wealth, nothing, much = Wealth(0.0), 0.0, laplace(rng, 400, 1.0)
    for number in range(1, 12):  # each is as lucky as to be bet on, and loses
        lucky = Seen(np.array([[5], [25]]), 100)
        unlucky = Seen(np.array([[60], [40]]), 500)
        nothing += wealth.bet(lucky, unlucky, claim, 1.0, number, number)
    assert nothing < -40
    for drawn in range(20, 26):
        fresh = laplace(rng, 400, 1.0)
        wealth.bet(much, fresh, claim, 1.0, drawn, 12)
        much = plus(much, fresh)
    assert wealth.best > 10
    assert wealth.best <= mean(wealth.apart[12]) - math.log(2 * 12 * 13) + 1e-9


def test_a_late_pair_has_the_share_of_the_first_if_it_is_the_first_that_is_bet_on() -> None:
    """Forty pairs before it showed nothing: rounds on which nothing is bet cost nothing."""
    claim, wealths = (Point(0.3, 0.0),), []
    for late in (0, 40):
        rng, wealth = np.random.default_rng(9), Wealth(0.0)
        seen = laplace(rng, 400, 1.0)
        for number in range(late):
            inside = Seen(np.array([[50], [50]]), 100)
            assert wealth.bet(inside, inside, claim, 1.0, number, number, 2.0) == 0.0
        for drawn in range(50, 56):
            fresh = laplace(rng, 400, 1.0)
            wealth.bet(seen, fresh, claim, 1.0, drawn, late, 2.0)
            seen = plus(seen, fresh)
        wealths.append(wealth)
    assert wealths[1].best == pytest.approx(wealths[0].best, rel=1e-12)
    assert wealths[0].best > 10
    # Half of the wealth for a bound is divided in the order of the pairs.
    assert 0.8 * wealths[0].bound(0.05, 0) < wealths[1].bound(0.05, 40) < wealths[0].bound(0.05, 0)


@pytest.mark.parametrize(("led", "alone"), [(False, False), (True, False), (True, True)])
def test_shares_of_the_error_add_up_to_one_at_most(led: bool, alone: bool) -> None:
    """However pairs come to be bet on, and to lead."""
    rng, wealth = np.random.default_rng(10), Wealth(0.0, led=led, alone=alone)
    seen, claim = laplace(rng, 400, 1.0), (Point(0.3, 0.0),)
    order = rng.permutation(40).tolist()
    for drawn, number in enumerate(order + order[::-1]):
        if led and number % 2:
            wealth.lead(number)
        if drawn in (20, 50):  # a finding
            assert wealth.history
            wealth = wealth.without(39)
            assert (wealth.best, wealth.most, wealth.history) == (0.0, 0.0, [])
        wealth.bet(seen, laplace(rng, 10, 1.0), claim if number % 3 else (), 1.0, drawn, number)
    shares = [share for own in wealth._pairs.values() for share, _ in own.shares.values()]
    assert 0.85 < sum(shares) <= 1 + 1e-12
    assert len(shares) == (40 if alone else 40 + 26 + 20 * led)


def test_a_leading_pair_has_a_share_of_its_own() -> None:
    """It is worth something where many pairs were proposed, and bet on, before."""
    bounds = []
    for leads in (False, True):
        rng, wealth = np.random.default_rng(11), Wealth(0.0, led=True)
        seen = laplace(rng, 2000, 1.0)
        if leads:
            wealth.lead(99)
        fresh = laplace(rng, 2000, 1.0)
        wealth.bet(seen, fresh, (), 1.0, 1, 99)
        bounds.append(wealth.bound(0.05, 99))
    assert bounds[0] + 0.03 < bounds[1] < 1.0


def test_a_pair_that_leads_again_leads_once() -> None:
    wealth, seen = Wealth(0.0, led=True), laplace(np.random.default_rng(12), 400, 1.0)
    for number in (7, 7, 7, 9):
        wealth.lead(number)
        wealth.bet(seen, seen, (), 1.0, 1, number)
    shares = [wealth._pairs[number].shares["led"][0] for number in (7, 9)]
    assert shares == pytest.approx([1 / 3 / 2, 1 / 3 / 6])


def test_a_share_has_earned_nothing_before_it_is_opened() -> None:
    own, at = PairWealth(0.5, 1.0), np.arange(3)
    own.pay(at, np.full((2, 3), 4.0))
    for _ in range(2):  # an arm that has it gets no other
        own.open("led", 0.25)
    assert np.exp(own.log_wealth(at)) == pytest.approx(0.5 * math.exp(4) + 0.25)
    own.pay(at, np.full((2, 3), 1.0))
    assert np.exp(own.log_wealth(at)) == pytest.approx(0.5 * math.exp(5) + 0.25 * math.e)


def test_no_bound_rests_on_what_the_sampler_does_not_resolve() -> None:
    """Forty of a million on one side and none on the other: floats have such outputs."""
    rare, far = Seen(np.array([[0], [40]]), 10**6), Seen(np.array([[0], [40_000]]), 10**6)
    for fresh, resolution, least, most in ((rare, 0.0, 1.0, 9.0), (rare, 1e-4, 0.0, 0.0)):
        wealth = Wealth(0.0, resolution)
        wealth.bet(fresh, fresh, (), 1.0, 1)
        assert least <= wealth.bound(0.05) <= most
    wealth = Wealth(0.0, 1e-4)
    wealth.bet(far, far, (), 1.0, 1)
    assert 5.0 < wealth.bound(0.05) < math.log(0.04 / 1e-4)
    epsilon, delta = np.array(wealth.profile(0.05)).T
    assert delta[0] > 0.035  # not vacuous
    assert np.all(delta <= np.maximum(0.04 - 1e-4 * (1 + np.exp(epsilon)), 0.0))
    wealth, less = Wealth(0.0, 1e-4), Seen(np.array([[0], [10_000]]), 10**6)
    wealth.bet(far, less, (), 1.0, 1)  # the past suggests more than is true
    assert 4.0 < wealth.bound(0.05) < math.log(0.01 / 1e-4)
    fine, coarse = (np.max(least_losses(far, 0.0, own)[0]) for own in (0.0, 1e-4))
    assert coarse < math.log(0.04 / 1e-4) < fine


def test_bets_on_events_have_half_of_the_error_of_a_bound() -> None:
    """The other half is for bets on the whole output."""
    own, search = PairWealth(1.0, 1.0), Wealth(0.0)
    search._pairs[0] = own
    own.best[:100] = -math.log(0.04)  # refutes at an error of 5 %, and not at half of it
    assert own.bound(0.0, 0.05, 0.0) == search.open(0.05) == 0.0
    own.best[:100] = -math.log(0.02)
    assert own.bound(0.0, 0.05, 0.0) == GRID[99]


def test_distance_is_in_standard_errors() -> None:
    """The variance of the difference of two shares, of which one is multiplied by e^ε."""
    seen, claim = Seen(np.array([[100], [400]]), 1000), (Point(0.2, 0.01),)
    guess = farthest(seen, claim)
    assert guess is not None
    q, p, slope = 100.5 / 1001, 400.5 / 1001, math.exp(0.2)
    error = math.sqrt((slope**2 * q * (1 - q) + p * (1 - p)) / 1000)
    assert guess.z == pytest.approx((p - slope * q - 0.01) / error)
    more = farthest(Seen(100 * seen.above, 100_000), claim)
    assert more is not None
    assert more.z == pytest.approx(10 * guess.z, rel=0.01)


def test_the_most_that_could_be_earned_is_of_the_rounds_that_were_bet_on() -> None:
    wealth, claim = Wealth(0.0), (Point(5.0, 0.0),)
    told = Seen(np.array([[0], [32]]), 32)
    for drawn in (32, 64):  # most draws of a search may go into proposals
        wealth.bet(told, told, claim, 1.0, drawn, drawn)
        assert wealth.most == wealth.best == 0.0  # so few cannot tell, however loud they are
    far = Seen(np.array([[0], [2000]]), 2000)
    wealth.bet(far, far, claim, 1.0, 4000, 1)
    assert wealth.most > 0 < wealth.best
    quiet, seen = Wealth(0.0), laplace(np.random.default_rng(1), 2000, 0.1)
    quiet.bet(seen, seen, claim, 1.0, 2000)
    assert quiet.best == 0.0 < quiet.most


def test_what_a_pair_has_earned_is_given_back_and_what_it_lost_is_not() -> None:
    """So a search is at no time richer for the pairs that it leaves aside."""
    rng, claim = np.random.default_rng(13), (Point(0.5, 0.0),)
    plain, less = Wealth(0.0), Wealth(0.0)
    seen = [laplace(rng, 300, 1.0) for _ in range(4)]
    for drawn in range(40):
        arm = drawn % 4
        if drawn in (12, 25):
            before = less.log_wealth
            less.give_back(arm)
            assert less.log_wealth < before
            assert np.all(np.isneginf(less.apart[arm]))
            seen[arm] = Seen(seen[arm].above * 0, 0)  # it is bet on no more
        if seen[arm].trials:
            fresh = laplace(rng, 100, 1.0)
            for wealth in (plain, less):
                wealth.bet(seen[arm], fresh, claim, 1.0, drawn, arm)
            seen[arm] = plus(seen[arm], fresh)
        assert less.log_wealth <= plain.log_wealth + 1e-9
        assert less.best <= plain.best + 1e-9
    assert less.best < plain.best  # not vacuous
    less.give_back(99)
    lucky, unlucky = Seen(np.array([[5], [25]]), 100), Seen(np.array([[60], [40]]), 500)
    lost = Wealth(0.0)
    lost.bet(lucky, unlucky, claim, 1.0, 1, 7)
    before = lost.together.copy()
    lost.give_back(7)
    assert np.all(lost.together == before)
    assert np.all(before < -1)


def test_ends() -> None:
    nothing, all_of_one = Seen(np.zeros((2, 1), int), 1), Seen(np.array([[0], [9]]), 9)
    wealth = Wealth(0.0)
    wealth.bet(nothing, all_of_one, (Point(1.0, 0.0),), 1.0, 10)
    assert (wealth.best, wealth.bound(0.05)) == (0.0, 0.0)
    assert farthest(all_of_one, ()) is None
    assert farthest(all_of_one, (Point(1.0, 1.5), Point(1e9, 0.0))) is None
    assert np.max(least_losses(nothing, 0.9)[0]) == -math.inf
    for drawn in range(60):
        wealth.bet(all_of_one, all_of_one, (Point(1.0, 0.0),), 1.0, drawn)
    assert math.isfinite(wealth.best)
    assert 1.0 < wealth.bound(0.05) < 40
