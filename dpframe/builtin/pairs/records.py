"""A table, and one edit of it."""

from __future__ import annotations

import functools
from typing import Annotated, Any, ClassVar, NewType

from pydantic import BeforeValidator, WithJsonSchema

from dpframe import Pair, ParameterError, SpecFile
from dpframe.builtin.pairs._edit import Edit, edit, edited
from dpframe.builtin.pairs._files import read_table
from dpframe.builtin.pairs._plain import frozen, of_frame, read, written
from dpframe.builtin.pairs._table import Form, Rows, Table, formed, table

Content = NewType("Content", object)
"""Records: single values, lists, or tables by column; or a table of columns."""

Change = NewType("Change", object)
"""`{ replace = 3, by = […] }`, `{ remove = 3 }` or `{ add = […] }`."""

TABLE = {"anyOf": [{"type": "array"}, {"type": "object"}]}

GivenTable = Annotated[Content, BeforeValidator(read), WithJsonSchema(TABLE)]
GivenEdit = Annotated[Change, BeforeValidator(edit), WithJsonSchema({"type": "object"})]


class Records(Pair, name="records"):
    """A table of records as D, and D′ with one of them replaced, removed or added.

    The table is written in the spec or lies in a file beside it: .csv, .npy, .npz or .parquet.
    Under which relation they are neighbours follows from the edit.
    """

    parameters_say_all: ClassVar[bool] = False  # a file may change

    table: GivenTable | None = None
    """The records, each a value, a list of values or a table by column; or a table of columns."""
    file: SpecFile | None = None
    """A file that holds them instead, relative to the spec."""
    columns: tuple[str, ...] = ()
    """Names of the columns; default: those of the table or its file, else c0, c1, …."""
    edit: GivenEdit
    """What makes D′ of D: replace, by; remove; or add, and where (`at`). Records are counted from
    0, or from the end from −1."""
    user: str | None = None
    """A column that says whose a record is: the edit is then of all records of one user."""
    form: Form = "auto"
    """What the mechanism is given: "array", floats; "integers", an array of whole numbers while all
    are; "rows", a list of lists; "dicts", a list of dicts; "columns", a dict of lists; "arrays", a
    dict of arrays; "frame", of pandas; "xy", X and the last column, y; "record", the only record
    alone. Default: an array where all is numbers, else dicts or rows, as the table is written."""
    description: str = ""
    """What is told of the pair, in a few words."""

    def __init__(
        self,
        *,
        edit: Any,
        table: Any = None,
        file: Any = None,
        columns: Any = (),
        user: str | None = None,
        form: Form = "auto",
        description: str = "",
    ) -> None:
        """Takes a table of Python: a list, an array, a dict of columns, a frame of pandas."""
        fields = {
            "table": None if table is None else frozen(_columns_of(table)),
            "file": SpecFile(file)
            if isinstance(file, str) and not isinstance(file, SpecFile)
            else file,
            "columns": tuple(columns),
            "edit": _edit(edit),
            "user": user,
            "form": form,
            "description": description,
        }
        for field, value in fields.items():
            object.__setattr__(self, field, value)

    def check(self) -> None:
        if (self.table is None) == (self.file is None):
            raise ParameterError("table", "a table is written as `table`, or lies in a `file`")
        where = "file" if self.file is not None else "table"
        try:
            self._table  # noqa: B018  # it is read here, where mistakes have a place
        except ValueError as error:
            raise ParameterError(where, str(error)) from None
        try:
            self._both  # noqa: B018
        except ValueError as error:
            raise ParameterError("edit", str(error)) from None
        try:
            formed(self._table, self._both, self._table.form(self.form))
        except ValueError as error:
            raise ParameterError("form", str(error)) from None

    # Python takes 1, 1.0 and True for equal, and 0.0 and −0.0; as data they are not.

    @functools.cached_property
    def _text(self) -> str:
        mine = (self.table, self.columns, self.edit, self.user, self.form, self.description)
        return repr((*mine, self.file and (str(self.file), str(self.file.folder))))

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
            "description": self.description or None,
        }
        return {name: value for name, value in found.items() if value is not None}

    @property
    def adjacency(self) -> str:
        """Follows from the edit."""
        given: Any = self.edit
        what = "one record" if self.user is None else "all records of one user"
        return f"replace {what}" if given.kind == "replace" else f"add or remove {what}"

    @property
    def d0(self) -> Any:
        return formed(self._table, self._both, self._table.form(self.form))[0]

    @property
    def d1(self) -> Any:
        return formed(self._table, self._both, self._table.form(self.form))[1]

    @property
    def rows(self) -> tuple[Rows, Rows]:
        """The records of D and of D′, cell by cell."""
        return self._both

    @functools.cached_property
    def _table(self) -> Table:
        if self.file is not None:
            return read_table(self.file, self.columns)
        return table(self.table, self.columns)

    @functools.cached_property
    def _both(self) -> tuple[Rows, Rows]:
        given: Any = self.edit
        return self._table.rows, edited(self._table, given, self.user)


_edit = edit  # a parameter is called so too


def made_of_rows(
    of: Table, new: Rows, change: Edit, user: str | None, form: Form, description: str
) -> Records:
    """A pair of records that are cells already: nothing is read or edited again.

    Args:
        of: D.
        new: the records of D′.
        change: the edit that made them, of rows.
        user: the column that says whose a record is.
        form: what the mechanism is given.
        description: what is told of the pair.
    """
    if of.flat and change.kind != "remove":
        change = change._replace(by=change.by[0])
    fields = {
        "table": tuple(row[0] for row in of.rows) if of.flat else of.rows,
        "file": None,
        "columns": of.names,
        "edit": change,
        "user": user,
        "form": form,
        "description": description,
        "_table": of._replace(named=False),
        "_both": (of.rows, new),
    }
    made = object.__new__(Records)
    for field, value in fields.items():
        object.__setattr__(made, field, value)
    return made


def _columns_of(given: Any) -> Any:
    """A table of pandas or NumPy by its columns; anything else as it is."""
    if hasattr(given, "columns") and hasattr(given, "to_dict"):
        return of_frame(given)
    names = getattr(getattr(given, "dtype", None), "names", None)
    return given if names is None else {name: given[name] for name in names}
