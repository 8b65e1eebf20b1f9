"""Specs that went wrong: mutations of real ones that know the grammar of TOML and the keys.

`Mutator(texts).case(number)` is always the same case, so a failure is repeated by its number.
"""

from __future__ import annotations

import copy
import json
import marshal
import random
from typing import Any, NamedTuple

import tomli

KEYS = (
    "schema", "audit", "pair", "mechanism", "attack", "estimator", "sweep", "expect", "run", "name",
    "seed", "trials", "delta", "confidence", "multiplicity", "repeats", "use", "label", "params",
    "where", "verdict", "epsilon", "sensitivity", "nan", "dim", "bins", "threshold", "rho", "mu",
    "sigma", "precision", "fit", "pilot", "chunk", "prng", "seconds", "device", "mechanism.epsilon",
    "pair.dim", "audit.trials", "audit.seed", "attack.threshold", "estimator.bins", "mechanism.use",
    "ue", "usee", "Epsilon", "__class__", "__dict__", "self", "cls", "0", "-1",
)  # fmt: skip

HOSTILE_TEXT = (
    "",
    " ",
    "\x1b]0;title\x07",
    "\x1b[31mred",
    "\x9b31m",
    "\u202eevil\u2066",
    "\u2028",
    "\x00",
    "\x7f",
    "a\nb\r\tc",
    "[bold]markup[/]",
    "{braces} %s %d",
    "é\u0301\U0001f600",
    "x" * 300,
    "../../etc",
    "laplace",
    "dpframe/laplace",
    "nobody/laplace",
    "/",
    "nan",
    "true",
)
VALUES: tuple[Any, ...] = (
    0,
    1,
    -1,
    2,
    3,
    2**31,
    2**53,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    2**64,
    10**40,
    0.0,
    -0.0,
    0.5,
    1.0,
    -1.0,
    1e-320,
    1e308,
    1e-9,
    float("nan"),
    float("inf"),
    float("-inf"),
    True,
    False,
    [],
    [[]],
    [1, 1.0],
    [1, "a", True, [2], {"x": 1}],
    {},
    {"a": {}},
    {"epsilon": 1.0},
    *HOSTILE_TEXT,
)
RAW_VALUES = (
    "1979-05-27",
    "1979-05-27T07:32:00Z",
    "1979-05-27 07:32:00",
    "07:32:00",
    "0x" + "f" * 40,
    "1" * 5_000,
    "1e400",
    "-1e400",
    "1_000",
    "1e6",
    "0b1",
    "0o7",
    "+nan",
    '"""\nx\n"""',
    "'''x'''",
    "{ a.b = 1, c = [1, {}] }",
    "[" * 60 + "]" * 60,
    "laplace",
    "",
    "=",
    "[",
    "]",
    "{",
    '"',
    "#",
)
BYTES = (
    b"\xef\xbb\xbf", b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\r", b"\r\n", b"\n\n",
    b"\x1b[2J", b"\x07", b"\xc2\x9b", b"\xe2\x80\xae", b'"', b"'", b'"""', b"[", b"]", b"[[", b"{",
    b"}", b"=", b",", b".", b"#", b"\\", b"\\u202e", b"\\U0000001b", b"-", b"1", b" ", b"\t",
)  # fmt: skip
OPTIONS = (
    "mechanism.epsilon", "pair.dim", "audit.trials", "audit.seed", "audit.name", "run.chunk",
    "attack.threshold", "estimator.bins", "mechanism.nan", "audit.delta", "audit.multiplicity",
    "run.precision", "sweep.x", "mechanism", "", ".", "audit.", "mechanism.params", "run.x.y",
    "\x1b[31m", "pair.\u202e",
)  # fmt: skip


class Case(NamedTuple):
    """A spec, and the options of the command line."""

    content: bytes
    overrides: tuple[str, ...] = ()
    trials: int | None = None
    seed: int | None = None


