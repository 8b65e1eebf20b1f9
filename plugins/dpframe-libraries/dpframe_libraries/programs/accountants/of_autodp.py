"""autodp: Rényi accounting."""

import importlib.metadata
import math

from autodp import mechanism_zoo, transformer_zoo


def far(question):
    """Return the sensitivity: two records may differ by 2."""
    return 2.0 if question["relation"] == "replace" else 1.0


def renyi(question):
    mechanisms, counts = [], []
    for step in question["steps"]:
        scale = step["scale"] / far(question)
        if step["noise"] == "gaussian":
            one = mechanism_zoo.GaussianMechanism(sigma=scale)
        elif step["noise"] == "laplace":
            one = mechanism_zoo.LaplaceMechanism(b=scale)
        elif step["noise"] == "discrete-gaussian" and step["sampling"] == "none":
            one = mechanism_zoo.DiscreteGaussianMechanism(sigma=scale)
        elif step["noise"] == "randomized-response" and question["relation"] == "replace":
            one = mechanism_zoo.RandresponseMechanism(p=1 / (1 + math.exp(-step["scale"])))
        else:
            raise NotImplementedError("no mechanism for this step")
        if step["sampling"] != "none":
            poisson = step["sampling"] == "poisson"
            if question["relation"] != ("add-remove" if poisson else "replace"):
                raise NotImplementedError("Poisson: add-remove; fixed size: replace")
            one.neighboring = "add_remove" if poisson else "replace_one"
            sample = transformer_zoo.AmplificationBySampling(PoissonSampling=poisson)
            one = sample(one, step["rate"], improved_bound_flag=step["noise"] == "gaussian")
        mechanisms.append(one)
        counts.append(step["count"])
    whole = transformer_zoo.Composition()(mechanisms, counts)
    return [whole.get_approxDP(delta) for delta in question["deltas"]]


VERSION = importlib.metadata.version("autodp")
ACCOUNTANTS = {
    "autodp RDP": (renyi, "upper", "unsampled: all; Poisson: add-remove; fixed size: replace"),
}
