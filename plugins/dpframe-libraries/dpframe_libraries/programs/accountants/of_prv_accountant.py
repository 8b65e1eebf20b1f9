"""prv-accountant: numerical composition of privacy loss random variables."""

import importlib.metadata

import prv_accountant


def variable(step):
    """Return the privacy random variable of one release."""
    if step["noise"] == "gaussian" and step["sampling"] == "poisson":
        return prv_accountant.PoissonSubsampledGaussianMechanism(
            noise_multiplier=step["scale"], sampling_probability=step["rate"]
        )
    if step["noise"] == "gaussian" and step["sampling"] == "none":
        return prv_accountant.GaussianMechanism(noise_multiplier=step["scale"])
    if step["noise"] == "laplace" and step["sampling"] == "none":
        return prv_accountant.LaplaceMechanism(mu=1 / step["scale"])
    raise NotImplementedError("no random variable for this step")


def ends(question, end):
    if question["relation"] != "add-remove":
        raise NotImplementedError("its variables are those of add-remove")
    counts = [step["count"] for step in question["steps"]]
    found = []
    for delta in question["deltas"]:
        accountant = prv_accountant.PRVAccountant(
            prvs=[variable(step) for step in question["steps"]],
            max_self_compositions=counts,
            eps_error=0.1,
            delta_error=delta / 1000,
        )
        found.append(accountant.compute_epsilon(delta, counts)[end])
    return found


VERSION = importlib.metadata.version("prv-accountant")
_STATEMENT = "add-remove; Gaussian (Poisson or no sample), Laplace (no sample); eps_error = 0.1"
ACCOUNTANTS = {
    "prv-accountant": (lambda question: ends(question, 2), "upper", _STATEMENT),
    "prv-accountant lower": (lambda question: ends(question, 0), "lower", _STATEMENT),
}