class Mutator:
    """Makes cases.

    Args:
        texts: right specs; long lists in them are shortened, so that a case costs little.
    """

    def __init__(self, texts: list[str]) -> None:
        tables = [_short(tomli.loads(text)) for text in texts]
        self._stored = [marshal.dumps(table) for table in tables]
        self._texts = [text for text in texts if len(text) < 1_500] + list(map(dumps, tables))

    def case(self, number: int) -> Case:
        """The case of a number."""
        rng = random.Random(number)
        kind = rng.random()
        if kind < 0.6:
            tables = marshal.loads(rng.choice(self._stored))
            for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
                self._change(tables, rng)
            content = dumps(tables).encode("utf-8", "surrogatepass")
        else:
            content = rng.choice(self._texts).encode()
        if kind > 0.55:
            for _ in range(rng.choice((0, 1, 1, 2, 5))):
                content = self._damage(content, rng)
        overrides = tuple(self._override(rng) for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 4))))
        numbers = (None,) * 12 + (0, 1, -1, 7, 2**53, 2**63, 10**30)
        return Case(content, overrides, rng.choice(numbers), rng.choice(numbers))

    def _change(self, tables: dict[str, Any], rng: random.Random) -> None:
        """One change at a random place of the tree."""
        places = list(_places(tables))
        if not places:
            return
        holder, key = rng.choice(places)
        match rng.randrange(9):
            case 0 | 1:
                holder[key] = copy.deepcopy(rng.choice(VALUES))
            case 2 if isinstance(holder, dict):
                holder[rng.choice((rng.choice(KEYS), _misspelt(str(key), rng)))] = holder.pop(key)
            case 2 | 3:
                del holder[key]
            case 4 if isinstance(holder, list):
                holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
            case 4 | 5:
                _put(holder, rng.choice(KEYS), rng.choice(VALUES))
            case 6:
                holder[key] = rng.choice(([holder[key]], {rng.choice(KEYS): holder[key]}))
            case 7:
                other, at = rng.choice(places)
                holder[key] = copy.deepcopy(other[at])
            case _:
                wrong = rng.choice(HOSTILE_TEXT)
                _put(holder, wrong, rng.choice(VALUES))

    def _damage(self, content: bytes, rng: random.Random) -> bytes:
        """One change of the bytes."""
        at = rng.randrange(len(content) + 1)
        lines = content.split(b"\n")
        line = rng.randrange(len(lines))
        match rng.randrange(8):
            case 0:
                return content[:at]
            case 1 | 2:
                return content[:at] + rng.choice(BYTES) + content[at:]
            case 3:
                return content[:at] + content[at + rng.randrange(1, 9) :]
            case 4:
                lines.insert(rng.randrange(len(lines) + 1), lines[line])
            case 5:
                other = rng.choice(self._texts).encode().split(b"\n")
                lines[line:line] = other[rng.randrange(len(other)) :][:5]
            case 6 if b"=" in lines[line]:
                key, _, _ = lines[line].partition(b"=")
                lines[line] = key + b"= " + rng.choice(RAW_VALUES).encode()
            case _:
                return rng.choice((content.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + content))
        return b"\n".join(lines)

    def _override(self, rng: random.Random) -> str:
        value = rng.choice((rng.choice(RAW_VALUES), _value(rng.choice(VALUES))))
        deep = rng.random() < 0.01
        key, equals = rng.choice(OPTIONS), rng.choice(("=", "=", "=", "=", " = ", "==", ""))
        return key + equals + ("[" * 400 + "]" * 400 if deep else value)


def _short(value: Any) -> Any:
    """The same with at most two entries in every list of plain values, and few trials."""
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    if isinstance(value, list):
        tables = any(isinstance(inner, dict) for inner in value)
        return [_short(inner) for inner in (value[:3] if tables else value[:2])]
    return value


def _places(value: Any) -> Any:
    """(container, key) of everything in a tree."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def _put(holder: Any, key: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[key] = copy.deepcopy(value)
    else:
        holder.append(copy.deepcopy(value))


def _misspelt(key: str, rng: random.Random) -> str:
    at = rng.randrange(len(key) + 1)
    return rng.choice((key[:at] + key[at + 1 :], key[:at] + "x" + key[at:], key.upper(), key + "s"))


def dumps(tables: dict[str, Any]) -> str:
    """A TOML document, with a header for every table at the top."""
    plain, headed = [], []
    for key, value in tables.items():
        if isinstance(value, dict):
            headed.append(f"[{_key(key)}]\n{_entries(value)}")
        elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            headed += [f"[[{_key(key)}]]\n{_entries(one)}" for one in value]
        else:
            plain.append(f"{_key(key)} = {_value(value)}\n")
    return "".join(plain) + "\n" + "\n".join(headed)


def _entries(table: dict[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items())


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if bare else _quoted(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_value(inner)}" for k, inner in value.items()) + "}"
    return str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
