"""One edit of a table: what makes D′ out of D."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dpframe.builtin.pairs._plain import Fields, frozen, read, same_cell, written
from dpframe.builtin.pairs._table import count, listed, row

if TYPE_CHECKING:
    from dpframe.builtin.pairs._table import Row, Rows, Table

ACCEPTS = "one of { replace = 3, by = […] }, { remove = 3 } and { add = […] } is wanted"


class Edit(NamedTuple):
    """One record, or all records of one user, is replaced, removed or added."""

    kind: Literal["replace", "remove", "add"]
    at: int = 0
    """Which record, counted from 0; one that is added stands there; −1 is the last one."""
    by: Any = ()
    """The record that comes, or a user's records."""

    def params(self) -> dict[str, Any]:
        """As a spec has it."""
        match self.kind:
            case "replace":
                return {"replace": self.at, "by": written(self.by)}
            case "remove":
                return {"remove": self.at}
            case _:
                at = {} if self.at == -1 else {"at": self.at}
                return {"add": written(self.by), **at}


def edit(given: Any) -> Edit:
    """An edit as a spec or a program writes it.

    Raises:
        ValueError: it is none.
    """
    if isinstance(given, Edit):
        return given._replace(by=frozen(given.by))
    found = dict(read(given)) if isinstance(read(given), Fields) else {}
    keys, places = set(found), [found.get(key, 0) for key in ("replace", "remove", "at")]
    if keys not in ({"replace", "by"}, {"remove"}, {"add"}, {"add", "at"}):
        raise ValueError(ACCEPTS)
    if not all(type(at) is int for at in places):
        raise ValueError("records are counted in whole numbers, from 0")
    if "add" in keys:
        return Edit("add", found.get("at", -1), found["add"])
    return (
        Edit("replace", found["replace"], found["by"])
        if "by" in keys
        else Edit("remove", found["remove"])
    )


def edited(of: Table, one: Edit, user: str | None = None) -> Rows:
    """The records of D′.

    Args:
        of: D.
        one: the edit.
        user: the column that says whose a record is; the edit is then of all records of one user.

    Raises:
        ValueError: the table has no such record, or the new one is not like its others.
    """
    rows = of.rows
    if one.kind == "add":
        at = len(rows) + 1 + one.at if one.at < 0 else one.at
        if not 0 <= at <= len(rows):
            raise ValueError(
                f"a record is added at {one.at}, and there are {count(len(rows), 'record')}"
            )
        new = _new(of, one, user)
        _is_new_user(of, new, user, rows)
        return (*rows[:at], *new, *rows[at:])
    at = len(rows) + one.at if one.at < 0 else one.at
    if not 0 <= at < len(rows):
        raise ValueError(f"there is no record {one.at}: the table has {count(len(rows), 'record')}")
    gone = {at} if user is None else set(_records_of(of, rows[at], user))
    kept = tuple(one_row for number, one_row in enumerate(rows) if number not in gone)
    if one.kind == "remove":
        return kept
    new = _new(of, one, user)
    if user is None:
        return (*rows[:at], *new, *rows[at + 1 :])
    _is_new_user(of, new, user, kept)
    first = min(gone)
    return (*rows[:first], *new, *(r for n, r in enumerate(rows) if n > first and n not in gone))


def _new(of: Table, one: Edit, user: str | None) -> Rows:
    try:
        if user is None:
            return (row(one.by, of.names),)
        if not isinstance(one.by, tuple) or isinstance(one.by, Fields) or not one.by:
            raise ValueError("a list of records is wanted, all of one user")
        return tuple(row(part, of.names) for part in one.by)
    except ValueError as error:
        raise ValueError(f"the new record: {error}") from None


def _column(of: Table, user: str) -> int:
    if user not in of.names:
        raise ValueError(f"there is no column {user!r}; the table has {listed(of.names)}")
    return of.names.index(user)


def _records_of(of: Table, like: Row, user: str) -> list[int]:
    at = _column(of, user)
    return [n for n, other in enumerate(of.rows) if same_cell(other[at], like[at])]


def _is_new_user(of: Table, new: Rows, user: str | None, others: Rows) -> None:
    if user is None:
        return
    at = _column(of, user)
    if not all(same_cell(one[at], new[0][at]) for one in new):
        raise ValueError("the new records are of several users")
    if any(same_cell(one[at], new[0][at]) for one in others):
        raise ValueError(f"user {new[0][at]!r} is in the table already")
