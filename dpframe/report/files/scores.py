"""Reports about scores made elsewhere, as HTML, Markdown and CSV."""

import csv
import io
from collections.abc import Iterator

from dpframe.errors import DpframeError, OutputError
from dpframe.report import scores
from dpframe.report.files import markdown
from dpframe.report.scores import ONE_RUN, Found, ResultRow
from dpframe.results.rows import field

SUFFIXES = (".html", ".md", ".csv")
COLUMNS = (
    *("estimator", "status", "delta", "epsilon_lower", "epsilon", "interval_lower"),
    *("interval_upper", "confidence", "certified", "p_value", "verdict", "assumption", "reason"),
)
"""The columns of the .csv report."""


def _rows(found: Found) -> Iterator[ResultRow]:
    """Yield a line for each estimator and δ, best bounds first."""
    best = scores.certified_rows(found)
    if found["kind"] != ONE_RUN:
        best.sort(key=scores.bound_of, reverse=True)
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
    """Return the answer about scores, or its JSON, as the text of a file with one of `SUFFIXES`.

    Raises OutputError if there is no such report of scores, DpframeError if it is not such an
    answer.
    """
    check(suffix)
    try:
        return {".html": _page, ".md": _markdown, ".csv": _csv}[suffix.lower()](found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DpframeError(f"not a complete output of dpframe score: {error!r}") from None


def check(suffix: str) -> None:
    """Raise OutputError if no report of scores has this suffix."""
    if suffix.lower() not in SUFFIXES:
        raise OutputError(f"{suffix or 'no suffix'}: a report of scores is .html, .md or .csv")


def _csv(found: Found) -> str:
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\r\n")
    rows.writerow(COLUMNS)
    rows.writerows([field(line[column]) for column in COLUMNS] for line in _rows(found))
    return out.getvalue()


def _markdown(found: Found) -> str:
    return markdown.document_of(scores.parts(found, remarks=True, every=True))


def fragment(found: Found) -> str:
    """Return what `dpframe score` prints as an element, for a notebook."""
    from dpframe.report.files.html import environment  # jinja2 takes long to import

    shown = {"parts": list(scores.parts(found)), "grave": found["refuted"]}
    return environment().get_template("parts.html").render(shown)


def _page(found: Found) -> str:
    from dpframe.report.files.html import figure, page_of

    versions = ", ".join(f"{name} {found['environment'][name]}" for name in ("dpframe", "numpy"))
    return page_of(
        "Scores made elsewhere",
        scores.parts(found, remarks=True, every=True),
        figure("draw_scores", found),
        f"Seed {found['seed']}; {versions}",
        grave=bool(found["refuted"]),
    )
