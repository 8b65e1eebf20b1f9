"""Texts of SQL queries: the columns of their answers, and literals that rows are compared with."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`"
    r"|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\w+|[<>!=]+|\S",
    re.DOTALL,
)
_CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "UNION")
_COMPARISONS = ("=", "==", "<", ">", "<=", ">=", "IN", "BETWEEN")
_AFTER_TABLE = (
    *_CLAUSES,
    *("ON", "USING", "JOIN", "LEFT", "RIGHT", "INNER", "OUTER", "FULL", "CROSS", "NATURAL"),
    *("TABLESAMPLE", "INTERSECT", "EXCEPT", "FETCH", "OFFSET", "FOR", "ASOF", "SEMI", "ANTI"),
)
"""Words after the name of a table that are no alias."""
_BEFORE_EQUALITY = ("ON", "WHERE", "AND", "(")
_AFTER_EQUALITY = (*_AFTER_TABLE, "AND", ")", ";")
"""Tokens around an equality that has to hold, unlike one with OR."""
_WORD = re.compile(r"[A-Za-z_]\w*|\"(?:[^\"]|\"\")*\"|`[^`]*`")


class Compared(NamedTuple):
    """A comparison of a column with literals, such as `city IN ('a', 'b')`."""

    column: str
    operator: str
    literals: tuple[Any, ...]


class Parsed(NamedTuple):
    """The parts of a text that audits use."""

    items: list[str]
    """Names of the columns of an answer."""
    sources: list[str | None]
    """The column of a table that each item shows as it is; None for expressions."""
    keys: list[int]
    """Places of the items that are keys."""
    ordered: bool
    compared: list[Compared]
    numbers: list[float]
    """All numeric literals of the text."""
    words: set[str]
    """All words of the text, in small letters."""


def parse(sql: str) -> Parsed:
    """Read the outermost SELECT of a text, and all comparisons with literals."""
    tokens = _tokens(sql)
    clauses = _clauses(tokens)
    select = clauses.get("SELECT", [])
    distinct = bool(select) and select[0].upper() == "DISTINCT"
    parts = _split(select[distinct:])
    items = [_name(part) for part in parts]
    sources = [_source(part) for part in parts]
    by = _split(clauses.get("GROUP", [])[1:])
    grouped = {name.lower() for part in by for name in (_last(part), "".join(part))}
    keys = []
    for place, (part, item, source) in enumerate(zip(parts, items, sources, strict=True)):
        own = "".join(_expression(part)).lower()
        names = {item.lower(), (source or item).lower(), own, str(place + 1)}
        every = distinct or "all" in grouped  # GROUP BY ALL: of all columns without aggregates
        if (every and source) or names & grouped:
            keys.append(place)
    numbers = [float(one) for one in tokens if re.fullmatch(r"\d.*", one)]
    words = {_bare(one).lower() for one in tokens if _WORD.fullmatch(one)}
    return Parsed(items, sources, keys, "ORDER" in clauses, _compared(tokens), numbers, words)


def tables_in(sql: str) -> list[tuple[str, ...]]:
    """Return the names after FROM and JOIN, at all depths, each with what qualifies it."""
    return [name for name, _ in _named(_tokens(sql))]


def equal_columns(sql: str) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """Return the pairs of columns that a text requires to be equal, as ON and WHERE do.

    Each column comes with its table, `""` if the text does not name it.
    """
    tokens = _tokens(sql)
    tables: dict[str, set[str]] = {}
    for name, alias in _named(tokens):
        for called in {alias or name[-1], name[-1]}:
            tables.setdefault(called.lower(), set()).add(name[-1])
    found = []
    for at, token in enumerate(tokens):
        if token not in ("=", "=="):
            continue
        start, end = at, at + 2
        while start > 2 and tokens[start - 2] == ".":
            start -= 2
        start -= 1
        while tokens[end : end + 1] == ["."]:
            end += 2
        if start < 1 or tokens[start - 1].upper() not in _BEFORE_EQUALITY:
            continue
        if any(one.upper() not in _AFTER_EQUALITY for one in tokens[end : end + 1]):
            continue
        if not _holds(tokens, at):
            continue
        sides = []
        for part in (tokens[start:at], tokens[at + 1 : end]):
            named = tables.get(_bare(part[-3]).lower(), ()) if len(part) > 1 else {""}
            if len(named) == 1 and part and all(map(_WORD.fullmatch, part[::2])):
                sides.append((next(iter(named)), _last(part)))
        if len(sides) == 2:
            found.append((sides[0], sides[1]))
    return found


def _holds(tokens: list[str], at: int) -> bool:
    """True if a condition is part of an ON or WHERE without OR, NOT of several, or CASE."""
    words = [one.upper() for one in tokens]
    clause = [place for place, word in enumerate(words) if word in _AFTER_TABLE]
    start = max((place for place in clause if place < at), default=0)
    part = words[start : min((place for place in clause if place > at), default=len(words))]
    negated = any(pair == ("NOT", "(") for pair in itertools.pairwise(part))
    return part[0] in ("ON", "WHERE") and not negated and not {"OR", "CASE"} & {*part}


def _tokens(sql: str) -> list[str]:
    return [one for one in _TOKEN.findall(sql) if not one.startswith(("--", "/*"))]


def _named(tokens: list[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the name of each table, and its alias, empty if it has none."""
    outer: list[tuple[bool, bool]] = []
    listed = expected = False  # in a list of tables; the next word is a table
    selects = True  # False in calls such as EXTRACT(year FROM t)
    for at, token in enumerate(tokens):
        word, before = token.upper(), tokens[at - 1].upper() if at else ""
        if token == "(":
            outer.append((listed, selects))
            selects, listed = expected, expected
        elif token == ")":
            listed, selects = outer.pop() if outer else (False, True)
            expected = False
        elif word == "JOIN" or (word == "FROM" and before != "DISTINCT" and selects):
            listed = expected = True
        elif word == "FROM" and before == "(":
            listed = expected = selects = True
        elif word in _CLAUSES:
            listed = expected = False
            selects = selects or word == "SELECT"
        elif token == ",":
            expected = listed
        elif expected and _WORD.fullmatch(token) and word not in ("LATERAL", "ONLY"):
            name, after = [_bare(token)], at + 1
            while tokens[after : after + 1] == ["."] and after + 1 < len(tokens):
                name.append(_bare(tokens[after + 1]))
                after += 2
            after += tokens[after : after + 1] in (["AS"], ["as"])
            alias = "".join(tokens[after : after + 1])
            is_alias = _WORD.fullmatch(alias) and alias.upper() not in _AFTER_TABLE
            yield tuple(name), _bare(alias) if is_alias else ""
            expected = False


