"""Makes records as a run would, from the closed forms of the mechanisms."""

import math

from scipy import special

from dpframe.results.model import CellRecord
from dpframe.results.store import dumps

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
DIMS = (1, 2, 8, 32, 64, 128)
LABELS = {
    "laplace": "laplace",
    "adept": "adept",
    "dptext": "DPText, NaN to zero",
    "laplace-halved": "laplace-halved",
    "copy-input": "copy-input",
    "random-output": "random-output",
}

SPEC = """schema = 1
[audit]
name = "{name}"
trials = {trials}
confidence = 0.95
multiplicity = "{multiplicity}"
"""


def rounds_to_one(use, epsilon, dim):
    """P(a coordinate rounds to 1), given D and given D′."""
    if use == "dptext":
        return 1 - 1e-12, 1.0
    if use == "copy-input":
        return 0.0, 1.0
    if use == "random-output":
        return 0.5, 0.5
    if use == "laplace":
        p0 = math.exp(-epsilon / (2 * dim)) / 2
    elif use == "adept":
        p0 = math.exp(-epsilon / 2) / 2
    else:  # laplace-halved: rounds to 1 when x + noise is above 1
        p0 = math.exp(-epsilon / dim) / 2
        return p0, 0.5
    return p0, 1 - p0


def decides(use, epsilon, dim):
    """P(the vote says D′), given D and given D′; a tie goes to D."""
    if use == "dptext":
        return 0.5**dim if dim < 60 else 0.0, 1.0
    return tuple(
        float(special.bdtrc(dim // 2, dim, p)) if 0 < p < 1 else p
        for p in rounds_to_one(use, epsilon, dim)
    )


def log_ratio(a, b):
    if a == 0 and b == 0:
        return 0.0
    if a == 0 or b == 0:
        return math.inf
    return abs(math.log(a / b))


def limits(count, trials, error):
    low = special.betaincinv(count, trials - count + 1, error) if count else 0.0
    high = special.betaincinv(count + 1, trials - count, 1 - error) if count < trials else 1.0
    return float(low), float(high)


def bounds(counts, trials, level):
    """Certified lower bound and the attack's upper limit, four limits at a quarter each."""
    (low0, high0), (low1, high1) = (limits(k, trials, level / 4) for k in counts)
    pairs = ((low1, high0), (low0, high1), (1 - high0, 1 - low1), (1 - high1, 1 - low0))
    lower = max(0.0, *(math.log(a / b) for a, b in pairs if a > 0))
    above = ((high1, low0), (high0, low1), (1 - low0, 1 - high1), (1 - low1, 1 - high0))
    upper = max(math.log(a / b) if b > 0 else math.inf for a, b in above)
    return lower, upper


def plain(value):
    """As strict JSON has it."""
    if value is None or math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def cell(use="laplace", epsilon=1.0, dim=1, *, trials=10_000_000, m=252, repeat=0, **changes):
    """One cell whose counts are the expected ones, moved by `shift` for repeats."""
    shift = changes.pop("shift", 0)
    counts = [
        min(max(round(p * trials) + sign * shift, 0), trials)
        for p, sign in zip(decides(use, epsilon, dim), (1, -1), strict=True)
    ]
    p0, p1 = (k / trials for k in counts)
    value = max(log_ratio(p1, p0), log_ratio(1 - p1, 1 - p0))
    lower, upper = bounds(counts, trials, 0.05 / m)
    verdict = "violated" if lower > epsilon else "consistent"
    return {
        "id": f"{use}-{epsilon}-{dim}-{repeat}",
        "status": "ok",
        "repeat": repeat,
        "seed": 1234,
        "mechanism": {
            "use": use,
            "label": LABELS[use],
            "params": {"epsilon": epsilon, "sensitivity": float(dim)},
        },
        "pair": {"use": "zeros-ones", "params": {"dim": dim}},
        "attack": {"use": "majority-vote", "label": "majority-vote", "params": {}},
        "estimator": {"use": "precision", "label": "precision", "params": {}},
        "swept": {"mechanism.epsilon": epsilon, "pair.dim": dim},
        "claim": pure_claim(epsilon),
        "trials": [trials, trials],
        "counts": [[trials - counts[0], counts[0]], [trials - counts[1], counts[1]]],
        "statistic": {},
        "estimate": {
            "epsilon": plain(value),
            "epsilon_lower": lower,
            "epsilon_upper": plain(upper),
            "epsilon_upper_of": "every event" if math.isfinite(upper) else None,
            "delta": 0.0,
            "confidence": 1 - 0.05 / m,
            "certified": True,
            "assumption": "i.i.d. draws",
            "tradeoff": [],
            "profile": [],
            "notes": [],
        },
        "verdict": verdict,
        "p_value": 1e-300 if verdict == "violated" else 1.0,
        "p_adjusted": 1e-298 if verdict == "violated" else 1.0,
        "reason": "",
        "expected": verdict,
        "seconds": 0.1,
        "draws": 2 * trials,
        "draw_group": f"{use}-{dim}",
        "looks": [],
    } | changes


def pure_claim(epsilon):
    return {"kind": "pure-dp", "epsilon": epsilon, "delta": 0.0, "parameters": {}}


def failed_cell(reason="CellError: outputs have shape (4,), expected (1,)", **place):
    return cell(**place) | {
        "status": "failed",
        "counts": None,
        "estimate": None,
        "verdict": None,
        "p_value": None,
        "p_adjusted": None,
        "reason": reason,
    }


def estimate_only(**place):
    """A cell whose estimator does not certify."""
    found = cell(**place)
    nothing = dict.fromkeys(("epsilon_lower", "epsilon_upper", "epsilon_upper_of"))
    found["estimate"] |= {**nothing, "certified": False}
    return found | {"verdict": None, "p_value": None, "p_adjusted": None, "expected": None}


def typed(found):
    """A cell as a record that was read has it."""
    return CellRecord.model_validate_json(dumps(found))


def record(cells, *, m=None, multiplicity="holm", skipped=(), name="dptext", seconds=41.23):
    verdicts = [c["verdict"] for c in cells]
    return {
        "schema": 1,
        "audit": {"name": name, "confidence": 0.95, "multiplicity": multiplicity, "looks": 1},
        "spec": {
            "path": f"specs/{name}.toml",
            "sha256": "0" * 64,
            "text": SPEC.format(name=name, trials=10_000_000, multiplicity=multiplicity),
            "overrides": [],
        },
        "environment": {
            **dict.fromkeys(("dpframe", "jax", "numpy", "scipy", "python", "platform"), "1.0"),
            "devices": ["cpu"],
            "prng": "default",
        },
        "seed": 1234,
        "plugins": [],
        "cells": list(cells),
        "skipped": list(skipped),
        "summary": {
            "m": sum(v is not None for v in verdicts) if m is None else m,
            "violated": verdicts.count("violated"),
            "consistent": verdicts.count("consistent"),
            "inconclusive": verdicts.count("inconclusive"),
            "failed": sum(c["status"] == "failed" for c in cells),
            "seconds": seconds,
            "draws": 36 * 2 * 10_000_000,
            "peak_rss_bytes": 5 * 10**8,
        },
        "digest": "sha256:0",
    }


def figure_2():
    """The whole of Figure 2: 252 cells."""
    return record([cell(u, e, d) for u in LABELS for e in EPSILONS for d in DIMS])
