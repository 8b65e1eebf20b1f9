"""Guesses from names, types and docstrings how a callable is called, and on which data.

A proposal says everything that a scan assumes about a callable. `trials` tries proposals, and
`repairs` changes one after an exception.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

LOW, HIGH = 0.0, 10.0
"""Declared bounds of every number in the data."""

SENSITIVITY, DOMAIN = 1, 4
"""Sensitivity of the numbers that get noise, and size of the domain of local reports."""

DELTA = 1e-3  # if a callable requires a δ

EPSILONS = re.compile(
    r"(target_|total_|privacy_|dp_)?(epsilons?|eps|privacy_?budget|budget)(_(total|perm|1|2|inf))?"
)
DELTAS = re.compile(r"(target_|total_)?deltas?")
OTHERS = {"rho": "rho", "noise_multiplier": "mu", "sigma": "mu"}
"""Names of other budgets, with the claims that they make."""

SOURCES = ("random_state", "rng", "seed", "generator", "prng", "random_seed", "np_random")
"""Names of parameters for randomness, which keep their default."""

Relation = Literal["unknown", "replace", "add-remove", "any", "sensitivity", "one-by-one"]


class Parameter(NamedTuple):
    """A parameter of a callable."""

    name: str
    kind: str
    required: bool
    default: Any
    annotation: str
    doc: str  # its part of the docstring

    @property
    def budget(self) -> str:
        """The kind of budget that it names: "epsilon", "delta", "rho", "mu", or ""."""
        name = self.name.lower()
        if EPSILONS.fullmatch(name):
            return "epsilon"
        return "delta" if DELTAS.fullmatch(name) else OTHERS.get(name, "")

    @property
    def text(self) -> str:
        """Annotation and first line of the description."""
        return f"{self.annotation} {self.doc.partition(chr(10))[0]}".lower()


class Method(NamedTuple):
    """A method of a class."""

    name: str
    parameters: tuple[Parameter, ...]


class Target(NamedTuple):
    """A public callable of a package."""

    name: str  # dotted
    is_class: bool
    parameters: tuple[Parameter, ...]
    doc: str
    bases: tuple[str, ...] = ()
    abstract: bool = False
    methods: tuple[Method, ...] = ()

    @property
    def title(self) -> str:
        """The last part of its name."""
        return self.name.rpartition(".")[2]

    @property
    def budgets(self) -> list[str]:
        """Names of the parameters that are budgets: its own, else those of its methods."""
        own = [one.name for one in self.parameters if one.budget]
        if own or not self.is_class:
            return own
        return [p.name for method in self.methods for p in method.parameters if p.budget]

    @property
    def is_audited(self) -> bool:
        """True if a scan may call it: it has a budget, and can be made."""
        made = {"BaseException", "Enum", "Protocol"}
        return bool(self.budgets) and not (self.abstract or made & {*self.bases})


def target_of(description: Mapping[str, Any]) -> Target:
    """Read the description of a callable that the program in `programs` wrote."""
    doc = description["doc"]
    return Target(
        description["name"],
        description["kind"] == "class",
        _parameters(description["parameters"], doc),
        doc,
        tuple(description.get("bases", ())),
        bool(description.get("abstract")),
        tuple(
            Method(one["name"], _parameters(one["parameters"], one["doc"] + "\n" + doc))
            for one in description.get("methods", ())
        ),
    )


def _parameters(entries: Sequence[Mapping[str, Any]], doc: str) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(
            one["name"],
            one["kind"],
            "default" not in one and not one["kind"].startswith("VAR_"),
            one.get("default"),
            str(one.get("annotation", "")),
            described(one["name"], doc),
        )
        for one in entries
        if not one["kind"].startswith("VAR_")
    )


def described(name: str, doc: str) -> str:
    """Return what a docstring says of a parameter: NumPy's, Google's or Sphinx's style."""
    patterns = (
        rf"^{re.escape(name)} ?: ?(.*(?:\n+[ ]+.*)*)",
        rf"^ +{re.escape(name)} ?(?:\(.*?\))?: ?(.*(?:\n {{6,}}.*)*)",
        rf":param (?:\w+ )?{re.escape(name)}: ?(.*(?:\n[ ]+.*)*)",
    )
    for pattern in patterns:
        if match := re.search(pattern, doc, re.MULTILINE):
            return match.group(0 if "(" in match.group(0).partition(":")[0] else 1)
    return ""


