"""Print the tables of docs/explanation/library-findings.md from the records of specs/libraries.

python plugins/dpframe-libraries/findings.py runs/known/record.json runs/opendp-versions/record.json
The files after --again are records of controls with other seeds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

GITHUB = "https://github.com/"
REPORTS = {  # start of a label: repository, and the number of an issue or a pull request
    "diffprivlib 0.6.6 LinearRegression": ("IBM/differential-privacy-library", 105),
    "diffprivlib 0.6.6 mean, NaN": ("IBM/differential-privacy-library", 80),
    "diffprivlib 0.6.6 sum, NaN": ("IBM/differential-privacy-library", 80),
    "diffprivlib 0.6.6 var, NaN": ("IBM/differential-privacy-library", 80),
    "diffprivlib 0.6.6 quantile, NaN": ("IBM/differential-privacy-library", 80),
    "diffprivlib 0.6.6 GaussianNB": ("Cebere et al. 2026", 0),
    "diffprivlib 0.6.6 Laplace": ("IBM/differential-privacy-library", 94),
    "opendp 0.14.1 Laplace": ("opendp/opendp", 2638),
    "opendp 0.14.2 randomised": ("opendp/opendp", 2707),
    "opendp 0.4.0 randomised": ("opendp/opendp", 481),
    "opendp 0.4.0 Laplace": ("opendp/opendp", 414),
    "opendp 0.12.1 Polars": ("opendp/opendp", 2344),
    "opendp 0.16.0 sum of squared": ("opendp/opendp", 2923),
    "pure-ldp 1.1.2": ("Samuel-Maddock/pure-LDP", 11),
    "DataSynthesizer 0.1.6": ("DataResponsibly/DataSynthesizer", 34),
    "DataSynthesizer 0.1.13": ("DataResponsibly/DataSynthesizer", 46),
    "smartnoise-synth 1.0.5": ("opendp/smartnoise-sdk", 622),
    "smartnoise-sql 1.0.1": ("opendp/smartnoise-sdk", 572),
    "opacus 1.6.0 expected": ("meta-pytorch/opacus", 571),
    "opacus 1.6.0 gdp": ("meta-pytorch/opacus", 384),
    "opacus 1.6.0 step": ("meta-pytorch/opacus", 616),
}

AGAIN = """\
### Fixed releases, with other seeds

This table counts false alarms of `dpframe run … --seed N --set run.seconds=…`, with a few seconds
for each cell. A library that takes milliseconds for a run allows few runs. Searches without a bet
in that time are not counted.
"""


def main(paths: list[str]) -> None:
    """Read records and print tables. If several cells have one label, the last run counts.

    Args:
        paths: record files; those after `--again` are controls, each with another seed.
    """
    split = paths.index("--again") if "--again" in paths else len(paths)
    records, again = _read(paths[:split]), _read(paths[split + 1 :])
    found: dict[str, dict[str, Any]] = {}
    matrices = []
    for record in records:
        if any(cell["swept"] for cell in record["cells"]):
            matrices.append(_matrix(record))
            continue
        for cell in record["cells"]:
            if cell["status"] == "ok":
                found[cell["mechanism"]["label"]] = cell
    repeats = [_repeats(again)] if again else []
    parts = [_findings(sorted(found.values(), key=_label)), *repeats, *matrices]
    sys.stdout.write("\n".join(parts))


def _read(paths: list[str]) -> list[dict[str, Any]]:
    return [json.loads(Path(path).read_text(encoding="utf-8")) for path in paths]


def _repeats(records: list[dict[str, Any]]) -> str:
    """Return a table with one row for each control: its searches and their runs."""
    told: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        for cell in record["cells"]:
            if cell["status"] == "ok":
                told.setdefault(_label(cell), []).append(cell)
    lines = [
        AGAIN,
        "| release | searches | runs of all | fewest | violated |",
        "|---|---|---|---|---|",
    ]
    for label, cells in sorted(told.items()):
        runs = [sum(cell["trials"]) for cell in cells]
        violated = sum(map(_is_violated, cells))
        lines.append(f"| {label} | {len(runs)} | {sum(runs):,} | {min(runs):,} | {violated} |")
    return "\n".join([*lines, ""])


def _label(cell: dict[str, Any]) -> str:
    return str(cell["mechanism"]["label"])


def _findings(cells: list[dict[str, Any]]) -> str:
    """Return tables with one row for each cell: the violations, then the rest."""
    lines = ["### Found", ""]
    lines += ["| release | report | event | runs |", "|---|---|---|---|"]
    found = [cell for cell in cells if _is_violated(cell)]
    rest = [cell for cell in cells if not _is_violated(cell)]
    lines += [
        f"| {_label(cell)} | {_report(cell)} | {_event(cell)} | {_runs(cell)} |" for cell in found
    ]
    lines += ["", "### Not found", "", "| release | runs |", "|---|---|"]
    lines += [f"| {_label(cell)} | {_runs(cell)} |" for cell in rest]
    return "\n".join([*lines, ""])


def _matrix(record: dict[str, Any]) -> str:
    """Return a table of environments by mechanisms."""
    columns = list(dict.fromkeys(cell["mechanism"]["label"] for cell in record["cells"]))
    table: dict[str, dict[str, str]] = {}
    for cell in record["cells"]:
        words = "**violated**" if _is_violated(cell) else str(cell["verdict"])
        row = table.setdefault(cell["mechanism"]["params"]["environment"], {})
        row[cell["mechanism"]["label"]] = words
    lines = [f"### `{record['audit']['name']}`", "", "| | " + " | ".join(columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for environment, row in table.items():
        lines.append(
            "| ".join([f"| {environment} ", *(row.get(c, "") + " " for c in columns)]) + "|"
        )
    return "\n".join([*lines, ""])


def _is_violated(cell: dict[str, Any]) -> bool:
    exact = cell.get("exact") or {}
    return cell["verdict"] == "violated" or bool(exact.get("exceeding"))


def _report(cell: dict[str, Any]) -> str:
    for begin, (where, number) in REPORTS.items():
        if cell["mechanism"]["label"].startswith(begin):
            return f"[#{number}]({GITHUB}{where}/issues/{number})" if number else where
    raise SystemExit(f"{cell['mechanism']['label']}: no public report is known, so leave it out")


def _event(cell: dict[str, Any]) -> str:
    exact = cell.get("exact") or {}
    if exact.get("witnesses"):
        return _plain(exact["witnesses"][0]["words"]) + " (exact, without a run)"
    search = cell.get("search")
    if not search:
        return ""
    hits, trials = search["hits"], search["trials"]
    return _plain(f"{search['event']}: {hits[0]}/{trials[0]} on D, {hits[1]}/{trials[1]} on D′")


def _runs(cell: dict[str, Any]) -> str:
    return f"{sum(cell['trials']):,}"


def _plain(text: Any) -> str:
    words = " ".join(str(text).split()).replace("|", "\\|")
    return words if len(words) <= 160 else words[:157] + "…"


if __name__ == "__main__":
    main(sys.argv[1:])
