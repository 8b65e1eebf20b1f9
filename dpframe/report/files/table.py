"""A record as a CSV file for spreadsheets, by RFC 4180 in UTF-8.

Numbers are not rounded. A number that is not finite is written as `inf`, `-inf` or `nan`; a missing
number is an empty field.
"""

import csv
import io
from typing import Any

from dpframe.common.text import escape
from dpframe.results.model import Record
from dpframe.results.plain import in_words
from dpframe.results.rows import columns, row

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")


def document(record: Record) -> str:
    """Return the table; swept keys come last, a column each."""
    head = columns(record)
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\r\n")
    rows.writerow(map(_text, head))
    for cell in record.cells:
        found = row(cell)
        rows.writerow([field(found.get(column)) for column in head])
    return out.getvalue()


def field(value: Any) -> str:
    """Write a value of a record as a field of the table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(in_words(value))
    return str(value) if isinstance(value, int) else _text(str(value))


def _text(text: str) -> str:
    """Escape text for terminals and spreadsheets.

    Text that begins like a formula gets an apostrophe, by which spreadsheets mark text.
    """
    shown = escape(text, "\n\t\r")
    return f"'{shown}" if shown.startswith(_FORMULA) else shown