# Data.


@dataclasses.dataclass(frozen=True)
class DataPlan:
    """The data of a callable: their form, examples, and their neighbours."""

    form: Literal["records", "record", "numbers"]
    """Records of a table; the one record of a user; or numbers that get noise."""
    inputs: Mapping[str, str]
    """Expressions in `data` by parameter."""
    table: tuple[Any, ...] = ()
    """Typical records; numbers have none."""
    schema: tuple[Mapping[str, Any], ...] = ()
    """The columns; or one entry with low, high and integer for numbers."""
    adjacency: Relation = "unknown"
    """Neighbours: a record is replaced or added, any two records, numbers that differ by at most
    the sensitivity (all of them, or one); "unknown" is the weakest reading."""
    length: int = 1
    """Number of numbers in the data."""
    assumed: tuple[str, ...] = ()
    """Sentences."""
    conditions: tuple[str, ...] = ()
    """Guesses on which a violation depends, each after "if"."""

    def cases(self) -> list[Any]:
        """Return some datasets for trial calls, from the first of which others differ."""
        if self.form == "numbers":
            low, high = self.schema[0]["low"], self.schema[0]["high"]
            return [[low] * self.length, [high] * self.length]
        if self.form == "record":
            other = [
                (column.get("categories") or [column.get("low"), column.get("high")])[-1]
                for column in self.schema
            ]
            first = self.table[0]
            return [first, other if isinstance(first, list) else other[0]]
        return [list(self.table), list(self.table[::-1])[1:] + list(self.table[:1]) * 2]


NUMBERS = (3.0, 5.0, 8.0, 2.0, 6.0, 4.0, 7.0, 1.0, 9.0, 5.0)
OTHER_NUMBERS = (1.0, 2.0, 2.0, 9.0, 3.0, 7.0, 8.0, 4.0, 6.0, 5.0)
LABELS = (0, 1, 0, 1, 1, 0, 0, 1, 0, 1)


def _column(name: str) -> dict[str, Any]:
    return {"name": name, "low": LOW, "high": HIGH}


def _array(expression: str = "data", kind: str = "float") -> str:
    return f"np.array({expression}, dtype={kind})"


# Neither a missing class nor one between two others: the conversion to whole numbers would raise.
CLASSES = {"name": "y", "categories": [0, 1, 2], "nan": False, "unknown_categories": False}
UNBOUNDED = f"it promises to take numbers from {LOW:g} to {HIGH:g}, without being told these bounds"
BOUNDED = f"Numbers in the data lie between {LOW:g} and {HIGH:g}, as is passed to the callable."


def _vector(name: str, expression: str = _array(), *, whole: bool = False) -> DataPlan:
    column = _column("x")
    if whole:  # the conversion of NaN and of infinities would raise
        column |= {"integer": True, "nan": False, "out_of_bounds": False}
    numbers = tuple(map(int, NUMBERS)) if whole else NUMBERS
    return DataPlan("records", {name: expression}, numbers, (column,))


def _matrix(name: str) -> DataPlan:
    rows = tuple(map(list, zip(NUMBERS, OTHER_NUMBERS, strict=True)))
    inputs = {name: _array() + ".reshape(-1, 2)"}
    return DataPlan("records", inputs, rows, (_column("x0"), _column("x1")))


def _two_vectors(first: str, second: str) -> DataPlan:
    matrix = _matrix(first)
    columns = {first: "row[0]", second: "row[1]"}
    inputs = {name: _array(f"[{of} for row in data]") for name, of in columns.items()}
    return dataclasses.replace(matrix, inputs=inputs)


def _labelled(x: str, y: str, *, classes: bool) -> DataPlan:
    """Return a plan of one feature: noise for many would hide what one record changes."""
    rows = tuple(map(list, zip(NUMBERS, LABELS if classes else OTHER_NUMBERS, strict=True)))
    inputs = {
        x: _array("[row[:-1] for row in data]") + ".reshape(-1, 1)",
        y: _array("[row[-1] for row in data]", "int" if classes else "float"),
    }
    return DataPlan("records", inputs, rows, (_column("x"), CLASSES if classes else _column("y")))


