"""Plugins that break while an audit runs: failed cells. Black boxes have a list of their own."""

from __future__ import annotations

from support.faulty_plugins import FAILED, FINE, SKIPPED, counting, of

RAISING = {
    "mechanism": ("may_be_nan", "rows", "truth"),
    "attack": ("learns", "unsuited"),
    "estimator": ("statistic", "extreme", "certifies_against"),
}
"""Methods, and properties, that are all told in the same way."""
IN_COUNTS = ("bind", "zero", "describe")
"""The same, of the statistic of an estimator."""


def raising(method: str) -> dict[str, str]:
    """A method that raises; `learns` is only asked for where there is something to learn."""
    more = {"fit": "return ()"} if method == "learns" else {}
    return {method: "raise ValueError('no')", **more}


RUNNING = {
    **{
        f"{method} raises": of(
            kind,
            FAILED,
            rf"{method} raised ValueError: no \(bad_plugin\.py:\d+\)",
            **raising(method),
        )
        for kind, methods in RAISING.items()
        for method in methods
    },
    **{
        f"{method} raises": counting(FAILED, f"{method} raised ValueError: no", **raising(method))
        for method in IN_COUNTS
    },
    "sample raises": of(
        "mechanism",
        FAILED,
        r"sample raised ZeroDivisionError: .* \(bad_plugin\.py:\d+\)",
        sample="1 / 0",
    ),
    "sample exits": of("mechanism", FAILED, "sample raised SystemExit", sample="exit(0)"),
    "sample returns a list": of(
        "mechanism", FAILED, "sample returned list", sample="return [0.0] * n"
    ),
    "sample returns too few": of(
        "mechanism",
        FAILED,
        "the first axis must be n",
        sample="return jax.random.normal(key, (3, 1))",
    ),
    "sample returns NaN": of(
        "mechanism", FAILED, "sample returned NaN", sample="return jnp.full((n, 1), jnp.nan)"
    ),
    "sample ignores its key": of(
        "mechanism",
        FAILED,
        "same outputs under different keys",
        sample="return data + np.random.default_rng(0).normal(size=(n, 1))",
    ),
    "sample branches on a value": of(
        "mechanism",
        FAILED,
        "jax.numpy.where instead of if",
        sample="return data if data.sum() > 0 else -data",
    ),
    "release raises": of(
        "mechanism",
        FAILED,
        r"raised ValueError: no \(bad_plugin",
        sample="",
        release="raise ValueError('no')",
    ),
    "may_be_nan is an array": of(
        "mechanism", FAILED, "may_be_nan", may_be_nan="return np.zeros(3)"
    ),
    "rows is negative": of("mechanism", FAILED, "rows is -1", rows="return -1"),
    "truth is a number": of("mechanism", FAILED, "truth returned 7", truth="return 7"),
    "score raises": of(
        "attack",
        FAILED,
        r"score raised ValueError: no \(bad_plugin\.py:\d+\)",
        score="raise ValueError('no')",
    ),
    "score returns nothing": of("attack", FAILED, "score returned", score="pass"),
    "score returns whole numbers": of(
        "attack", FAILED, "score returned int32", score="return jnp.zeros(len(outputs), jnp.int32)"
    ),
    "score returns a table": of(
        "attack", FAILED, "score returned shape", score="return outputs > 0"
    ),
    "score is not what was declared": of(
        "attack", FAILED, "the attack declares gives = 'decision'", score="return outputs[:, 0]"
    ),
    "score compares rows": of(
        "attack", FAILED, "every row independently", score="return outputs[:, 0] > outputs.mean()"
    ),
    "fit raises": of("attack", FAILED, "fit raised IndexError", fit="return [][0]"),
    "fit learns a text": of("attack", FAILED, "fit", fit="return {'a': 'text'}"),
    "unsuited with a reason": of(
        "attack", SKIPPED, "bad: not for me", unsuited="return 'not for me'"
    ),
    "unsuited for no reason": of("attack", FAILED, "unsuited returned 7", unsuited="return 7"),
    "statistic is none": of("estimator", FAILED, "statistic returned None", statistic="pass"),
    "a statistic that cannot be hashed": counting(
        FAILED, "statistic.*hash", decorated="@dataclasses.dataclass"
    ),
    "a statistic that accepts nothing": counting(FAILED, "accepts", first=""),
    "a statistic that accepts a text": counting(FAILED, "accepts", first='accepts = "decision"'),
    "bind fixes a text": counting(FAILED, "bind", bind="return 'x'"),
    "zero is nothing": counting(FAILED, "zero", zero="return ()"),
    "zero is not whole": counting(FAILED, "zero.*float32", zero="return jnp.zeros((2, 2))"),
    "zero knows no dataset": counting(
        FAILED, "zero.*first axis", zero="return jnp.zeros((3, 2), jnp.int32)"
    ),
    "update raises": counting(FAILED, "raised", update="raise ValueError('late')"),
    "update changes the shape": counting(
        FAILED, r"update returned int32\[1, 2\], not", update="return counts[:1]"
    ),
    "describe has escapes": counting(
        FINE, "", describe=r"return {'\x1b[2J': float('nan'), 'x': {1, 2}}"
    ),
    "estimate raises": of(
        "estimator",
        FAILED,
        r"estimate raised ZeroDivisionError.*bad_plugin\.py:\d+",
        estimate="1 / 0",
    ),
    "estimate is a number": of("estimator", FAILED, "return an Estimate", estimate="return 1.0"),
    "a bound that is a text": of(
        "estimator", FAILED, "epsilon_lower", estimate="return Estimate(1.0, epsilon_lower='x')"
    ),
    "a bound that is infinite": of(
        "estimator",
        FAILED,
        "gave the bound inf",
        estimate="return Estimate(1.0, epsilon_lower=math.inf, p_value=0.5, p_resolved=0.5)",
    ),
    "a limit of what nobody knows": of(
        "estimator",
        FAILED,
        "epsilon_upper_of",
        estimate="return Estimate(1.0, 0.5, 2.0, 'everything', p_value=0.5, p_resolved=0.5)",
    ),
    "no p-value": of(
        "estimator", FAILED, "p_value", estimate="return Estimate(1.0, epsilon_lower=0.5)"
    ),
    "a p-value above one": of(
        "estimator",
        FAILED,
        "p_value",
        estimate="return Estimate(1.0, epsilon_lower=0.5, p_value=2.0, p_resolved=2.0)",
    ),
    "no extreme": of("estimator", FAILED, "extreme", extreme=""),
}
