"""Tables of a user's own schema: their columns, and the owners of their rows."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, NoReturn

from dpframe.plugins import ParameterError
from dpframe_pipelines.programs import queries

Row = tuple[Any, ...]
Rows = dict[str, tuple[Row, ...]]
"""Rows by table."""

User = str | Mapping[str, str | Sequence[str] | None]
"""The owning column of all tables, or of each one, perhaps with the column that it links to."""

Kind = Literal["user", "category", "number", "identifier", "link", "other"]

MOST_ROWS = 240
"""Rows of the given tables that audits use; whole users are left out beyond."""

MOST_PUBLIC = 2000
"""Rows of a table without users."""

MOST_CATEGORIES = 64
"""Distinct values of a column from which its values are no categories."""

MANY_ROWS = 40
"""Number of rows of a user with many rows."""

FEW = 12
"""Number of distinct values from which a unique column may identify rows."""

SERIAL = re.compile(r"(^|_)(id|key|uuid)$", re.IGNORECASE)


class OwnColumn(NamedTuple):
    """A column as it was read from the rows, or as the user describes it."""

    name: str
    kind: Kind
    type: str
    """INTEGER, REAL, TEXT, BOOLEAN, DATE or TIMESTAMP."""
    values: tuple[Any, ...]
    """Distinct values."""
    low: float = 0.0
    high: float = 0.0
    missing: bool = False
    """True if some cells are missing."""
    bounded: bool = False
    """True if the user has given low and high."""

    def __str__(self) -> str:
        text = {
            "category": f"{len(self.values)} categories",
            "number": f"{self.low:g} to {self.high:g}{'' if self.bounded else ', as its rows'}",
        }.get(self.kind, self.kind)
        return f"{self.name} {self.type} ({text}{', some missing' if self.missing else ''})"

    def understood(self) -> dict[str, Any]:
        """Return the column as plain values, with its categories or bounds."""
        found: dict[str, Any] = {"kind": self.kind, "type": self.type}
        if self.kind == "category":
            found["categories"] = list(self.values)
        elif self.kind == "number":
            found |= {"low": self.low, "high": self.high, "bounds": "given"}
            found |= {} if self.bounded else {"bounds": "of the rows"}
        return found | ({"missing": True} if self.missing else {})


class Owner(NamedTuple):
    """The column of a table that tells whose a row is."""

    column: str | None = None
    """None if the rows are public."""
    parent: str | None = None
    """The table whose rows own them; None if users do."""
    key: str | None = None
    """The column of the parent that has the same values."""


class OwnTable(NamedTuple):
    """A table with its columns and rows."""

    name: str
    columns: tuple[OwnColumn, ...]
    rows: tuple[Row, ...]
    owner: int | None
    """Place of the column that tells whose a row is; None if the rows are public."""
    parent: str | None = None
    """The table whose rows own the rows of this one; None if users own them."""
    key: str | None = None
    """The column of the parent whose values the owning column has."""
    one: bool = False
    """True if every user, or every row of the parent, owns one row."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    def __str__(self) -> str:
        if self.owner is None:
            whose = "public"
        else:
            by = self.names[self.owner]
            by += f" = {self.parent}.{self.key}" if self.key not in (None, by) else ""
            whose = f"rows of {self.parent or 'users'} by {by}{', one of each' * self.one}"
        return f"{self.name}: {whose}; {', '.join(map(str, self.columns))}"


def rows_of(given: Any) -> tuple[list[str], list[Row]]:
    """Return names and rows of a table: a list of dicts, a dict of columns, or a frame.

    Raises:
        ValueError: it is none of these.
    """
    if hasattr(given, "collect") and not isinstance(given, Mapping):
        given = given.collect()
    if hasattr(given, "to_dicts"):  # of Polars
        return list(given.columns), [tuple(row) for row in given.rows()]
    if hasattr(given, "itertuples"):  # of pandas
        return [str(one) for one in given.columns], list(given.itertuples(index=False, name=None))
    if isinstance(given, Mapping):
        return [str(one) for one in given], list(zip(*given.values(), strict=True))
    rows = list(given)
    if not all(isinstance(row, Mapping) for row in rows):
        raise ValueError("a table is a list of dicts, a dict of columns, or a frame")
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    return names, [tuple(row.get(name) for name in names) for row in rows]


