"""Values of settings: the parameters of a callable that are neither data nor budgets."""

from __future__ import annotations

import re

from dpframe_scan.callables import Parameter

LOW, HIGH = 0.0, 10.0
"""Declared bounds of every number in the data."""

SENSITIVITY, DOMAIN = 1, 4
"""Sensitivity of the numbers that get noise, and size of the domain of local reports."""
SOURCES = ("random_state", "rng", "seed", "generator", "prng", "random_seed", "np_random")
"""Names of parameters for randomness, which keep their default."""

DOMAIN_NAMES = {
    *("k", "d", "domain_size", "n_categories", "num_categories", "alphabet_size", "domain", "m"),
    *("size_domain", "num_values", "n_values", "attr_domain_size", "categories_count"),
}

NOISE_SETTING = re.compile(r"((l[12]|global|query|data|function|sum)_)?sensitivity|delta_f|l[12]")
"""Parameters for the sensitivity of a number. Others limit the contributions of a user."""

SETTINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        r"bounds?(_x|_X)?|clip(ping)?_(bounds|range)|domain_bounds",
        (
            f"({LOW}, {HIGH})",
            f"[{LOW}, {HIGH}]",
            f"[({LOW}, {HIGH})] * 2",
        ),
    ),
    (r"bounds_y", (f"({LOW}, {HIGH})",)),
    (
        r"range|value_range|data_range",
        (
            f"({LOW}, {HIGH})",
            f"[({LOW}, {HIGH})] * 2",
            f"[{LOW}, {HIGH}]",
        ),
    ),
    (r"lower(_bound)?|low|min(_value|_val|imum)?|lower_limit|a_min|lo", (f"{LOW}", f"{LOW:.0f}")),
    (
        r"upper(_bound)?|high|max(_value|_val|imum)?|upper_limit|a_max|hi",
        (f"{HIGH}", f"{HIGH:.0f}"),
    ),
    (r".*sensitivity|delta_f", (f"{SENSITIVITY}.0", f"{SENSITIVITY}")),
    (r"data_norm|norm|max_norm|clip(ping)?(_norm)?|l2_norm(_clip)?|max_grad_norm", ("15.0",)),
    (r"bins|n_bins|num_bins", ("4",)),
    (r"lst_k", (f"[{DOMAIN}, {DOMAIN}]",)),
    (r"lst_b", ("[2, 2]",)),
    (r"d_bits|b", ("1", "2")),
    (r"n_attributes|num_attributes", ("2",)),
    (
        r"k|domain_size|n_categories|num_categories|alphabet_size|size_domain|num_values|n_values",
        (f"{DOMAIN}",),
    ),
    (r"d|m", (f"{DOMAIN}", "2")),
    (r"g", ("2",)),
    (r"categories|candidates|domain|alphabet|possible_values", (f"list(range({DOMAIN}))",)),
    (r"classes", ("[0, 1, 2]",)),
    (r"value0", ("'0'",)),
    (r"value1", ("'1'",)),
    (r"utility_list", ("[('a', 'b', 1.0), ('a', 'c', 1.0), ('b', 'c', 1.0)]",)),
    (r"hierarchy", ("[['a', 'b'], ['c', 'd']]",)),
    (r"quant|quantile|q|fraction|proportion|share", ("0.5",)),
    (r"percent|percentile", ("50",)),
    (r"n_components|n_estimators|n_neighbors", ("1",)),
    (r"n_clusters|max_depth|n_iter|max_iter|iterations|epochs|rounds|num_steps", ("2",)),
    (r"threshold|tresh|cutoff", ("5.0",)),
    (r"alpha|gamma|beta|p|prob|probability|rate|sample_rate|sampling_rate|f", ("0.5",)),
    (r"n|size|count|length|num_records|n_records|dataset_size|n_samples", ("10",)),
    (r"dims?|dimension|n_features|num_features|width", ("2",)),
    (r"monotonic|monotone", ("False",)),
    (r"columns|column_names|names|features", ("['age', 'group']",)),
    (r"dtype", ("float",)),
    (r"function|func|score_function|quality_function|query", ("lambda x: x",)),
)
"""Expressions by the whole name of a parameter, the most likely first."""

PUBLIC = re.compile(
    r"bounds?(_x|_X|_y)?|range|data_norm|classes|lower(_bound)?|upper(_bound)?|low|high|norm"
)
"""Optional parameters without which callables read bounds from the data."""


BOUNDING = re.compile(
    r"bound|range|clip|norm"
    r"|^(lower|upper|low|high|min|max|lo|hi)(_(?!iter|depth|leaf|feat|sample|step|epoch)|$)"
)
"""Parameters that tell a callable in which bounds its data lie."""


def expressions(one: Parameter, *, whole: bool = False) -> list[str]:
    """Return expressions for a setting, the most likely first."""
    found: list[str] = []
    for pattern, values in SETTINGS:
        if re.fullmatch(pattern, one.name):
            found += values
    text = one.text
    if choice := re.search(r"\{ *(['\"][\w-]+['\"])", text):
        found.insert(0, choice.group(1))
    if not found:
        guesses = (("bool", "False"), ("int", "2"), ("float", "1.0"), ("str", "'a'"))
        found = [value for kind, value in guesses if kind in text] or ["1", "1.0"]
    if whole or ("int" in text and "float" not in text):
        found.sort(key=lambda value: not value.lstrip("-").isdigit())
    return list(dict.fromkeys(found))


def is_setting(name: str) -> bool:
    """True if a parameter of this name is a setting."""
    return any(re.fullmatch(pattern, name) for pattern, _ in SETTINGS)
