"""OpenDP: the privacy maps of its measurements. They do not cover sampling."""

import importlib.metadata

import opendp.prelude as dp

dp.enable_features("contrib", "floating-point", "honest-but-curious")


def measures(question):
    far = 2 if question["relation"] == "replace" else 1
    makers = {
        "gaussian": (dp.m.make_gaussian, float),
        "laplace": (dp.m.make_laplace, float),
        "discrete-gaussian": (dp.m.make_gaussian, int),
        "discrete-laplace": (dp.m.make_laplace, int),
    }
    pure, concentrated = 0.0, []
    for step in question["steps"]:
        if step["sampling"] != "none" or step["noise"] not in makers:
            raise NotImplementedError("no measurement for this step")
        make, kind = makers[step["noise"]]
        domain = dp.atom_domain(T=float, nan=False) if kind is float else dp.atom_domain(T=int)
        one = make(domain, dp.absolute_distance(T=kind), step["scale"])
        loss = one.map(kind(far))
        if "laplace" in step["noise"]:
            pure += step["count"] * loss
            one = dp.c.make_pureDP_to_zCDP(one)
            loss = one.map(kind(far))
        else:
            pure = float("inf")
        concentrated.append(step["count"] * loss)
    # ρ adds up; the conversion is OpenDP's own, of a measurement with that ρ.
    total = dp.m.make_user_measurement(
        dp.atom_domain(T=float, nan=False),
        dp.absolute_distance(T=float),
        dp.zero_concentrated_divergence(),
        lambda value: value,
        lambda distance: sum(concentrated),
    )
    profile = dp.c.make_zCDP_to_approxDP(total).map(1.0)
    return [min(pure, profile.epsilon(delta)) for delta in question["deltas"]]


VERSION = importlib.metadata.version("opendp")
ACCOUNTANTS = {
    "OpenDP measures": (measures, "upper", "all neighbours, by their distance; no sample"),
}
