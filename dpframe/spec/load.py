"""Reads the tables of a spec, from a file or as Python values."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli

from dpframe.errors import SpecError
from dpframe.files import NotReadableError, read_regular
from dpframe.spec.document import Document, UnfitError, plain
from dpframe.spec.problems import Problems, place, quote
from dpframe.suggest import closest, listed

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_BYTES = 4 << 20
"""Of a file; a spec of ten thousand mechanisms has a tenth."""


def read(path: str | os.PathLike[str]) -> Document:
    """Reads and parses a spec.

    Raises:
        SpecError: the file is missing, unreadable, too large, not UTF-8 or not TOML.
    """
    # A file name may hold bytes that are no text, and messages and records are text.
    name = os.fspath(path).encode("utf-8", "backslashreplace").decode()
    raw = _bytes(Path(path), name)
    try:
        written = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise SpecError([f"{place(name, line)}: is not UTF-8 text"]) from None
    text = written.replace("\r\n", "\n")
    try:
        data = tomli.loads(written)
    except tomli.TOMLDecodeError as error:
        raise SpecError([_of_a_run(name, text) or _syntax_error(name, text, error)]) from None
    except RecursionError:
        raise SpecError([f"{name}: is nested too deeply"]) from None
    except ValueError:  # what Python says of so long a number
        raise SpecError([_too_long(name, text)]) from None
    return _checked(Document(name, text, hashlib.sha256(raw).hexdigest(), data))


def from_mapping(data: Mapping[str, Any]) -> Document:
    """A document from Python values, as a notebook has them; its text is their JSON form.

    Raises:
        SpecError: a value cannot stand in a spec.
    """
    document = _checked(Document("", "", "", dict(data)))
    document.text = json.dumps(document.data, indent=2, ensure_ascii=False, default=str)
    document.sha256 = hashlib.sha256(document.text.encode()).hexdigest()
    return document


def _checked(document: Document) -> Document:
    try:
        document.data = plain(document.data)
    except UnfitError as error:
        problems = Problems(document)
        problems.add(error.path, error.message)
        problems.raise_if_any()
    return document


def _bytes(path: Path, name: str) -> bytes:
    try:
        return read_regular(path, MOST_BYTES)
    except FileNotFoundError:
        message = f"{name}: no such file"
        if similar := _similar(path):
            message += f"; did you mean {similar!r}?"
    except IsADirectoryError:
        message = f"{name}: is a directory; a spec is a TOML file"
        if (path / "record.json").exists():
            message = f"{name}: is the directory of a run; a spec is a TOML file"
            message += f"\n   to print what it found: dpframe show {name}"
        elif specs := sorted(found.name for found in path.glob("*.toml")):
            message += f"\n   in it: {listed(specs)}"
    except NotReadableError as error:
        message = _record(name) if path.name == "record.json" else f"{name}: {error}"
    raise SpecError([message]) from None


def _similar(path: Path) -> str | None:
    try:
        names = [found.name for found in path.parent.iterdir() if found.suffix == ".toml"]
    except OSError:
        return None
    close = closest(names, path.name)
    return str(path.with_name(close)) if close else None


def _of_a_run(name: str, text: str) -> str | None:
    """What to say of a file that is no spec but the record of a run, or another answer."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or "schema" not in content:
        return f"{name}: is JSON; a spec is a TOML file"
    if "cells" not in content:
        return f"{name}: is what dpframe printed; a spec is a TOML file"
    spec = content.get("spec")
    path = spec.get("path") if isinstance(spec, dict) else None
    return _record(name, f"; it was made from {path}" if isinstance(path, str) and path else "")


def _record(name: str, more: str = "") -> str:
    return (
        f"{name}: is the record of a run: what a spec found; a spec is a TOML file{more}\n"
        f"   to print it: dpframe show {name}"
    )


def _syntax_error(name: str, text: str, error: tomli.TOMLDecodeError) -> str:
    message = error.msg[:1].lower() + error.msg[1:]
    return _at(name, text, error.lineno, f"{message}, column {error.colno}")


def _too_long(name: str, text: str) -> str:
    most = sys.get_int_max_str_digits()
    digits = re.search(rf"(?:\d_?){{{most + 1}}}", text)
    number = text[: digits.start() if digits else 0].count("\n") + 1
    return _at(name, text, number, f"an integer has more than {most} digits")


def _at(name: str, text: str, line: int, message: str) -> str:
    lines = text.split("\n")
    line = min(line, len(lines))
    return f"{place(name, line)}: is not TOML: {message}\n{quote(line, lines[line - 1])}"