def _frame(name: str) -> DataPlan:
    rows = tuple(map(list, zip(NUMBERS, LABELS, strict=True)))
    schema = (_column("age"), {"name": "group", "categories": [0, 1, 2]})
    inputs = {name: "pd.DataFrame(data, columns=['age', 'group'])"}
    return DataPlan("records", inputs, rows, schema)


def _noised(name: str, kind: str, length: int = 1, adjacency: Relation = "sensitivity") -> DataPlan:
    entry = {"low": LOW, "high": HIGH, "integer": kind == "int"}
    several = f"[{kind}(x) for x in data]"
    expression = f"{kind}(data[0])" if length == 1 else several
    if length > 1 and adjacency == "one-by-one":
        expression = f"np.array({several})"
    about = "one of them" if adjacency == "one-by-one" else "each"
    text = f"Neighbours are numbers of which {about} differs by at most the sensitivity."
    if length == 1:
        text = "Neighbours are numbers that differ by at most the sensitivity."
    return DataPlan("numbers", {name: expression}, (), (entry,), adjacency, length, (text,))


LOCAL = "It randomises the value of one user: any two values of the domain are neighbours."

VALUES = range(1, DOMAIN)
"""Values that belong to a domain of this size, whether it starts at 0 or at 1. A value outside is
treated in another way, so a right callable would be accused."""


def _local(name: str, values: Sequence[Any]) -> DataPlan:
    schema = ({"name": name, "categories": list(values)},)
    return DataPlan("record", {name: "data"}, (values[0],), schema, "any", 1, (LOCAL,))


def _local_tuple(name: str, number: int) -> DataPlan:
    schema = tuple({"name": f"a{at}", "categories": list(VALUES)} for at in range(number))
    inputs = {name: "list(data)"}
    return DataPlan("record", inputs, ([VALUES[0]] * number,), schema, "any", 1, (LOCAL,))


def _local_number(name: str, low: float, high: float) -> DataPlan:
    schema = ({"name": name, "low": low, "high": high},)
    return DataPlan("record", {name: "float(data)"}, (low,), schema, "any", 1, (LOCAL,))


GUESSED_DOMAIN = "it is a local randomiser of such values"

LABEL_NAMES = {"y", "labels", "target", "targets", "array_y"}
MATRIX_NAMES = {"X", "samples", "features", "matrix", "points"}
VECTOR_NAMES = {
    *("x", "a", "array", "arr", "data", "values", "value_list", "dataset", "records", "column"),
    *("inputs", "series", "sequence", "vector", "vec", "input_data", "array_x", "xs", "entries"),
    *(
        "sample",
        "private_data",
        "raw_data",
        "database",
        "input_list",
        "data_list",
        "list_of_values",
    ),
}
FRAME_NAMES = {"df", "dataframe", "frame", "table", "pdf", "input_df", "real_data", "train_df"}
SCORE_NAMES = {"utility", "utilities", "scores", "qualities", "quality_scores", "utility_scores"}
VALUE_NAMES = {
    *("value", "item", "true_value", "true_answer", "answer", "val", "input_value", "bit", "v"),
    *("input", "count", "query_result", "true_count", "result", "user_value", "index", "obs"),
    *("input_data", "number", "response", "mean", "raw_value", "private_value"),
}
DOMAIN_NAMES = {
    *("k", "d", "domain_size", "n_categories", "num_categories", "alphabet_size", "domain", "m"),
    *("size_domain", "num_values", "n_values", "attr_domain_size", "categories_count"),
}
TUPLE_NAMES = {"input_tuple", "input_values", "record", "user_tuple", "tuple_of_values"}


NOISE_SETTING = re.compile(r"((l[12]|global|query|data|function|sum)_)?sensitivity|delta_f|l[12]")
"""Parameters for the sensitivity of a number. Others limit the contributions of a user."""