def plain_table(given: Any) -> dict[str, Any]:
    """Return a table as plain values: columns, types and rows."""
    names, rows = rows_of(given)
    columns = [[_cell(cell) for cell in column] for column in zip(*rows, strict=True)]
    types = [_type(column) for column in columns] or ["TEXT"] * len(names)
    for at, column in enumerate(columns):
        if types[at] in ("DATE", "TIMESTAMP"):
            columns[at] = [None if one is None else one.isoformat() for one in column]
        elif types[at] == "TEXT":
            columns[at] = [one if one is None else str(one) for one in column]
    rows = list(zip(*columns, strict=True))
    return {"columns": names, "types": types, "rows": [list(row) for row in rows]}


class TypedTables(dict[str, Any]):
    """Tables, lists of dicts, with the types of their columns."""

    types: dict[str, dict[str, str]]


def tables_of(data: Any) -> Any:
    """Return the tables of a dataset as engines get them."""
    tables = queries.table_of(data)
    if "tables" in data:
        tables = TypedTables(tables)
        tables.types = {
            name: dict(zip(one["columns"], one["types"], strict=True))
            for name, one in data["tables"].items()
        }
    return tables


def _cell(cell: Any) -> Any:
    if cell is None or str(cell) in ("nan", "<NA>", "NaT"):
        return None
    if isinstance(cell, decimal.Decimal):
        return float(cell)
    if hasattr(cell, "to_pydatetime"):
        return cell.to_pydatetime()
    return cell.item() if hasattr(cell, "item") else cell


def _type(cells: Sequence[Any]) -> str:
    kinds = {type(cell) for cell in cells if cell is not None}
    for name, known in (
        ("BOOLEAN", {bool}),
        ("INTEGER", {int}),
        ("REAL", {int, float}),
        ("DATE", {datetime.date}),
        ("TIMESTAMP", {datetime.datetime}),
    ):
        if kinds and kinds <= known:
            return name
    return "TEXT"


