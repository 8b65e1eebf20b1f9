"""Built-in pairs: a table with one edit, written values, and zeros against ones."""

import functools
import math
from typing import Annotated, Any, ClassVar, NewType

import numpy as np
from pydantic import BeforeValidator, WithJsonSchema

from dpframe.builtin.pairs import table as tables
from dpframe.builtin.pairs.forms import formed
from dpframe.builtin.pairs.plain import arrays, frozen, of_frame, read, thawed, written
from dpframe.builtin.pairs.table import Edit, Form, Rows, Table
from dpframe.plugins import Ge, HostArray, Pair, ParameterError, SpecFile

Content = NewType("Content", object)
"""Records: single values, lists, or tables by column; or a table of columns."""

Change = NewType("Change", object)
"""`{ replace = 3, by = […] }`, `{ remove = 3 }` or `{ add = […] }`."""

TABLE = {"anyOf": [{"type": "array"}, {"type": "object"}]}

GivenTable = Annotated[Content, BeforeValidator(read), WithJsonSchema(TABLE)]
GivenEdit = Annotated[Change, BeforeValidator(tables.edit), WithJsonSchema({"type": "object"})]


class Records(Pair, name="records"):
    """A table of records as D, and D′ with one of them replaced, removed or added.

    The table is written in the spec or in a file beside it: .csv, .npy, .npz or .parquet. The edit
    determines the relation of D and D′.
    """

    parameters_say_all: ClassVar[bool] = False  # a file may change

    table: GivenTable | None = None
    """The records, each a value, a list of values or a table by column; or a table of columns."""
    file: SpecFile | None = None
    """A file with the records instead, relative to the spec."""
    columns: tuple[str, ...] = ()
    """Names of the columns; default: those of the table or its file, else c0, c1, …."""
    edit: GivenEdit
    """The edit that turns D into D′: `replace` with `by`, `remove`, or `add`, optionally with `at`.
    Positions count from 0, or from −1 at the end."""
    user: str | None = None
    """A column that identifies the user of a record; the edit then covers all records of one
    user."""
    form: Form = "auto"
    """The form that the mechanism gets: "array", floats; "integers", an array of whole numbers if
    all are; "rows", a list of lists; "dicts", a list of dicts; "columns", a dict of lists;
    "arrays", a dict of arrays; "frame", a pandas frame; "xy", X and the last column, y; "record",
    the only record itself. Default: an array if all cells are numbers, else dicts or rows, as the
    table is written."""
    types: tuple[str, ...] = ()
    """Types of the columns in arrays and frames, as NumPy and pandas call them, such as "float32"
    or `category["a", "b"]`; "", or a type that cannot hold the cells: inferred from the cells."""
    description: str = ""
    """A description of the pair, in a few words."""

    def __init__(
        self,
        *,
        edit: Any,
        table: Any = None,
        file: Any = None,
        columns: Any = (),
        user: str | None = None,
        form: Form = "auto",
        types: Any = (),
        description: str = "",
    ) -> None:
        """Take a Python table: a list, an array, a dict of columns, a pandas frame."""
        fields = {
            "table": None if table is None else frozen(_columns_of(table)),
            "file": SpecFile(file)
            if isinstance(file, str) and not isinstance(file, SpecFile)
            else file,
            "columns": tuple(columns),
            "edit": tables.edit(edit),
            "user": user,
            "form": form,
            "types": tuple(types),
            "description": description,
        }
        for field, value in fields.items():
            object.__setattr__(self, field, value)

    def check(self) -> None:
        if (self.table is None) == (self.file is None):
            raise ParameterError("table", "give the table as `table` or in a `file`, not both")
        where = "file" if self.file is not None else "table"
        try:
            self._table  # noqa: B018  # read here, so that a mistake is reported with its place
        except ValueError as error:
            raise ParameterError(where, str(error)) from None
        try:
            self._both  # noqa: B018
        except ValueError as error:
            raise ParameterError("edit", str(error)) from None
        try:
            self._formed()
        except ValueError as error:
            raise ParameterError("form", str(error)) from None

    # Python compares 1, 1.0 and True as equal, and 0.0 and −0.0; as data they differ.

    @functools.cached_property
    def _text(self) -> str:
        mine = (self.table, self.columns, self.edit, self.user, self.form, self.description)
        return repr((*mine, self.types, self.file and (str(self.file), str(self.file.folder))))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Records) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def params(self) -> dict[str, Any]:
        given: Any = self.edit
        found = {
            "table": None if self.table is None else written(self.table),
            "file": self.file and str(self.file),
            "columns": list(self.columns) or None,
            "edit": given.params(),
            "user": self.user,
            "form": None if self.form == "auto" else self.form,
            "types": list(self.types) or None,
            "description": self.description or None,
        }
        return {name: value for name, value in found.items() if value is not None}

    @property
    def adjacency(self) -> str:
        """The relation of D and D′, which follows from the edit."""
        given: Any = self.edit
        what = "one record" if self.user is None else "all records of one user"
        return f"replace {what}" if given.kind == "replace" else f"add or remove {what}"

    @property
    def d0(self) -> Any:
        return self._formed()[0]

    @property
    def d1(self) -> Any:
        return self._formed()[1]

    def _formed(self) -> tuple[Any, Any]:
        return formed(self._table, self._both, self._table.form(self.form))

    @property
    def rows(self) -> tuple[Rows, Rows]:
        """The records of D and of D′, cell by cell."""
        return self._both

    @functools.cached_property
    def _table(self) -> Table:
        if self.file is not None:
            found = tables.read_table(self.file, self.columns)
        else:
            found = tables.table(self.table, self.columns)
        if self.types and len(self.types) != len(found.names):
            raise ValueError(f"has {len(found.names)} columns, and {len(self.types)} types")
        return found._replace(types=self.types)

    @functools.cached_property
    def _both(self) -> tuple[Rows, Rows]:
        given: Any = self.edit
        return self._table.rows, tables.edited(self._table, given, self.user)


