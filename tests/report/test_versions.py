"""The table of versions: a row for each mechanism in each environment, in every report."""

from __future__ import annotations

from typing import Any

from support import made_records

from dpframe.report.html import document as html
from dpframe.report.markdown import document
from dpframe.report.tables import THIS_PYTHON, version_table
from dpframe.report.witness import as_tables, as_test, as_toml
from dpframe.results.store import as_record


def cell(label: str, where: str | None, verdict: str = "consistent", **params: Any) -> Any:
    found = made_records.cell(epsilon=1.0, m=4)
    found["id"] = f"{label}-{where}-{params}"
    given = {"epsilon": 1.0, **params} | ({} if where is None else {"environment": where})
    found["mechanism"] = {"use": "program", "label": label, "params": given}
    found["swept"] = {}
    return found | {"verdict": verdict, "expected": None}


def failed(label: str, where: str) -> Any:
    none = dict.fromkeys(("counts", "estimate", "verdict", "p_value", "p_adjusted"))
    return cell(label, where) | none | {"status": "failed", "reason": "it is not built"}


def witness(event: str) -> Any:
    choice = {"use": "grid", "label": "grid", "params": {}}
    counted = {"hits": [0, 9], "trials": [10, 10], "pair_trials": 10}
    found = {"neighbourhood": choice, "pairs": 3, "event": event, "more_likely": "D′"}
    return {"search": {**found, **counted}}


SWEPT = [
    cell("mean", "lib 1", "violated") | witness("raises ValueError"),
    cell("mean", "lib 2"),
    cell("sum", "lib 1", "inconclusive"),
    failed("sum", "lib 2"),
    cell("plain", None, "violated"),
]


def rows(cells: list[Any]) -> list[list[str]]:
    table = version_table(as_record(made_records.record(cells)))
    if table is None:
        return []
    return [[getattr(one, "text", one) for one in row.cells] for row in table.rows]


def test_a_row_for_each_environment_of_each_mechanism() -> None:
    assert rows([*SWEPT, cell("mean", None, "violated")]) == [
        ["mean", "lib 1", "✗ violated: raises ValueError"],
        ["mean", "lib 2", "○ no violation found"],
        ["mean", THIS_PYTHON, "✗ violated: certified 0.829 of claimed 1"],
        ["sum", "lib 1", "? inconclusive"],
        ["sum", "lib 2", "! failed: it is not built"],
    ]


def test_the_gravest_of_several_cells_stands_for_them() -> None:
    cells = [cell("a", "lib", v, n=n) for n, v in enumerate(("consistent", "violated", "violated"))]
    cells.append(cell("a", "lib 2", n=3))
    assert rows(cells)[0][2] == "✗ violated in 2 of 3 cells: certified 0.829 of claimed 1"


def test_one_mechanism_under_several_labels_is_known_by_its_parameters() -> None:
    labels = [cell("mean, 1.0", "lib 1"), cell("sum", "lib 1", n=2), cell("mean, 2.0", "lib 2")]
    assert [row[:2] for row in rows(labels)] == [["mean, 1.0", "lib 1"], ["mean, 2.0", "lib 2"]]
    assert rows([cell("mean, 1.0", "lib 1"), cell("mean, 2.0", "lib 2", n=3)]) == []


def test_there_is_none_if_nothing_ran_in_two_environments(show: Any) -> None:
    here = [cell("a", None), cell("b", None)]
    apart = [cell("a", "ada 1", n=1), cell("b", "bob 1", n=2), cell("c", None, n=3)]
    for cells in (here, apart):
        record = made_records.record(cells)
        assert version_table(as_record(record)) is None
        assert "environment" not in show(record)
        assert "## Versions" not in document(as_record(record))


def test_every_report_has_it(show: Any) -> None:
    record = made_records.record(SWEPT)
    wide = " ".join(show(record, 120).split())
    assert "mechanism environment result" in wide
    assert "mean lib 1 ✗ violated: raises ValueError" in wide
    narrow = " ".join(show(record, 30).split())
    assert "mean · environment lib 1 · result ✗ violated" in narrow
    page = document(as_record(record))
    assert "| mechanism | environment | result |" in page
    assert "| sum | lib 2 | ! failed: it is not built |" in page
    assert '<th scope="col">environment</th>' in html(as_record(record))


def test_a_witness_says_where_it_ran_and_what_code_it_takes() -> None:
    cells = [cell("mean", "lib 1", "violated", module="box.py") | witness("raises ValueError")]
    made = made_records.record(cells)
    made["environments"] = [
        {"name": "lib 1", "requirements": ["lib==1"], "python": "3.11.2", "installed": ["lib==1"]},
        {"name": "lib 2", "requirements": ["lib==2"], "python": "3.11.2", "installed": ["lib==2"]},
    ]
    attack = {"kind": "attack", "name": "majority-vote", "distribution": "my attacks.py"}
    made["plugins"] = [{**attack, "version": "0", "code": "0"}]
    record = as_record(made)
    (found,) = record.cells
    assert as_tables(found, record)["environments"] == {"lib 1": ["lib==1"]}
    assert "--plugin 'my attacks.py' --plugin box.py" in as_toml(found, record)
    assert "plugins=['my attacks.py', 'box.py']" in as_test(found, record)
