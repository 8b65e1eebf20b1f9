"""dp-accounting: privacy loss distributions, optimistic and pessimistic, and Rényi accounting."""

import importlib.metadata
import math

from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as distributions
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant

RELATIONS = {
    "add-remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace": NeighboringRelation.REPLACE_ONE,
    "zero-out": NeighboringRelation.REPLACE_SPECIAL,
}


def event(step):
    """Return the event of one release: noise in units of the bound on the norm of a record."""
    scale = step["scale"]
    if step["noise"] == "randomized-response":
        # Its parameter is the probability of a uniform answer.
        return dp_event.RandomizedResponseDpEvent(2 / (1 + math.exp(scale)), 2)
    kinds = {
        "gaussian": dp_event.GaussianDpEvent,
        "laplace": dp_event.LaplaceDpEvent,
        "discrete-laplace": lambda scale: dp_event.DiscreteLaplaceDpEvent(1 / scale, 1),
    }
    if step["noise"] not in kinds:
        raise NotImplementedError("no event for " + step["noise"])
    inner = kinds[step["noise"]](scale)
    if step["sampling"] == "poisson":
        return dp_event.PoissonSampledDpEvent(step["rate"], inner)
    if step["sampling"] == "fixed":
        return dp_event.SampledWithoutReplacementDpEvent(step["records"], step["batch"], inner)
    return inner


def asked(make):
    """Return a function that composes the events of a question."""

    def ask(question):
        accountant = make(RELATIONS[question["relation"]])
        for step in question["steps"]:
            one = dp_event.SelfComposedDpEvent(event(step), step["count"])
            if not accountant.supports(one):
                raise NotImplementedError("not supported under " + question["relation"])
            accountant.compose(one)
        return [accountant.get_epsilon(delta) for delta in question["deltas"]]

    return ask


def composed(question, pessimistic):
    """Compose distributions instead of events, which some steps lack."""
    if question["relation"] != "add-remove":
        raise NotImplementedError("asked under add-remove alone")
    makers = {
        "gaussian": distributions.from_gaussian_mechanism,
        "laplace": distributions.from_laplace_mechanism,
        "discrete-gaussian": distributions.from_discrete_gaussian_mechanism,
        "truncated-discrete-gaussian": distributions.from_discrete_gaussian_mechanism,
    }
    total = None
    for step in question["steps"]:
        if step["sampling"] == "fixed" or step["noise"] not in makers:
            raise NotImplementedError("no distribution for this step")
        # Connecting the dots has no optimistic side.
        more = {"sampling_prob": step["rate"], "use_connect_dots": False}
        if step["bound"]:
            more["truncation_bound"] = step["bound"]
        one = makers[step["noise"]](step["scale"], pessimistic_estimate=pessimistic, **more)
        one = one.self_compose(step["count"])
        total = one if total is None else total.compose(one)
    return [total.get_epsilon_for_delta(delta) for delta in question["deltas"]]


VERSION = importlib.metadata.version("dp-accounting")
ACCOUNTANTS = {
    "dp-accounting PLD": (
        asked(PLDAccountant),
        "upper",
        "add-remove, replace, zero-out; Poisson or no sample",
    ),
    "dp-accounting PLD rounded up": (
        lambda question: composed(question, True),
        "upper",
        "add-remove; Poisson or no sample",
    ),
    "dp-accounting PLD optimistic": (
        lambda question: composed(question, False),
        "lower",
        "add-remove; Poisson or no sample",
    ),
    "dp-accounting RDP": (
        asked(lambda relation: RdpAccountant(neighboring_relation=relation)),
        "upper",
        "add-remove, zero-out: Poisson or no sample; replace: samples of a fixed size or none",
    ),
}
