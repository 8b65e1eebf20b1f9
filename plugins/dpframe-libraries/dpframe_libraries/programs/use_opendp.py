"""Releases by OpenDP 0.12 and later, and releases that versions before 0.6 have too.

Releases that the library defines for numbers within bounds get such numbers: missing values become
the lower bound, and all values are clipped. The library itself cleans groups.
"""

from __future__ import annotations

import functools
import json
import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # after all libraries

from library_tables import codes, number, numbers, records

try:
    import opendp.prelude as dp
except ImportError:  # another API
    dp = None
    import opendp_before_0_6
else:
    dp.enable_features("contrib")

REPLACED = 2
"""One record replaced, in OpenDP's symmetric distance."""
AT_ONCE = 64
"""Releases of one number per call: a call costs more than a draw."""


def prepare(params, data):
    """Return a function that makes one release of `params["release"]`."""
    if dp is None:
        return opendp_before_0_6.prepare(params, data)
    return RELEASES[params["release"]](params, data)


def _floats(nan):
    """Return the domain of floats; older releases call NaN null, but also clean it."""
    try:
        return dp.atom_domain(T=float, nan=nan)
    except TypeError:
        return dp.atom_domain(T=float, nullable=nan)


def _in_streams(draw):
    """Return one release per call from a function that makes many at once."""
    waiting = []

    def release():
        if not waiting:
            waiting.extend(draw())
        return waiting.pop()

    return release


def _clamped_sum(params, data):
    kind = int if params["whole"] else float
    total = sum(kind(x) for x in numbers({**params, "clean": True}, data))
    low, high = params["bounds"][0]
    return kind, total, kind(high - low)


def _noise(metric, make, measure):
    def of(params, data):
        kind, total, change = _clamped_sum(params, data)
        atom = dp.atom_domain(T=int) if kind is int else _floats(nan=False)
        space = dp.vector_domain(atom), metric(kind)
        scale = measure(params, float(change))
        measurement = make(*space, scale)
        return _in_streams(lambda: measurement([total] * AT_ONCE))

    return of


def _bit(params, data):
    truth = codes({**params, "clean": True}, data)[0] == 1
    measurement = dp.m.make_randomized_response_bool(params["probability"])
    return lambda: measurement(truth)


def _category(params, data):
    categories = list(params["categories"])
    truth = categories[codes({**params, "clean": True}, data)[0]]
    measurement = dp.m.make_randomized_response(categories, params["probability"])
    return lambda: measurement(truth)


def _bits(params, data):
    """Return RAPPOR's first half: the category's bit is set, and a coin flips every bit."""
    size = len(params["categories"])
    truth = bytearray((size + 7) // 8)
    at = codes(params, data)[0]
    if at < size:
        truth[at // 8] |= 1 << at % 8
    measurement = dp.m.make_randomized_response_bitvec(
        dp.bitvector_domain(max_weight=1), dp.discrete_distance(), params["flip"]
    )
    return lambda: measurement(bytes(truth))


def _noisy_max(params, data):
    found = codes({**params, "clean": True}, data)
    counts = [found.count(at) for at in range(len(params["categories"]))]
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    scale = 2.0 / params["epsilon"]  # a replaced record moves each count by up to one
    measurement = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale)
    return lambda: measurement(counts)


def _quantile(params, data):
    low, high = params["bounds"][0]
    table = numbers({**params, "clean": True}, data)
    candidates = [low + (high - low) * step / 10 for step in range(11)]
    domain = dp.vector_domain(_floats(nan=False), size=len(table))

    def at(scale):
        return dp.m.make_private_quantile(
            domain,
            dp.symmetric_distance(),
            dp.max_divergence(),
            candidates=candidates,
            alpha=params["quant"],
            scale=scale,
        )

    measurement = at(at(1.0).map(REPLACED) / params["epsilon"])
    return lambda: measurement(table)


def _group_by(params, data):
    """Return the sums of a column by group, with the groups fixed in advance."""
    import polars as pl

    categories = list(params["categories"])
    rows = [row for row in records(data) if row[0] in categories]
    frame = pl.LazyFrame(
        {"group": [row[0] for row in rows], "value": [number(row[1]) for row in rows]},
        schema={"group": _group_type(pl, categories), "value": pl.Float64},
    )
    measurement = _group_sums(json.dumps(params, sort_keys=True))

    def release():
        return measurement(frame).collect().sort("group")["sum"].to_list()

    return release


def _group_type(pl, categories):
    return pl.String if isinstance(categories[0], str) else pl.Int64


@functools.lru_cache(maxsize=None)
def _group_sums(text):
    """Return the measurement; making it takes seconds, but it does not depend on the data."""
    import polars as pl

    params = json.loads(text)
    low, high = params["bounds"][0]
    types = {"group": _group_type(pl, params["categories"]), "value": pl.Float64}
    first = params["categories"][0]
    some = pl.LazyFrame({"group": [first], "value": [low]}, schema=types)
    keys = pl.LazyFrame({"group": params["categories"]}, schema={"group": types["group"]})
    context = dp.Context.compositor(
        data=some,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=params["epsilon"]),
        split_evenly_over=1,
        margins=_margins(params["most"]),
    )
    value = pl.col("value").fill_nan(low).fill_null(low).dp.sum((low, high)).alias("sum")
    return context.query().group_by("group").agg(value).with_keys(keys).resolve()


def _margins(most):
    """Return margins that limit a group's size; library releases differ."""
    for name in ("max_length", "max_partition_length"):
        try:
            return [dp.polars.Margin(by=["group"], **{name: most})]
        except TypeError:
            continue
    return {("group",): dp.polars.Margin(max_partition_length=most)}


RELEASES = {
    "laplace": _noise(
        lambda kind: dp.l1_distance(T=kind),
        lambda *space: dp.m.make_laplace(*space[:2], scale=space[2]),
        lambda params, change: change / params["epsilon"],
    ),
    "gaussian": _noise(
        lambda kind: dp.l2_distance(T=kind),
        lambda *space: dp.m.make_gaussian(*space[:2], scale=space[2]),
        lambda params, change: change / (2 * params["rho"]) ** 0.5,
    ),
    "bit": _bit,
    "category": _category,
    "bits": _bits,
    "noisy-max": _noisy_max,
    "quantile": _quantile,
    "group-by": _group_by,
}
