"""Plugins that break on their parameters or on a pair: mistakes in a spec."""

from __future__ import annotations

from support.faulty_plugins import FIRST, MISTAKE, of

SPEC = {
    "check refuses": of(
        "attack", MISTAKE, "attack 'bad': no way", check="raise ValueError('no way')"
    ),
    "check breaks": of(
        "attack", MISTAKE, r"attack 'bad': ZeroDivisionError.*bad_plugin\.py:\d+", check="1 / 0"
    ),
    "check exits": of("attack", MISTAKE, "attack 'bad': SystemExit", check="exit(1)"),
    "check cannot be told": of(
        "attack",
        MISTAKE,
        "attack 'bad': Odd",
        check="raise Odd",
        before="class Odd(ValueError):\n    def __str__(self): return 1 / 0",
    ),
    "resolve raises": of(
        "mechanism", MISTAKE, r"KeyError: 'x' \(bad_plugin\.py:\d+\)", resolve="raise KeyError('x')"
    ),
    "resolve returns nothing": of("mechanism", MISTAKE, "resolve returned None", resolve="pass"),
    "claim raises": of("mechanism", MISTAKE, r"ZeroDivisionError.*bad_plugin\.py", claim="1 / 0"),
    "claim is a number": of(
        "mechanism", MISTAKE, "claim returned 1.0, which is neither", claim="return 1.0"
    ),
    "claim of nonsense": of("mechanism", MISTAKE, "mechanism 'bad'", claim="return PureDP(-1.0)"),
    "a claim of one's own that breaks": of(
        "mechanism",
        MISTAKE,
        "mechanism 'bad'",
        claim="return Odd(1.0)",
        before=(
            "class Odd(PureDP):\n    @property\n    def default_delta(self): raise TypeError('odd')"
        ),
    ),
    "D raises": of(
        "pair",
        MISTAKE,
        r"pair 'bad'.*KeyError: 'd0' \(bad_plugin\.py:\d+\)",
        d0="raise KeyError('d0')",
    ),
    "distance raises": of("pair", MISTAKE, r"pair 'bad': far", distance="raise ValueError('far')"),
    "D and D′ are equal": of("pair", MISTAKE, "D and D′ are equal", d1="return np.zeros(1)"),
    "D and D′ are equal with NaN": of(
        "pair",
        MISTAKE,
        "D and D′ are equal",
        d0="return np.full(1, np.nan)",
        d1="return np.full(1, np.nan)",
    ),
    "D and D′ have different shapes": of(
        "pair", MISTAKE, r"pair 'bad'.*shape.*\(2,\)", d1="return np.ones(2)"
    ),
    "D and D′ have different types": of(
        "pair",
        MISTAKE,
        "pair 'bad': D is float64 of shape .* D′ is int64",
        d1="return np.ones(1, int)",
    ),
    "D is a text": of("pair", MISTAKE, "pair 'bad'", d0="return 'zero'", d1="return 'one'"),
    "a parameter that cannot be hashed after all": of(
        "attack",
        MISTAKE,
        "attack 'bad': .*cannot be hashed",
        FIRST["attack"] + "\nx: tuple = ()",
        params="x = [[1]]",
    ),
    "a parameter that cannot be written down": of(
        "attack",
        MISTAKE,
        "attack 'bad'",
        FIRST["attack"] + "\nx: Any = Odd()",
        before="class Odd:\n    def __hash__(self): return 1",
    ),
    "an instance that cannot be made": of(
        "attack", MISTAKE, r"attack\[1\].params: oh", __post_init__="raise ValueError('oh')"
    ),
    "an instance that cannot be hashed": of(
        "attack", MISTAKE, "attack 'bad'", __hash__="raise TypeError('no hash')"
    ),
}