class Context(NamedTuple):
    """Facts on a target that decide which data it takes."""

    target: Target
    method: str
    names: frozenset[str]  # of all parameters, those of the constructor included

    @property
    def is_classifier(self) -> bool:
        title = self.target.title.lower()
        named = re.search(r"classif|bayes|nb$|logistic|forest|tree|svm|svc", title)
        return "ClassifierMixin" in self.target.bases or bool(named)

    @property
    def noisy(self) -> bool:
        """True if it is told a sensitivity."""
        return any(NOISE_SETTING.fullmatch(name) for name in self.names)

    @property
    def domain(self) -> bool:
        """True if it is told the size of a domain."""
        return bool(self.names & DOMAIN_NAMES)


def data_plans(parameters: Sequence[Parameter], context: Context) -> Iterator[DataPlan]:
    """Yield plans for the data among some parameters, the most likely first."""
    wanted = {one.name: one for one in parameters if not one.budget and one.name not in SOURCES}
    required = [name for name, one in wanted.items() if one.required and not _setting(name)]
    scores = [name for name in wanted if name.lower() in SCORE_NAMES]
    if scores:
        yield _noised(scores[0], "float", 4)
        return
    x = next((n for n in wanted if n in ("X", "x", "array_x", "data", "features", "X_train")), None)
    y = next((n for n in wanted if n.lower() in LABEL_NAMES or n == "y_train"), None)
    supervised = context.is_classifier or "RegressorMixin" in context.target.bases
    if x and y and (wanted[y].required or supervised):
        if x == "array_x":
            yield _two_vectors(x, y)
        yield _labelled(x, y, classes=context.is_classifier)
        yield _labelled(x, y, classes=not context.is_classifier)
        return
    for name in _by_likelihood(wanted, required):
        yield from _plans_for(wanted[name], context)


def _by_likelihood(wanted: Mapping[str, Parameter], required: Sequence[str]) -> list[str]:
    groups = (
        TUPLE_NAMES,
        FRAME_NAMES,
        MATRIX_NAMES,
        VECTOR_NAMES,
        VALUE_NAMES,
    )
    ordered = [name for group in groups for name in wanted if name in group]
    return list(dict.fromkeys([*ordered, *required]))[:2]


def _setting(name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern, _ in SETTINGS)


def _plans_for(one: Parameter, context: Context) -> Iterator[DataPlan]:
    name, text = one.name, one.text
    whole = bool(re.search(r"\bint(eger)?s?\b", text)) and "float" not in text
    arrays = bool(re.search(r"array|list|ndarray|sequence|iterable|series|tensor", text))
    frames = name in FRAME_NAMES or "frame" in text
    if (plan := _by_setting(name, context.names)) is not None:
        yield plan
    elif context.noisy:
        if not (arrays and name in VECTOR_NAMES - VALUE_NAMES - {"x"}):
            for kind in ("int", "float") if whole else ("float", "int"):
                yield _noised(name, kind)
        yield _noised(name, "float", 3, "one-by-one")
    elif context.domain and not (arrays or frames or name in MATRIX_NAMES):
        yield _local(name, VALUES)
    else:
        if frames:
            yield _frame(name)
        yield from _tables(one, context, whole=whole, arrays=arrays)
        if name in VALUE_NAMES or not arrays:
            yield from _guessed_values(name, boolean="bool" in text)
        if not frames:
            yield _frame(name)


def _by_setting(name: str, settings: frozenset[str]) -> DataPlan | None:
    """Return the plan that another parameter decides; None if there is no such parameter."""
    if name in TUPLE_NAMES or "lst_k" in settings:
        return _local_tuple(name, 2)
    domains = {"value0": ("0", "1"), "utility_list": ("a", "b", "c"), "hierarchy": tuple("abcd")}
    chosen = next((domains[one] for one in domains if one in settings), None)
    return None if chosen is None else _local(name, chosen)


def _tables(one: Parameter, context: Context, *, whole: bool, arrays: bool) -> Iterator[DataPlan]:
    # A function that flattens a matrix would see two records change, so it gets a vector first.
    name = one.name
    wide = name in MATRIX_NAMES or re.search(r"n_features|2-?d\b|, *d\)|matrix", one.text)
    if wide and context.method:
        yield _matrix(name)
        yield _vector(name)
    elif name in VECTOR_NAMES | MATRIX_NAMES or arrays:
        yield _vector(name, _array(kind="int" if whole else "float"), whole=whole)
        yield _vector(name, "list(data)")
        yield _vector(name, "[int(x) for x in data]", whole=True)
        yield _matrix(name)


