"""Values of settings: the parameters of a callable that are neither data nor budgets."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from dpframe_scan.callables import Parameter

LOW, HIGH = 0.0, 10.0
"""Declared bounds of every number in the data."""

SENSITIVITY, DOMAIN = 1, 4
"""Sensitivity of the numbers that get noise, and size of the domain of local reports."""

SOURCES = ("random_state", "rng", "seed", "generator", "prng", "random_seed", "np_random")
"""Names of parameters for randomness, which keep their default."""

Role = Literal["bounds", "lower", "upper", "noise", "size", "public", ""]
"""Bounds of all numbers, or one of them; the sensitivity of numbers that get noise; a size, which
its documentation can explain; a choice on which no claim depends; or anything else."""


class Setting(NamedTuple):
    """Expressions for parameters whose whole names match a pattern, the most likely first."""

    pattern: str
    role: Role
    values: tuple[str, ...]


PAIR, PAIRS, LISTED = f"({LOW}, {HIGH})", f"[({LOW}, {HIGH})] * 2", f"[{LOW}, {HIGH}]"

SETTINGS = (
    Setting(
        r"bounds?(_x|_X)?|clip(ping)?_(bounds|range)|domain_bounds",
        "bounds",
        (PAIR, LISTED, PAIRS),
    ),
    Setting(r"bounds_y", "bounds", (PAIR,)),
    Setting(r"range|value_range|data_range", "bounds", (PAIR, PAIRS, LISTED)),
    Setting(
        r"data_norm|norm|max_norm|clip(ping)?(_norm)?|l2_norm(_clip)?|max_grad_norm",
        "bounds",
        ("15.0",),
    ),
    Setting(
        r"lower(_bound)?|low|min(_value|_val|imum)?|lower_limit|a_min|lo",
        "lower",
        (f"{LOW}", f"{LOW:.0f}"),
    ),
    Setting(
        r"upper(_bound)?|high|max(_value|_val|imum)?|upper_limit|a_max|hi",
        "upper",
        (f"{HIGH}", f"{HIGH:.0f}"),
    ),
    Setting(
        r"((l[12]|global|query|data|function|sum)_)?sensitivity|delta_f",
        "noise",
        (f"{SENSITIVITY}.0", f"{SENSITIVITY}"),
    ),
    Setting(r".*sensitivity", "size", (f"{SENSITIVITY}.0", f"{SENSITIVITY}")),
    Setting(r"lst_k", "size", (f"[{DOMAIN}, {DOMAIN}]",)),
    Setting(r"lst_b", "size", ("[2, 2]",)),
    Setting(r"d_bits|b", "size", ("1", "2")),
    Setting(r"n_attributes|num_attributes", "size", ("2",)),
    Setting(
        r"k|domain_size|n_categories|num_categories|alphabet_size|size_domain|num_values|n_values",
        "size",
        (f"{DOMAIN}",),
    ),
    Setting(r"d|m", "size", (f"{DOMAIN}", "2")),
    Setting(r"g", "size", ("2",)),
    Setting(
        r"categories|candidates|domain|alphabet|possible_values",
        "size",
        (f"list(range({DOMAIN}))",),
    ),
    Setting(r"value0", "size", ("'0'",)),
    Setting(r"value1", "size", ("'1'",)),
    Setting(r"utility_list", "size", ("[('a', 'b', 1.0), ('a', 'c', 1.0), ('b', 'c', 1.0)]",)),
    Setting(r"hierarchy", "size", ("[['a', 'b'], ['c', 'd']]",)),
    Setting(r"dims?|dimension|n_features|num_features|width", "size", ("2",)),
    Setting(r"n_components|n_estimators|n_neighbors", "size", ("1",)),
    Setting(r"n_clusters|max_depth", "size", ("2",)),
    Setting(r"(start|min)\w*_len(gth)?", "size", ("1",)),
    Setting(r"\w+_len(gth)?|l|w", "size", ("2",)),
    Setting(r"bins|n_bins|num_bins", "public", ("4",)),
    Setting(r"classes", "public", ("[0, 1, 2]",)),
    Setting(r"quant|quantile", "public", ("0.5",)),
    Setting(r"percent|percentile", "public", ("50",)),
    Setting(r"monotonic|monotone", "public", ("False",)),
    Setting(r"columns|column_names|names|features", "public", ("['age', 'group']",)),
    Setting(r"dtype", "public", ("float",)),
    Setting(r"n_iter|max_iter|iterations|epochs|rounds|num_steps", "", ("2",)),
    Setting(r"threshold|tresh|cutoff", "", ("5.0",)),
    Setting(
        r"alpha|gamma|beta|p|prob|probability|rate|sample_rate|sampling_rate|f"
        r"|q|fraction|proportion|share",
        "",
        ("0.5",),
    ),
    Setting(r"n|size|count|length|num_records|n_records|dataset_size|n_samples", "", ("10",)),
    Setting(r"function|func|score_function|quality_function|query", "", ("lambda x: x",)),
    Setting(
        r"hash_(funcs|functions|family)",
        "",
        (
            "[lambda x: int(x) % 2, lambda x: int(x) // 2 % 2]",
            "[(lambda x: int(x) % 2, lambda x: int(x) // 2 % 2)] * 8",
        ),
    ),
)

DOMAIN_NAMES = {
    *("k", "d", "domain_size", "n_categories", "num_categories", "alphabet_size", "domain", "m"),
    *("size_domain", "num_values", "n_values", "attr_domain_size", "categories_count"),
}
"""Parameters that may be the size of a domain of local reports."""

DOMAIN_WORDS = re.compile(
    r"domain|categor|alphabet|possible|distinct|cardinal|universe|vocabular|label"
    r"|number of (values|items|options|classes)|hierarch|utilit",
    re.I,
)
"""Words with which the documentation of a parameter says that it is about a domain."""

PUBLIC = re.compile(
    r"bounds?(_x|_X|_y)?|range|data_norm|classes|lower(_bound)?|upper(_bound)?|low|high|norm"
)
"""Optional parameters without which callables read bounds from the data."""


def setting_of(name: str) -> Setting | None:
    """Return the entry for a parameter of this name."""
    return next((one for one in SETTINGS if re.fullmatch(one.pattern, name)), None)


def role_of(name: str) -> Role:
    """Return the role of a parameter of this name."""
    found = setting_of(name)
    return "" if found is None else found.role


def is_passed(one: Parameter) -> bool:
    """True if an argument is given for a setting: otherwise it keeps its default.

    A default sensitivity may be smaller than that of the neighbours. A default bound may contradict
    the other bound, and without bounds callables read them from the data.
    """
    public = bool(PUBLIC.fullmatch(one.name))
    number = isinstance(one.default, int | float) and not isinstance(one.default, bool)
    role = role_of(one.name)
    return (
        one.required
        or role == "noise"
        or (public and (one.default is None or (number and role in ("lower", "upper"))))
    )


def expressions(one: Parameter) -> list[str]:
    """Return expressions for a setting, the most likely first."""
    known = setting_of(one.name)
    found = [] if known is None else [*known.values]
    text = one.text
    if choice := documented_choice(one):
        found.insert(0, choice)
    if not found:
        guesses = (("bool", "False"), ("int", "2"), ("float", "1.0"), (r"str\b|string\b", "'a'"))
        found = [value for kind, value in guesses if re.search(rf"\b{kind}", text)]
        found += ["1", "1.0", "[0, 1]", "lambda x: x"]
    if "int" in text and "float" not in text:
        found.sort(key=lambda value: not value.lstrip("-").isdigit())
    return list(dict.fromkeys(found))


def documented_choice(one: Parameter) -> str:
    """Return the first text that the documentation allows, quoted; "" if it lists none."""
    choice = re.search(r"\{ *(['\"][\w-]+['\"])", one.text)
    return choice.group(1) if choice else ""
