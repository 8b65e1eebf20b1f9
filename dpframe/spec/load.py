"""Reads the file of a spec."""

from __future__ import annotations

import difflib
import hashlib
import os
from pathlib import Path

import tomli

from dpframe.errors import SpecError
from dpframe.spec.document import Document, plain
from dpframe.spec.problems import place, quote


def read(path: str | os.PathLike[str]) -> Document:
    """Reads and parses a spec.

    Raises:
        SpecError: the file is missing, unreadable, not UTF-8 or not TOML.
    """
    name = os.fspath(path)
    raw = _bytes(name)
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise SpecError([f"{place(name, line)}: is not UTF-8 text"]) from None
    try:
        data = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise SpecError([_syntax_error(name, text, error)]) from None
    except RecursionError:
        raise SpecError([f"{name}: is nested too deeply"]) from None
    return Document(name, text, hashlib.sha256(raw).hexdigest(), plain(data))


def _bytes(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except FileNotFoundError:
        message = f"{name}: no such file"
        if similar := _similar(Path(name)):
            message += f"; did you mean {similar!r}?"
    except IsADirectoryError:
        message = f"{name}: is a directory; a spec is a TOML file"
        if specs := sorted(found.name for found in Path(name).glob("*.toml")):
            message += f"\n   in it: {', '.join(specs)}"
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = f"{name}: cannot be read: {reason}"
    raise SpecError([message]) from None


def _similar(path: Path) -> str | None:
    try:
        names = [found.name for found in path.parent.iterdir() if found.suffix == ".toml"]
    except OSError:
        return None
    close = difflib.get_close_matches(path.name, names, n=1)
    return str(path.with_name(close[0])) if close else None


def _syntax_error(name: str, text: str, error: tomli.TOMLDecodeError) -> str:
    lines = text.split("\n")
    line = min(error.lineno, len(lines))
    message = error.msg[:1].lower() + error.msg[1:]
    head = f"{place(name, line)}: is not TOML: {message}, column {error.colno}"
    return f"{head}\n{quote(line, lines[line - 1])}"
