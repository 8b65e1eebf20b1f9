"""jax-privacy: the accountants of DP-SGD training."""

import fractions
import importlib.metadata

from jax_privacy import accounting


def ask(config, question):
    sampling = {step["sampling"] for step in question["steps"]}
    methods = {
        "poisson": (accounting.SamplingMethod.POISSON, ("add-remove", "zero-out")),
        "fixed": (accounting.SamplingMethod.FIXED_BATCH_SIZE, ("replace", "zero-out")),
    }
    if len(sampling) > 1 or not sampling <= set(methods):
        raise NotImplementedError("one kind of sample, Poisson or of a fixed size")
    if len({step["rate"] for step in question["steps"]}) > 1:
        raise NotImplementedError("one batch size")
    if any(step["noise"] != "gaussian" for step in question["steps"]):
        raise NotImplementedError("Gaussian noise alone")
    method, relations = methods[sampling.pop()]
    if question["relation"] not in relations:
        raise NotImplementedError("this sample is for " + " and ".join(relations))
    rate = question["steps"][0]["rate"]
    ratio = fractions.Fraction(repr(rate))
    times, start = [], 0
    for step in question["steps"]:
        times.append((start, step["scale"]))
        start += step["count"]
    accountant = accounting.DpsgdTrainingAccountant(config())
    return [
        accountant.compute_epsilon(
            start,
            accounting.DpParams(
                noise_multipliers=times if len(times) > 1 else times[0][1],
                num_samples=ratio.denominator,
                batch_size=ratio.numerator,
                delta=delta,
                sampling_method=method,
            ),
        )
        for delta in question["deltas"]
    ]


VERSION = importlib.metadata.version("jax-privacy")
_STATEMENT = "Gaussian; Poisson: add-remove, zero-out; fixed size: replace, zero-out"
ACCOUNTANTS = {
    "jax-privacy PLD": (
        lambda question: ask(accounting.PldAccountantConfig, question),
        "upper",
        _STATEMENT,
    ),
    "jax-privacy RDP": (
        lambda question: ask(accounting.RdpAccountantConfig, question),
        "upper",
        _STATEMENT,
    ),
}