class OwnTables:
    """The tables of a user, with those who own their rows.

    Args:
        tables: by name, each with `columns`, `types` and `rows`.
        user: the column that identifies users; or one for each table, `None` for public rows; or
            a column that a table shares with another one whose rows users own; or that column and
            the one of the other table, such as `("order_id", "orders.id")`.
        columns: what is known of columns: by table, then by column, `categories`, or `low` and
            `high`.
        replace: True if a user is replaced, not added or removed.
        rows_per_user: most rows of a user in each table.
        beyond: True if numbers may lie out of bounds.
        equal: pairs of columns, each with its table, that queries join; they link tables.
    """

    def __init__(
        self,
        tables: Mapping[str, Mapping[str, Any]],
        user: User,
        columns: Mapping[str, Mapping[str, Mapping[str, Any]]],
        *,
        equal: Iterable[tuple[tuple[str, str], tuple[str, str]]] = (),
        replace: bool = False,
        rows_per_user: int | None = None,
        beyond: bool = True,
    ) -> None:
        if not tables:
            raise ParameterError("tables", "is empty")
        self._given, self._user, self._known = tables, user, columns
        self.replace, self.beyond = replace, beyond
        self.many = min(MANY_ROWS, rows_per_user or MANY_ROWS)
        self.rows_per_user = rows_per_user
        for name, known in columns.items():
            if name not in tables or (lost := [c for c in known if c not in self._names(name)]):
                what = (
                    f"no column {lost[0]!r} of {name}" if name in tables else f"no table {name!r}"
                )
                raise ParameterError("columns", f"{what}; there are {self._listed()}")
        self._equal = [*self._resolved(equal)]
        owners = self._owners()
        self._links = {(one.parent, one.key) for one in owners.values() if one.parent}
        self.tables = {name: self._table(name, owners[name]) for name in self._in_order(owners)}
        self._drop_users()

    def _names(self, table: str) -> list[str]:
        return list(self._given[table]["columns"])

    def _listed(self) -> str:
        return "; ".join(f"{name} ({', '.join(self._names(name))})" for name in self._given)

    def _column(self, table: str, column: str) -> list[Any]:
        at = self._names(table).index(column)
        return [row[at] for row in self._given[table]["rows"]]

    def _resolved(self, equal: Iterable[Any]) -> Iterator[tuple[str, str, str, str]]:
        """Yield equalities in both directions: column, and column of another table."""
        for pair in equal:
            sides = [
                [
                    (t, c)
                    for t in self._given
                    for c in self._names(t)
                    if c.lower() == column.lower() and table.lower() in (t.lower(), "")
                ]
                for table, column in pair
            ]
            if list(map(len, sides)) == [1, 1] and sides[0][0][0] != sides[1][0][0]:
                yield (*sides[0][0], *sides[1][0])
                yield (*sides[1][0], *sides[0][0])

    def _stated(self, given: Mapping[str, Any]) -> tuple[dict[str, str | None], dict[str, Owner]]:
        """Return the stated column of each table, and the links that name another table's too."""
        if lost := [name for name in given if name not in self._given]:
            raise ParameterError("user", f"no table {lost[0]!r}; there are {self._listed()}")
        named: dict[str, str | None] = dict.fromkeys(self._given)
        links: dict[str, Owner] = {}
        for table, one in given.items():
            column, *other = (one,) if isinstance(one, str | None) else map(str, one)
            if column is not None and column not in self._names(table):
                raise ParameterError("user", f"{table} has no column {column!r}")
            if not other:
                named[table] = column
                continue
            parent, _, key = other[0].rpartition(".")
            if (
                len(other) > 1
                or parent == table
                or (parent not in self._given or key not in self._names(parent))
            ):
                raise ParameterError(
                    "user",
                    f"{one!r} should be a column of {table} and one of another table: "
                    f'("order_id", "orders.id"); there are {self._listed()}',
                )
            links[table] = Owner(column, parent, key)
        # A query may say where the keys are that the stated column of a table has.
        for table, column, parent, key in self._equal:
            known = named[parent] is not None or parent in links
            own = column == named[table] and key not in (column, named[parent])
            if own and known and self._is_key(parent, key):
                links[table] = Owner(column, parent, key)
        return {t: None if t in links else c for t, c in named.items()}, links

    def _owners(self) -> dict[str, Owner]:
        """Return the owner of the rows of each table."""
        given = self._user if isinstance(self._user, Mapping) else {}
        named, links = self._stated(given)
        if isinstance(self._user, str):
            named = {t: self._user if self._user in self._names(t) else None for t in named}
        if not any(named.values()):
            raise ParameterError(
                "user", f"no table has a column {self._user!r}; there are {self._listed()}"
            )
        # A column of a mapping may also name the owner of another table's rows.
        parents = {t: self._parents(t, named) for t in named}
        for table in given:
            parents[table] = [o for o in parents[table] if table not in parents[o]]
        first = next((t for t in named if named[t] and not parents[t]), None)
        if first is None:
            raise ParameterError("user", f"no table has users of its own: {given}")
        own = [t for t, c in named.items() if c == named[first] and not parents[t]]
        ids = {one for t in own for one in self._column(t, str(named[first]))} - {None}
        owners = {t: self._owner(t, c, parents[t], ids) for t, c in named.items()} | links
        for table in given:
            if (one := owners[table]).column and one.parent is None and table not in own:
                self._check_users(table, str(one.column), ids)
        more: dict[str, Owner | None] = {}
        while any(more.values()) or not more:
            public = [t for t in owners if owners[t].column is None and t not in given]
            more = {t: self._joined(t, owners) for t in public}
            if not any(more.values()):
                more = {t: self._link(t, owners) for t in public} or {"": None}
            owners |= {table: one for table, one in more.items() if one is not None}
        return {table: self._of_users(table, owners) for table in owners}

    def _check_users(self, table: str, column: str, ids: set[Any]) -> None:
        """Raise ParameterError if a stated column has values, but those of no user."""
        cells = {*self._column(table, column)} - {None}
        if cells and ids and not cells & ids:
            raise ParameterError(
                "user",
                f"{table}.{column} has no value that users have. If it links the rows of {table} "
                f"to those of another table, name its column too: {{{table!r}: ({column!r}, "
                "'TABLE.COLUMN')}",
            )

    def _of_users(self, table: str, owners: Mapping[str, Owner]) -> Owner:
        """Return the owner of a table's rows; users, if it links to the column of users."""
        own = owners[table]
        if own.parent is None:
            return own
        above, seen = own, {table}
        while above.parent is not None:
            if above.parent in seen or owners[above.parent].column is None:
                raise ParameterError(
                    "user", f"{table} links its rows to {above.parent}, whose rows no user owns"
                )
            seen.add(above.parent)
            above = owners[above.parent]
        assert own.parent is not None
        if owners[own.parent].column == own.key:
            return self._of_users(own.parent, owners)._replace(column=own.column)
        if not self._is_key(own.parent, own.key):
            raise ParameterError(
                "user",
                f"{table} links its rows to {own.parent}.{own.key}, which has a value twice, so "
                "it does not tell whose they are",
            )
        return own

    def _joined(self, table: str, owners: Mapping[str, Owner]) -> Owner | None:
        """Return the owner of a table's rows by the joins of queries, if they tell one.

        Raises:
            ParameterError: they tell several, or the rows may be public.
        """
        found: dict[Owner, None] = {}
        for own, column, parent, key in self._equal:
            is_user = owners[parent].parent is None and owners[parent].column == key
            unique = self._is_key(parent, key), self._is_key(table, column)
            if own != table or owners[parent].column is None or not (is_user or unique[0]):
                continue
            if not {*self._column(table, column)} & {*self._column(parent, key)} - {None}:
                continue
            if all(unique):
                self._ask(table, column, parent, key, owners[parent])
            found[Owner(column, parent, key)] = None
        if len({(one.column, owners[str(one.parent)].parent) for one in found}) > 1:
            listed = " or ".join(f"by {table}.{x.column} = {x.parent}.{x.key}" for x in found)
            one = next(iter(found))
            raise ParameterError(
                "user",
                f"the rows of {table} may belong to users {listed}; state it: "
                f'{{{table!r}: ({one.column!r}, "{one.parent}.{one.key}")}}',
            )
        return next(iter(found), None)

    def _parents(self, table: str, named: Mapping[str, str | None]) -> list[str]:
        """Return the other tables whose key is the owning column of a table."""
        column = named[table]
        # Any table may call its own key "id".
        if column is None or (column.lower() == "id" and self._is_key(table, column)):
            return []
        cells = {*self._column(table, column)} - {None}
        return [
            other
            for other, own in named.items()
            if other != table
            and own not in (None, column)
            and self._is_key(other, column)
            and cells & {*self._column(other, column)}
        ]

    def _owner(
        self, table: str, column: str | None, parents: Sequence[str], ids: set[Any]
    ) -> Owner:
        """Return the owner of a table's rows by its owning column.

        Raises:
            ParameterError: there are several, or the values are also those of users.
        """
        if column is None:
            return Owner()
        cells = {*self._column(table, column)} - {None}
        if not parents:  # perhaps one whose own link is not given
            more = (o for o in self._given if o != table and self._is_key(o, column))
            parent = None if cells & ids else next(more, None)
            return Owner(column, parent, parent and column)
        parents = [o for o in parents if cells <= {*self._column(o, column)}] or parents
        other = cells & ids and not cells <= {*self._column(parents[0], column)}
        if len(parents) > 1 or other:
            listed = [*parents, *(["users"] if other else [])]
            raise ParameterError(
                "user",
                f"{table}.{column} may link its rows to {' or '.join(listed)}; name the column "
                f'of the other table too: {{{table!r}: ({column!r}, "{parents[0]}.{column}")}}',
            )
        return Owner(column, parents[0], column)

    def _is_key(self, table: str, column: str | None) -> bool:
        """True if a column is in a table, and each of its values once."""
        if column not in self._names(table):
            return False
        cells = self._column(table, column)
        return len(set(cells)) == len(cells) > 0

    def _link(self, table: str, owners: Mapping[str, Owner]) -> Owner | None:
        """Return the column by which the rows of another table own those of a table, if any.

        Raises:
            ParameterError: the rows may own each other.
        """
        for other, own in owners.items():
            if own.column is None:
                continue
            for name in self._names(table):
                if name == own.column or not self._is_key(other, name):
                    continue
                if not {*self._column(table, name)} & {*self._column(other, name)}:
                    continue
                if self._is_key(table, name):
                    self._ask(table, name, other, name, own)
                return Owner(name, other, name)
        return None

    @staticmethod
    def _ask(table: str, column: str, parent: str, key: str, own: Owner) -> NoReturn:
        """Raise ParameterError: each row of a table may be public, or belong to one row."""
        stated = f"{{{parent!r}: {own.column!r}, {table!r}: None}}"
        raise ParameterError(
            "user",
            f"are the rows of {table} public, or do those of {parent} own them by {column}? Give a "
            f'column of each table, such as {stated}, or ({column!r}, "{parent}.{key}") in place '
            "of None",
        )

    @staticmethod
    def _in_order(owners: Mapping[str, Owner]) -> list[str]:
        """Return the tables, those that own others first."""
        depth = dict.fromkeys(owners, 0)
        for _ in owners:
            for name, one in owners.items():
                depth[name] = 0 if one.parent is None else depth[one.parent] + 1
        return sorted(owners, key=depth.__getitem__)

    def _table(self, name: str, own: Owner) -> OwnTable:
        names, rows = self._names(name), [tuple(row) for row in self._given[name]["rows"]]
        types = (
            self._given[name].get("types")
            or plain_table([dict(zip(names, row, strict=True)) for row in rows])["types"]
        )
        columns = tuple(
            self._described(name, column, types[at], own) for at, column in enumerate(names)
        )
        at = None if own.column is None else names.index(own.column)
        one = at is not None and len(rows) > 1 and self._is_key(name, own.column)
        return OwnTable(name, columns, tuple(rows), at, own.parent, own.key, one)

    def _described(self, table: str, name: str, kind: str, own: Owner) -> OwnColumn:
        cells = self._column(table, name)
        there = [cell for cell in cells if cell is not None]
        values = tuple(dict.fromkeys(there))
        missing = len(there) < len(cells)
        if name == own.column:
            return OwnColumn(name, "link" if own.parent else "user", kind, values)
        links = (table, name) in self._links and kind in ("INTEGER", "REAL", "TEXT")
        known = {} if links else dict(self._known.get(table, {}).get(name, {}))
        if given := known.get("categories"):
            return OwnColumn(name, "category", kind, tuple(given), 0, 0, missing)
        low, high = known.get("low"), known.get("high")
        if low is not None and high is not None:
            number = "REAL" if kind == "TEXT" else kind
            return OwnColumn(name, "number", number, values, low, high, missing, True)
        unique = len(values) == len(there) > FEW
        serial = kind == "TEXT" or (kind == "INTEGER" and SERIAL.search(name))
        if links or (unique and serial):
            return OwnColumn(name, "identifier", kind, values, 0, 0, missing)
        if kind in ("INTEGER", "REAL") and not SERIAL.search(name):
            low, high = min(there, default=0), max(there, default=1)
            return OwnColumn(name, "number", kind, values, low, high, missing)
        category = 0 < len(values) <= MOST_CATEGORIES or self._is_shared(table, name)
        return OwnColumn(name, "category" if category else "other", kind, values, 0, 0, missing)

    def _is_shared(self, table: str, name: str) -> bool:
        return any(other != table and name in self._names(other) for other in self._given)

    # Users of the given tables.

    @cached_property
    def user_type(self) -> str:
        """The type of the column that identifies users."""
        return next(t.columns[t.owner].type for t in self.owned if t.parent is None)  # type: ignore[index]

    @cached_property
    def users(self) -> dict[Any, Rows]:
        """The rows of each user of the given tables."""
        found: dict[Any, dict[str, list[Row]]] = {}
        whose: dict[str, dict[Any, Any]] = {}
        for table in self.owned:
            assert table.owner is not None
            for row in table.rows:
                user = row[table.owner]
                if table.parent is not None:
                    user = whose.get(f"{table.parent}.{table.key}", {}).get(user)
                if user is None:
                    continue
                found.setdefault(user, {}).setdefault(table.name, []).append(row)
                for name, cell in zip(table.names, row, strict=True):
                    whose.setdefault(f"{table.name}.{name}", {})[cell] = user
        return {
            user: {name: tuple(rows) for name, rows in own.items()} for user, own in found.items()
        }

    def _drop_users(self) -> None:
        """Keep the given rows of so many users that there are not too many rows."""
        users = {user: rows for user, rows in self.users.items() if self._is_covered(rows)}
        ranked = sorted(users.items(), key=lambda one: -_size(one[1]))
        step = max(1, math.ceil(sum(_size(rows) for _, rows in ranked) / MOST_ROWS))
        kept = [rows for _, rows in ranked[::step]]
        while len(kept) > 1 and sum(map(_size, kept)) > 2 * MOST_ROWS:
            kept = kept[1:]
        self.given_users = kept
        self.public = {
            table.name: table.rows[:MOST_PUBLIC]
            for table in self.tables.values()
            if table.owner is None
        }

    def _is_covered(self, rows: Rows) -> bool:
        """True if the claim is about a user with these rows."""
        if max(map(len, rows.values())) > (self.rows_per_user or math.inf):
            return False
        return self.beyond or not any(
            column.bounded and cell is not None and not column.low <= cell <= column.high
            for name, own in rows.items()
            for row in own
            for column, cell in zip(self.tables[name].columns, row, strict=True)
        )

    @property
    def owned(self) -> list[OwnTable]:
        """The tables whose rows users own, each after the one that owns its rows."""
        return [table for table in self.tables.values() if table.owner is not None]

    @property
    def adjacency(self) -> str:
        """The relation of D and D′."""
        change = "replace" if self.replace else "add or remove"
        by = ", ".join(
            f"{table.name}.{name}"
            + (f" = {table.parent}.{table.key}" if table.key not in (None, name) else "")
            for table in self.owned
            for name in [table.names[table.owner or 0]]
        )
        if (most := self.rows_per_user) is not None:
            return f"{change} one user, who owns at most {most} row{'s' * (most > 1)} of each: {by}"
        return f"{change} all rows of one user: {by}"

    def __str__(self) -> str:
        return "\n".join(map(str, self.tables.values()))

    def stated(self) -> dict[str, Any]:
        """Return the owner of each table as `user` takes it."""
        return {
            name: None
            if table.owner is None
            else by
            if table.parent is None
            else [by, f"{table.parent}.{table.key}"]
            for name, table in self.tables.items()
            for by in [table.names[table.owner or 0]]
        }

    def understood(self) -> dict[str, Any]:
        """Return the owner and the columns of each table as plain values."""
        stated = self.stated()
        return {
            name: {
                "user": stated[name] or "public",
                "columns": {column.name: column.understood() for column in table.columns},
            }
            for name, table in self.tables.items()
        }

    def categories(self, column: str | None) -> list[Any]:
        """Return all values of a column that may be a key."""
        found = [
            value
            for table in self.tables.values()
            for one in table.columns
            if column is not None and one.name.lower() == column.lower()
            for value in one.values
        ]
        return list(dict.fromkeys(found))[:MOST_CATEGORIES]


def _size(rows: Rows) -> int:
    return sum(map(len, rows.values()))
