"""Data for a callable: their form, examples and neighbours, guessed from names and types."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from dpframe_scan.callables import Parameter, Target
from dpframe_scan.settings import DOMAIN, DOMAIN_NAMES, HIGH, LOW, SOURCES, role_of, setting_of

Relation = Literal["unknown", "replace", "add-remove", "any", "sensitivity", "one-by-one"]


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
TUPLE_NAMES = {"input_tuple", "input_values", "record", "user_tuple", "tuple_of_values"}


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
        return any(role_of(name) == "noise" for name in self.names)

    @property
    def domain(self) -> bool:
        """True if it is told the size of a domain."""
        return bool(self.names & DOMAIN_NAMES)


def data_plans(parameters: Sequence[Parameter], context: Context) -> Iterator[DataPlan]:
    """Yield plans for the data among some parameters, the most likely first."""
    wanted = {one.name: one for one in parameters if not one.budget and one.name not in SOURCES}
    required = [name for name, one in wanted.items() if one.required and setting_of(name) is None]
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
    if boolean:
        yield _local(name, (False, True))
    if "str" in name:
        yield _local(name, ("01", "10", "11"))
    yield _local(name, VALUES)
    yield _local(name, ("a", "b", "c"))
    yield _local_number(name, 0.0, 1.0)