def _clauses(tokens: list[str]) -> dict[str, list[str]]:
    """Return the clauses of the last SELECT outside of parentheses; the first of a UNION."""
    found: dict[str, list[str]] = {}
    depth, clause = 0, ""
    for token in tokens:
        depth += (token == "(") - (token == ")")
        word = token.upper()
        if depth == 0 and word in _CLAUSES and clause != "UNION":
            found = {} if word == "SELECT" else found
            clause = word
            found[clause] = []
        elif clause:
            found[clause].append(token)
    return found


def _split(tokens: list[str]) -> list[list[str]]:
    """Split at the commas outside of parentheses."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in "([") - (token in ")]")
        if token == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _bare(token: str) -> str:
    return token[1:-1] if token[:1] in '"`' else token


def _last(part: list[str]) -> str:
    return _bare(part[-1])


def _name(part: list[str]) -> str:
    """Return the name of an item: its alias, its column, or its text."""
    alias = len(part) > 1 and _WORD.fullmatch(part[-1]) and part[-1].upper() != "END"
    if len(part) == 1 or (alias and part[-2] not in "+-*/%<>=|("):
        return _last(part)
    return re.sub(r" ?([().,]) ?", r"\1", " ".join(part)).replace(",", ", ")


def _expression(part: list[str]) -> list[str]:
    """Return an item without its alias."""
    if len(part) > 2 and part[-2].upper() == "AS":
        return part[:-2]
    last = part[-1].upper() != "END" and _WORD.fullmatch(part[-1])
    alias = len(part) > 1 and last and (part[-2] == ")" or _WORD.fullmatch(part[-2]))
    return part[:-1] if alias else part


def _source(part: list[str]) -> str | None:
    """Return the column that an item shows as it is, with or without an alias."""
    part = _expression(part)
    plain = all(_WORD.fullmatch(one) for one in part[::2]) and set(part[1::2]) <= {"."}
    return _last(part) if plain and len(part) % 2 else None


def _compared(tokens: list[str]) -> list[Compared]:
    found = []
    for at, token in enumerate(tokens[1:], 1):
        operator = token.upper()
        if operator not in _COMPARISONS or not _WORD.fullmatch(tokens[at - 1]):
            continue
        literals: list[Any] = []
        for one in tokens[at + 1 :]:
            if (value := _literal(one)) is not None:
                literals.append(value)
            elif one.upper() not in ("(", ",", "AND", "DATE", "TIMESTAMP") or (
                one.upper() == "AND" and operator != "BETWEEN"
            ):
                break
            if operator not in ("IN", "BETWEEN") and literals:
                break
        if literals and (operator != "BETWEEN" or len(literals) > 1):
            found.append(Compared(_bare(tokens[at - 1]), operator, tuple(literals)))
    return found


def _literal(token: str) -> Any:
    if token.startswith("'"):
        return token[1:-1].replace("''", "'")
    if re.fullmatch(r"\d.*", token):
        return float(token) if re.search(r"[.eE]", token) else int(token)
    return {"TRUE": True, "FALSE": False}.get(token.upper())
