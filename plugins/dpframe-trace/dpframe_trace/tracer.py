"""The tracer for `assert_dp(…, trace=True)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpframe.plugins import Claim, hookimpl


def trace_release(
    release: Callable[..., Any], data: Mapping[str, Any], claim: Claim
) -> Sequence[str]:
    """Trace a release and return its findings.

    Args:
        release: called as `release(data)`, or as `release(rng, data)`.
        data: d0 and d1, or table and the further arguments of `trace_table`.
        claim: the claim, compared at the δ at which it says most.
    """
    from dpframe_trace.tracing import trace, trace_table

    delta = min(claim.telling_deltas, default=0.0)
    terms: dict[str, Any] = {"epsilon": claim.epsilon_at(delta), "delta": delta}
    if "table" in data:
        found = trace_table(release, data["table"], **terms, **_without(data, "table"))
    else:
        found = trace(release, data["d0"], data["d1"], **terms)
    pairs = (f"; on the pair: {each.pair}" if each.pair else "" for each in found.findings)
    return [f"{each.kind}: {each}{pair}" for each, pair in zip(found.findings, pairs, strict=True)]


def _without(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key != name}


@hookimpl
def dpframe_tracers() -> Sequence[Callable[..., Sequence[str]]]:
    """Return the tracer of this plugin."""
    return [trace_release]