def _guessed_values(name: str, *, boolean: bool) -> Iterator[DataPlan]:
    guesses = (
        *((_local(name, (False, True)),) if boolean else ()),
        _local(name, VALUES),
        _local(name, ("a", "b", "c")),
        _local_number(name, 0.0, 1.0),
    )
    for plan in guesses:
        yield dataclasses.replace(plan, conditions=(GUESSED_DOMAIN,))


# Settings: everything that is neither data nor budget.

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


# Proposals.


@dataclasses.dataclass(frozen=True)
class Proposal:
    """One way to call a callable, with everything that a scan assumes about it."""

    target: str
    """Dotted name of the callable."""
    arguments: Mapping[str, str]
    """Expressions by parameter, of a function or a constructor; data are in `data`."""
    claim: Mapping[str, float]
    """epsilon and delta, or rho, or mu."""
    data: DataPlan
    method: str = ""
    """Method of an object that takes the data; "" for a function."""
    of_method: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Further arguments of the method."""
    answer: tuple[str, ...] = ()
    """Attributes of the object that are released; none if the result of the call is."""
    in_constructor: bool = False
    """True if the constructor takes the data."""
    assumed: tuple[str, ...] = ()
    """Sentences about budgets and the claim."""
    option: str = ""
    """The option in which it differs from the defaults, for its name."""
    conditions: tuple[str, ...] = ()
    """Guesses about the claim on which a violation depends, each after "if"."""

    @property
    def sentences(self) -> list[str]:
        """Everything that is assumed, in sentences."""
        return [*self.assumed, *self.data.assumed]


class Claimed(NamedTuple):
    """Arguments for budgets, the claim that they make, and what was assumed."""

    arguments: dict[str, str]
    claim: dict[str, float]
    assumed: tuple[str, ...]
    conditions: tuple[str, ...]


def claim_of(budgets: Sequence[Parameter]) -> Claimed:
    """Choose budgets, and read the claim that they make."""
    arguments: dict[str, str] = {}
    claim: dict[str, float] = {}
    assumed: list[str] = []
    losses = [one for one in budgets if one.budget == "epsilon"]
    for number, one in enumerate(sorted(losses, key=lambda p: p.name.endswith(("1", "2")))):
        value = float(len(losses) - number)  # the larger one is of what lasts longer
        arguments[one.name] = f"{value}"
        claim["epsilon"] = claim.get("epsilon", 0.0) + value
    if len(losses) > 1:
        assumed.append(f"The claim is the sum of the {len(losses)} budgets.")
    for one in budgets:
        if one.budget == "delta":
            own = one.default if isinstance(one.default, float | int) else None
            if one.required or own is None:
                arguments[one.name], own = f"{DELTA}", DELTA
            claim["delta"] = float(own)
            claim.setdefault("epsilon", 0.0)
        elif one.budget in ("rho", "mu") and not losses:
            arguments[one.name] = "0.5" if one.budget == "rho" else "1.0"
            claim[one.budget] = float(arguments[one.name])
            if one.budget == "mu":
                text = f"{one.name} is the standard deviation of noise, divided by a sensitivity."
                assumed.append(text)
    guessed = ("its noise has this scale for one record",) if "mu" in claim else ()
    return Claimed(arguments, claim, (*assumed,), guessed)


def adjacency_of(doc: str) -> Relation:
    """Return the neighbours that a docstring names; "unknown" if it names none, or several."""
    adds = re.search(
        r"add(ing|ed|ition)?[ -]?(or|/|and)[ -]?remov|unbounded (dp|differ)", doc, re.I
    )
    replaces = re.search(
        r"replac(e|ing) (one|a|any)? ?(single )?(record|row|sample|entry|example)"
        r"|substitut(e|ing|ion of) (one|a|any)\b|\bbounded (dp|differential)",
        doc,
        re.I,
    )
    if bool(adds) == bool(replaces):
        return "unknown"
    return "add-remove" if adds else "replace"


METHODS = (
    *("randomise", "randomize", "privatise", "privatize", "perturb", "release", "add_noise"),
    *("quick_result", "obfuscate", "sanitize", "sanitise", "anonymize", "fit", "apply", "query"),
    *("compute", "run", "noisy", "encode", "generate", "transform", "sample", "fit_sample"),
    *("noise", "answer", "process", "report", "mechanism", "result", "__call__"),
)
"""Methods that make releases, the most likely first."""


def proposals(target: Target) -> Iterator[Proposal]:
    """Yield ways to call a callable, the most likely first."""
    if not target.is_class:
        yield from _of_function(target)
        return
    named = {one.name: one for one in target.methods}
    fitted = "fit" in named
    chosen = [
        named[name]
        for name in METHODS
        if name in named and not (fitted and name in ("transform", "sample", "generate"))
    ]
    similar = [
        one
        for one in target.methods
        if re.search(r"privati|randomi|perturb|noisy|release", one.name)
    ]
    for method in [*chosen, *(one for one in similar if one not in chosen)][:4]:
        yield from _of_method(target, method)


def _arguments(
    parameters: Sequence[Parameter], taken: Sequence[str], names: frozenset[str]
) -> dict[str, str]:
    """Return expressions for settings that are required, sensitivities, and public bounds.

    A default sensitivity may be smaller than that of the neighbours.
    """
    return {
        one.name: "2" if one.name == "d" and "lst_k" in names else expressions(one)[0]
        for one in parameters
        if not one.budget
        and one.name not in taken
        and one.name not in SOURCES
        and (
            one.required
            or NOISE_SETTING.fullmatch(one.name)
            or (PUBLIC.fullmatch(one.name) and one.default is None)
        )
    }


def _of_function(target: Target) -> Iterator[Proposal]:
    context = Context(target, "", frozenset(one.name for one in target.parameters))
    own = claim_of([one for one in target.parameters if one.budget])
    for plan in data_plans(target.parameters, context):
        arguments = own.arguments | _arguments(target.parameters, [*plan.inputs], context.names)
        more: Any = {"assumed": own.assumed, "conditions": own.conditions}
        yield _with_words(Proposal(target.name, arguments, own.claim, plan, **more), target)


def _of_method(target: Target, method: Method) -> Iterator[Proposal]:
    both = (*target.parameters, *method.parameters)
    context = Context(target, method.name, frozenset(one.name for one in both))
    own = claim_of([one for one in both if one.budget])
    in_constructor = any(one.name.lower() in SCORE_NAMES for one in target.parameters)
    parameters = target.parameters if in_constructor else method.parameters
    for plan in data_plans(parameters, context):
        taken = [*plan.inputs]
        made = _arguments(target.parameters, taken if in_constructor else (), context.names)
        called = _arguments(method.parameters, taken, context.names)
        for one in target.parameters:
            made |= {k: v for k, v in own.arguments.items() if k == one.name}
        for one in method.parameters:
            called |= {k: v for k, v in own.arguments.items() if k == one.name}
        yield _with_words(
            Proposal(
                target.name,
                made,
                own.claim,
                plan,
                method.name,
                called,
                in_constructor=in_constructor,
                assumed=own.assumed,
                conditions=own.conditions,
            ),
            target,
        )


def _with_words(proposal: Proposal, target: Target) -> Proposal:
    """Add neighbours and bounds, in sentences."""
    plan = proposal.data
    if plan.form != "records":
        return proposal
    relation = adjacency_of(target.doc)
    words = {
        "unknown": "Neighbours are not documented: a verdict holds whether ε is for adding, "
        "removing or replacing one record.",
        "replace": "Neighbours replace one record, as the documentation says.",
        "add-remove": "Neighbours add or remove one record, as the documentation says.",
    }
    bounded = any(BOUNDING.search(name) for name in (*proposal.arguments, *proposal.of_method))
    if bounded or not any("low" in column for column in plan.schema):
        plan = dataclasses.replace(plan, assumed=(words[relation], BOUNDED))
    else:
        plan = dataclasses.replace(
            plan, assumed=(words[relation],), conditions=(*plan.conditions, UNBOUNDED)
        )
    plan = dataclasses.replace(plan, adjacency=relation)
    return dataclasses.replace(proposal, data=plan)