def made_of_rows(
    of: Table, new: Rows, change: Edit, user: str | None, form: Form, description: str
) -> Records:
    """Make a pair from tables that were read and edited before.

    `of` is D, `new` has the records of D′, and `change` is the edit between them, with records as
    tuples of cells; `user` is the column that names the user of a record.
    """
    # An array of one axis is written as single values.
    flat = of.flat or (len(of.names) == 1 and not of.lists and form in ("array", "integers"))
    flat = flat and user is None
    if flat and change.kind != "remove":
        change = change._replace(by=change.by[0])
    fields = {
        "table": tuple(row[0] for row in of.rows) if flat else of.rows,
        "file": None,
        "columns": of.names,
        "edit": change,
        "user": user,
        "form": form,
        "types": of.types,
        "description": description,
        "_table": of._replace(named=False, flat=flat, lists=not flat),
        "_both": (of.rows, new),
    }
    made = object.__new__(Records)
    for field, value in fields.items():
        object.__setattr__(made, field, value)
    return made


def _columns_of(given: Any) -> Any:
    """Return a table of pandas or NumPy by its columns, anything else unchanged."""
    if hasattr(given, "columns") and hasattr(given, "to_dict"):
        return of_frame(given)
    names = getattr(getattr(given, "dtype", None), "names", None)
    return given if names is None else {name: given[name] for name in names}


ANYTHING = {
    "anyOf": [{"type": kind} for kind in ("number", "boolean", "string", "array", "object")]
}

Given = Annotated[Content, BeforeValidator(read), WithJsonSchema(ANYTHING)]


class Values(Pair, name="values"):
    """D and D′ as written: numbers, texts, lists and tables.

    If all of D and D′ are numbers, in lists of equal lengths to any depth, a mechanism gets
    arrays: of floats if one number has a point, `inf` or `nan` in it, else of integers; or of
    booleans. D and D′ may differ in shape. A black box gets all other values as Python has them:
    texts, lists of unequal lengths, booleans beside numbers, tables as dicts, and
    `{ missing = true }` as None. Nothing checks that D and D′ are neighbours.
    """

    parameters_say_all: ClassVar[bool] = True
    spec_names: ClassVar[dict[str, str]] = {"before": "d0", "after": "d1"}

    before: Given
    """The dataset D: a number, a text, a table, or nested lists of these."""
    after: Given
    """The dataset D′, like D; it may have another size."""
    adjacency: str = "as given"
    """The relation under which they are neighbours, in words."""
    description: str = ""
    """Their difference in a few words, for reports."""

    def __init__(
        self, *, d0: Any, d1: Any, adjacency: str = "as given", description: str = ""
    ) -> None:
        """Take numbers, texts, None, bytes, nested lists or tuples, dicts, or arrays of NumPy."""
        for field, value in (("before", frozen(d0)), ("after", frozen(d1))):
            object.__setattr__(self, field, value)
        object.__setattr__(self, "adjacency", adjacency)
        object.__setattr__(self, "description", description)

    # Python compares 1, 1.0 and True as equal, and 0.0 and −0.0; as data they differ.

    @functools.cached_property
    def _text(self) -> str:
        return repr((self.before, self.after, self.adjacency, self.description))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def params(self) -> dict[str, Any]:
        # pydantic would write inf and NaN as null.
        told = {"description": self.description} if self.description else {}
        return {
            "d0": written(self.before),
            "d1": written(self.after),
            "adjacency": self.adjacency,
            **told,
        }

    @property
    def d0(self) -> Any:
        return self._data[0]

    @property
    def d1(self) -> Any:
        return self._data[1]

    @property
    def _data(self) -> tuple[Any, ...]:
        found = arrays(self.before, self.after)
        return (thawed(self.before), thawed(self.after)) if found is None else found


class ZerosOnes(Pair, name="zeros-ones"):
    """D = (0, …, 0) and D′ = (1, …, 1): one person's record, replaced [Habernal2022, section 4].

    The l1 distance is dim: the two are as far apart as records in [0, 1]^dim can be.
    """

    adjacency: ClassVar[str] = "replace one record"
    parameters_say_all: ClassVar[bool] = True

    dim: Annotated[int, Ge(1)] = 1
    """Number of coordinates."""

    # Views of one number: a million coordinates take no memory before a draw.

    @property
    def d0(self) -> HostArray:
        return np.broadcast_to(np.float32(0), self.dim)

    @property
    def d1(self) -> HostArray:
        return np.broadcast_to(np.float32(1), self.dim)

    def distance(self, p: float) -> float:
        return 1.0 if p == math.inf else math.sqrt(self.dim) if p == 2 else self.dim ** (1 / p)
