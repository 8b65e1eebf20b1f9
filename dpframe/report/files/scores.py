"""Reports about scores made elsewhere, as HTML, Markdown and CSV."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpframe.common.text import escape
from dpframe.errors import DpframeError, OutputError
from dpframe.report import words
from dpframe.report.files import markdown
from dpframe.report.files.table import field
from dpframe.report.scores import (
    ONE_RUN,
    Found,
    Row,
    certified_rows,
    headline,
    lower,
    meaning,
    sources,
    terms,
    unadjusted,
    warnings,
)
from dpframe.report.words import SYMBOL, WORDS

SUFFIXES = (".html", ".md", ".csv")
COLUMNS = (
    *("estimator", "status", "delta", "epsilon_lower", "epsilon", "interval_lower"),
    *("interval_upper", "confidence", "certified", "p_value", "verdict", "assumption", "reason"),
)
"""The columns of the .csv report."""


def _lines(found: Found) -> Iterator[Row]:
    """Yield a line for each estimator and δ, best bounds first."""
    best = certified_rows(found)
    if found["kind"] != ONE_RUN:
        best.sort(key=lower, reverse=True)
    rest = [row for row in found["rows"] if row not in best]
    for row in [*best, *rest, *found["skipped"]]:
        estimate = row.get("estimate") or {}
        line = dict.fromkeys(COLUMNS) | {key: row[key] for key in COLUMNS if key in row}
        line |= {key: estimate[key] for key in COLUMNS if key in estimate}
        line |= dict(zip(COLUMNS[5:7], estimate.get("interval") or (None, None), strict=True))
        label = row["estimator"] if isinstance(row["estimator"], str) else row["estimator"]["label"]
        line |= {"estimator": label, "status": row.get("status", "skipped")}
        for bound in row.get("bounds") or [{}]:
            yield line | {key: bound[key] for key in COLUMNS if key in bound}


def document(found: Found, suffix: str) -> str:
    """Return the answer about scores, or the same from JSON, as text with a suffix of `SUFFIXES`.

    Raises OutputError if there is no such report of scores, DpframeError if it is no such
    answer.
    """
    check(suffix)
    try:
        return {".html": _page, ".md": _markdown, ".csv": _csv}[suffix.lower()](found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DpframeError(f"not what dpframe score writes, or not all: {error!r}") from None


def check(suffix: str) -> None:
    """Raise OutputError if no report of scores has this suffix."""
    if suffix.lower() not in SUFFIXES:
        raise OutputError(f"{suffix or 'no suffix'}: a report of scores is .html, .md or .csv")


def _csv(found: Found) -> str:
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\r\n")
    rows.writerow(COLUMNS)
    rows.writerows([field(line[column]) for column in COLUMNS] for line in _lines(found))
    return out.getvalue()


def _table(found: Found) -> tuple[list[str], list[list[str]]]:
    """Return titles and rows of the estimators that answered."""
    judged = found["claim"] is not None
    verdicts = judged and found["kind"] == ONE_RUN
    heads = ["estimator", "δ", "bound", "estimate", *["p-value"] * judged]
    rows = []
    for line in _lines(found):
        if line["status"] != "ok":
            continue
        shown = [str(line["estimator"]), words.setting(line["delta"])]
        bound = (
            words.lower(words.number(line["epsilon_lower"])) if line["certified"] else "no bound"
        )
        shown.append(f"≥ {bound}" if line["certified"] else bound)
        shown.append(words.point(words.number(line["epsilon"])))
        shown += [words.point(words.number(line["p_value"]))] * judged
        if verdicts:
            verdict = line["verdict"]
            shown.append(f"{SYMBOL[verdict]} {WORDS[verdict]}" if verdict else "none")
        rows.append([*shown, str(line["assumption"])])
    return [*heads, *["verdict"] * verdicts, "assumes"], rows


def _rest(found: Found) -> list[str]:
    """Return the sentences below the table."""
    failed = [
        f"{SYMBOL['failed']} {row['estimator']['label']} failed: {row['reason']}"
        for row in found["rows"]
        if row["status"] == "failed"
    ]
    said = (unadjusted(found), meaning(found), *failed, *sources(found), terms(found))
    return [line for line in said if line]


def _markdown(found: Found) -> str:
    plain = markdown.plain
    first, *more = headline(found) or ["No bound"]
    heads, rows = _table(found)
    parts = [
        f"## {plain(first)}",
        *map(plain, more),
        *(f"**{plain(line)}**" for line in warnings(found)),
    ]
    parts.append(markdown.table(heads, [[plain(cell) for cell in row] for row in rows]))
    return "\n\n".join([*parts, *(plain(line, 1000) for line in _rest(found))]) + "\n"


def fragment(found: Found) -> str:
    """Return headline and table as an element, for a notebook."""
    first, *more = headline(found) or ["No bound"]
    bad = " grave" if found["refuted"] else ""
    heads, rows = _table(found)
    return "\n".join(
        [
            "<div>",
            f'<p class="verdict{bad}"><strong>{_text(first)}</strong></p>',
            *(f"<p>{_text(line)}</p>" for line in more),
            *(f'<p class="warning"><strong>{_text(line)}</strong></p>' for line in warnings(found)),
            '<div class="wide" role="group" aria-label="Table of bounds" tabindex="0"><table>',
            f"<thead>{_tr(heads, 'th')}</thead>",
            f"<tbody>{''.join(_tr(row, 'td') for row in rows)}</tbody>",
            "</table></div>",
            "</div>",
        ]
    )


def _text(text: object) -> str:
    return html.escape(escape(str(text)))


def _tr(cells: Sequence[str], tag: str) -> str:
    scope = ' scope="col"' if tag == "th" else ""
    number, wide = ' class="number"', ' style="min-width: 14rem"'
    looks = ["", *[number] * (len(cells) - 2), wide]  # the estimator first, its assumption last
    shown = (
        f"<{tag}{scope}{look}>{_text(cell)}</{tag}>"
        for look, cell in zip(looks, cells, strict=True)
    )
    return f"<tr>{''.join(shown)}</tr>"


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def _page(found: Found) -> str:
    style = (Path(__file__).parent / "templates/style.css").read_text(encoding="utf-8")
    title = _text((headline(found) or ["No bound"])[0])
    notes = [
        f"{row['estimator']['label']}: {note}"
        for row in found["rows"]
        for note in (row["estimate"] or {}).get("notes", ())
    ]
    notes += [f"{skip['estimator']}: left out: {skip['reason']}" for skip in found["skipped"]]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>",
            "<main>\n<h1>Scores made elsewhere</h1>",
            fragment(found),
            figure(found),
            *(f"<p>{_text(line)}</p>" for line in _rest(found)),
            f"<details><summary>Notes of the estimators</summary><ul>{_items(notes)}</ul></details>"
            if notes
            else "",
            f"</main>\n<footer><p>{_text(_versions(found))}.</p></footer>",
            "</body>\n</html>\n",
        ]
    )


def _items(texts: Sequence[str]) -> str:
    return "".join(f"<li>{_text(text)}</li>" for text in texts)


def _versions(found: Found) -> str:
    versions = ", ".join(f"{name} {found['environment'][name]}" for name in ("dpframe", "numpy"))
    return f"Seed {found['seed']}; {versions}"


def figure(found: Found) -> str:
    """Draw trade-off and ROC, if matplotlib is there."""
    try:
        from dpframe.report import figures
        from dpframe.report.figures.drawing import inline

        picture = figures.draw_scores(found)
        element = inline(picture)
    except (DpframeError, ImportError) as error:
        return f'<p class="faint">No figure: {_text(error)}</p>'
    caption = f"<figcaption>{_text(picture.caption or '')}</figcaption>"
    return (
        '<figure><div class="wide" role="group" aria-label="Figure" tabindex="0">'
        f"{element}</div>{caption}</figure>"
    )
