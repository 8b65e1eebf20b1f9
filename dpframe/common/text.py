"""Text for people: escaped control characters, suggestions, and error messages of plugin code."""

import ast
import contextlib
import difflib
import functools
import inspect
import itertools
import json
import os
import re
import sys
import threading
import traceback
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

_LONGEST_VALUE = 200  # characters of a value in a message
_LONGEST_NAME = 100  # longer names are not misspelt, and comparing them takes long
_MOST_NAMES = 40  # that a message lists
PARSING = threading.Lock()  # Python 3.11 cannot parse on several threads; `inspect` parses, too


def escape(text: str, keep: str = "") -> str:
    """Escape control and bidirectional characters, and lone surrogates, before printing.

    Args:
        text: labels, keys, file names or text of plugins; may contain any character.
        keep: characters to leave as they are, such as a newline.
    """
    if text.isprintable():
        return text
    return "".join(
        char
        if char in keep or char.isprintable() or unicodedata.category(char) == "Zs"
        else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def shown(value: object) -> str:
    """Return a value for a message, even if its `repr` fails or is long."""
    try:
        text = escape(repr(value))
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def did_you_mean(known: Iterable[str], wrong: object) -> str:
    """Return `; did you mean 'x'?`, or nothing.

    Args:
        known: the names to choose from.
        wrong: what was written; `dim` may be meant for `pair.dim`.
    """
    close = closest(known, wrong)
    return f"; did you mean {close!r}?" if close else ""


def closest(known: Iterable[str], wrong: object) -> str | None:
    """Return the name that looks most like what was written, if one does."""
    if not isinstance(wrong, str) or len(wrong) > _LONGEST_NAME:
        return None
    by_lower_case = {name.lower(): name for name in known if len(name) <= _LONGEST_NAME}
    by_last_part = {name.rpartition(".")[2]: full for name, full in by_lower_case.items()}
    forms = by_last_part | by_lower_case
    close = difflib.get_close_matches(wrong.lower(), forms, n=1)
    return forms[close[0]] if close else None


def listed(names: Iterable[str]) -> str:
    """Join names with commas, the first of them if there are many."""
    every = list(names)
    more = f", … and {len(every) - _MOST_NAMES:,} more" if len(every) > _MOST_NAMES else ""
    return ", ".join(cut(name) for name in every[:_MOST_NAMES]) + more


def cut(text: str, longest: int = _LONGEST_NAME) -> str:
    """Return a text, or the beginning of a long one."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def toml(value: Any) -> str:
    """Write a plain value as TOML on one line; TOML has no None."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{toml_key(k)} = {toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)  # TOML writes inf, nan and exponents as Python does
    # TOML demands an escape for DEL, JSON does not.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_key(key: str) -> str:
    """Write a key of TOML, without quotes if it needs none."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml(key)


# Characters that people and word processors write in numbers.

QUOTES = "“”„‟‘’‚‛«»‹›"
MINUS = "−–—‐‑"


def typographic(text: str) -> str:
    """Name a character that only people read, with the remedy; return "" if there is none."""
    with contextlib.suppress(ValueError):
        float(text)
        return ""
    if any(char in text for char in QUOTES):
        return f"it has typographic quotes; write {_straight(text)}"
    if any(char in text for char in MINUS):
        return f"it has a typographic minus sign; write {_straight(text)}"
    if re.fullmatch(r"[+-]?\d*,\d+(e[+-]?\d+)?", text.strip().lower()):
        return f"it has a decimal comma; write {text.strip().replace(',', '.')}"
    if re.fullmatch(r"[+-]?\d[\d.,'\s]*[.,'\s][\d.,'\s]*", text):
        return "it has a decimal comma or marks between thousands; write digits and one point"
    return ""


def _straight(text: str) -> str:
    return text.translate(
        {**dict.fromkeys(map(ord, QUOTES)), **dict.fromkeys(map(ord, MINUS), "-")}
    )


SWITCH = "DPFRAME_TRACEBACK"
"""Environment variable: 1 prints whole tracebacks to standard error; workers inherit it."""

_LONGEST_MESSAGE = 160  # that is printed whole; some libraries write pages
LONGEST_LINE = 500

_LIBRARIES = {
    *sys.stdlib_module_names,
    *("jax", "jaxlib", "numpy", "scipy", "pydantic", "pydantic_core", "pluggy", "typer", "rich"),
} - {"__main__"}
_OURS = Path(__file__).parents[1]
_AUTHORS = _OURS / "builtin"
_printed: set[str] = set()


def error_message(error: BaseException) -> str:
    """Describe an exception of plugin code: `ZeroDivisionError: division by zero (sum.py:14)`."""
    return f"{type(error).__name__}: {without_type(error)}"


def without_type(error: BaseException) -> str:
    """Describe an exception of plugin code without its type."""
    _print_once(error)
    where = place(error)
    return message(error) + (f" ({where})" if where else "")


def message(error: BaseException) -> str:
    """Return an exception's message in one line; for a long message, its first line."""
    try:
        text = str(error)
    except Exception as other:  # an exception of a plugin may need more arguments
        text = f"its message raised {type(other).__name__}"
    whole = " ".join(text.split())
    line = whole if len(whole) <= _LONGEST_MESSAGE else text.strip().splitlines()[0]
    return cut(escape(line.strip()) or "no message", LONGEST_LINE)


def place(error: BaseException) -> str:
    """Return the last file and line in the plugin author's code; "" if none is involved.

    Built-in plugins count as author's code; libraries that the plugin calls do not.
    """
    if isinstance(error, SyntaxError):
        return ""  # its message has both
    lines = list(_authors_lines(error))
    if not lines:
        return ""
    # A built-in plugin may call another author's plugin, which then is the place.
    theirs = [at for at in lines if not Path(at[0]).is_relative_to(_OURS)] or lines
    # The first one called is the author's; the rest may be other packages that it calls.
    home = _home(theirs[0][0])
    name, line = [at for at in theirs if _home(at[0]) == home][-1]
    # A message names the file as its package does, without the user's folders.
    file = Path(name)
    file = file.relative_to(home.parent) if home.parent in file.parents else file
    return escape(f"{file}:{line}")


def raised_in(error: BaseException, cls: type) -> bool:
    """True if a method of a class, or of one of its bases, is in the traceback."""
    codes = {
        (base.__module__, base.__qualname__)
        for base in cls.__mro__
        if not base.__module__.startswith(
            ("builtins", "dpframe.interfaces.plugin", "dpframe.interfaces.pair")
        )
    }
    return any(
        (frame.f_globals.get("__name__"), frame.f_code.co_qualname.rpartition(".")[0]) in codes
        for frame, _ in traceback.walk_tb(error.__traceback__)
    )


def _authors_lines(error: BaseException) -> Iterator[tuple[str, int]]:
    """List file and line of each step outside dpframe, libraries and generated code."""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file, module = frame.f_code.co_filename, str(frame.f_globals.get("__name__"))
        ours = Path(file).is_relative_to(_OURS) and not Path(file).is_relative_to(_AUTHORS)
        if not ours and file != "<string>" and module.partition(".")[0] not in _LIBRARIES:
            yield file, line


def _home(file: str) -> Path:
    """Return the top-level package that a file belongs to, or the file itself."""
    path = home = Path(file)
    for folder in path.parents:
        if not (folder / "__init__.py").is_file():
            break
        home = folder
    return home


def _print_once(error: BaseException) -> None:
    if os.environ.get(SWITCH, "") in ("", "0"):
        return
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:
        return
    if text not in _printed:
        _printed.add(text)
        sys.stderr.write(escape(text, "\n"))
        sys.stderr.flush()


class Described:
    """A base of pydantic's models and dataclasses: the text under a field is its meaning.

    Pydantic's own `use_attribute_docstrings` parses the source when a class is made, which would
    take a tenth of the time of every run. Here it is parsed when a JSON Schema is requested.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> Any:
        schema = handler(core)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        fields = getattr(cls, "model_fields", {})
        aliases = {name: field.alias for name, field in fields.items() if field.alias}
        aliases |= getattr(cls, "spec_names", {})
        for base in cls.__mro__[: cls.__mro__.index(Described)]:
            for name, text in meanings(base).items():
                if (key := aliases.get(name, name)) in properties:
                    properties[key].setdefault("description", text)
        return schema


@functools.cache
def meanings(cls: type) -> dict[str, str]:
    """Return the text under each field that a class itself declares."""
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):  # it has none
        return {}
    tree = ast.parse(f"if True:\n{source}" if source[0].isspace() else source)
    (body,) = [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)][:1]
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
