"""Text for people: escaped control characters, suggestions, and error messages of plugin code."""

from __future__ import annotations

import difflib
import os
import sys
import traceback
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# Text that does to a terminal nothing but show letters.
#
# Labels, keys, file names and what plugins say may hold anything: escape sequences that move the
# cursor, characters that turn the direction of writing, halves of characters that no encoding
# has.


def escape(text: str, keep: str = "") -> str:
    """The same text with every character that is no letter, sign or blank written as its number.

    Args:
        text: from anywhere.
        keep: characters to leave as they are, such as a newline.
    """
    if text.isprintable():
        return text
    return "".join(c if c in keep or _is_harmless(c) else _escaped(c) for c in text)


LONGEST = 200
"""Characters of a value in a message."""


def shown(value: object) -> str:
    """What a message calls a value, whatever its `repr` does."""
    try:
        found = escape(repr(value))
    except Exception:
        return f"a {type(value).__name__}"
    return found if len(found) <= LONGEST else f"{found[:LONGEST]}…"


def _is_harmless(char: str) -> bool:
    return char.isprintable() or unicodedata.category(char) == "Zs"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


# What a user probably meant, and what there is to choose from.


LONGEST_SUGGEST = 100
"""Nobody mistypes a longer name; comparing two of them would take long."""

MOST = 40
"""Names that a message lists."""


def did_you_mean(known: Iterable[str], wrong: object) -> str:
    """`; did you mean 'x'?`, or nothing.

    Args:
        known: what there is.
        wrong: what was written; `dim` may be meant for `pair.dim`.
    """
    close = closest(known, wrong)
    return f"; did you mean {close!r}?" if close else ""


def closest(known: Iterable[str], wrong: object) -> str | None:
    """The name that looks most like what was written, if one does."""
    if not isinstance(wrong, str) or len(wrong) > LONGEST_SUGGEST:
        return None
    by_lower_case = {name.lower(): name for name in known if len(name) <= LONGEST_SUGGEST}
    by_last_part = {name.rpartition(".")[2]: full for name, full in by_lower_case.items()}
    forms = by_last_part | by_lower_case
    close = difflib.get_close_matches(wrong.lower(), forms, n=1)
    return forms[close[0]] if close else None


def listed(names: Iterable[str]) -> str:
    """Names with commas, the first of them if there are many."""
    every = list(names)
    more = f", … and {len(every) - MOST:,} more" if len(every) > MOST else ""
    return ", ".join(cut(name) for name in every[:MOST]) + more


def cut(text: str, longest: int = LONGEST_SUGGEST) -> str:
    """A text, or the beginning of a long one."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


# What an exception of an author's code says, in one line that names the place.
#
# The author is whoever wrote the plugin, built-ins included: the place is the last line of that
# author's own code, not the line of the library that it called. The whole traceback is printed to
# standard error if the environment says `DPFRAME_TRACEBACK=1`, which worker processes inherit.


SWITCH = "DPFRAME_TRACEBACK"

SHORT, LONGEST_BLAME = 160, 500
"""Characters of a message that is told whole, and of a line; some libraries write pages."""

_LIBRARIES = {
    *sys.stdlib_module_names,
    *("jax", "jaxlib", "numpy", "scipy", "pydantic", "pydantic_core", "pluggy", "typer", "rich"),
} - {"__main__"}
"""What authors and dpframe call, and nobody who audits wrote."""

_OURS = Path(__file__).parents[1]
_AUTHORS = _OURS / "builtin"
_printed: set[str] = set()


def error_message(error: BaseException) -> str:
    """`ZeroDivisionError: division by zero (noisy_sum.py:14)`."""
    return f"{type(error).__name__}: {said(error)}"


def said(error: BaseException) -> str:
    """The same without the exception's type."""
    _print_once(error)
    where = place(error)
    return message(error) + (f" ({where})" if where else "")


def message(error: BaseException) -> str:
    """An exception's message in one line; of a long one the first line."""
    try:
        text = str(error)
    except Exception as other:  # whoever wrote it could not know what it would be asked
        text = f"its message raised {type(other).__name__}"
    whole = " ".join(text.split())
    line = whole if len(whole) <= SHORT else text.strip().splitlines()[0]
    line = escape(line.strip()) or "no message"
    return line if len(line) <= LONGEST_BLAME else line[: LONGEST_BLAME - 1] + "…"


def place(error: BaseException) -> str:
    """File and line in the author's own code; "" where none of it is involved."""
    if isinstance(error, SyntaxError):
        return ""  # its message has both
    lines = list(_authors_lines(error))
    if not lines:
        return ""
    # Our own plugins call others' through what dpframe hands them, and are not to blame for it.
    theirs = [at for at in lines if not Path(at[0]).is_relative_to(_OURS)] or lines
    # Whoever was called first is the author; what that called in other packages is not.
    home = _home(theirs[0][0])
    file, line = [at for at in theirs if _home(at[0]) == home][-1]
    return escape(f"{_short(Path(file), home)}:{line}")


def raised_in(error: BaseException, cls: type) -> bool:
    """Whether a method of a class, or of what it extends, was at work when it was raised."""
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
    """File and line of every step that is neither dpframe's, nor a library's, nor generated."""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file, module = frame.f_code.co_filename, str(frame.f_globals.get("__name__"))
        ours = Path(file).is_relative_to(_OURS) and not Path(file).is_relative_to(_AUTHORS)
        if not ours and file != "<string>" and module.partition(".")[0] not in _LIBRARIES:
            yield file, line


def _home(file: str) -> Path:
    """The top-level package that a file belongs to, or the file itself."""
    path = home = Path(file)
    for folder in path.parents:
        if not (folder / "__init__.py").is_file():
            break
        home = folder
    return home


def _short(file: Path, home: Path) -> Path:
    """The file as its package calls it: nobody else's folders belong into a message."""
    return file.relative_to(home.parent) if home.parent in file.parents else file


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
